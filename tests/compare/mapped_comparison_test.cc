#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "assay/compare/compare_logs.h"
#include "assay/compare/name_map.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class MappedComparison : public LogFiles {
 protected:
  NameMap file(const std::string& json) { return NameMap::load(put("map.json", json)); }
};

// llama.cpp gives a projection one name before and after its rotation.
TEST_F(MappedComparison, SelectsOneOfSeveralRecordsOfAName) {
  const std::string ref = put(
      "ref.jsonl", line("layer_0_q", 1, {1, 2, 3, 4}) + line("layer_0_q_rope", 1, {4, 3, 2, 1}));
  const std::string got = put(
      "got.jsonl", line("Qcur-0", 1, {9, 9, 9, 9}) +  // without its bias
                       line("Qcur-0", 1, {1, 2, 3, 4}) + line("Qcur-0", 1, {4, 3, 2, 1}) +
                       line("norm-0", 1, {1}) + line("norm-0", 1, {2}) + line("strange", 1, {2}));
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, {}); }), HasSubstr("logged before"));
  CompareOptions options;
  options.got_map = NameMap::load("llama.cpp");
  const Comparison comparison = compare_logs(ref, got, options);
  EXPECT_EQ(comparison.verdict, Verdict::kMatch);
  EXPECT_EQ(comparison.compared, 2);
  EXPECT_EQ(comparison.unmatched_got, 0);
  ASSERT_EQ(comparison.warnings.size(), 1U);
  EXPECT_THAT(comparison.warnings[0],
              HasSubstr("1 name is not known to the map and left out: strange"));
}

// Breaks if a rule hid a layer without a word.
TEST_F(MappedComparison, WarnsOfOwnNamesThatItLeavesOut) {
  CompareOptions options;
  options.ref_map = options.got_map =
      file(R"({"rules":[{"name":"layer_0_output","to":null},{"name":"scratch","to":null}]})");
  const std::string log = line("logits", 0, {1.5F, 2.5F}) + line("scratch", 0, {1.5F, 2.5F}) +
                          line("layer_0_output", 0, {1.5F, 2.5F});
  const Comparison comparison = compare_logs(put("ref.jsonl", log), put("got.jsonl", log), options);
  ASSERT_EQ(comparison.warnings.size(), 2U);
  EXPECT_THAT(comparison.warnings[0],
              HasSubstr("ref.jsonl: 1 name is Assay's own, but mapped to null and left out: "
                        "layer_0_output"));
}

// Breaks if half of a tensor were compared with nothing without a word, or its NaN passed.
TEST_F(MappedComparison, WarnsOfPartsThatNoRuleTakes) {
  CompareOptions options;
  options.ref_map = options.got_map =
      file(R"({"rules":[{"name":"layer_0_q","to":"layer_0_q","part":"1/2"}]})");
  const std::string ref = put("ref.jsonl", line("layer_0_q", 0, {1, 2, 3, 4}));
  const std::string got = put("got.jsonl", line("layer_0_q", 0, {1, 2, -9, 7}));
  const Comparison half = compare_logs(ref, got, options);
  EXPECT_EQ(half.verdict, Verdict::kMatch);
  ASSERT_EQ(half.warnings.size(), 2U);
  EXPECT_THAT(half.warnings[0], HasSubstr("ref.jsonl: 1 name is mapped in part, and the rest of "
                                          "the tensor is left out: layer_0_q"));
  const std::string nan = put("nan.jsonl", line("layer_0_q", 0, {1, 2, 3, NAN}));
  EXPECT_EQ(compare_logs(ref, nan, options).verdict, Verdict::kWrong);
  options.ref_map = options.got_map =
      file(R"({"rules":[{"name":"layer_0_q","to":"layer_0_q","part":"1/3"},
          {"name":"layer_0_q","to":"layer_0_k","part":"4/6"},
          {"name":"layer_0_q","to":"layer_0_v","part":"2/3"},
          {"name":"layer_0_q","to":"layer_0_attn","part":"3/3"}]})");
  const std::string fused = put("fused.jsonl", line("layer_0_q", 0, {1, 2, 3, 4, 5, 6}));
  EXPECT_THAT(compare_logs(fused, fused, options).warnings, IsEmpty());
}

