// Small kernels, each with one fault that a run on a GPU may hide: each must be reported, with its
// kernel, block, thread and line.

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

auto reports(const std::string& what, const std::string& where, int line) {
  return testing_support::reports_in("faults_test.cc", what, where, line);
}

class FaultTest : public testing::TestWithParam<uint64_t> {
 protected:
  Buffer<uint8_t> zeros() {
    Buffer<uint8_t> bytes(device_, 64);
    device_.upload(std::vector<uint8_t>(64).data(), 64, bytes.data());
    return bytes;
  }

  Device device_{GetParam()};
  Buffer<float> data_{device_, 64};
};
INSTANTIATE_TEST_SUITE_P(Emulated, FaultTest, testing::Values(0, 1, 12345));

constexpr int kBarrierLine = __LINE__ + 2;
__global__ void half_of_the_block_waits() {
  if (threadIdx.x < 32) __syncthreads();
}

// On a GPU the block may hang, or go on.
TEST_P(FaultTest, ABarrierThatSomeThreadsNeverReach) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(64), half_of_the_block_waits); },
      reports("not all threads reach: thread (32,0,0) has ended",
              "kernel half_of_the_block_waits, block (0,0,0), thread (0,0,0)", kBarrierLine));
}

__global__ void two_barriers() {
  if (threadIdx.x % 2 == 0) {  // NOLINT(bugprone-branch-clone): that they differ is the fault
    __syncthreads();
  } else {
    __syncthreads();
  }
}

TEST_P(FaultTest, ThreadsThatWaitAtDifferentBarriers) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(4), two_barriers); },
      reports("thread (1,0,0) waits at the __syncthreads of", "kernel two_barriers", kNoLine));
}

__global__ void shuffles_while_others_wait(Global<float> out) {
  if (threadIdx.x < 16) {
    out[threadIdx.x] = __shfl_xor_sync(0xFFFFFFFFU, 1.0F, 1);
  } else {
    __syncthreads();
  }
}

TEST_P(FaultTest, AShuffleWhoseMaskNamesLanesThatAreElsewhere) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(32), shuffles_while_others_wait, data_.data()); },
      reports("waits in a shuffle with the mask 0xffffffff for lane 16, thread (16,0,0) waits at",
              "thread (0,0,0)", kNoLine));
}

constexpr int kShuffleLine = __LINE__ + 3;
__global__ void reads_a_lane_that_is_absent(Global<float> out) {
  if (threadIdx.x >= 16) return;
  out[threadIdx.x] = __shfl_sync(0xFFFFU, 1.0F, 16);
}

// A GPU gives the register's old content.
TEST_P(FaultTest, AShuffleFromALaneThatDoesNotTakePart) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(32), reads_a_lane_that_is_absent, data_.data()); },
      reports("reads from lane 16, which does not take part", "kernel reads_a_lane_that_is_absent",
              kShuffleLine));
}

__global__ void leaves_itself_out(Global<float> out) {
  out[0] = __shfl_sync(0x2U, 1.0F, 1);
}

TEST_P(FaultTest, AShuffleWhoseMaskLeavesOutTheCaller) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), leaves_itself_out, data_.data()); },
              reports("leaves out its own lane 0", "kernel leaves_itself_out", kNoLine));
}

constexpr int kRaceLine = __LINE__ + 4;
__global__ void reverses_without_a_barrier(Global<float> out) {
  ASSAY_SHARED(float, values, 64);
  values[threadIdx.x] = 1.0F;
  out[threadIdx.x] = values[63 - threadIdx.x];
}

TEST_P(FaultTest, ARaceForSharedMemory) {
  // In another order of the threads a write comes upon a read, or a read upon nothing written.
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(64), reverses_without_a_barrier, data_.data()); },
      reports("of the shared array 'values'", "kernel reverses_without_a_barrier",
              GetParam() == 0 ? kRaceLine : kNoLine));
}

__global__ void all_write_one_element() {
  ASSAY_SHARED(int, flag, 1);
  flag[0] = 1;
}

TEST_P(FaultTest, TwoWritersOfOneElement) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(2), all_write_one_element); },
      reports("a race: writes element 0 of the shared array 'flag'", "block (0,0,0)", kNoLine));
}

// The barrier after the read is missing: the second turn overwrites what others still read.
__global__ void reuses_without_a_barrier(Global<float> out) {
  ASSAY_SHARED(float, value, 1);
  for (int turn = 0; turn < 2; ++turn) {
    if (threadIdx.x == 0) value[0] = 1.0F;
    __syncthreads();
    out[threadIdx.x] = value[0];
  }
}

TEST_P(FaultTest, AnElementThatIsWrittenAgainWhileOthersReadIt) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(64), reuses_without_a_barrier, data_.data()); },
              reports("a race", "shared array 'value'", kNoLine));
}

