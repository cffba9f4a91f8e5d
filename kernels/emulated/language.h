#pragma once

// What the sources of kernels/cuda are written in, for a compiler of the host: the words of CUDA
// that they use, and what kernels/cuda/language.h adds to them.

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/emulated/block.h"
#include "kernels/emulated/device.h"
#include "kernels/emulated/source_place.h"
#include "kernels/half.h"

// NOLINTBEGIN(readability-identifier-naming,bugprone-reserved-identifier,bugprone-macro-parentheses):
// CUDA's own names

#define ASSAY_KERNEL(threads, blocks, name, ...) \
  void name(::assay::emulated::Bounds<threads, blocks> __VA_OPT__(, ) __VA_ARGS__)
#define ASSAY_CONSTANT(Type) const Type

// A loop of which so many turns are written out.
#define ASSAY_LOOP_NAME(line) assay_loop_##line
#define ASSAY_LOOP_OF(turns, line) \
  if (const ::assay::emulated::Loop ASSAY_LOOP_NAME(line)(turns); true)
#define ASSAY_LOOP(turns, line) ASSAY_LOOP_OF(turns, line)
#define ASSAY_UNROLL ASSAY_LOOP(::assay::emulated::InstructionCounter::kAllTurns, __LINE__)
#define ASSAY_UNROLL_BY_2 ASSAY_LOOP(2, __LINE__)
#define ASSAY_UNROLL_BY_4 ASSAY_LOOP(4, __LINE__)
#define ASSAY_NO_UNROLL ASSAY_LOOP(1, __LINE__)

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline

#define threadIdx (::assay::emulated::Block::current().thread_index())
#define blockIdx (::assay::emulated::Block::current().block_index())
#define blockDim (::assay::emulated::Block::current().block_dim())
#define gridDim (::assay::emulated::Block::current().grid_dim())

// An array is known by its key: of a function template each instantiation has its own, as nvcc
// gives each an array of its own.
#define ASSAY_SHARED(Type, name, count)                                                         \
  static const char name##_key = 0;                                                             \
  ::assay::emulated::Shared<Type> name {                                                        \
    ::assay::emulated::Block::current().shared().array(&name##_key, #name, sizeof(Type), count, \
                                                       ::assay::emulated::Place::here())        \
  }
#define ASSAY_DYNAMIC_SHARED(Type, name)                                                         \
  ::assay::emulated::Shared<Type> name {                                                         \
    ::assay::emulated::Block::current().shared().dynamic_array(#name, sizeof(Type),              \
                                                               ::assay::emulated::Place::here()) \
  }

namespace assay::emulated {

// Where a kernel runs through a loop, for those who count.
class Loop {
 public:
  explicit Loop(uint32_t turns) : block_(Block::current()) {
    if (block_.is_counted()) block_.counter().enter_loop(block_.running(), turns);
  }
  ~Loop() {
    if (block_.is_counted()) block_.counter().leave_loop(block_.running());
  }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