// Breaks if one of two records of a checkpoint were left out without a word.
TEST_F(MappedComparison, WarnsOfOwnRecordsThatTakePassesOver) {
  CompareOptions options;
  options.ref_map = options.got_map =
      file(R"({"rules":[{"name":"layer_0_output","to":"layer_0_output","take":0}]})");
  const std::string right = line("layer_0_output", 0, {1.5F, 2.5F});
  const std::string ref = put("ref.jsonl", right + right);
  const std::string got = put("got.jsonl", right + line("layer_0_output", 0, {-7.5F, 9.5F}));
  const Comparison first = compare_logs(ref, got, options);
  EXPECT_EQ(first.verdict, Verdict::kMatch);
  ASSERT_EQ(first.warnings.size(), 2U);
  EXPECT_THAT(first.warnings[1],
              HasSubstr("got.jsonl: 1 name is Assay's own, but 'take' prefers another record of "
                        "the token, and left out: layer_0_output"));
}

// Breaks if records vanished without a word, or a name of which none was taken counted as there.
TEST_F(MappedComparison, WarnsOfTooFewRecordsToSelectFrom) {
  CompareOptions options;
  options.ref_map = options.got_map =
      file(R"({"rules":[{"name":"a","to":"logits","take":5},{"name":"b","to":"embedding"}]})");
  const std::string log = line("a", 0, {1.5F, 2.5F});
  const std::string ref = put("ref.jsonl", log + line("b", 0, {1.5F, 2.5F}));
  const std::string got = put("got.jsonl", log + line("b", 0, {-7.5F, 9.5F}));
  const Comparison same = compare_logs(ref, ref, options);
  EXPECT_EQ(same.compared, 1);
  EXPECT_EQ(same.unmatched_ref, 1);
  EXPECT_EQ(same.unmatched_got, 1);
  ASSERT_EQ(same.warnings.size(), 2U);
  EXPECT_THAT(same.warnings[0],
              HasSubstr("ref.jsonl: 1 record is missing that the map takes from several of one "
                        "name: there are too few, first for logits at token 0"));
  // The difference starts the search for an offset, by a name that both have.
  EXPECT_EQ(compare_logs(ref, got, options).verdict, Verdict::kWrong);
  const std::string alone = put("alone.jsonl", log);
  EXPECT_THAT(error_of([&] { compare_logs(alone, alone, options); }),
              HasSubstr("no record in common"));
}

// Breaks if a norm of heads that a file lacks counted as lost, or a bias that it has were passed
// over.
TEST_F(MappedComparison, SelectsFromAllNamesOfACheckpoint) {
  const std::string log = line("up", 0, {1}) + line("up_b", 0, {2}) + line("up", 1, {3});
  CompareOptions options;
  options.got_map = file(R"({"rules":[{"name":"up","to":"layer_0_ffn_up","take":-1},
      {"name":"up_b","to":"layer_0_ffn_up","take":-1},
      {"name":"up","to":"layer_0_ffn_gate","take":2,"optional":true}]})");
  const std::string ref =
      put("ref.jsonl", line("layer_0_ffn_up", 0, {2}) + line("layer_0_ffn_up", 1, {3}));
  const Comparison comparison = compare_logs(ref, put("got.jsonl", log), options);
  EXPECT_EQ(comparison.verdict, Verdict::kMatch);
  EXPECT_EQ(comparison.compared, 2);
  EXPECT_EQ(comparison.unmatched_got, 0);
  EXPECT_THAT(comparison.warnings, IsEmpty());
}

