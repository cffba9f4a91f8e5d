#include "base/thread_pool.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpu_quota.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/interrupt.h"

namespace assay {
namespace {

// What ASSAY_THREADS gives, for programs that run side by side, or all that this process may run
// on, as far as its control groups leave it their time.
int usable_processors() {
  if (const std::string given = environment("ASSAY_THREADS"); !given.empty()) {
    int count = 0;
    const char* end = given.data() + given.size();
    const auto [read, failed] = std::from_chars(given.data(), end, count);
    if (failed != std::errc() || read != end || count < 1 || count > kMaxThreads) {
      throw Error(fmt::format("'{}' is no number of threads", given), "ASSAY_THREADS",
                  fmt::format("give 1 to {}, or unset it", kMaxThreads));
    }
    return count;
  }
  cpu_set_t set;
  CPU_ZERO(&set);
  const int processors = sched_getaffinity(0, sizeof(set), &set) == 0
                             ? CPU_COUNT(&set)
                             : static_cast<int>(std::thread::hardware_concurrency());
  // With more threads than a quota has processors, all would stop for the rest of each period. To
  // read it opens dozens of files: once, not for each of the pools that comparisons make.
  static const double most = cpu_quota().value_or(kMaxThreads);
  return std::clamp(processors, 1, static_cast<int>(std::clamp<double>(most, 1, kMaxThreads)));
}

// Decode gives the pool a new loop every few microseconds, and sleeping and waking takes longer
// than the loop. So a waiting thread spins (some 10 to 50 microseconds), then yields its processor
// for a while, as another thread may be the one it waits for, and only then sleeps. With more
// threads than processors it does not spin.
constexpr int kSpins = 1000;
constexpr int kYields = 200;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Waits until ready(), at most for the spins and yields above; returns ready().
template <typename Ready>
bool wait_awake(int spins, const Ready& ready) {
  for (int i = 0; i < spins; ++i) {
    if (ready()) return true;
    pause_briefly();
  }
  for (int i = 0; i < kYields; ++i) {
    if (ready()) return true;
    sched_yield();
  }
  return ready();
}

int checked_count(int n_threads) {
  if (n_threads < 0 || n_threads > kMaxThreads) {
    throw Error(fmt::format("{} is out of range", n_threads), "--threads",
                fmt::format("give 1 to {}, or 0 for one per processor", kMaxThreads));
  }
  return n_threads == 0 ? usable_processors() : n_threads;
}

}  // namespace

struct ThreadPool::Impl {
  struct Loop {
    int64_t count = 0;
    int64_t grain = 1;
    const std::function<void(int64_t, int64_t)>* body = nullptr;
  };

  // A piece of the current loop belongs to the first thread that raises its number to the loop's:
  // its own, or the caller, so that no one waits for a preempted thread.
  struct alignas(64) Piece {
    std::atomic<uint32_t> taken{0};
  };

  explicit Impl(int threads) : n_threads(threads), pieces(static_cast<size_t>(threads)) {}

  int n_threads;
  int spins = 0;
  Loop loop;  // read only by threads that have taken a piece of it
  std::vector<Piece> pieces;
  std::atomic<uint32_t> generation{0};  // counts loops started; workers wait for it to change
  std::atomic<int> unfinished{0};       // pieces of the current loop that are not done
  std::atomic<bool> stopping{false};
  std::mutex error_mutex;
  std::exception_ptr error;
  std::vector<std::thread> workers;

  void run_piece(int thread, uint32_t loop_number) {
    uint32_t previous = loop_number - 1;
    if (!pieces[static_cast<size_t>(thread)].taken.compare_exchange_strong(
            previous, loop_number, std::memory_order_acq_rel)) {
      return;
    }
    compute_piece(thread);
    if (unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) unfinished.notify_one();
  }

  void compute_piece(int thread) {
    const int64_t units = (loop.count + loop.grain - 1) / loop.grain;
    const int64_t begin = units * thread / n_threads * loop.grain;
    const int64_t end = std::min(loop.count, units * (thread + 1) / n_threads * loop.grain);
    if (begin >= end) return;
    try {
      (*loop.body)(begin, end);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error) error = std::current_exception();
    }
  }

  void work(int thread) {
    uint32_t seen = 0;
    for (;;) {
      wait_awake(spins, [&] { return generation.load(std::memory_order_acquire) != seen; });
      generation.wait(seen, std::memory_order_acquire);
      seen = generation.load(std::memory_order_acquire);
      if (stopping.load(std::memory_order_relaxed)) return;
      run_piece(thread, seen);
    }
  }

  void stop() {
    stopping.store(true, std::memory_order_relaxed);
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
    for (std::thread& worker : workers) worker.join();
  }
};

ThreadPool::ThreadPool(int n_threads) : impl_(std::make_unique<Impl>(checked_count(n_threads))) {
  impl_->spins = impl_->n_threads <= usable_processors() ? kSpins : 0;
  try {
    for (int thread = 1; thread < impl_->n_threads; ++thread) {
      impl_->workers.emplace_back([impl = impl_.get(), thread] { impl->work(thread); });
    }
  } catch (const std::system_error& refused) {
    if (n_threads == 0) {  // no number was requested: any number gives the same result
      impl_->n_threads = static_cast<int>(impl_->workers.size()) + 1;
      return;
    }
    impl_->stop();
    throw Error(fmt::format("cannot start {} threads: {}", impl_->n_threads, refused.what()),
                "--threads", "give a smaller number");
  } catch (...) {  // no memory for one more; the running ones must be stopped
    impl_->stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  impl_->stop();
}

int ThreadPool::n_threads() const {
  return impl_->n_threads;
}

void ThreadPool::parallel_for(int64_t count, int64_t grain,
                              const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  check_interrupted();
  if (impl_->n_threads == 1 || count <= grain) {
    body(0, count);
    return;
  }
  impl_->loop = {count, grain, &body};
  impl_->unfinished.store(impl_->n_threads, std::memory_order_relaxed);
  const uint32_t loop_number = impl_->generation.fetch_add(1, std::memory_order_release) + 1;
  impl_->generation.notify_all();
  for (int piece = 0; piece < impl_->n_threads; ++piece) impl_->run_piece(piece, loop_number);
  const auto left = [this] { return impl_->unfinished.load(std::memory_order_acquire); };
  if (!wait_awake(impl_->spins, [&] { return left() == 0; })) {
    for (int waiting = left(); waiting != 0; waiting = left()) {
      impl_->unfinished.wait(waiting, std::memory_order_acquire);
    }
  }
  if (impl_->error) std::rethrow_exception(std::exchange(impl_->error, nullptr));
}

}  // namespace assay