__global__ void reads_what_nobody_wrote(Global<float> out) {
  ASSAY_SHARED(float, values, 4);
  out[0] = values[2];
}

TEST_P(FaultTest, SharedMemoryThatNobodyWrote) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), reads_what_nobody_wrote, data_.data()); },
              reports("reads element 2 of the shared array 'values', which no thread has written",
                      "kernel reads_what_nobody_wrote", kNoLine));
}

__global__ void one_too_far() {
  ASSAY_DYNAMIC_SHARED(double, values);
  values[threadIdx.x] = 1.0;
}

TEST_P(FaultTest, SharedMemoryOutOfBounds) {
  const LaunchShape shape{{1, 1, 1}, {5, 1, 1}, 4 * sizeof(double)};
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, shape, one_too_far); },
      reports("writes element 4 of the shared array 'values' of 4", "thread (4,0,0)", kNoLine));
}

constexpr int kOutOfBoundsLine = __LINE__ + 2;
__global__ void writes_one_for_each_thread(Global<float> out) {
  out[int64_t{blockIdx.x} * blockDim.x + threadIdx.x] = 1.0F;
}

TEST_P(FaultTest, DeviceMemoryOutOfBounds) {
  const LaunchShape shape{{3, 1, 1}, {32, 1, 1}, 0};
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, shape, writes_one_for_each_thread, data_.data()); },
      reports("out of bounds, at ", "kernel writes_one_for_each_thread, block (2,0,0), thread",
              kOutOfBoundsLine));
}

TEST_P(FaultTest, DeviceMemoryThatWasReleased) {
  float* address = Buffer<float>(device_, 64).data();
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), writes_one_for_each_thread, address); },
              reports("out of bounds", "kernel writes_one_for_each_thread", kOutOfBoundsLine));
}

__global__ void writes_past_its_range(Global<float> out) {
  float* four = out.range(60, 4);
  for (int i = 0; i < 6; ++i) four[i] = 1.0F;
}

// What the checks of single accesses do not see.
TEST_P(FaultTest, AWriteIntoAGuardZone) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), writes_past_its_range, data_.data()); },
              reports("the guard zone behind an allocation of 256 bytes was written to",
                      "kernel writes_past_its_range", kNoLine));
}

TEST_P(FaultTest, ACopyOutOfBounds) {
  std::vector<float> host(65);
  EXPECT_THAT([&] { device_.download(data_.data(), 65 * sizeof(float), host.data()); },
              ThrowsMessage<Error>(HasSubstr("a copy of 260 bytes is out of bounds")));
}

TEST_P(FaultTest, ALaunchThatNoDeviceCanDo) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(2048), all_write_one_element); },
              ThrowsMessage<Error>(HasSubstr("which no device can do")));
}

__global__ void takes_much_shared_memory() {
  ASSAY_SHARED(double, values, 5 * 1024);
  ASSAY_DYNAMIC_SHARED(double, others);
  values[threadIdx.x] = others[threadIdx.x] = 1.0;
}

TEST_P(FaultTest, MoreSharedMemoryThanADeviceHas) {
  const LaunchShape shape{{1, 1, 1}, {1, 1, 1}, size_t{60} * 1024};
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, shape, takes_much_shared_memory); },
              ThrowsMessage<Error>(HasSubstr("a block takes 102400 bytes of shared memory")));
}

template <int kWhich>
__device__ void keeps_half_of_what_there_is() {
  ASSAY_SHARED(double, values, 3 * 1024);
  values[threadIdx.x] = kWhich;
}

__global__ void keeps_two_halves() {
  keeps_half_of_what_there_is<0>();
  keeps_half_of_what_there_is<1>();
  keeps_half_of_what_there_is<0>();
}

__global__ void keeps_three_halves() {
  keeps_half_of_what_there_is<0>();
  keeps_half_of_what_there_is<1>();
  keeps_half_of_what_there_is<2>();
}

// nvcc gives each instantiation of a function template arrays of its own.
TEST_P(FaultTest, TheSharedMemoryOfEachInstantiation) {
  ASSAY_LAUNCH(device_, one_block(1), keeps_two_halves);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), keeps_three_halves); },
              ThrowsMessage<Error>(HasSubstr("a block takes 73728 bytes of shared memory")));
}

// Memory that nobody wrote is NaN, so that what is computed from it is seen.
TEST_P(FaultTest, FreshMemoryIsNaN) {
  std::vector<float> host(64);
  device_.download(data_.data(), data_.bytes(), host.data());
  for (const float value : host) EXPECT_TRUE(std::isnan(value));
}

