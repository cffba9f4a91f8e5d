#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace assay {

// The most threads of a pool.
inline constexpr int kMaxThreads = 1024;

// A fixed set of threads that run one loop at a time. The caller's thread is one of them.
class ThreadPool {
 public:
  // `n_threads` from 1 to kMaxThreads, or 0 for as many as ASSAY_THREADS gives, without which it is
  // one per processor this process may use, and no more than a container's quota has. Throws Error
  // if either is another, or the system refuses the threads.
  explicit ThreadPool(int n_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const;

  // Calls body(begin, end) for consecutive pieces that together cover [0, count), one piece per
  // thread, with borders at multiples of `grain`; returns when all are done. An exception thrown by
  // `body` is thrown here after that. Throws Interrupted before it begins. Not reentrant; one
  // caller at a time.
  void parallel_for(int64_t count, int64_t grain,
                    const std::function<void(int64_t begin, int64_t end)>& body);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace assay
