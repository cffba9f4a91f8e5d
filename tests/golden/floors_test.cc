#include "assay/golden/floors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/golden/allowed_errors.h"
#include "assay/golden/change.h"
#include "assay/golden/verify.h"
#include "tests/compare/log_files.h"
#include "tests/golden/manifest_text.h"
#include "tests/support/paths.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class FloorsTest : public LogFiles {
 protected:
  void SetUp() override {
    LogFiles::SetUp();
    manifest_ = read_golden_manifest(put("manifest.json", manifest_text()));
  }

  static std::optional<LogHeader> header(const std::string& sha256, const std::string& type = "") {
    LogHeader result;
    result.model = {"tiny", sha256, "llama", type};
    return result;
  }

  GoldenManifest manifest_;
};

TEST_F(FloorsTest, AToleranceIsKTimesTheCheckpointsOwnFloorOrThatOfItsKind) {
  const Policy policy = floor_policy(manifest_, manifest_.files[0]);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_0_output").rel_l2, 3e-6);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_0_output").floor, 1e-6);
  EXPECT_DOUBLE_EQ(*policy.tolerance("layer_1_output").rel_l2, 6e-6);
  EXPECT_DOUBLE_EQ(*policy.tolerance("logits").rel_l2, 1.2e-5);
  EXPECT_FALSE(policy.tolerance("logits").max_abs.has_value());
}

// Values are logged as 32-bit floats: with a tolerance of zero their rounding would fail.
TEST_F(FloorsTest, AFloorOfZeroIsTheRoundingOfALoggedValue) {
  EXPECT_EQ(*floor_policy(manifest_, manifest_.files[0]).tolerance("embedding").rel_l2,
            3 * 0x1p-24);
}

// Breaks if floors that somebody multiplied verify like those that were measured.
TEST_F(FloorsTest, ToleranceThatHonestFloorsDoNotHaveAreNamed) {
  EXPECT_THAT(wide_tolerances(manifest_), testing::IsEmpty());
  GoldenManifest wide = manifest_;
  wide.files[0].floors_by_checkpoint["layer_3_output"]["f32_vs_f64"].max = 2e-6;
  wide.files[0].floors_by_checkpoint["layer_4_q"]["f32_vs_f64"].max = 4e-5;
  wide.files[0].floors_by_checkpoint["layer_5_output"]["f32_vs_f64"].max = 2e-5;
  // Of one number, which may be next to 0.
  wide.files[0].floors_by_checkpoint["layer_4_shared_score"]["f32_vs_f64"].max = 9e-5;
  EXPECT_THAT(wide_tolerances(wide),
              testing::ElementsAre("F32: the floor of 'layer_4_q' (4e-05) is 20 times that of its "
                                   "neighbour 'layer_3_output'"));
  EXPECT_DOUBLE_EQ(allowed_errors(wide)[0].layers, 6e-5);
  EXPECT_DOUBLE_EQ(allowed_errors(wide)[0].logits, 1.2e-5);
  wide = manifest_;
  wide.tolerance.floor = "bf16_vs_f64";  // another arithmetic, of which nothing in the name warns
  EXPECT_THAT(wide_tolerances(wide), testing::Contains(HasSubstr("'logits' may be 0.03 off")));
}

// Largest floor 2.3e-5 (of one number a token 9.6e-5), largest factor between neighbouring
// layers 6.3: the limits are four and one and a half times that.
TEST(Goldens, HaveNoWideTolerance) {
  const std::string folder = source_path("golden");
  for (const std::string& model : golden_models(folder)) {
    const GoldenManifest manifest =
        read_golden_manifest(golden_folder(folder, model) + kManifestName);
    EXPECT_THAT(wide_tolerances(manifest), testing::IsEmpty()) << model;
    EXPECT_THAT(tolerances_beyond_float32(manifest), testing::IsEmpty()) << model;
    for (GoldenFile file : manifest.files) {
      for (auto* floors : {&file.floors, &file.floors_by_checkpoint}) {
        for (auto& [name, all] : *floors) {
          for (auto& [floor, measured] : all) measured.max *= 1e4;
        }
      }
      GoldenManifest gutted = manifest;
      gutted.files = {file};
      EXPECT_THAT(tolerances_beyond_float32(gutted), testing::SizeIs(1)) << model;
    }
  }
}

