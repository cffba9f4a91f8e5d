// What the emulation counts of a warp's instructions, against figures that follow from how devices
// of sm_80 and up access memory: 32 banks of 4 bytes, sectors of 32 bytes. A count that is wrong
// would let a slow kernel pass its budget.

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "kernels/cuda/language.h"
#include "tests/emulated/fault_support.h"

namespace assay::emulated {
namespace {

using testing_support::one_block;

class CountingTest : public testing::TestWithParam<uint64_t> {
 protected:
  CountingTest() { device_.upload(std::vector<float>(8192).data(), 32768, data_.data()); }

  // Of the launches since the last call, all of one kernel.
  KernelCounts counts() {
    const auto kernels = device_.take_instruction_counts();
    EXPECT_EQ(kernels.size(), 1U);
    return kernels.empty() ? KernelCounts{} : kernels.begin()->second;
  }
  static LineCounts line(const KernelCounts& kernel, int number, const std::string& use) {
    const std::string name = "counting_test.cc:" + std::to_string(number) + " " + use;
    for (const auto& [place, counts] : kernel.lines) {
      if (place.ends_with(name)) return counts;
    }
    ADD_FAILURE() << "nothing was counted at " << name;
    return {};
  }

  Device device_{Device::Options{.seed = GetParam(), .counts = true}};
  Buffer<float> data_{device_, 8192};
  Buffer<float> out_{device_, 64};
};
INSTANTIATE_TEST_SUITE_P(Emulated, CountingTest, testing::Values(0, 1, 12345));

constexpr int kStrideLine = __LINE__ + 6;
__global__ void reads_floats(int64_t stride, Global<float> out) {
  ASSAY_SHARED(float, values, 32 * 33);
  for (int i = 0; i < 33; ++i) values[threadIdx.x + 32 * i] = 1.0F;
  __syncthreads();
  const int64_t at = threadIdx.x * stride;
  const float value = values[at];
  out[threadIdx.x] = value;
}

TEST_P(CountingTest, WavefrontsAreTheWordsOfTheWorstBank) {
  const std::map<int64_t, uint64_t> wavefronts = {{0, 1}, {1, 1},   {2, 2},  {3, 1},   {4, 4},
                                                  {8, 8}, {16, 16}, {31, 1}, {32, 32}, {33, 1}};
  for (const auto& [stride, expected] : wavefronts) {
    ASSAY_LAUNCH(device_, one_block(32), reads_floats, stride, out_.data());
    const LineCounts got = line(counts(), kStrideLine, "reads shared memory");
    EXPECT_EQ(got.instructions, 1U);
    EXPECT_EQ(got.wavefronts, expected) << "stride " << stride;
  }
}

constexpr int kWideLine = __LINE__ + 5;
__global__ void reads_words(int64_t stride, int64_t lanes, Global<float> out) {
  ASSAY_SHARED(uint4, words, 64);
  for (int i = 0; i < 2; ++i) words[threadIdx.x + 32 * i] = uint4{1, 2, 3, 4};
  __syncthreads();
  const uint4 word = words[threadIdx.x % lanes * stride];
  out[threadIdx.x] = static_cast<float>(word.x);
}

// 16 bytes a lane come for eight lanes at a time; both halves of a warp reading the same does not
// make it less.
TEST_P(CountingTest, WideReadsTakeAWavefrontForEightLanes) {
  struct Case {
    int64_t stride, lanes;
    uint64_t wavefronts;
  };
  for (const Case& c :
       {Case{1, 32, 4}, Case{2, 32, 8}, Case{1, 16, 4}, Case{2, 16, 8}, Case{0, 32, 4}}) {
    ASSAY_LAUNCH(device_, one_block(32), reads_words, c.stride, c.lanes, out_.data());
    EXPECT_EQ(line(counts(), kWideLine, "reads shared memory").wavefronts, c.wavefronts)
        << "stride " << c.stride << ", lanes " << c.lanes;
  }
}

struct alignas(16) CodesAndScale {
  uint4 codes;
  float scale;
  float unused[3];
};

constexpr int kTogetherLine = __LINE__ + 5;
__global__ void reads_codes_and_scales_together(Global<float> out) {
  ASSAY_SHARED(CodesAndScale, halves, 16);
  if (threadIdx.x < 16) halves[threadIdx.x] = CodesAndScale{};
  __syncthreads();
  const CodesAndScale own = halves[threadIdx.x % 16];
  out[threadIdx.x] = own.scale;
}

constexpr int kApartLine = __LINE__ + 8;
__global__ void reads_codes_and_scales_apart(Global<float> out) {
  ASSAY_SHARED(uint4, codes, 16);
  ASSAY_SHARED(float, scales, 16);
  if (threadIdx.x < 16) codes[threadIdx.x] = uint4{};
  if (threadIdx.x < 16) scales[threadIdx.x] = 1.0F;
  __syncthreads();
  // One line each.
  const uint4 own = codes[threadIdx.x % 16];
  const float scale = scales[threadIdx.x % 16];
  out[threadIdx.x] = scale * static_cast<float>(own.x);
}

// The inner loop of whole numbers: sixteen halves with codes and scales side by side, or apart.
TEST_P(CountingTest, CodesAndScalesAreReadFasterApart) {
  ASSAY_LAUNCH(device_, one_block(32), reads_codes_and_scales_together, out_.data());
  EXPECT_EQ(line(counts(), kTogetherLine, "reads shared memory").wavefronts, 16U);
  ASSAY_LAUNCH(device_, one_block(32), reads_codes_and_scales_apart, out_.data());
  const KernelCounts apart = counts();
  EXPECT_EQ(line(apart, kApartLine, "reads shared memory").wavefronts, 4U);
  EXPECT_EQ(line(apart, kApartLine + 1, "reads shared memory").wavefronts, 1U);
}

constexpr int kBytesLine = __LINE__ + 6;
__global__ void reads_bytes(int64_t stride, Global<float> out) {
  ASSAY_SHARED(uint8_t, values, 32 * 16);
  for (int i = 0; i < 16; ++i) values[threadIdx.x * 16 + i] = 1;
  __syncthreads();
  const Bytes all = range_of(values, 0, 32 * 16);
  const uint8_t value = all[threadIdx.x * stride];
  out[threadIdx.x] = value + static_cast<float>(load_as<uint16_t>(all + threadIdx.x / 16 * 2));
}

TEST_P(CountingTest, BytesOfOneWordAreOneAccess) {
  const std::map<int64_t, uint64_t> wavefronts = {{1, 1}, {4, 1}, {8, 2}, {16, 4}};
  for (const auto& [stride, expected] : wavefronts) {
    ASSAY_LAUNCH(device_, one_block(32), reads_bytes, stride, out_.data());
    const KernelCounts got = counts();
    EXPECT_EQ(line(got, kBytesLine, "reads shared memory").wavefronts, expected) << stride;
    EXPECT_EQ(line(got, kBytesLine + 1, "reads shared memory").wavefronts, 1U);
  }
}

constexpr int kSectorLine = __LINE__ + 2;
__global__ void reads_device_floats(Global<const float> x, int64_t stride, Global<float> out) {
  const float value = x[threadIdx.x * stride];
  out[threadIdx.x] = value;
}

TEST_P(CountingTest, SectorsAreThoseThatTheLanesTouch) {
  const std::map<int64_t, uint64_t> sectors = {{0, 1}, {1, 4}, {2, 8}, {4, 16}, {8, 32}, {64, 32}};
  for (const auto& [stride, expected] : sectors) {
    ASSAY_LAUNCH(device_, one_block(32), reads_device_floats, data_.data(), stride, out_.data());
    const KernelCounts got = counts();
    EXPECT_EQ(line(got, kSectorLine, "reads device memory").sectors, expected) << stride;
    EXPECT_EQ(line(got, kSectorLine + 1, "writes device memory").sectors, 4U);
  }
}

// The nth turn of one lane goes with the nth of the others, whichever lanes still take part.
__global__ void reads_as_often_as_its_number(Global<const float> x, Global<float> out) {
  float sum = 0.0F;
  for (unsigned i = 0; i < threadIdx.x; ++i) sum += x[i * 32 + threadIdx.x];
  out[threadIdx.x] = sum;
}

TEST_P(CountingTest, LanesThatLeaveALoopEarlier) {
  ASSAY_LAUNCH(device_, one_block(32), reads_as_often_as_its_number, data_.data(), out_.data());
  const KernelCounts got = counts();
  EXPECT_EQ(got.total().instructions, 32U);  // 31 turns, and the write
}

template <int kTurns>
__device__ float sum_of_256(const Global<const float>& x) {
  float sum = 0.0F;
  const auto add = [&](int i) { sum += x[i * 32 + int64_t{threadIdx.x}]; };
  if constexpr (kTurns == 4) {
    ASSAY_UNROLL_BY_4
    for (int i = 0; i < 256; ++i) add(i);
  } else if constexpr (kTurns == 32) {
    for (int first = 0; first < 256; first += 32) {
      ASSAY_UNROLL
      for (int i = 0; i < 32; ++i) add(first + i);
    }
  } else {
    ASSAY_NO_UNROLL
    for (int i = 0; i < 256; ++i) add(i);
  }
  return sum;
}

template <int kTurns>
__global__ void walks_256_keys(Global<const float> x, Global<float> out) {
  out[threadIdx.x] = sum_of_256<kTurns>(x);
}

// A thread that walks over 256 keys one by one waits for memory 256 times.
TEST_P(CountingTest, TheLoadChainIsHowOftenAThreadWaits) {
  ASSAY_LAUNCH(device_, one_block(32), walks_256_keys<1>, data_.data(), out_.data());
  KernelCounts got = counts();
  EXPECT_EQ(got.load_chain, 256U);
  EXPECT_EQ(got.bytes_in_flight(), 128U);
  ASSAY_LAUNCH(device_, one_block(32), walks_256_keys<4>, data_.data(), out_.data());
  got = counts();
  EXPECT_EQ(got.load_chain, 64U);
  EXPECT_EQ(got.bytes_in_flight(), 512U);
  ASSAY_LAUNCH(device_, one_block(32), walks_256_keys<32>, data_.data(), out_.data());
  got = counts();
  EXPECT_EQ(got.load_chain, 8U);
  EXPECT_EQ(got.bytes_in_flight(), 4096U);
}

// The chain of a kernel is that of its slowest thread, and of its launches the sum.
__global__ void walks_as_far_as_its_block(Global<const float> x, Global<float> out) {
  float sum = 0.0F;
  for (unsigned i = 0; i <= blockIdx.x * 4 + threadIdx.x / 32; ++i) sum += x[int64_t{i}];
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = sum;
}

TEST_P(CountingTest, TheChainIsThatOfTheSlowestThread) {
  const LaunchShape two_blocks{{2, 1, 1}, {32, 1, 1}, 0};
  for (int i = 0; i < 3; ++i) {
    ASSAY_LAUNCH(device_, two_blocks, walks_as_far_as_its_block, data_.data(), out_.data());
  }
  const KernelCounts got = counts();
  EXPECT_EQ(got.launches, 3U);
  EXPECT_EQ(got.load_chain, 3U * 5U);
  EXPECT_EQ(got.waits, 3U * (1U + 5U));
}

__global__ void meets_after_each_load(Global<const float> x, Global<float> out) {
  float sum = 0.0F;
  ASSAY_UNROLL
  for (int i = 0; i < 8; ++i) sum += __shfl_xor_sync(0xFFFFFFFFU, float{x[i]}, 1);
  out[threadIdx.x] = sum;
}

TEST_P(CountingTest, WhatIsExchangedIsWaitedFor) {
  ASSAY_LAUNCH(device_, one_block(32), meets_after_each_load, data_.data(), out_.data());
  EXPECT_EQ(counts().load_chain, 8U);
}

// Eight groups of copies, of which up to kAhead are under way.
template <int kAhead>
__global__ void copies_ahead(Global<const uint8_t> bytes, Global<float> out) {
  ASSAY_SHARED(uint4, words, 32 * 8);
  const auto begin = [&](int i) {
    const auto word = static_cast<int64_t>(i * 32 + threadIdx.x);
    if (i < 8) copy_to_shared(words, word, bytes, word * 16);
    close_copies();
  };
  for (int i = 0; i < kAhead; ++i) begin(i);
  float sum = 0.0F;
  for (int i = 0; i < 8; ++i) {
    wait_for_copies<kAhead - 1>();
    const uint4 word = words[static_cast<int64_t>(i * 32 + threadIdx.x)];
    sum += static_cast<float>(word.x);
    begin(i + kAhead);
  }
  out[threadIdx.x] = sum;
}

TEST_P(CountingTest, CopiesThatAreUnderWay) {
  const auto* const bytes = reinterpret_cast<const uint8_t*>(data_.data());
  ASSAY_LAUNCH(device_, one_block(32), copies_ahead<1>, bytes, out_.data());
  KernelCounts got = counts();
  EXPECT_EQ(got.load_chain, 8U);
  EXPECT_EQ(got.bytes_in_flight(), 512U);
  ASSAY_LAUNCH(device_, one_block(32), copies_ahead<4>, bytes, out_.data());
  got = counts();
  EXPECT_EQ(got.load_chain, 8U);
  // Four groups at five waits, then three, two and one.
  EXPECT_EQ(got.bytes_in_flight(), (5U * 4U + 3U + 2U + 1U) * 512U / 8U);
}

// A device that does not count has nothing to tell.
TEST(EmulatedCounting, IsOffUnlessAskedFor) {
  Device device;
  const Buffer<float> x(device, 1);
  Buffer<float> out(device, 32);
  ASSAY_LAUNCH(device, one_block(32), reads_device_floats, x.data(), 0, out.data());
  EXPECT_TRUE(device.take_instruction_counts().empty());
}

}  // namespace
}  // namespace assay::emulated
