#pragma once

// What the sources of this folder are written in: CUDA without <<<>>>, inline PTX and library
// calls, and these words, so that kernels/emulated can run the same sources on the CPU.
//
// - Device: memory and launches. ASSAY_LAUNCH(device, shape, (kernel<...>), arguments...).
// - Global<T>: an address in device memory, the form in which kernels get every pointer. x[i] is an
//   element; range(first, count) is where so many of them are; from(first) begins there.
// - ASSAY_SHARED(T, name, count), ASSAY_DYNAMIC_SHARED(T, name): arrays in shared memory, which a
//   function takes as Shared<T>. range_of(shared, first, count) is where so many elements are.
// - copy_to_shared(shared, index, global bytes, offset): begins to copy 16 bytes from a multiple of
//   16, of which the first lies in an allocation, to the element `index` of 16 bytes. Allocations
//   are readable up to the next multiple of 16 behind them. close_copies() makes what this thread
//   has begun a group; wait_for_copies<N>() returns when all but its last N groups are there, for
//   this thread: others see them after they have met it.
// - prefetch(global, i): element i will soon be copied or read: it may come nearer.
//   prefetch_near(global, i): by this block, so that it may come to the first-level cache.
// - Bytes: what a function takes bytes as that range_of() or range() pointed to, so that what it
//   reads is counted; plain_bytes(bytes): their address, for functions that know no Bytes.
// - load_as<T>(bytes): a T at a multiple of its size.
// - load_settled<T>(global, i): a T at a multiple of its size, from element i on, which a launch
//   before the last has written, also before wait_for_launches(): not from the first-level cache,
//   where an earlier kernel may have left what stood there then.
// - load_weights<T, kReaders>(global bytes, offset, is_again): a T at a multiple of its size that
//   no kernel writes, which so many threads read alike. is_again: the thread has just read it, so
//   that it comes from the first-level cache.
// - half_to_float(bits): a binary16.
// - uniform(n): n, which all threads of the warp have alike, and of which the compiler now knows
//   that. All of them must call it.
// - opaque(n): n, of which the compiler does not know that it never changes. What follows from it
//   is then computed where it is needed, and not kept in registers over a loop around that.
// - keep(value): it has been computed at this place at the latest; but not if nothing uses it.
// - touch(parameter): a kernel's ASSAY_CONSTANT parameter comes to the cache of constants, so that
//   nothing waits for it after wait_for_launches().
// - reciprocal_near(x): 1 / x within a unit in the last place, of an x that is neither subnormal
//   nor so large that 1 / x would be.
// - multiply_16x16x8(a, b, sums): the tensor cores' product of whole numbers, by all lanes of a
//   warp (PTX mma.m16n8k16). Lane 4g + t brings in a[i] the bytes 4t to 4t + 3 of row g + 8i of
//   sixteen, in b those of column g of eight, and gets added to sums[2i + j] row g + 8i times
//   column 2t + j.
// - multiply_16x16x8(a, b, start, sums): the same, added to `start` in all of `sums`.
// - multiply_16x32x8(a, b, start, sums): likewise of twice the depth (mma.m16n8k32): a[2 + i] and
//   b[1] have the bytes 16 + 4t to 16 + 4t + 3.
// - wait_for_launches(): in a kernel that is launched with `starts_early`, every thread calls it
//   before it reads what the launch before may have written, and before it writes. The kernel's
//   blocks may run before those of that launch have ended. let_next_launch_start(): the same of the
//   next launch, once every block has called it; each thread has waited before. So what the
//   launches before the last have written is there from the beginning.
// - ASSAY_KERNEL(threads, blocks, name, parameters...): __global__ void name(parameters...), in
//   blocks of at most so many threads, 256 for a kernel that is declared without; so many blocks
//   are to find room on a multiprocessor.
// - ASSAY_CONSTANT(T): the type of a kernel's parameter that is not copied when it is indexed.
// - ASSAY_UNROLL before a loop: all of its turns are written out; ASSAY_UNROLL_BY_2, _BY_4: so
//   many; ASSAY_NO_UNROLL: none.
//
// Products and sums are fused only where the source says fmaf.

#include "kernels/cuda/backend.h"

#define ASSAY_LAUNCH(device, shape, kernel, ...) \
  (device).launch(#kernel, shape, kernel __VA_OPT__(, ) __VA_ARGS__)

#if defined(__CUDACC__)

#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/half.h"

#define ASSAY_KERNEL(threads, blocks, name, ...) \
  __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)