// A guessed tolerance would let anything pass.
TEST_F(FloorsTest, ACheckpointThatWasNotMeasuredHasNoTolerance) {
  const Policy policy = floor_policy(manifest_, manifest_.files[0]);
  EXPECT_THAT(
      error_of([&] { policy.tolerance("layer_0_q"); }),
      AllOf(HasSubstr("F32 has no floor 'f32_vs_f64' for 'layer_0_q'"), HasSubstr(manifest_.path)));
  EXPECT_THAT(error_of([&] { floor_policy(manifest_, manifest_.files[1], "bf16_vs_f64"); }),
              HasSubstr("Q4_1 has no floor 'bf16_vs_f64'; its floors are f32_vs_f64"));
}

TEST_F(FloorsTest, AnotherFloorCanBeNamed) {
  const Policy policy = floor_policy(manifest_, manifest_.files[0], "bf16_vs_f64");
  EXPECT_DOUBLE_EQ(*policy.tolerance("logits").rel_l2, 3e-2);
}

TEST_F(FloorsTest, TheFileIsChosenByTheHashOrTheTypeInEitherHeader) {
  EXPECT_EQ(fitting_file(manifest_, header(kShaB), {}).type, "Q4_1");
  EXPECT_EQ(fitting_file(manifest_, {}, header(kShaA)).type, "F32");
  EXPECT_EQ(fitting_file(manifest_, header("", "Q4_1"), header("")).type, "Q4_1");
  EXPECT_EQ(fitting_file(manifest_, header("", "Q4_1"), header(kShaB, "?")).type, "Q4_1");
}

// Breaks if the floors of a llama were those of any log in F32, whatever network it says it is of.
TEST_F(FloorsTest, AManifestOfAnotherArchitectureIsAnErrorWithoutAHash) {
  std::optional<LogHeader> other = header("", "Q4_1");
  other->model.arch = "gpt2";
  EXPECT_THAT(error_of([&] { fitting_file(manifest_, other, header("", "Q4_1")); }),
              AllOf(HasSubstr("is of a model of the architecture llama, and a log of one of gpt2"),
                    HasSubstr(manifest_.path)));
  EXPECT_THAT(error_of([&] { fitting_file(manifest_, header(kShaB), other); }),
              HasSubstr("a log of one of gpt2"));
  other->model.type.clear();
  EXPECT_THAT(error_of([&] { fitting_file(manifest_, header(kShaB), other); }),
              HasSubstr("a log of one of gpt2"));
  other = header("", "Q4_1");
  other->model.arch = "LlamaForCausalLM";  // what another tool calls it says nothing
  EXPECT_EQ(fitting_file(manifest_, other, {}).type, "Q4_1");
}

TEST_F(FloorsTest, NoFittingFileIsAnError) {
  const std::string other(64, 'c');
  // The hash counts even where the type would fit.
  EXPECT_THAT(
      error_of([&] { fitting_file(manifest_, header(other, "F32"), {}); }),
      AllOf(HasSubstr(other), HasSubstr("it has tiny in F32, Q4_1"), HasSubstr(manifest_.path)));
  EXPECT_THAT(error_of([&] { fitting_file(manifest_, header(kShaA), header(kShaB)); }),
              HasSubstr("the reference is of F32, the other log of Q4_1"));
  EXPECT_THAT(error_of([&] { fitting_file(manifest_, {}, header("")); }),
              HasSubstr("neither log has a header that names its model"));
}

}  // namespace
}  // namespace assay
