// Steps of a layer that an engine computes in another way, where the kernels here know nothing of
// the catalogue's own edits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

float silu(float x) {
  return x / (1 + std::exp(-x));
}

class OtherActivation : public WrongKernels {
 public:
  explicit OtherActivation(std::function<float(float gate, float up)> f) : f_(std::move(f)) {}

 protected:
  void activate(ActivateCall call) override {
    for (int64_t i = 0; i < call.count; ++i) call.out[i] = f_(call.x[i], call.up[i]);
  }

 private:
  std::function<float(float gate, float up)> f_;
};

class CausesOfSteps : public FaultyLogs {
 protected:
  void expect(const std::string& name, Kernels& wrong, const std::string& cause,
              const std::string& words, double tolerance = 1e-4) {
    const auto model = load(name);
    const auto right = make_reference_kernels();
    for (const char* set : {"ops", "layers", "logits"}) {
      const std::string ref = log(*model, *right, "ref", set);
      const std::string got = log(*model, wrong, "got", set);
      const Comparison comparison = compare(model.get(), ref, got, tolerance);
      ASSERT_THAT(comparison.causes, SizeIs(1)) << set << ": " << comparison.cause_hint;
      EXPECT_EQ(comparison.causes[0].name, cause) << comparison.causes[0].sentence;
      EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(words)) << set;
      EXPECT_GT(comparison.causes[0].explained, 0.99) << set;
    }
  }
};

TEST_F(CausesOfSteps, NamesSwigluWithoutTheOneThatIsAddedToUp) {
  OtherActivation wrong([](float gate, float up) {
    gate = std::min(gate, 7.0F);
    return std::clamp(up, -7.0F, 7.0F) * gate / (1 + std::exp(-1.702F * gate));
  });
  expect("gpt-oss", wrong, "activation_kind", "does not add 1 to up");
}

TEST_F(CausesOfSteps, NamesSwigluWithTheSlopeOfSilu) {
  OtherActivation wrong([](float gate, float up) {
    return (std::clamp(up, -7.0F, 7.0F) + 1) * silu(std::min(gate, 7.0F));
  });
  expect("gpt-oss", wrong, "activation_kind", "its slope is 1 in place of 1.702");
}

TEST_F(CausesOfSteps, NamesAnActivationOfBothBranches) {
  OtherActivation wrong([](float gate, float up) { return silu(gate) * silu(up); });
  expect("tinyllama", wrong, "activation_kind", "activates up as well as gate");
}

}  // namespace
}  // namespace assay
