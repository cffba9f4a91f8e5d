// A NaN in what no rule of the map takes fails; an infinity may be a mask there.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "assay/compare/compare_logs.h"
#include "assay/compare/name_map.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

class UnmappedNan : public LogFiles {};

// Breaks if a NaN passed because the map does not know, leaves out or does not choose its record.
TEST_F(UnmappedNan, FailsInTheJudgedLogAlone) {
  CompareOptions options;
  options.got_map = NameMap::load(put("map.json", R"({"rules":[
      {"name":"out","to":"logits","take":-1}, {"name":"mask","to":null}]})"));
  const std::string ref = line("logits", 0, {1.5F, 2.5F});
  const auto compare = [&](const std::string& more, const std::string& of_ref = "") {
    return compare_logs(put("ref.jsonl", ref + of_ref),
                        put("got.jsonl", more + line("out", 0, {1.5F, 2.5F})), options);
  };
  const auto record = [](const std::string& name, const std::string& values) {
    return R"({"checkpoint":")" + name + R"(","token_idx":0,"dtype":"f32","shape":[2],"values":[)" +
           values + "]}\n";
  };
  for (const char* name : {"foo", "mask", "layer_0_q", "out"}) {
    const std::string right = record(name, R"("-Infinity",1)");
    const bool is_compared = std::string_view(name) == "layer_0_q";  // Assay's own
    EXPECT_EQ(compare(right).pass, !is_compared) << name;
    const Comparison comparison = compare(record(name, R"("NaN",1)"));
    EXPECT_FALSE(comparison.pass) << name;
    EXPECT_EQ(comparison.failed, 1) << name;
    ASSERT_TRUE(comparison.first_divergence) << name;
    EXPECT_EQ(comparison.first_divergence->checkpoint.name, name);
    EXPECT_EQ(comparison.first_divergence->metric, Metric::kNonfinite);
  }
  const std::string stated = R"({"checkpoint":"foo","token_idx":0,"dtype":"f32","shape":[9],)"
                             R"("values":[1],"n":9,"summary":{"l2":3,"nonfinite":2,"nan":1}})";
  EXPECT_FALSE(compare(stated + "\n").pass) << "elements that are not logged";
  const std::string nan = record("foo", R"("NaN",1)");
  options.ref_map = options.got_map;
  EXPECT_FALSE(compare(nan, record("out", "1.5,2.5")).pass) << "the judged log alone";
  EXPECT_TRUE(compare("", nan + record("out", "1.5,2.5")).pass) << "the reference alone";
}

}  // namespace
}  // namespace assay
