// Launches that may start before the one before them has ended (programmatic dependent launch): the
// emulation runs them one after the other, and must find those that rely on it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "kernels/cuda/language.h"

namespace assay::emulated {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

LaunchShape one_block(bool starts_early) {
  return {{1, 1, 1}, {4, 1, 1}, 0, starts_early};
}

auto reports(const std::string& what, const std::string& kernel) {
  return ThrowsMessage<Error>(AllOf(HasSubstr(what), HasSubstr("kernel " + kernel)));
}

template <bool kReads, bool kWaits>
__global__ void does_not_wait_first(Global<float> data) {
  const float read = kReads ? static_cast<float>(data[threadIdx.x]) : 1.0F;
  if (kWaits) wait_for_launches();
  data[threadIdx.x] = read;
}

__global__ void copies_before_it_waits(Global<const uint8_t> data) {
  ASSAY_SHARED(uint4, copied, 4);
  if (threadIdx.x == 0) copy_to_shared(copied, 0, data, 0);
  wait_for_launches();
}

__global__ void lets_the_next_start_first() {
  let_next_launch_start();
  wait_for_launches();
}

__global__ void never_waits(Global<const uint8_t> weights) {
  prefetch(weights, 0);
}

class EarlyLaunchTest : public testing::TestWithParam<uint64_t> {
 protected:
  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Emulated, EarlyLaunchTest, testing::Values(0, 4321));

// On sm_90 the launch before may still be at work. What came before that is done.
TEST_P(EarlyLaunchTest, MustWaitBeforeItReadsWhatTheLaunchBeforeWrote) {
  Buffer<float> data(device_, 64);
  Buffer<float> other(device_, 64);
  const auto launch = [&](bool starts_early, auto kernel, float* to) {
    ASSAY_LAUNCH(device_, one_block(starts_early), kernel, to);
  };
  const auto write = [&](float* to) { launch(false, does_not_wait_first<false, false>, to); };
  const auto read = [&] { launch(true, does_not_wait_first<true, true>, data.data()); };
  const auto copy = [&] {
    ASSAY_LAUNCH(device_, one_block(true), copies_before_it_waits,
                 reinterpret_cast<const uint8_t*>(data.data()));
  };
  const std::string what = "reads what the launch before it wrote before wait_for_launches()";
  write(data.data());
  EXPECT_THAT(read, reports(what, "kernel"));
  write(data.data());
  EXPECT_THAT(copy, reports(what, "copies_before_it_waits"));
  write(data.data());
  write(other.data());
  copy();
  read();
  EXPECT_THAT(read, reports(what, "kernel"));
}

TEST_P(EarlyLaunchTest, MustWaitBeforeItWrites) {
  Buffer<float> data(device_, 64);
  EXPECT_THAT(
      [&] {
        ASSAY_LAUNCH(device_, one_block(true), (does_not_wait_first<false, false>), data.data());
      },
      reports("writes before wait_for_launches()", "does_not_wait_first"));
}

// The launch after it may read what came two launches before.
TEST_P(EarlyLaunchTest, MustWaitBeforeItLetsTheNextOneStart) {
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(true), lets_the_next_start_first); },
              reports("lets the next launch start before wait_for_launches()",
                      "lets_the_next_start_first"));
}

// What comes after it would not wait for what came before it.
TEST_P(EarlyLaunchTest, MustNotEndWithoutWaiting) {
  const Buffer<uint8_t> weights(device_, 64);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(true), never_waits, weights.data()); },
              reports("ends before wait_for_launches()", "never_waits"));
}

}  // namespace
}  // namespace assay::emulated
