// assay compare --policy golden/MODEL/manifest.json

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/cli/program.h"
#include "tests/golden/manifest_text.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// The floors of layer_0_output and logits in manifest_text() are 1e-6 and 4e-6, k is 3.
class CompareFloors : public Program {
 protected:
  void SetUp() override {
    Program::SetUp();
    manifest_ = put("manifest.json", manifest_text());
    ref_ = log("ref.jsonl", kShaA, 0, 0);
  }

  // Values of 1 with an error of so many floors in relative L2.
  std::string log(const std::string& name, const std::string& sha256, double layer, double logits) {
    return put(name, header(sha256) + line("layer_0_output", 0, values(layer * 1e-6)) +
                         line("logits", 0, values(logits * 4e-6)));
  }
  static std::vector<float> values(double rel_l2) {
    return {static_cast<float>(1 + rel_l2 * 2), 1, 1, 1};
  }
  static std::string header(const std::string& sha256) {
    return R"({"assay":1,"model":{"name":"tiny","sha256":")" + sha256 +
           "\",\"arch\":\"llama\",\"type\":\"F32\"},\"tokens\":[1]}\n";
  }
  std::vector<std::string> compare(const std::string& got, const std::string& format = "table") {
    return {"compare", ref_, got, "--policy", manifest_, "--format", format};
  }

  std::string manifest_;
  std::string ref_;
};

TEST_F(CompareFloors, ErrorsAreHeldToKTimesTheFloorAndToldAsMultiplesOfIt) {
  const Outcome noise = run(compare(log("noise.jsonl", kShaA, 2.5, 2.5)));
  EXPECT_EQ(noise.exit_code, 0) << noise.out << noise.err;
  EXPECT_THAT(noise.out, AllOf(StartsWith("IN PARITY  noise"), HasSubstr("x floor")));
  // The built-in tolerance of 1e-2 would let this pass.
  const Outcome drift = run(compare(log("drift.jsonl", kShaA, 2.5, 4)));
  EXPECT_EQ(drift.exit_code, 1);
  EXPECT_THAT(drift.out, AllOf(StartsWith("DIVERGED  drift"),
                               HasSubstr("first divergence  logits at token 0: rel_l2 1.6"),
                               HasSubstr("x the floor, 3 x is allowed"),
                               HasSubstr("would pass with   4 x the floor\n")));
  const Outcome wrong = run(compare(log("wrong.jsonl", kShaA, 0.5, 1000)));
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_THAT(wrong.out, StartsWith("DIVERGED  wrong"));
  EXPECT_THAT(run(compare(ref_)).out, StartsWith("IN PARITY  match"));
}

TEST_F(CompareFloors, JsonAndCsvHaveThemOnlyWhereThereAreFloors) {
  const std::string got = log("got.jsonl", kShaA, 2.5, 4);
  const std::string json = run(compare(got, "json")).out;
  EXPECT_THAT(json, AllOf(HasSubstr("\"floor\":1e-06,\"x_floor\":2.50"),
                          HasSubstr("\"floor\":4e-06,\"x_floor\":3.99")));
  const std::string csv = run(compare(got, "csv")).out;
  EXPECT_THAT(
      csv, AllOf(HasSubstr(",status,tolerance,evidence,floor,x_floor\n"), HasSubstr(",1e-06,2.5")));
  EXPECT_THAT(run({"compare", ref_, got, "--format", "json"}).out, Not(HasSubstr("floor")));
  EXPECT_THAT(run({"compare", ref_, got, "--format", "csv"}).out, Not(HasSubstr("floor")));
  EXPECT_THAT(run({"compare", ref_, got}).out,
              AllOf(StartsWith("IN PARITY  noise: "), Not(HasSubstr("x floor"))));
}

TEST_F(CompareFloors, AnotherFloorCanBeNamed) {
  ref_ = put("ref.jsonl", header(kShaA) + line("logits", 0, values(0)));
  const std::string got = put("got.jsonl", header(kShaA) + line("logits", 0, values(2e-2)));
  EXPECT_EQ(run(compare(got)).exit_code, 1);
  auto arguments = compare(got);
  arguments.insert(arguments.end(), {"--floor", "bf16_vs_f64"});
  EXPECT_EQ(run(arguments).exit_code, 0);
  EXPECT_THAT(run(arguments).out, HasSubstr("--floor bf16_vs_f64"));
  arguments.back() = "f8_vs_f64";
  expect_error(arguments, manifest_ +
                              ": F32 has no floor 'f8_vs_f64'; its floors are bf16_vs_f64, "
                              "f32_vs_f64");
  expect_error({"compare", ref_, got, "--floor", "bf16_vs_f64"},
               "--floor: there are no floors without a manifest; give --policy "
               "golden/MODEL/manifest.json with it");
}

// Breaks if the error kept back floors that the flag takes.
TEST_F(CompareFloors, AnUnknownFloorListsThoseOfFastToo) {
  const std::string golden = source_path("golden/granite/");
  const auto error = [&](const std::string& type) {
    const std::string log = golden + type + ".jsonl";
    return run({"compare", log, log, "--policy", golden + "manifest.json", "--floor", "nosuch"})
        .err;
  };
  EXPECT_THAT(error("q4_k_m"), HasSubstr("its floors are assay_fast_vs_f64, f32_vs_f64"));
}

TEST_F(CompareFloors, NoFittingModelOrFloorIsAClearError) {
  const std::string other(64, 'c');
  const std::string got = log("got.jsonl", other, 0, 0);
  expect_error(compare(got), manifest_ + ": a log is of the model tiny F32 " + other +
                                 ", for which the manifest has no floors; it has tiny in F32, "
                                 "Q4_1: give the manifest of the model that ran");
  ref_ = put("ref.jsonl", line("logits", 0, {1}));
  expect_error(compare(ref_),
               manifest_ +
                   ": neither log has a header that names its model, so it is unknown whose "
                   "floors apply; compare with a golden's log, or give a policy with tolerances "
                   "instead");
  ref_ = put("ref.jsonl", header(kShaA) + line("layer_0_q", 0, {1}));
  expect_error(compare(ref_), manifest_ +
                                  ": F32 has no floor 'f32_vs_f64' for 'layer_0_q'; leave it out "
                                  "of the logs, or record the golden with it");
}

TEST_F(CompareFloors, AnOldManifestIsNotTakenForAPolicy) {
  put("manifest.json", manifest_text({{"\"schema\": 2", "\"schema\": 1"}}));
  expect_error(compare(ref_),
               manifest_ + ": 'schema' is 1, this program reads 2; record the golden again");
}

}  // namespace
}  // namespace assay
