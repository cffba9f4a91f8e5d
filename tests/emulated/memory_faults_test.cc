// Faults of device memory and of launches that a run on a GPU may hide: each must be reported, and
// correct kernels must not be.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "kernels/cuda/language.h"
#include "tests/emulated/fault_support.h"

namespace assay::emulated {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using testing_support::kNoLine;
using testing_support::one_block;

auto reports(const std::string& what, const std::string& where, int line = kNoLine) {
  return testing_support::reports_in("memory_faults_test.cc", what, where, line);
}

class MemoryFaultTest : public testing::TestWithParam<uint64_t> {
 protected:
  template <class T>
  std::vector<T> read(const Buffer<T>& buffer) {
    std::vector<T> host(buffer.size());
    device_.download(buffer.data(), buffer.bytes(), host.data());
    return host;
  }

  Device device_{GetParam()};
  Buffer<float> data_{device_, 64};
};
INSTANTIATE_TEST_SUITE_P(Emulated, MemoryFaultTest, testing::Values(0, 1, 12345));

constexpr int kMisalignedLine = __LINE__ + 2;
__global__ void loads_four(Global<const float4> x, Global<float> out) {
  const float4 four = x[threadIdx.x];
  out[threadIdx.x] = four.w;
}

__global__ void stores_four(Global<float4> x) {
  x[threadIdx.x] = float4{1.0F, 2.0F, 3.0F, 4.0F};
}

// A GPU ends the program; the host reads from any address.
TEST_P(MemoryFaultTest, AnElementThatIsNotAligned) {
  const auto* const odd = reinterpret_cast<const float4*>(data_.data() + 1);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), loads_four, odd, data_.data()); },
              reports("a misaligned access: 16 bytes", "kernel loads_four", kMisalignedLine));
  auto* const place = reinterpret_cast<float4*>(data_.data() + 2);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), stores_four, place); },
              reports("a misaligned access: 16 bytes", "kernel stores_four"));
  ASSAY_LAUNCH(device_, one_block(4), stores_four, reinterpret_cast<float4*>(data_.data()));
  EXPECT_EQ(read(data_)[15], 4.0F);
}

ASSAY_KERNEL(64, 2, takes_64_threads, Global<float> out) {
  out[threadIdx.x] = 1.0F;
}

__global__ void has_no_bounds() {}

// A GPU launches nothing, and says so to the next call.
TEST_P(MemoryFaultTest, MoreThreadsThanTheLaunchBounds) {
  ASSAY_LAUNCH(device_, one_block(64), takes_64_threads, data_.data());
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(65), takes_64_threads, data_.data()); },
              ThrowsMessage<Error>(HasSubstr("kernel takes_64_threads is launched with 65 threads "
                                             "a block, more than the 64 of its launch bounds")));
  ASSAY_LAUNCH(device_, one_block(256), has_no_bounds);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(257), has_no_bounds); },
              ThrowsMessage<Error>(HasSubstr("more than the 256 of its launch bounds")));
}

__global__ void takes_dynamic_shared_memory(Global<float> out) {
  ASSAY_DYNAMIC_SHARED(float, values);
  values[0] = 1.0F;
  out[0] = values[0];
}

// As the kernel of a device layer that does not raise the limit before it launches.
TEST_P(MemoryFaultTest, MoreThan48KibWithoutOptingIn) {
  const auto launch = [](Device& device, size_t bytes) {
    Buffer<float> out(device, 1);
    ASSAY_LAUNCH(device, (LaunchShape{{1, 1, 1}, {1, 1, 1}, bytes}), takes_dynamic_shared_memory,
                 out.data());
  };
  Device strict(Device::Options{.seed = GetParam(), .opts_in = false});
  launch(strict, size_t{48} * 1024);
  EXPECT_THAT([&] { launch(strict, size_t{48} * 1024 + 4); },
              ThrowsMessage<Error>(HasSubstr("a block takes 49156 bytes of shared memory; without "
                                             "opting in, 49152 is the most")));
  launch(device_, size_t{60} * 1024);
}

__global__ void swaps_in_device_memory_at_once(Global<float> data) {
  data[threadIdx.x] = static_cast<float>(threadIdx.x);
  data[threadIdx.x] = data[threadIdx.x ^ 1U];
}

__global__ void shuffles_in_place_of_a_sync(Global<float> data) {
  data[threadIdx.x] = static_cast<float>(threadIdx.x);
  __shfl_xor_sync(0xFFFFFFFFU, 0, 1);  // orders no memory accesses
  const float other = data[threadIdx.x ^ 1U];
  __syncwarp();
  data[threadIdx.x] = other;
}