// After a report the device goes on: no fiber still stands in the faulty kernel.
TEST_P(FaultTest, ADeviceWorksOnAfterAFault) {
  EXPECT_THROW(ASSAY_LAUNCH(device_, one_block(64), half_of_the_block_waits), Error);
  ASSAY_LAUNCH(device_, one_block(64), writes_one_for_each_thread, data_.data());
  std::vector<float> host(64);
  device_.download(data_.data(), data_.bytes(), host.data());
  EXPECT_EQ(host, std::vector<float>(64, 1.0F));
}

__global__ void adds_what_others_wrote(Global<float> data) {
  data[threadIdx.x + 32 * (blockIdx.x % 2)] = data[32] + 1.0F;
}

// The order of blocks decides what is read.
TEST_P(FaultTest, ARaceOfTwoBlocksForDeviceMemory) {
  const LaunchShape two_blocks{{2, 1, 1}, {1, 1, 1}, 0};
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, two_blocks, adds_what_others_wrote, data_.data()); },
              reports("a race for device memory", "kernel adds_what_others_wrote", kNoLine));
}

__global__ void all_blocks_write_one_element(Global<float> data) {
  data[0] = 1.0F;
}

TEST_P(FaultTest, TwoBlocksThatWriteOneElement) {
  const LaunchShape two_blocks{{2, 1, 1}, {1, 1, 1}, 0};
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, two_blocks, all_blocks_write_one_element, data_.data()); },
      reports("a race for device memory: writes what thread 0 of block", "thread (0,0,0)",
              kNoLine));
}

__global__ void reads_the_other_warps_element(Global<float> data) {
  data[threadIdx.x] = 1.0F;
  data[threadIdx.x] = data[63 - threadIdx.x];
}

TEST_P(FaultTest, ARaceOfTwoWarpsForDeviceMemory) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(64), reads_the_other_warps_element, data_.data()); },
      reports("a race for device memory", "kernel reads_the_other_warps_element", kNoLine));
}

constexpr int kCopyLine = __LINE__ + 3;
__global__ void copies_between_words(Global<const uint8_t> bytes) {
  ASSAY_SHARED(uint4, words, 4);
  copy_to_shared(words, threadIdx.x, bytes, threadIdx.x * 8);
}

// A GPU ends the program.
TEST_P(FaultTest, AMisalignedCopy) {
  const Buffer<uint8_t> bytes = zeros();
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(4), copies_between_words, bytes.data()); },
              reports("a misaligned access: 16 bytes", "kernel copies_between_words", kCopyLine));
}

// Waits for all but the last kGroups of two groups, each of one word, and reads the second.
template <int kGroups>
__global__ void reads_the_second_copy(Global<const uint8_t> bytes, Global<float> out) {
  ASSAY_SHARED(uint4, words, 2);
  for (int i = 0; i < 2; ++i) {
    copy_to_shared(words, i, bytes, i * 16);
    close_copies();
  }
  wait_for_copies<kGroups>();
  const uint4 second = words[1];
  out[0] = static_cast<float>(second.x);
  out[1] = static_cast<float>(second.w);
}

TEST_P(FaultTest, ACopyThatIsNotWaitedFor) {
  Buffer<uint8_t> bytes(device_, 64);
  const std::vector<uint8_t> host(64, 1);
  device_.upload(host.data(), 64, bytes.data());
  EXPECT_THAT(
      [&] {
        ASSAY_LAUNCH(device_, one_block(1), (reads_the_second_copy<1>), bytes.data(), data_.data());
      },
      reports("reads element 1 of the shared array 'words', to which a copy of thread 0 is under "
              "way",
              "kernel reads_the_second_copy<1>", kNoLine));
  ASSAY_LAUNCH(device_, one_block(1), (reads_the_second_copy<0>), bytes.data(), data_.data());
  std::vector<float> got(2);
  device_.download(data_.data(), 2 * sizeof(float), got.data());
  EXPECT_EQ(got,
            (std::vector<float>{static_cast<float>(0x01010101), static_cast<float>(0x01010101)}));
}

// The copy is there for the thread that began it alone.
__global__ void reads_the_others_copy(Global<const uint8_t> bytes, Global<float> out) {
  ASSAY_SHARED(uint4, words, 32);
  copy_to_shared(words, threadIdx.x, bytes, 0);
  close_copies();
  wait_for_copies<0>();
  const uint4 other = words[threadIdx.x ^ 1U];
  out[threadIdx.x] = static_cast<float>(other.x);
}

TEST_P(FaultTest, ACopyOfAnotherThread) {
  const Buffer<uint8_t> bytes = zeros();
  EXPECT_THAT(
      [&] {
        ASSAY_LAUNCH(device_, one_block(32), reads_the_others_copy, bytes.data(), data_.data());
      },
      testing::AnyOf(reports("a race: reads element", "kernel reads_the_others_copy", kNoLine),
                     // In another order of threads.
                     reports("which no thread has written", "reads_the_others_copy", kNoLine)));
}

