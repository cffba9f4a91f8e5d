// Rotations by wrong positions, and by angles in half precision, through the whole network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "kernels/half.h"
#include "tests/causes/logits_logs.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

double in_bf16(double x) {
  return float_from_bf16(bf16_from_float(static_cast<float>(x)));
}
double in_f16(double x) {
  return float_from_f16(f16_from_float(static_cast<float>(x)));
}

struct OtherAngle {
  const char* name;
  double (*angle)(double position, double frequency);  // NaN: cosine and sine are 0
  const char* cause;
  const char* words;
};

// The rotation of tinyllama's golden by other angles.
class OtherAngles : public WrongKernels {
 public:
  explicit OtherAngles(const OtherAngle& other) : other_(other) {}

 protected:
  void rope(RopeCall call) override {
    std::vector<float> table;
    for (int64_t t = 0; t < call.n_tokens; ++t) {
      for (int64_t i = 0; i < call.rotary_dim; i += 2) {
        const double share = static_cast<double>(i) / static_cast<double>(call.rotary_dim);
        const auto position = static_cast<double>(call.site.first_position + t);
        const double angle = other_.angle(position, std::pow(10000.0, -share));
        table.push_back(std::isnan(angle) ? 0.0F : static_cast<float>(std::cos(angle)));
        table.push_back(std::isnan(angle) ? 0.0F : static_cast<float>(std::sin(angle)));
      }
    }
    call.cos_sin = table.data();
    right_->run(call);
  }

 private:
  OtherAngle other_;
};

class RotaryAngles : public LogitsLogs, public testing::WithParamInterface<OtherAngle> {};

TEST_P(RotaryAngles, AreNamed) {
  const auto model = load("tinyllama");
  OtherAngles wrong(GetParam());
  const Comparison comparison = compare(
      model.get(), log(logits_of(*model, *make_reference_kernels()), "ref", LogitsForm::kAll),
      log(logits_of(*model, wrong), "got", LogitsForm::kAll), 1e-6);
  ASSERT_THAT(comparison.causes, SizeIs(1)) << comparison.cause_hint;
  EXPECT_EQ(comparison.causes[0].name, GetParam().cause);
  EXPECT_THAT(comparison.causes[0].sentence, HasSubstr(GetParam().words));
  // What begins at a token of its own is less sure.
  const bool is_tail = std::string_view(GetParam().words).starts_with("from token");
  EXPECT_GT(comparison.causes[0].confidence, is_tail ? 0.75 : 0.9);
}

INSTANTIATE_TEST_SUITE_P(
    , RotaryAngles,
    testing::Values(
        OtherAngle{"missing", [](double, double) { return 0.0; }, "rope_missing",
                   "does not rotate"},
        OtherAngle{"part_of_a_prompt", [](double p, double f) { return std::fmod(p, 5) * f; },
                   "rope_position", "counts from position 0 again every 5 positions"},
        OtherAngle{"second_part", [](double p, double f) { return (p < 7 ? p : p - 7) * f; },
                   "rope_position", "counts from position 0 again at position 7"},
        OtherAngle{"end_of_the_table", [](double p, double f) { return std::min(p, 9.0) * f; },
                   "rope_position", "stays at position 9 from there on"},
        OtherAngle{"zeros_behind_the_table", [](double p, double f) { return p < 9 ? p * f : NAN; },
                   "rope_position", "has cosines and sines of 0 from position 9 on"},
        OtherAngle{"later_chunk", [](double p, double f) { return (p < 8 ? p : p + 1) * f; },
                   "rope_position", "rotates by position +1 from position 8 on"},
        OtherAngle{"another_factor", [](double p, double f) { return p / 1.05 * f; },
                   "rope_scaling", "rotates by 0.9524 times the position"},
        OtherAngle{"a_factor_from_a_position_on",
                   [](double p, double f) { return (p < 7 ? p : p / 1.05) * f; }, "rope_scaling",
                   "from token 7 on every layer's q_rope, like k_rope, rotates by 0.9524 times"},
        OtherAngle{"frequencies_in_bf16", [](double p, double f) { return p * in_bf16(f); },
                   "rounding", "rounds the rotary frequencies to bf16"},
        OtherAngle{"angles_in_f16", [](double p, double f) { return in_f16(p * f); }, "rounding",
                   "rounds the rotary angles to f16"}),
    [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace assay