 private:
  Block& block_;
};

// An index that knows the line where it was used as one.
struct Index {
  Index(int64_t index, Place at = Place::here()) : value(index), place(at) {}
  int64_t value;
  Place place;
};

// The most bytes of a T that one instruction moves.
template <class T>
constexpr size_t kMostAtOnce = alignof(T) < 16 ? alignof(T) : 16;

// Fails unless `address` is a multiple of `bytes`: no GPU reads from another.
inline void check_alignment(const void* address, size_t bytes, const Place& place) {
  if (reinterpret_cast<uintptr_t>(address) % bytes == 0) return;
  Block::current().fail("a misaligned access: " + std::to_string(bytes) +
                            " bytes at an address that is not a multiple of it",
                        place);
}

// What was not written is NaN in memory of floats, so that everything computed from it shows it.
template <class T>
constexpr bool kMustBeWritten = !std::is_floating_point_v<T>;

template <class T>
T load_global(const T* address, bool is_writable, const Place& place) {
  Block& block = Block::current();
  check_alignment(address, alignof(T), place);
  block.check_read(address, sizeof(T), is_writable, kMustBeWritten<T>, place);
  block.count_global(MemoryUse::kGlobalRead, address, sizeof(T), kMostAtOnce<T>, place);
  T value = *address;
  if (block.stores() != nullptr) {
    block.stores()->load(block.toucher(), address, &value, sizeof(T));
  }
  return value;
}

// The address of an element, for atomic operations.
template <class T>
struct GlobalAddress {
  T* address;
  Place place;
};

// An element of device memory that a kernel may write; every access is checked.
template <class T>
class GlobalElement {
 public:
  GlobalElement(T* address, const Place& place) : address_(address), place_(place) {}
  operator T() const { return load_global(address_, true, place_); }
  const GlobalElement& operator=(T value) const {
    Block& block = Block::current();
    check_alignment(address_, alignof(T), place_);
    block.check_write(address_, sizeof(T), place_);
    block.count_global(MemoryUse::kGlobalWrite, address_, sizeof(T), kMostAtOnce<T>, place_);
    if (block.stores() != nullptr) {
      block.stores()->store(block.toucher(), address_, &value, sizeof(T));
    } else {
      *address_ = value;
    }
    return *this;
  }
  // NOLINTNEXTLINE(bugprone-unhandled-self-assignment): reads before it writes
  const GlobalElement& operator=(const GlobalElement& other) const {
    return *this = static_cast<T>(other);
  }
  GlobalElement(const GlobalElement&) = default;
  // NOLINTNEXTLINE(google-runtime-operator): so that atomics are written as in CUDA
  GlobalAddress<T> operator&() const { return {address_, place_}; }

 private:
  T* address_;
  Place place_;
};

// An address in device memory; every access is checked.
template <class T>
class Global {
 public:
  Global(T* address) : address_(address) {}
  explicit operator bool() const { return address_ != nullptr; }

  auto operator[](Index index) const {
    if constexpr (std::is_const_v<T>) {
      Block::current().counts().read_bytes += sizeof(T);
      return load_global<std::remove_const_t<T>>(address_ + index.value, false, index.place);
    } else {
      return GlobalElement<T>(address_ + index.value, index.place);
    }
  }

  Global from(int64_t first) const { return address_ + first; }

  // Where `count` elements from `first` on are.
  T* range(int64_t first, int64_t count, Place place = Place::here()) const {
    T* address = address_ + first;
    const auto bytes = static_cast<size_t>(count) * sizeof(T);
    Block& block = Block::current();
    if constexpr (std::is_const_v<T>) {
      block.check_read(address, bytes, false, kMustBeWritten<std::remove_const_t<T>>, place);
      block.counts().read_bytes += bytes;
    } else {
      block.check(address, bytes, place);
      block.mark_written(address, bytes);
    }
    return address;
  }

  // Where the rest of an allocation begins.
  T* place_of(int64_t first, Place place) const {
    Block::current().check(address_ + first, sizeof(T), place);
    return address_ + first;
  }

 private:
  T* address_;
};

// An array in shared memory; every access is checked.
template <class T>
class Shared {
 public:
  class Element {
   public:
    Element(SharedMemory::Array& array, const Index& index) : array_(array), index_(index) {}
    operator T() const {
      Block& block = Block::current();
      const Accessor& who = block.accessor();
      SharedMemory& shared = block.shared();
      if (!shared.read(array_, index_.value, who, index_.place)) {
        block.fail(shared.why_not_read(array_, index_.value, who), index_.place);
      }
      block.count_shared(MemoryUse::kSharedRead, array_, index_.value, kMostAtOnce<T>,
                         index_.place);
      T value;
      std::memcpy(&value, SharedMemory::element(array_, index_.value), sizeof(T));
      return value;
    }
    const Element& operator=(T value) const {
      Block& block = Block::current();
      const Accessor& who = block.accessor();
      SharedMemory& shared = block.shared();
      if (!shared.write(array_, index_.value, who, index_.place)) {
        block.fail(shared.why_not_write(array_, index_.value, who), index_.place);
      }
      block.count_shared(MemoryUse::kSharedWrite, array_, index_.value, kMostAtOnce<T>,
                         index_.place);
      std::memcpy(SharedMemory::element(array_, index_.value), &value, sizeof(T));
      return *this;
    }
    const Element& operator=(const Element& other) const { return *this = static_cast<T>(other); }
    Element(const Element&) = default;

