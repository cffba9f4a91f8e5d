// Atomics on the emulated device: what they compute, and the races that they are and are not in.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <climits>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/language.h"

namespace assay::emulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr LaunchShape kOneWarp{{1, 1, 1}, {32, 1, 1}, 0};
constexpr LaunchShape kTwoWarps{{1, 1, 1}, {64, 1, 1}, 0};
constexpr LaunchShape kFourBlocks{{4, 1, 1}, {64, 1, 1}, 0};

class AtomicTest : public testing::TestWithParam<uint64_t> {
 protected:
  template <class T>
  Buffer<T> place(const std::vector<T>& values) {
    Buffer<T> buffer(device_, values.size());
    device_.upload(values.data(), buffer.bytes(), buffer.data());
    return buffer;
  }
  template <class T>
  std::vector<T> read(const Buffer<T>& buffer) {
    std::vector<T> values(buffer.size());
    device_.download(buffer.data(), buffer.bytes(), values.data());
    return values;
  }

  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Emulated, AtomicTest, testing::Values(0, 1, 12345));

// A histogram: in shared memory by each block, then of all blocks.
__global__ void count_by_sevens(Global<int> counts) {
  ASSAY_SHARED(int, own, 7);
  if (threadIdx.x < 7) own[threadIdx.x] = 0;
  __syncthreads();
  atomicAdd(&own[threadIdx.x % 7], 1);
  __syncthreads();
  if (threadIdx.x < 7) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

TEST_P(AtomicTest, AtomicsOfManyThreadsAreNoRaceAndLoseNothing) {
  auto counts = place<int>({0, 0, 0, 0, 0, 0, 100});
  for (int i = 0; i < 2; ++i) {
    ASSAY_LAUNCH(device_, kFourBlocks, count_by_sevens, counts.data());
  }
  EXPECT_EQ(read(counts), (std::vector<int>{80, 72, 72, 72, 72, 72, 172}));  // 4 * 64, twice
}

__global__ void use_each(Global<int> i, Global<unsigned> u, Global<float> f) {
  if (threadIdx.x != 0) return;
  i[8] = atomicAdd(&i[0], 1);
  atomicMax(&i[1], -3);
  atomicMin(&i[2], -3);
  atomicExch(&i[3], 9);
  i[9] = atomicCAS(&i[4], 5, 6);
  i[10] = atomicCAS(&i[5], 5, 6);
  atomicMax(&u[0], 3U);
  atomicMin(&u[1], 3U);
  atomicAdd(&u[2], 1);
  atomicAdd(&u[3], 0U - 1U);
  f[2] = atomicAdd(&f[0], 0.25F);
  atomicExch(&f[1], 4.0F);
}

// By hand, from CUDA's description of each.
TEST_P(AtomicTest, EachGivesTheOldValueAndStoresTheNew) {
  auto i = place<int>({INT_MAX, -5, 4, 8, 5, 7, 0, 0, 0, 0, 0});
  auto u = place<unsigned>({UINT_MAX, UINT_MAX, UINT_MAX, 7});
  auto f = place<float>({1.5F, 0.0F, 0.0F});
  ASSAY_LAUNCH(device_, kOneWarp, use_each, i.data(), u.data(), f.data());
  EXPECT_EQ(read(i), (std::vector<int>{INT_MIN, -3, -3, 9, 6, 7, 0, 0, INT_MAX, 5, 7}));
  EXPECT_EQ(read(u), (std::vector<unsigned>{UINT_MAX, 3, 0, 6}));
  EXPECT_EQ(read(f), (std::vector<float>{1.75F, 4.0F, 1.5F}));
}

__global__ void add_the_least(Global<float> global) {
  ASSAY_SHARED(float, shared, 1);
  const float least = global[1];
  shared[0] = least;
  atomicAdd(&shared[0], least);
  atomicAdd(&global[0], least);
  global[2] = shared[0];
}

// A device flushes in global memory and not in shared memory (PTX, atom.add.f32).
TEST_P(AtomicTest, SubnormalFloatsAreKeptInSharedMemoryAlone) {
  constexpr float kLeast = std::numeric_limits<float>::denorm_min();
  auto data = place<float>({kLeast, kLeast, 0.0F});
  ASSAY_LAUNCH(device_, (LaunchShape{{1, 1, 1}, {1, 1, 1}, 0}), add_the_least, data.data());
  EXPECT_EQ(read(data), (std::vector<float>{0.0F, kLeast, 2 * kLeast}));
}

// What no atomic does at once.
__global__ void take_the_greatest_float(Global<unsigned> bits) {
  const float own = static_cast<float>((threadIdx.x * 37 + blockIdx.x * 11) % 64);
  unsigned seen = atomicAdd(&bits[0], 0);
  while (float_from_bits(seen) < own) {
    const unsigned old = atomicCAS(&bits[0], seen, float_bits(own));
    if (old == seen) break;
    seen = old;
  }
}

TEST_P(AtomicTest, ACompareAndSwapLoopEndsWithTheGreatest) {
  auto bits = place<unsigned>({float_bits(-1.0F)});
  ASSAY_LAUNCH(device_, kFourBlocks, take_the_greatest_float, bits.data());
  EXPECT_EQ(float_from_bits(read(bits)[0]), 63.0F);
}

auto is_race(const std::string& what, const std::string& kernel) {
  return ThrowsMessage<Error>(AllOf(HasSubstr("a race"), HasSubstr(what), HasSubstr(kernel),
                                    HasSubstr("tests/emulated/atomics_test.cc:")));
}

__global__ void clears_while_others_count() {
  ASSAY_SHARED(int, count, 1);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  if (threadIdx.x == 63) {  // last, or before others: by the seed
    count[0] = 0;
  } else {
    atomicAdd(&count[0], 1);
  }
}

TEST_P(AtomicTest, APlainWriteBesideAtomicsOfSharedMemoryIsARace) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, kTwoWarps, clears_while_others_count); },
              is_race("shared array 'count'", "clears_while_others_count"));
}