#define ASSAY_UNROLL _Pragma("unroll")
#define ASSAY_CONSTANT(Type) const __grid_constant__ Type
#define ASSAY_NO_UNROLL _Pragma("unroll 1")
#define ASSAY_UNROLL_BY_2 _Pragma("unroll 2")
#define ASSAY_UNROLL_BY_4 _Pragma("unroll 4")
#define ASSAY_SHARED(Type, name, count) __shared__ Type name[count]
#define ASSAY_DYNAMIC_SHARED(Type, name)                         \
  extern __shared__ __align__(16) unsigned char assay_dynamic[]; \
  Type* const name = reinterpret_cast<Type*>(assay_dynamic)

namespace assay::cuda {

template <class T>
class Global {
 public:
  __host__ __device__ Global(T* address) : address_(address) {}
  __device__ explicit operator bool() const { return address_ != nullptr; }
  __device__ T& operator[](int64_t index) const { return address_[index]; }
  __device__ T* range(int64_t first, int64_t /*count*/) const { return address_ + first; }
  __device__ Global from(int64_t first) const { return address_ + first; }

 private:
  T* address_;
};

template <class T>
using Shared = T*;

template <class T>
__device__ inline const T* range_of(const T* shared, int64_t first, int64_t /*count*/) {
  return shared + first;
}

__device__ inline void copy_to_shared(Shared<uint4> shared, int index,
                                      const Global<const uint8_t>& bytes, int64_t offset) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(shared + index))),
               "l"(bytes.range(offset, 16))
               : "memory");
}

template <class T>
__device__ void prefetch(const Global<const T>& x, int64_t i) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(x.range(i, 1)));
}

template <class T>
__device__ void prefetch_near(const Global<const T>& x, int64_t i) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(x.range(i, 1)));
}

__device__ inline void close_copies() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int kGroups>
__device__ inline void wait_for_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

__device__ inline void wait_for_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

__device__ inline void let_next_launch_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

template <class T, class Element>
__device__ inline T load_settled(const Global<Element>& x, int64_t i) {
  return __ldcg(reinterpret_cast<const T*>(x.range(i, sizeof(T) / sizeof(Element))));
}

template <class T, int kReaders>
__device__ inline T load_weights(const Global<const uint8_t>& bytes, int64_t offset,
                                 bool /*is_again*/ = false) {
  return __ldg(reinterpret_cast<const T*>(bytes.range(offset, sizeof(T))));
}

__device__ inline int uniform(int n) {
  return __shfl_sync(0xFFFFFFFFU, n, 0);
}

using Bytes = const uint8_t*;

__device__ inline const uint8_t* plain_bytes(Bytes bytes) {
  return bytes;
}

template <class T>
__device__ inline T load_as(Bytes address) {
  return *reinterpret_cast<const T*>(address);
}

__device__ inline float half_to_float(uint16_t half) {
  return __half2float(__ushort_as_half(half));
}

__device__ inline void keep(double value) {
  asm volatile("" ::"d"(value));
}

__device__ inline uint32_t opaque(uint32_t n) {
  asm volatile("" : "+r"(n));
  return n;
}

template <class T>
__device__ void touch(const T& parameter) {
  constexpr int kLine = 64 / 4;  // words
  const auto* words = reinterpret_cast<const uint32_t*>(&parameter);
  ASSAY_UNROLL
  for (int i = 0; i < static_cast<int>(sizeof(T) / 4); i += kLine) {
    asm volatile("" ::"r"(words[i]));
  }
}

__device__ inline float reciprocal_near(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

__device__ inline void multiply_16x32x8(const uint32_t (&a)[4], const uint32_t (&b)[2],
                                        int32_t start, int32_t (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
      "{%8, %9}, {%10, %10, %10, %10};"
      : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start));
}

__device__ inline void multiply_16x16x8(const uint32_t (&a)[2], uint32_t b, int32_t start,
                                        int32_t (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%7, %7, %7, %7};"
      : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b), "r"(start));
}

__device__ inline void multiply_16x16x8(const uint32_t (&a)[2], uint32_t b, int32_t (&sums)[4]) {
  asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
      "{%0, %1, %2, %3};"
      : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
}

}  // namespace assay::cuda

#else

#include "kernels/emulated/language.h"
#include "kernels/emulated/tensor_cores.h"

#endif