   private:
    SharedMemory::Array& array_;
    Index index_;
  };

  explicit Shared(SharedMemory::Array& array) : array_(&array) {}
  Element operator[](Index index) const { return {*array_, index}; }

  SharedMemory::Array& array() const { return *array_; }

  // Where `count` elements from `first` on are, all of which are read.
  const T* range(int64_t first, int64_t count, const Place& place) const {
    Block& block = Block::current();
    const Accessor& who = block.accessor();
    SharedMemory& shared = block.shared();
    for (int64_t i = first; i < first + count; ++i) {
      if (!shared.read(*array_, i, who, place)) {
        block.fail(shared.why_not_read(*array_, i, who), place);
      }
    }
    return reinterpret_cast<const T*>(SharedMemory::element(*array_, first));
  }

 private:
  SharedMemory::Array* array_;
};

template <class T>
const T* range_of(const Shared<T>& shared, int64_t first, int64_t count,
                  Place place = Place::here()) {
  return shared.range(first, count, place);
}

struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};

struct alignas(8) float2 {
  float x, y;
};

struct alignas(16) float4 {
  float x, y, z, w;
};

// Bytes that range_of() or range() has pointed to.
class Bytes {
 public:
  Bytes(const uint8_t* first) : first_(first) {}
  uint8_t operator[](Index index) const {
    Block::current().count_load(first_ + index.value, 1, index.place);
    return first_[index.value];
  }
  Bytes operator+(int64_t bytes) const { return first_ + bytes; }
  const uint8_t* plain() const { return first_; }

 private:
  const uint8_t* first_;
};

inline const uint8_t* plain_bytes(Bytes bytes) {
  return bytes.plain();
}

template <class T>
T load_as(Bytes bytes, Place place = Place::here()) {
  check_alignment(bytes.plain(), sizeof(T), place);
  Block::current().count_load(bytes.plain(), sizeof(T), place);
  T value;
  std::memcpy(&value, bytes.plain(), sizeof(T));
  return value;
}

template <class T, class Element>
T load_settled(const Global<Element>& x, int64_t i, Place place = Place::here()) {
  if constexpr (sizeof(T) == sizeof(Element)) {
    return x[Index(i, place)];
  } else {
    const auto* at = x.range(i, sizeof(T) / sizeof(Element), place);
    return load_as<T>(reinterpret_cast<const uint8_t*>(at), place);
  }
}

template <class T, int kReaders>
T load_weights(const Global<const uint8_t>& bytes, int64_t offset, bool is_again = false,
               Place place = Place::here()) {
  EmulatedCounts& counts = Block::current().counts();
  const uint64_t others = counts.read_bytes;
  const T value = load_as<T>(bytes.range(offset, sizeof(T), place), place);
  counts.read_bytes = others;
  if (!is_again) counts.copied_bytes += sizeof(T) / kReaders;
  return value;
}

inline void copy_to_shared(const Shared<uint4>& shared, int64_t index,
                           const Global<const uint8_t>& bytes, int64_t offset,
                           Place place = Place::here()) {
  Block& block = Block::current();
  // The rest of the 16 bytes is in the allocation, or is what it is rounded up by.
  const uint8_t* from = bytes.place_of(offset, place);
  block.counts().copied_bytes += sizeof(uint4);
  check_alignment(from, sizeof(uint4), place);
  block.check_copied(from, sizeof(uint4), place);
  block.begin_copy(shared.array(), index, from, place);
}

template <class T>
void prefetch(const Global<const T>& x, int64_t i, Place place = Place::here()) {
  x.place_of(i, place);  // a GPU ignores an address that is nowhere: here it is a mistake
}

template <class T>
void prefetch_near(const Global<const T>& x, int64_t i, Place place = Place::here()) {
  prefetch(x, i, place);
}

inline void __threadfence() {
  Block::current().fence();
}

// What was there; `value` is added to it.
template <class T>
T atomicAdd(const GlobalAddress<T>& at, std::type_identity_t<T> value) {
  check_alignment(at.address, alignof(T), at.place);
  Block::current().begin_atomic(at.address, sizeof(T), at.place);
  const T before = *at.address;
  *at.address = before + value;
  return before;
}