// The barrier before the read is missing.
__global__ void reads_while_others_count(Global<int> out) {
  ASSAY_SHARED(int, count, 1);
  if (threadIdx.x == 0) count[0] = 0;
  __syncthreads();
  atomicAdd(&count[0], 1);
  if (threadIdx.x == 63) out[0] = count[0];
}

TEST_P(AtomicTest, APlainReadBesideAtomicsOfSharedMemoryIsARace) {
  auto out = place<int>({0});
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, kTwoWarps, reads_while_others_count, out.data()); },
              is_race("shared array 'count'", "reads_while_others_count"));
}

__global__ void counts_from_nothing() {
  ASSAY_SHARED(int, count, 1);
  atomicAdd(&count[0], 1);
}

TEST_P(AtomicTest, AnAtomicOnSharedMemoryThatNobodyWroteIsTold) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, kTwoWarps, counts_from_nothing); },
              ThrowsMessage<Error>(HasSubstr("changes element 0 of the shared array 'count', which "
                                             "no thread has written")));
}

__global__ void one_block_clears(Global<int> count) {
  if (blockIdx.x == 3) {
    if (threadIdx.x == 0) count[0] = 0;
  } else {
    atomicAdd(&count[0], 1);
  }
}

TEST_P(AtomicTest, APlainWriteBesideAtomicsOfDeviceMemoryIsARace) {
  auto count = place<int>({0});
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, kFourBlocks, one_block_clears, count.data()); },
              is_race("for device memory", "one_block_clears"));
}

__global__ void one_warp_reads(Global<int> count) {
  if (threadIdx.x < 32) {
    atomicAdd(&count[0], 1);
  } else {
    count[threadIdx.x] = count[0];
  }
}

TEST_P(AtomicTest, APlainReadBesideAtomicsOfDeviceMemoryIsARace) {
  auto count = place<int>(std::vector<int>(64));
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, kTwoWarps, one_warp_reads, count.data()); },
              is_race("for device memory", "one_warp_reads"));
}

__global__ void counts_one_too_far(Global<int> counts) {
  atomicAdd(&counts[threadIdx.x], 1);
}

TEST_P(AtomicTest, AnAtomicOutOfBoundsIsTold) {
  auto counts = place<int>(std::vector<int>(31));
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, kOneWarp, counts_one_too_far, counts.data()); },
      ThrowsMessage<Error>(AllOf(HasSubstr("out of bounds"), HasSubstr("thread (31,0,0)"))));
}

}  // namespace
}  // namespace assay::emulated