__global__ void all_lanes_write_one_element(Global<float> data) {
  data[0] = 1.0F;
}

// The lanes of a warp need not run together.
TEST_P(MemoryFaultTest, ARaceOfTwoLanesOfAWarp) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(32), swaps_in_device_memory_at_once, data_.data()); },
      reports("a race for device memory", "kernel swaps_in_device_memory_at_once"));
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(32), shuffles_in_place_of_a_sync, data_.data()); },
      reports("a race for device memory: reads what", "kernel shuffles_in_place_of_a_sync"));
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(2), all_lanes_write_one_element, data_.data()); },
      reports("a race for device memory: writes what", "kernel all_lanes_write_one_element"));
}

__global__ void swaps_with_syncs(Global<float> data) {
  data[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  const float other = data[threadIdx.x ^ 1U];
  __syncwarp();
  data[threadIdx.x] = other;
}

__global__ void swaps_in_half_a_warp(Global<float> data) {
  const uint32_t half = 0xFFFFU << (threadIdx.x & 16U);
  data[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp(half);
  const float other = data[threadIdx.x ^ 1U];
  __syncwarp(half);
  data[threadIdx.x] = other;
}

TEST_P(MemoryFaultTest, LanesThatMeetDoNotRace) {
  for (auto* kernel : {swaps_with_syncs, swaps_in_half_a_warp}) {
    ASSAY_LAUNCH(device_, one_block(64), kernel, data_.data());
    const std::vector<float> got = read(data_);
    for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], static_cast<float>(i ^ 1U));
  }
}

constexpr int kUnwrittenLine = __LINE__ + 2;
__global__ void follows_an_index(Global<const int32_t> index, Global<float> out) {
  out[0] = static_cast<float>(index[0]);
}

__global__ void counts_up(Global<int32_t> count) {
  count[0] = count[0] + 1;
}

__global__ void writes_two_of_four_bytes(Global<uint8_t> bytes) {
  bytes[0] = 1;
  bytes[1] = 2;
}

__global__ void copies_sixteen(Global<const uint8_t> bytes) {
  ASSAY_SHARED(uint4, words, 1);
  copy_to_shared(words, 0, bytes, 0);
}

// Of floats, which are NaN, everything that is computed shows it; an index of -1 may go unseen.
TEST_P(MemoryFaultTest, IntegersThatNobodyWrote) {
  Buffer<int32_t> index(device_, 4);
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(1), follows_an_index, index.data(), data_.data()); },
      reports("reads 4 bytes of device memory that was never written, at byte 0 of an allocation "
              "of 16",
              "kernel follows_an_index", kUnwrittenLine));
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), counts_up, index.data()); },
              reports("that was never written", "kernel counts_up"));
  auto* const bytes = reinterpret_cast<uint8_t*>(index.data());
  ASSAY_LAUNCH(device_, one_block(1), writes_two_of_four_bytes, bytes);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), counts_up, index.data()); },
              reports("that was never written", "kernel counts_up"));
  const int32_t two = 2;
  device_.upload(&two, sizeof(two), index.data());
  ASSAY_LAUNCH(device_, one_block(1), counts_up, index.data());
  ASSAY_LAUNCH(device_, one_block(1), follows_an_index, index.data(), data_.data());
  EXPECT_EQ(read(data_)[0], 3.0F);
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(1), copies_sixteen, bytes); },
      reports("reads 16 bytes of device memory that was never written", "kernel copies_sixteen"));
}

// What was released is written no more.
TEST_P(MemoryFaultTest, IntegersOfTheAllocationBefore) {
  const int32_t one = 1;
  Buffer<int32_t> index(device_, 1);
  device_.upload(&one, sizeof(one), index.data());
  index = {};
  index = Buffer<int32_t>(device_, 1);
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(1), follows_an_index, index.data(), data_.data()); },
      reports("that was never written", "kernel follows_an_index"));
}

// The block that comes last adds up what all have written.
template <bool kFences>
__global__ void last_block_sums(Global<float> parts, Global<uint32_t> done, Global<float> sum) {
  parts[int64_t{blockIdx.x}] = static_cast<float>(blockIdx.x + 1);
  if (kFences) __threadfence();
  if (atomicAdd(&done[0], 1U) + 1 < gridDim.x) return;
  if (kFences) __threadfence();
  float total = 0.0F;
  for (unsigned i = 0; i < gridDim.x; ++i) total += parts[int64_t{i}];
  sum[0] = total;
}

