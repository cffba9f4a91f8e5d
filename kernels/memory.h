#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace assay {

// The memory that a backend's kernels read and write: the host's own, or a device's. Kernels run in
// the order in which they are called, but perhaps later; upload and download take their place in
// that order.
class Memory {
 public:
  virtual ~Memory() = default;

  // Whether the host may use addresses of this memory, and kernels those of the host. If so, every
  // kernel is done when its call returns, and weights are read where they already are.
  virtual bool on_host() const = 0;

  // Tells that allocations of these sizes will follow and stay, so that they can come from one
  // piece. Throws Error that says how much was asked for, if there is no such amount.
  virtual void reserve(std::span<const size_t> /*sizes*/) {}

  // `bytes` at a multiple of 64, with any content; null for none. Throws Error that says how much
  // was asked for.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* address) noexcept = 0;

  // Copies from the host; `from` may be changed as soon as it returns.
  virtual void upload(const void* from, size_t bytes, void* to) = 0;

  // Copies to the host, after all kernels called so far are done.
  virtual void download(const void* from, size_t bytes, void* to) = 0;
};

// The host's own.
Memory& host_memory();

// `count` elements of a backend's memory; their values are what was there before.
template <class T>
class Buffer {
 public:
  Buffer() = default;
  // Throws Error if there is no such amount of memory.
  Buffer(Memory& memory, size_t count)
      : memory_(&memory),
        data_(static_cast<T*>(memory.allocate(checked_bytes(count)))),
        size_(count) {}
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    if (this != &other) reset();
    swap(other);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  size_t bytes() const { return size_ * sizeof(T); }

 private:
  // The largest number there is if `count` elements have more bytes than that: no memory has it.
  static size_t checked_bytes(size_t count) {
    size_t bytes = 0;
    return __builtin_mul_overflow(count, sizeof(T), &bytes) ? static_cast<size_t>(-1) : bytes;
  }

  void reset() noexcept {
    if (data_ != nullptr) memory_->release(data_);
    memory_ = nullptr;
    data_ = nullptr;
    size_ = 0;
  }

  void swap(Buffer& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
  }

  Memory* memory_ = nullptr;
  T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace assay