__global__ void writes_over_a_copy(Global<const uint8_t> bytes) {
  ASSAY_SHARED(uint4, words, 1);
  copy_to_shared(words, 0, bytes, 0);
  words[0] = uint4{1, 2, 3, 4};
}

TEST_P(FaultTest, AWriteToWhatACopyIsOnItsWayTo) {
  const Buffer<uint8_t> bytes = zeros();
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(1), writes_over_a_copy, bytes.data()); },
              reports("writes element 0 of the shared array 'words', to which a copy",
                      "kernel writes_over_a_copy", kNoLine));
}

__global__ void loads_a_word_from_shared_bytes(Global<float> out) {
  ASSAY_SHARED(uint8_t, bytes, 64);
  bytes[threadIdx.x] = 1;
  __syncthreads();
  out[threadIdx.x] = static_cast<float>(load_as<uint32_t>(range_of(bytes, threadIdx.x, 4)));
}

TEST_P(FaultTest, AMisalignedLoadFromSharedMemory) {
  EXPECT_THAT(
      [&] { ASSAY_LAUNCH(device_, one_block(60), loads_a_word_from_shared_bytes, data_.data()); },
      // No thread writes elements 60 to 63; another order of threads reads them first.
      testing::AnyOf(
          reports("a misaligned access: 4 bytes", "kernel loads_a_word_from_shared_bytes", kNoLine),
          reports("which no thread has written", "kernel loads_a_word_from_shared_bytes",
                  kNoLine)));
}

// A capture of a CUDA stream fails in each of these.
TEST_P(FaultTest, WhatCannotBeRecorded) {
  float host = 0.0F;
  const auto recording = [&](const std::function<void()>& steps) {
    return [this, steps] { device_.record(steps); };
  };
  EXPECT_THAT(recording([&] { device_.upload(&host, 4, data_.data()); }),
              ThrowsMessage<Error>(HasSubstr("a copy while launches are recorded")));
  EXPECT_THAT(recording([&] { device_.download(data_.data(), 4, &host); }),
              ThrowsMessage<Error>(HasSubstr("a copy while launches are recorded")));
  EXPECT_THAT(recording([&] { device_.allocate(4); }),
              ThrowsMessage<Error>(HasSubstr("an allocation while launches are recorded")));
  EXPECT_THAT(recording([&] { ASSAY_LAUNCH(device_, one_block(2048), all_write_one_element); }),
              ThrowsMessage<Error>(HasSubstr("which no device can do")));
  const auto nothing = device_.record([] {});
  EXPECT_THAT(recording([&] { nothing->replay(); }),
              ThrowsMessage<Error>(HasSubstr("a replay while launches are recorded")));
  EXPECT_EQ(nothing->n_nodes(), 0);
}

// A fault in a replayed launch is reported as in a direct one.
TEST_P(FaultTest, AFaultInARecording) {
  const auto recording =
      device_.record([&] { ASSAY_LAUNCH(device_, one_block(64), half_of_the_block_waits); });
  EXPECT_THAT([&] { recording->replay(); },
              reports("not all threads reach", "kernel half_of_the_block_waits", kBarrierLine));
}

// The counterparts that are no fault: a layer that cries wolf is switched off.
__global__ void reverses_with_a_barrier(Global<float> out) {
  ASSAY_SHARED(float, values, 64);
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = values[63 - threadIdx.x];
}

__global__ void swaps_in_a_warp(Global<float> out) {
  ASSAY_SHARED(float, values, 64);
  values[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncwarp();
  const float other = values[threadIdx.x ^ 1U];
  __syncwarp();
  values[threadIdx.x] = other;
  __syncwarp();
  out[threadIdx.x] = values[threadIdx.x ^ 1U];
}

__global__ void reverses_in_device_memory(Global<float> data) {
  data[threadIdx.x] = static_cast<float>(threadIdx.x);
  __syncthreads();
  const float other = data[63 - threadIdx.x];
  __syncthreads();
  data[threadIdx.x] = other;
}

TEST_P(FaultTest, CorrectKernelsRun) {
  std::vector<float> host(64);
  ASSAY_LAUNCH(device_, one_block(64), reverses_with_a_barrier, data_.data());
  device_.download(data_.data(), data_.bytes(), host.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(host[i], static_cast<float>(63 - i));
  for (int i = 0; i < 2; ++i) {  // one launch after the other is no race
    ASSAY_LAUNCH(device_, one_block(64), reverses_in_device_memory, data_.data());
  }
  device_.download(data_.data(), data_.bytes(), host.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(host[i], static_cast<float>(63 - i));
  ASSAY_LAUNCH(device_, one_block(64), swaps_in_a_warp, data_.data());
  device_.download(data_.data(), data_.bytes(), host.data());
  for (size_t i = 0; i < 64; ++i) EXPECT_EQ(host[i], static_cast<float>(i));
}

}  // namespace
}  // namespace assay::emulated
