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

__global__ void never_waits(Global<const uint8_t> weights) {
  prefetch(weights, 0);
}

class EarlyLaunchTest : public testing::TestWithParam<uint64_t> {
 protected:
  Device device_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Emulated, EarlyLaunchTest, testing::Values(0, 4321));

// On sm_90 the launch before may still be at work.
TEST_P(EarlyLaunchTest, MustWaitBeforeItTouchesWhatLaunchesWrite) {
  Buffer<float> data(device_, 64);
  const auto launch = [&](bool starts_early, auto kernel) {
    ASSAY_LAUNCH(device_, one_block(starts_early), kernel, data.data());
  };
  EXPECT_THAT([&] { launch(true, does_not_wait_first<true, true>); },
              reports("reads what a launch may write before wait_for_launches()", "kernel"));
  EXPECT_THAT([&] { launch(true, does_not_wait_first<false, false>); },
              reports("writes before wait_for_launches()", "kernel"));
  launch(true, does_not_wait_first<false, true>);
  launch(false, does_not_wait_first<true, false>);
}

// What comes after it would not wait for what came before it.
TEST_P(EarlyLaunchTest, MustNotEndWithoutWaiting) {
  const Buffer<uint8_t> weights(device_, 64);
  EXPECT_THAT([&] { ASSAY_LAUNCH(device_, one_block(true), never_waits, weights.data()); },
              reports("ends before wait_for_launches()", "never_waits"));
}

}  // namespace
}  // namespace assay::emulated