template <bool kFences>
float sum_of_blocks(Device& device) {
  constexpr unsigned kBlocks = 8;
  Buffer<float> parts(device, kBlocks);
  Buffer<uint32_t> done(device, 1);
  Buffer<float> sum(device, 1);
  const uint32_t none = 0;
  device.upload(&none, sizeof(none), done.data());
  ASSAY_LAUNCH(device, (LaunchShape{{kBlocks, 1, 1}, {1, 1, 1}, 0}), (last_block_sums<kFences>),
               parts.data(), done.data(), sum.data());
  float result = 0.0F;
  device.download(sum.data(), sizeof(float), &result);
  return result;
}

TEST_P(MemoryFaultTest, BlocksThatShareWithoutAFence) {
  EXPECT_THAT([&] { sum_of_blocks<false>(device_); },
              reports("a race for device memory: reads what", "kernel last_block_sums<kFences>"));
  EXPECT_EQ(sum_of_blocks<true>(device_), 36.0F);
}

// On a weakly ordered device the counter may be there before what it stands for.
TEST_P(MemoryFaultTest, StoresComeLateWithoutAFence) {
  Device weak(Device::Options{.seed = GetParam(), .has_weak_order = true});
  EXPECT_TRUE(std::isnan(sum_of_blocks<false>(weak)));
  EXPECT_EQ(sum_of_blocks<true>(weak), 36.0F);
}

// What a block wrote is fenced by one of its threads, after a barrier, for all of them.
template <bool kWaits>
__global__ void one_thread_fences(Global<float> parts, Global<uint32_t> done, Global<float> sum) {
  ASSAY_SHARED(uint32_t, before, 1);
  parts[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = 1.0F;
  if (kWaits) __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    before[0] = atomicAdd(&done[0], 1U);
  }
  __syncthreads();
  if (before[0] + 1 < gridDim.x || threadIdx.x != 0) return;
  float total = 0.0F;
  for (unsigned i = 0; i < gridDim.x * blockDim.x; ++i) total += parts[int64_t{i}];
  sum[0] = total;
}

template <bool kWaits>
float sum_of_threads(Device& device) {
  Buffer<float> parts(device, 8);
  Buffer<uint32_t> done(device, 1);
  Buffer<float> sum(device, 1);
  const uint32_t none = 0;
  device.upload(&none, sizeof(none), done.data());
  ASSAY_LAUNCH(device, (LaunchShape{{2, 1, 1}, {4, 1, 1}, 0}), (one_thread_fences<kWaits>),
               parts.data(), done.data(), sum.data());
  float result = 0.0F;
  device.download(sum.data(), sizeof(float), &result);
  return result;
}

TEST_P(MemoryFaultTest, AFenceCoversWhatTheBlockHasMetAbout) {
  Device weak(Device::Options{.seed = GetParam(), .has_weak_order = true});
  EXPECT_EQ(sum_of_threads<true>(device_), 8.0F);
  EXPECT_EQ(sum_of_threads<true>(weak), 8.0F);
  EXPECT_THAT([&] { sum_of_threads<false>(device_); },
              reports("a race for device memory: reads what", "one_thread_fences"));
  EXPECT_TRUE(std::isnan(sum_of_threads<false>(weak)));
}

__global__ void waits_for_the_other_block(Global<uint32_t> flag) {
  if (blockIdx.x == 1) {
    atomicAdd(&flag[0], 1U);
  } else {
    while (atomicAdd(&flag[0], 0U) == 0) continue;
  }
}

// On a GPU both blocks run; one that waits for a block that does not fit beside it hangs.
TEST_P(MemoryFaultTest, ABlockThatWaitsForOneThatHasNotBegun) {
  Buffer<uint32_t> flag(device_, 1);
  const uint32_t none = 0;
  device_.upload(&none, sizeof(none), flag.data());
  const auto launch = [&] {
    ASSAY_LAUNCH(device_, (LaunchShape{{2, 1, 1}, {1, 1, 1}, 0}), waits_for_the_other_block,
                 flag.data());
  };
  if (GetParam() % 2 == 0) {  // otherwise block 1 comes first
    EXPECT_THAT(launch, reports("it waits for a block", "kernel waits_for_the_other_block"));
  } else {
    launch();
  }
}

}  // namespace
}  // namespace assay::emulated
