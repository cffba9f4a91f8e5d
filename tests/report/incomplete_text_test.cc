#include "assay/report/incomplete_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;

// Advice is followed here: each flag that a text names must give a verdict.
class IncompleteText : public ComparisonTest {
 protected:
  static std::string tokens(const std::vector<std::string>& checkpoints, int64_t first,
                            int64_t last) {
    std::string log;
    for (int64_t token = first; token <= last; ++token) {
      for (const std::string& checkpoint : checkpoints) {
        log += line(checkpoint, token, waves(8, static_cast<int>(token + 1)));
      }
    }
    return log;
  }
  std::string text(const std::string& ref, const std::string& got) {
    const Comparison comparison = compare(ref, got);
    EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
    return incomplete_text(comparison);
  }
};

const std::vector<std::string> kOps = {"layer_0_q", "layer_0_output", "layer_1_q", "layer_1_output",
                                       "logits"};

TEST_F(IncompleteText, NamesTheCountTheFirstAndTheReason) {
  EXPECT_THAT(
      text(tokens(kOps, 0, 2), tokens({"layer_0_output", "layer_1_output", "logits"}, 0, 2)),
      testing::AllOf(HasSubstr("got.jsonl: 6 records of "),
                     HasSubstr("ref.jsonl are unproven, the first layer_0_q at token 0: it "
                               "is missing in the other log; log it, narrow the "
                               "comparison to what was logged with --checkpoints layers, "
                               "or accept what is missing with --allow-missing 'layer_*_q'")));
}

TEST_F(IncompleteText, CheckpointsThatItNamesGiveAVerdict) {
  const std::string ref = tokens(kOps, 0, 2);
  const std::string layers = tokens({"layer_0_output", "layer_1_output", "logits"}, 0, 2);
  EXPECT_THAT(text(ref, layers), HasSubstr("--checkpoints layers,"));
  options_.selection.set_checkpoints("layers", "--checkpoints");
  EXPECT_TRUE(compare(ref, layers).pass);

  options_ = {};
  const std::string logits = tokens({"logits"}, 0, 2);
  EXPECT_THAT(text(ref, logits), HasSubstr("--checkpoints logits,"));
  options_.selection.set_checkpoints("logits", "--checkpoints");
  EXPECT_TRUE(compare(ref, logits).pass);

  options_ = {};
  const std::string q = tokens({"layer_0_q", "layer_1_q", "logits"}, 0, 2);
  EXPECT_THAT(text(ref, q), HasSubstr("--checkpoints 'layer_*_q,logits',"));
  options_.selection.set_checkpoints("layer_*_q,logits", "--checkpoints");
  EXPECT_TRUE(compare(ref, q).pass);
}

TEST_F(IncompleteText, TokensThatItNamesGiveAVerdict) {
  const std::string ref = tokens(kOps, 0, 5);
  const std::string got = tokens(kOps, 0, 2);
  EXPECT_THAT(text(ref, got), HasSubstr("with --tokens 0..2, or accept"));
  options_.selection.set_tokens("0..2", "--tokens");
  EXPECT_TRUE(compare(ref, got).pass);
}

// Breaks if a range were named in which records are missing still.
TEST_F(IncompleteText, NamesNoRangeThatHasGaps) {
  const std::string ref = tokens(kOps, 0, 5);
  const std::string text_of_gap = text(ref, tokens(kOps, 0, 2) + tokens(kOps, 4, 5));
  EXPECT_THAT(text_of_gap, Not(HasSubstr("--tokens 0")));
  EXPECT_THAT(text_of_gap, Not(HasSubstr("--checkpoints l")));
  EXPECT_THAT(text_of_gap, HasSubstr("to what was logged with --checkpoints and --tokens"));
}

TEST_F(IncompleteText, TheGapThatItNamesCanBeAccepted) {
  const std::string ref = tokens(kOps, 0, 2);
  const std::string got = tokens({"layer_0_output", "layer_1_output", "logits"}, 0, 2);
  EXPECT_THAT(text(ref, got), HasSubstr("--allow-missing 'layer_*_q'"));
  options_.allow_missing = {"layer_*_q"};
  const Comparison accepted = compare(ref, got);
  EXPECT_TRUE(accepted.pass);
  EXPECT_EQ(accepted.evidence.excused, 6);
  EXPECT_EQ(incomplete_text(accepted), "");
}

// Breaks if a narrower comparison were advised where records are there, and what they hold is not
// enough.
TEST_F(IncompleteText, PartsCanBeAccepted) {
  options_.whole_required = true;
  const std::string head =
      R"({"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[9],"values":[1,2,3],"n":9})"
      "\n";
  EXPECT_THAT(text(head, head), testing::EndsWith("log all values, or a sketch, on both sides, or "
                                                  "accept parts with --evidence any"));
  options_.whole_required = false;
  EXPECT_TRUE(compare(head, head).pass);
}

// Breaks if a failure were played down as a gap.
TEST_F(IncompleteText, IsEmptyWhereSomethingFailed) {
  const Comparison failed = compare(line("layer_0_q", 0, {1, 2}) + line("layer_0_k", 0, {1, 2}),
                                    line("layer_0_q", 0, {1, 3}));
  ASSERT_EQ(failed.failed, 1);
  ASSERT_EQ(failed.evidence.unproven, 1);
  EXPECT_EQ(incomplete_text(failed), "");
  EXPECT_EQ(incomplete_advice(failed), "");
}