inline void wait_for_launches() {
  Block::current().wait_for_launches();
}

inline void let_next_launch_start(Place place = Place::here()) {
  Block::current().let_next_launch_start(place);
}

inline void close_copies() {
  Block::current().close_copies();
}

template <int kGroups>
void wait_for_copies(Place place = Place::here()) {
  Block::current().wait_for_copies(kGroups, place);
}

inline void __syncthreads(Place place = Place::here()) {
  Block::current().barrier(place);
}

inline void __syncwarp(uint32_t mask = 0xFFFFFFFFU, Place place = Place::here()) {
  Block::current().meet(WarpOperation::kSync, mask, place);
}

// What `lane(own)` of the warp contributed, as numbers of up to 64 bits.
template <class T, class LaneOf>
T shuffle(uint32_t mask, T value, LaneOf lane_of, const Place& place) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  Block& block = Block::current();
  block.contribute(bits);
  block.meet(WarpOperation::kShuffle, mask, place);
  bits = block.from(lane_of(block.lane()), place)[0];
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <class T>
T __shfl_sync(uint32_t mask, T value, int source, Place place = Place::here()) {
  return shuffle(
      mask, value, [=](unsigned) { return static_cast<unsigned>(source) % kWarpSize; }, place);
}

template <class T>
T __shfl_xor_sync(uint32_t mask, T value, int lanes, Place place = Place::here()) {
  return shuffle(
      mask, value, [=](unsigned own) { return own ^ static_cast<unsigned>(lanes); }, place);
}

// a + b, of which only the low 32 bits stay.
inline int add_wrapping(int a, int b) {
  return static_cast<int>(static_cast<uint32_t>(a) + static_cast<uint32_t>(b));
}

// c + the sum of the products of four signed bytes.
inline int __dp4a(int a, int b, int c) {
  for (int i = 0; i < 4; ++i) {
    c = add_wrapping(c, static_cast<int8_t>(a >> (8 * i)) * static_cast<int8_t>(b >> (8 * i)));
  }
  return c;
}

// c + the sum of the products of two signed halves with the low, or high, two signed bytes of b.
inline int __dp2a_lo(int a, int b, int c) {
  for (int i = 0; i < 2; ++i) {
    c = add_wrapping(c, static_cast<int16_t>(a >> (16 * i)) * static_cast<int8_t>(b >> (8 * i)));
  }
  return c;
}
inline int __dp2a_hi(int a, int b, int c) {
  return __dp2a_lo(a, b >> 16, c);
}

// The bytes of b:a that the nibbles of `selector` name, the lowest first.
inline uint32_t __byte_perm(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32U | a;
  uint32_t bytes = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const uint32_t from = selector >> (4 * i) & 7U;
    bytes |= static_cast<uint32_t>(both >> (8 * from) & 0xFFU) << (8 * i);
  }
  return bytes;
}

// The larger of each two halves, without sign.
inline uint32_t __vmaxu2(uint32_t a, uint32_t b) {
  const uint32_t low = (a & 0xFFFFU) < (b & 0xFFFFU) ? b & 0xFFFFU : a & 0xFFFFU;
  const uint32_t high = a >> 16U < b >> 16U ? b >> 16U : a >> 16U;
  return high << 16U | low;
}

// The low 32 bits of high:low shifted right by up to 31.
inline uint32_t __funnelshift_r(uint32_t low, uint32_t high, uint32_t by) {
  return static_cast<uint32_t>((uint64_t{high} << 32U | low) >> (by % 32));
}

inline float half_to_float(uint16_t half) {
  return float_from_f16(half);
}

template <class T>
void touch(const T& /*parameter*/) {}

inline float reciprocal_near(float x) {
  return 1.0F / x;
}

inline int uniform(int n) {
  return __shfl_sync(0xFFFFFFFFU, n, 0);
}

inline void keep(double /*value*/) {}

inline uint32_t opaque(uint32_t n) {
  return n;
}

inline float __int_as_float(int bits) {
  return float_from_bits(static_cast<uint32_t>(bits));
}

}  // namespace assay::emulated

// NOLINTEND(readability-identifier-naming,bugprone-reserved-identifier,bugprone-macro-parentheses)