TEST_F(MappedComparison, ComparesRowsOfQInFileOrder) {
  const std::string ref =
      put("ref.jsonl", "{\"assay\":1,\"model\":{\"arch\":\"llama\"}}\n" +
                           line("layer_0_q", 0, {0, 2, 1, 3}) + line("logits", 0, {1, 2}));
  const std::string got =
      put("got.jsonl",
          line("model.layers.0.self_attn.q_proj", 0, {0, 1, 2, 3}) + line("lm_head", 0, {1, 2}));
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, {}); }), HasSubstr("give --map transformers"));
  CompareOptions options;
  options.got_map = NameMap::load("transformers");
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, options); }), HasSubstr("head_dim=64"));
  options.got_map = NameMap::load("transformers:head_dim=4");
  const Comparison comparison = compare_logs(ref, got, options);
  EXPECT_EQ(comparison.verdict, Verdict::kMatch);
  EXPECT_EQ(comparison.compared, 2);
  options.got_map = NameMap::load("transformers:head_dim=8");
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, options); }),
              AllOf(HasSubstr("got.jsonl:1: 'model.layers.0.self_attn.q_proj' has 4 elements"),
                    HasSubstr("head_dim")));
}

// Breaks if the order of rows were guessed: that makes a right llama diverge.
TEST_F(MappedComparison, RequiresTheArchitectureWhereRowOrderDependsOnIt) {
  const std::string ref =
      put("ref.jsonl", line("layer_0_q", 0, {0, 2, 1, 3}) + line("logits", 0, {1, 2}));
  const std::string got =
      put("got.jsonl",
          line("model.layers.0.self_attn.q_proj", 0, {0, 1, 2, 3}) + line("lm_head", 0, {1, 2}));
  CompareOptions options;
  options.got_map = NameMap::load("transformers");
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, options); }),
              AllOf(HasSubstr("transformers: what 'model.layers.0.self_attn.q_proj' is depends on "
                              "the architecture"),
                    HasSubstr("give --map transformers:arch=A, with ,head_dim=64"),
                    HasSubstr("A is one of afmoe, apertus, arcee, ")));
  options.got_map = NameMap::load("transformers:head_dim=4");
  EXPECT_THAT(error_of([&] { compare_logs(ref, got, options); }), HasSubstr("arch=A"));
  options.got_map = NameMap::load("transformers:arch=llama,head_dim=4");
  EXPECT_EQ(compare_logs(ref, got, options).verdict, Verdict::kMatch);
  options.got_map = NameMap::load("transformers:arch=qwen2");
  EXPECT_EQ(compare_logs(ref, got, options).verdict, Verdict::kWrong);
  // Where no name depends on it nothing is asked.
  const std::string layers =
      put("got.jsonl", line("model.layers.0", 0, {0, 1}) + line("model.rotary_emb", 0, {1, 2}));
  options.got_map = NameMap::load("transformers");
  EXPECT_EQ(
      compare_logs(put("ref.jsonl", line("layer_0_output", 0, {0, 1})), layers, options).verdict,
      Verdict::kMatch);
}

// Breaks if the map were not suggested where raw names stop a comparison or go through it.
TEST_F(MappedComparison, SuggestsAMapForRawNames) {
  const std::string twice = line("Qcur-0", 0, {1, 2}) + line("Qcur-0", 0, {3, 4});
  const std::string raw = put("raw.jsonl", twice);
  EXPECT_THAT(error_of([&] { compare_logs(raw, raw, {}); }), HasSubstr("give --map llama.cpp"));
  const std::string ours = put("ours.jsonl", line("logits", 0, {1, 2, 3}));
  const std::string theirs = put("theirs.jsonl", line("result_output", 0, {1, 2, 3}));
  CompareOptions options;
  options.selection.set_checkpoints("logits", "--checkpoints");
  EXPECT_THAT(error_of([&] { compare_logs(ours, theirs, options); }),
              HasSubstr("give --map llama.cpp"));
  EXPECT_THAT(compare_logs(theirs, theirs, {}).warnings,
              testing::ElementsAre(HasSubstr("give --map llama.cpp")));
}

TEST_F(MappedComparison, ALogOfAnotherEngineHasNoKnownNames) {
  const std::string log = put("ref.jsonl", line("x", 0, {1}));
  CompareOptions options;
  options.ref_map = options.got_map = NameMap::load("llama.cpp");
  EXPECT_THAT(error_of([&] { compare_logs(log, log, options); }),
              HasSubstr("the map knows none of the log's names"));
}

}  // namespace
}  // namespace assay