// Breaks if a name in a log could end the line or command the terminal.
TEST_F(IncompleteText, NamesAreQuotedForTheShell) {
  const std::string odd = "$(x)\x1b[2J'";
  const std::string ref = line("logits", 0, {1, 2}) +
                          R"({"checkpoint":"$(x)\u001b[2J'","token_idx":0,"dtype":"f32",)"
                          R"("shape":[2],"values":[1,2]})"
                          "\n";
  const std::string shown = text(ref, line("logits", 0, {1, 2}));
  EXPECT_THAT(shown, Not(HasSubstr("\x1b")));
  EXPECT_THAT(shown, Not(HasSubstr("--allow-missing $(x)")));
}

// Breaks if what does not help is advised: --allow-missing for logits that are there.
TEST_F(IncompleteText, ALimitOfKlTakesAllValues) {
  options_.policy = Policy::from_file(
      put("p.json", R"({"default": {"rel_l2": 0.01}, "checkpoints": {"logits": {"kl": 0.1}}})"));
  const std::string part = line("logits", 0, waves(8), ",\"n\":16");
  EXPECT_THAT(text(part, part), testing::AllOf(HasSubstr("log all values on both sides"),
                                               testing::Not(HasSubstr("--allow-missing"))));
  options_ = {};
  options_.whole_required = true;
  const std::string zeros = line("logits", 0, {0, 0, 0});
  EXPECT_THAT(text(zeros + line("layer_0_output", 0, waves(8)),
                   zeros + line("layer_0_output", 0, waves(8))),
              HasSubstr("check that both engines ran"));
}

// Breaks if advice asked for what the record has, or for what cannot help.
TEST_F(IncompleteText, AdviceIsThatOfTheReason) {
  const std::string right = line("embedding", 0, waves(8));
  const std::string infinite = right + line("layer_0_q", 0, std::vector<float>(8, INFINITY));
  EXPECT_THAT(text(infinite, infinite), HasSubstr("check that both engines compute it"));
  const std::string empty = right + line("layer_0_q", 0, {});
  EXPECT_THAT(text(empty, empty), HasSubstr("it has no elements; check its shape"));
  const auto summary = [&](int argmax) {
    return right + line("logits", 0, {},
                        fmt::format(R"(,"n":100000,"summary":{{"l2":1000,"argmax":{0},)"
                                    R"("top":[[{0},5],[{1},4.999]]}})",
                                    argmax, argmax + 1));
  };
  EXPECT_THAT(text(summary(7), summary(9)),
              HasSubstr("does not list the other's, so that nothing shows whether these are level; "
                        "log all values of it on both sides"));
}

// Breaks if a flag were advised that accepts nothing of what is there.
TEST_F(IncompleteText, WhatIsThereIsNotToBeAllowedMissing) {
  const std::string right = line("embedding", 0, waves(8));
  const std::string bare = line("layer_0_q", 0, {}, R"(,"n":8)");
  EXPECT_THAT(text(right + bare, right + bare),
              testing::EndsWith("log values, a sketch or a summary of it on both sides, or leave "
                                "such records out with --checkpoints or --tokens"));
  const std::string lost = line("layer_0_k", 0, waves(8));
  EXPECT_THAT(text(right + bare + lost, right + bare),
              testing::EndsWith("with --allow-missing 'layer_*_k'"));
}

// Breaks if a newcomer who logs the first values of [T, H] were told to log values.
TEST_F(IncompleteText, RowsOfAHeadNeedAllValues) {
  const std::string head =
      R"({"checkpoint":"embedding","token_idx":0,"dtype":"f32","shape":[4,8],"n":32,)"
      R"("values":[1,2,3,4]})"
      "\n";
  const std::string advice = text(head, head);
  EXPECT_THAT(advice, HasSubstr("the first embedding at token 1"));
  EXPECT_THAT(advice, HasSubstr("log all values, or a record for each token"));
  // A sketch of all rows is on both sides, and shows none of them.
  const std::string sketch =
      R"({"checkpoint":"embedding","token_idx":0,"dtype":"f32","shape":[4,8],"n":32,"values":[],)"
      R"("summary":{"min":-1,"max":1,"mean":0,"l2":2,"nonfinite":0}})"
      "\n";
  const std::string other = text(sketch, sketch);
  EXPECT_THAT(other, HasSubstr("the first embedding at token 0"));
  EXPECT_THAT(other, HasSubstr("whose sketch and summary show none of its rows: log all values, or "
                               "a record for each token"));
}

TEST_F(IncompleteText, AfterASplitTheOtherEngineIsToFollow) {
  const auto log = [&](int seed, float second) {
    std::string all = R"({"assay":1,"tokens":[1,2]})"
                      "\n";
    for (int token = 0; token < 4; ++token) {
      const bool apart = token > 1;
      all += line("embedding", token, waves(8, token + (apart ? seed : 0)));
      all += line("logits", token,
                  {5, token == 1 ? second : 1.0F, static_cast<float>(apart ? seed : 0)});
    }
    return all;
  };
  options_.whole_required = true;
  const std::string advice = text(log(20, 4.99999F), log(30, 5.00001F));
  EXPECT_THAT(advice, HasSubstr("the first embedding at token 2"));
  EXPECT_THAT(advice, HasSubstr("assay run MODEL --follow "));
  EXPECT_THAT(advice, HasSubstr("--tokens ..1"));
}

}  // namespace
}  // namespace assay
