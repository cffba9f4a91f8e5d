// Launches that are recorded and made again in one go.

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"
#include "tests/emulated/fused_steps.h"

namespace assay {
namespace {

using kernel_testing::Random;
using kernel_testing::TestMatrix;

class RecordingTest : public testing_support::FusedSteps {};
INSTANTIATE_TEST_SUITE_P(Emulated, RecordingTest,
                         testing::ValuesIn(testing_support::emulated_setups()),
                         testing_support::tested_name);
INSTANTIATE_TEST_SUITE_P(Gpu, RecordingTest, testing::ValuesIn(testing_support::cuda_setups()),
                         testing_support::tested_name);

// What is replayed must read what stands in memory then, and be made as often as it is replayed.
TEST_P(RecordingTest, ARecordingIsNotDoneUntilItIsReplayed) {
  const TestMatrix w(TensorType::kF32, 16, 32);
  const auto x = Random(1).floats(32);
  float* at = device_->place(x);
  float* sum = device_->place(std::vector<float>(16));
  float* other = device_->place(std::vector<float>(16));
  const FusedLinear linear = place(w, {});
  const auto recording = fused().record([&] {
    for (float* to : {sum, other, sum, other}) fused().residual({at, linear, to, nullptr});
  });
  EXPECT_EQ(recording->n_nodes(), 4);
  expect(std::vector<float>(16), sum, "before");
  recording->replay();
  const auto once = multiply(w, {}, x);
  std::vector<float> want(16);
  for (int i = 0; i < 2; ++i) cpu_->run(AddCall{want.data(), once.data(), 16, want.data()});
  expect(want, sum, "once");
  kernels_->memory().upload(std::vector<float>(32).data(), 32 * sizeof(float), at);
  recording->replay();
  expect(want, sum, "a vector of zeros adds nothing");
}

// A capture that an error ends must not leave one for the next launch to be blamed for.
TEST_P(RecordingTest, LaunchesGoOnAfterARecordingThatFailed) {
  const TestMatrix w(TensorType::kF32, 16, 32);
  const auto x = Random(1).floats(32);
  float* at = device_->place(x);
  float* sum = device_->place(std::vector<float>(16));
  const FusedLinear linear = place(w, {});
  float host = 0.0F;
  EXPECT_THROW(fused().record([&] {
    fused().residual({at, linear, sum, nullptr});
    kernels_->memory().download(at, sizeof(host), &host);  // which waits, and no capture can
  }),
               Error);
  fused().residual({at, linear, sum, nullptr});
  expect(multiply(w, {}, x), sum, "once");
}

}  // namespace
}  // namespace assay
