// Which flips of experts are near ties, and what they excuse.
#include "assay/compare/expert_flips.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <map>

#include "assay/compare/evidence.h"
#include "tests/compare/comparison_case.h"

namespace assay {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Two tokens of a network of three layers, of which layer 1 has four experts and uses two. The
// second and the third expert are a near tie at token 0.
class ExpertFlipsTest : public ComparisonTest {
 protected:
  using Log = std::map<std::pair<int, std::string>, std::vector<float>>;  // by token and name

  ExpertFlipsTest() {
    int seed = 0;
    for (const int token : {0, 1}) {
      for (const char* name : kNames) ref_[{token, name}] = waves(16, ++seed);
      ref_[{token, "layer_1_router"}] = {3, 2.0001F, 2, -1};
      ref_[{token, "layer_1_experts"}] = {0, 1};
      ref_[{token, "layer_1_expert_weights"}] = {0.731F, 0.269F};
    }
    got_ = ref_;
    got_[{0, "layer_1_router"}] = {3, 2, 2.0001F, -1};
  }

  static constexpr const char* kNames[] = {"embedding",          "layer_0_output",
                                           "layer_1_attn",       "layer_1_router",
                                           "layer_1_experts",    "layer_1_expert_weights",
                                           "layer_1_ffn_gate",   "layer_1_expert_out",
                                           "layer_1_shared_out", "layer_1_output",
                                           "layer_2_q",          "layer_2_attn",
                                           "layer_2_output",     "logits"};

  static constexpr const char* kByExpert[] = {"layer_1_expert_weights", "layer_1_ffn_gate",
                                              "layer_1_expert_out"};

  // The other expert, and with it all else that it computes.
  void flip() {
    got_[{0, "layer_1_experts"}] = {0, 2};
    for (const char* name : {"layer_1_ffn_gate", "layer_1_expert_out", "layer_1_output",
                             "layer_2_q", "layer_2_attn", "layer_2_output", "logits"}) {
      negate(0, name);
    }
    for (const char* name : {"layer_2_attn", "layer_2_output", "logits"}) negate(1, name);
  }

  void negate(int token, const char* name) {
    for (float& value : got_[{token, name}]) value = -value;
  }

  void swap_halves(const char* name) {
    std::vector<float>& values = got_[{0, name}];
    std::rotate(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  }

  Comparison compare_both() { return compare(text(ref_), text(got_)); }

  std::string text(const Log& log) const {
    std::string all;
    for (const int token : {0, 1}) {
      for (const char* name : kNames) {
        const auto found = log.find({token, name});
        if (found != log.end()) all += line(name, token, found->second, rest_[name]);
      }
    }
    return all;
  }

  // What fails, by name and token.
  static std::vector<std::string> failures(const Comparison& comparison) {
    std::vector<std::string> names;
    for (const RecordResult& result : comparison.results) {
      if (!result.failed()) continue;
      const CheckpointName& name = comparison.checkpoints[static_cast<size_t>(result.checkpoint)];
      names.push_back(fmt::format("{} {}", name.name, result.token_idx));
    }
    return names;
  }

  static const RecordResult& choice(const Comparison& comparison) {
    return *std::ranges::find_if(comparison.results, [&](const RecordResult& result) {
      return is_experts(comparison.checkpoints[static_cast<size_t>(result.checkpoint)]);
    });
  }

  void expect_fault(const std::string& reason) {
    const Comparison comparison = compare_both();
    EXPECT_FALSE(comparison.pass);
    EXPECT_THAT(comparison.flips, IsEmpty());
    EXPECT_TRUE(choice(comparison).failed());
    EXPECT_EQ(choice(comparison).failing_metric, Metric::kMargin);
    EXPECT_THAT(std::string(choice(comparison).reason), HasSubstr(reason));
    EXPECT_EQ(choice(comparison).reason.empty(), reason.empty());
    EXPECT_EQ(count_after_flips(comparison), 0) << "nothing is excused after a fault";
  }

  Log ref_;
  Log got_;
  mutable std::map<std::string, std::string> rest_;  // of the lines of a checkpoint
};

// Breaks if an honest engine fails because two experts were level, or if a wrong value that does
// not follow from them were excused.
TEST_F(ExpertFlipsTest, NearTiePassesAndExcusesWhatFollows) {
  flip();
  const Comparison comparison = compare_both();
  EXPECT_EQ(comparison.verdict, Verdict::kTieFlip);
  EXPECT_TRUE(comparison.pass);
  EXPECT_THAT(failures(comparison), IsEmpty());
  ASSERT_EQ(comparison.flips.size(), 1);
  const ExpertFlip& flip = comparison.flips[0];
  EXPECT_EQ(flip.ref_expert, 1);
  EXPECT_EQ(flip.got_expert, 2);
  EXPECT_NEAR(flip.margin, 1e-4, 1e-6);
  EXPECT_NEAR(flip.error, 2e-4, 3e-6);
  EXPECT_FALSE(flip.same_experts);
  EXPECT_EQ(comparison.evidence.excused, 10);
  EXPECT_EQ(comparison.evidence.whole, 18);
  EXPECT_EQ(count_after_flips(comparison), 10);
}

TEST_F(ExpertFlipsTest, OnlyWhatReadsTheExpertsIsExcused) {
  flip();
  negate(0, "layer_1_attn");
  negate(0, "layer_1_shared_out");
  negate(1, "layer_1_output");
  negate(1, "layer_2_q");
  EXPECT_THAT(failures(compare_both()), ElementsAre("layer_1_attn 0", "layer_1_shared_out 0",
                                                    "layer_1_output 1", "layer_2_q 1"));
}

// Breaks if a flip in the last layer excused the tokens after it, which never see it.
TEST_F(ExpertFlipsTest, LaterTokensDoNotReadTheLastLayer) {
  flip();
  for (Log* log : {&ref_, &got_}) {
    std::erase_if(*log,
                  [](const auto& entry) { return entry.first.second.starts_with("layer_2"); });
  }
  EXPECT_THAT(failures(compare_both()), ElementsAre("logits 1"));
}

TEST_F(ExpertFlipsTest, RecordsOfUnknownNamesFollowInTheOrderOfTheLog) {
  flip();
  const auto with = [&](const Log& log, float scale) {
    std::string all;
    std::istringstream lines(text(log));
    for (std::string one; std::getline(lines, one);) {
      all += one + "\n";
      const int token = one.find("\"token_idx\":0") != std::string::npos ? 0 : 1;
      for (const char* after : {"layer_1_attn", "layer_1_ffn_gate", "layer_2_q", "layer_2_attn"}) {
        if (one.find(fmt::format("\"{}\"", after)) == std::string::npos) continue;
        all += line(after + std::string("_more"), token, {scale, 2, 3, 4});
      }
    }
    return all;
  };
  EXPECT_THAT(failures(compare(with(ref_, 1), with(got_, -1))),
              ElementsAre("layer_1_attn_more 0", "layer_1_attn_more 1", "layer_1_ffn_gate_more 1",
                          "layer_2_q_more 1"));
}

// Breaks if an engine that picks any other expert passed.
TEST_F(ExpertFlipsTest, AWideMarginIsAFault) {
  flip();
  got_[{0, "layer_1_experts"}] = {0, 3};
  expect_fault("own router prefers other experts");
  got_[{0, "layer_1_router"}] = {3, -1.9F, -1.8F, -1.7F};
  expect_fault("not compared there");  // that router fails
}

// Breaks if the error of one expert's logit explained a flip between two others.
TEST_F(ExpertFlipsTest, TheErrorIsThatOfTheExpertsSwapped) {
  flip();
  ref_[{0, "layer_1_router"}] = {3, 2.02F, 2, -1};
  got_[{0, "layer_1_router"}] = {3.03F, 2.02F, 2, -1};
  expect_fault("own router prefers other experts");
}

// Breaks if the whole tolerance of a router may go into two of its logits.
TEST_F(ExpertFlipsTest, TheErrorIsNoMoreThanTheToleranceLeavesToOneElement) {
  std::vector<float> router(256, 1.0F);
  router[0] = 2;
  router[1] = 1.3F;
  router[2] = 1.2F;
  ref_[{0, "layer_1_router"}] = router;
  router[2] = 1.31F;
  got_[{0, "layer_1_router"}] = router;
  flip();
  expect_fault("");
  router[2] = 1.2F;
  router[1] = 1.23F;
  ref_[{0, "layer_1_router"}] = router;
  router[1] = 1.19F;
  got_[{0, "layer_1_router"}] = router;
  EXPECT_TRUE(compare_both().pass) << "0.03 apart, of the 0.04 that 1 % leaves to one of 256";
}

TEST_F(ExpertFlipsTest, WithoutTheRouterInBothAFlipIsAFault) {
  flip();
  for (Log* log : {&ref_, &got_}) {
    const Log before = *log;
    log->erase({0, "layer_1_router"});
    expect_fault("not compared there");
    *log = before;
  }
  options_.selection.set_checkpoints("layer_1_experts,logits", "");
  expect_fault("not compared there");
}

TEST_F(ExpertFlipsTest, AHeadOfTheRouterShowsWhatItHolds) {
  flip();
  rest_["layer_1_router"] = ",\"n\":64";
  EXPECT_TRUE(compare_both().pass);
  ref_[{0, "layer_1_router"}].resize(2);
  expect_fault("does not tell the router's logits");
}

// The judged log does not have the logits of the experts swapped: what is known of the error holds.
TEST_F(ExpertFlipsTest, AnUnknownLogitOfTheJudgedLogIsOffByTheKnownError) {
  flip();
  rest_["layer_1_router"] = ",\"n\":64";
  got_[{0, "layer_1_router"}] = {3.00003F};
  EXPECT_TRUE(compare_both().pass);
  got_[{0, "layer_1_router"}] = {3.0000003F};
  expect_fault("");
}

TEST_F(ExpertFlipsTest, NanProvesNothing) {
  flip();
  const Log before = got_;
  got_[{0, "layer_1_router"}][1] = std::numeric_limits<float>::quiet_NaN();
  expect_fault("not compared there");
  ref_[{0, "layer_1_router"}][1] = std::numeric_limits<float>::quiet_NaN();
  expect_fault("not compared there");
  ref_[{0, "layer_1_router"}][1] = 2.0001F;
  got_ = before;
  got_[{1, "layer_2_output"}][3] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(failures(compare_both()), ElementsAre("layer_2_output 1"))
      << "what follows from a flip may be no NaN";
}

TEST_F(ExpertFlipsTest, IdsMustBeThoseOfExperts) {
  flip();
  for (const std::vector<float>& ids :
       std::vector<std::vector<float>>{{0, 4}, {0, -1}, {0, 0}, {0, 1.5F}, {0, 1e30F}}) {
    got_[{0, "layer_1_experts"}] = ids;
    expect_fault("not all ids are logged, or they are not those of experts");
  }
  got_[{0, "layer_1_experts"}] = {0, 2};
  rest_["layer_1_experts"] = ",\"n\":3";
  expect_fault("not all ids are logged");
}

// A bias or groups decide beside the logits: nothing shows how near two experts were.
TEST_F(ExpertFlipsTest, AChoiceThatTheLogitsDoNotDecideHasNoMargin) {
  flip();
  ref_[{0, "layer_1_experts"}] = {0, 3};
  expect_fault("does not follow from its router's logits alone");
}

TEST_F(ExpertFlipsTest, AContradictionAfterAFlipFails) {
  flip();
  const std::string ref = text(ref_);
  rest_["layer_2_output"] =
      R"(,"summary":{"min":-9,"max":9,"mean":0,"l2":90,"argmax":0,"top":[[0,9]],"nonfinite":0})";
  EXPECT_THAT(failures(compare(ref, text(got_))),
              ElementsAre("layer_2_output 0", "layer_2_output 1"));
}

// Breaks if a log that is wrong beside its own router were excused by a flip before it.
TEST_F(ExpertFlipsTest, AfterAFlipAChoiceIsStillHeldToItsRouter) {
  flip();
  got_[{1, "layer_1_experts"}] = {0, 3};
  EXPECT_THAT(failures(compare_both()), ElementsAre("layer_1_experts 1"));
}

TEST_F(ExpertFlipsTest, SameExpertsInAnotherOrderAreComparedById) {
  got_[{0, "layer_1_experts"}] = {1, 0};
  got_[{0, "layer_1_router"}] = {3, 2.0001F, 2, -1};
  EXPECT_THAT(failures(compare_both()),
              ElementsAre("layer_1_expert_weights 0", "layer_1_ffn_gate 0", "layer_1_expert_out 0"))
      << "each expert has what the other one computed";
  for (const char* name : kByExpert) swap_halves(name);
  for (const bool strict : {false, true}) {
    options_.strict_argmax = strict;
    const Comparison comparison = compare_both();
    EXPECT_EQ(comparison.verdict, Verdict::kMatch);
    EXPECT_EQ(comparison.evidence.whole, 28);
    ASSERT_EQ(comparison.flips.size(), 1);
    EXPECT_TRUE(comparison.flips[0].same_experts);
    EXPECT_EQ(comparison.flips[0].ref_expert, 0);
    EXPECT_EQ(comparison.flips[0].got_expert, 1);
  }
  for (Log* log : {&ref_, &got_}) log->erase({0, "layer_1_router"});
  EXPECT_TRUE(compare_both().pass) << "the weights show which expert is which";
}

// Which expert a weight belongs to is not shown without weights.
TEST_F(ExpertFlipsTest, WithoutWeightsAnotherOrderTakesANearTie) {
  got_[{0, "layer_1_router"}] = {3, 2.0001F, 2, -1};
  got_[{0, "layer_1_experts"}] = {1, 0};
  for (const char* name : kByExpert) swap_halves(name);
  for (Log* log : {&ref_, &got_}) log->erase({0, "layer_1_expert_weights"});
  expect_fault("");
  ref_[{0, "layer_1_router"}] = {2.0001F, 2, 1, -1};
  got_[{0, "layer_1_router"}] = {2, 2.0001F, 1, -1};
  for (const bool strict : {false, true}) {
    options_.strict_argmax = strict;
    const Comparison comparison = compare_both();
    EXPECT_EQ(comparison.verdict, Verdict::kTieFlip);
    EXPECT_TRUE(comparison.pass);
    ASSERT_EQ(comparison.flips.size(), 1);
    EXPECT_TRUE(comparison.flips[0].same_experts);
  }
}

// Breaks if an error in what the experts computed were excused because parts of it are logged.
TEST_F(ExpertFlipsTest, HeadsAndSummariesAreComparedByIdToo) {
  got_[{0, "layer_1_experts"}] = {1, 0};
  for (const char* name : kByExpert) swap_halves(name);
  // Of sixteen elements twelve, and of a thousandfold log the same: the second expert's first four.
  const auto both = [&](float scale, const std::string& ref_more, const std::string& got_more) {
    Log ref = ref_;
    Log got = got_;
    for (float& value : got[{0, "layer_1_expert_out"}]) value *= scale;
    for (Log* log : {&ref, &got}) (*log)[{0, "layer_1_expert_out"}].resize(12);
    rest_["layer_1_expert_out"] = ",\"n\":16" + ref_more;
    const std::string ref_text = text(ref);
    rest_["layer_1_expert_out"] = ",\"n\":16" + got_more;
    Comparison comparison = compare(ref_text, text(got));
    rest_.clear();
    return comparison;
  };
  const Comparison honest = both(1, "", "");
  EXPECT_TRUE(honest.pass) << testing::PrintToString(failures(honest));
  EXPECT_EQ(honest.evidence.excused, 0);
  EXPECT_GE(honest.evidence.partial, 1);
  EXPECT_THAT(failures(both(1.1F, "", "")), ElementsAre("layer_1_expert_out 0"));
}

// The parts that both log are of other experts.
TEST_F(ExpertFlipsTest, OfPartsOfOtherExpertsTheSummaryIsCompared) {
  got_[{0, "layer_1_experts"}] = {1, 0};
  for (const char* name : kByExpert) swap_halves(name);
  const auto with = [&](Log log, const std::string& more) {
    log[{0, "layer_1_expert_out"}].resize(4);
    rest_["layer_1_expert_out"] = ",\"n\":16" + more;
    log.erase({1, "layer_1_expert_out"});
    return text(log);
  };
  const Comparison nothing = compare(with(ref_, ""), with(got_, ""));
  EXPECT_EQ(nothing.verdict, Verdict::kIncomplete);
  EXPECT_THAT(nothing.evidence.first_unproven->reason, HasSubstr("listed in another order"));
  const auto summary = [](double l2, int index) {
    return fmt::format(
        R"(,"summary":{{"min":-1,"max":2,"mean":0.1,"l2":{2},"argmax":{0},"top":[[{0},2],[{1},1]],"nonfinite":0}})",
        index, index + 1, l2);
  };
  EXPECT_TRUE(compare(with(ref_, summary(4, 13)), with(got_, summary(4, 5))).pass);
  for (const std::string& wrong : {summary(5, 5), summary(4, 13)}) {
    EXPECT_THAT(failures(compare(with(ref_, summary(4, 13)), with(got_, wrong))),
                testing::Contains("layer_1_expert_out 0"));
  }
}

TEST_F(ExpertFlipsTest, StrictArgmaxLetsNoExpertFlip) {
  flip();
  options_.strict_argmax = true;
  const Comparison comparison = compare_both();
  EXPECT_EQ(choice(comparison).status, Verdict::kTieFlip);
  EXPECT_TRUE(choice(comparison).failed());
  EXPECT_EQ(count_after_flips(comparison), 0);
}

TEST_F(ExpertFlipsTest, WholeEvidenceIsIncompleteAfterAFlip) {
  flip();
  options_.whole_required = true;
  const Comparison comparison = compare_both();
  EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
  EXPECT_EQ(comparison.evidence.unproven, 10);
  EXPECT_EQ(comparison.evidence.first_unproven->reason, kAfterFlip);
}

// Breaks if a policy for the layers let other experts pass as numbers that are near.
TEST_F(ExpertFlipsTest, NoPolicyMakesIdsNear) {
  options_.policy = Policy([](const std::string&) {
    Tolerance wide;
    wide.rel_l2 = 0.9;
    return wide;
  });
  got_[{0, "layer_1_experts"}] = {0, 3};
  expect_fault("own router prefers other experts");
}

// Breaks if the tokens that follow another choice of tokens failed, or if a flip hid the split.
TEST_F(ExpertFlipsTest, GenerationsMayPartAfterAFlip) {
  flip();
  for (int token : {1}) {
    for (const char* name : kNames) negate(token, name);
  }
  got_[{1, "layer_1_experts"}] = {2, 3};
  const std::string header = R"({"assay":1,"model":{"name":"m"},"tokens":[7]})"
                             "\n";
  const Comparison comparison = compare(header + text(ref_), header + text(got_));
  ASSERT_TRUE(comparison.split);
  EXPECT_EQ(comparison.split->token_idx, 1);
  EXPECT_EQ(comparison.split->left_out, 14);
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.flips.size(), 1);
  EXPECT_EQ(count_after_flips(comparison), 7);
}

TEST_F(ExpertFlipsTest, AReplayedRoutingIsTold) {
  const std::string header =
      R"({"assay":1,"model":{"name":"m"},"tokens":[7],"routing":"replayed"})";
  const Comparison comparison = compare(text(ref_), header + "\n" + text(got_));
  EXPECT_THAT(comparison.warnings, testing::Contains(HasSubstr("not the engine's own choice")));
}

// Four tokens, of which the last sees two positions besides those that no score tells apart: its
// indexer's scores are the keys.
class PositionFlipsTest : public ComparisonTest {
 protected:
  static std::string log(float second, float third, const std::vector<float>& chosen,
                         float attended) {
    const std::vector<float> keys = {2, second, third, 0.25F};
    std::string text;
    for (int token = 0; token < 4; ++token) {
      const auto at = static_cast<size_t>(token);
      text += line("layer_0_index_q_rope", token, {1, -1}) +
              line("layer_0_index_k_rope", token, {keys[at]}) +
              line("layer_0_index_weights", token, {1, 1}) +
              line("layer_0_indexed", token,
                   token == 3 ? chosen : std::vector<float>{0, token == 0 ? -1.0F : 1.0F});
      const float other = token == 3 ? attended : 1;
      for (const char* name : {"layer_0_attn", "layer_0_output", "layer_1_q"}) {
        text += line(name, token, {other, 2, 3, static_cast<float>(token)});
      }
    }
    return text;
  }
};

// Breaks if a choice between positions that are level were held against an engine, or one between
// those that are not, excused.
TEST_F(PositionFlipsTest, ANearTieOfPositionsIsNoFault) {
  const std::string ref = log(1.000002F, 1, {0, 1}, 1);
  const Comparison level = compare(ref, log(1, 1.000002F, {0, 2}, -1));
  EXPECT_TRUE(level.pass);
  ASSERT_EQ(level.flips.size(), 1U);
  EXPECT_EQ(level.flips[0].ref_expert, 1);
  EXPECT_EQ(level.flips[0].got_expert, 2);
  EXPECT_EQ(count_after_flips(level), 3) << "attention and what follows at that token";
  // The positions that its own scores do not prefer.
  EXPECT_FALSE(compare(ref, log(1.000002F, 1, {0, 2}, -1)).pass);
  // What is far apart, in scores that are right; and what is not level in the reference.
  EXPECT_FALSE(compare(ref, log(1, 1.5F, {0, 2}, -1)).pass);
  EXPECT_FALSE(compare(log(1.5F, 1, {0, 1}, 1), log(1.5F, 1, {0, 2}, -1)).pass);
  // Without the choice nothing excuses attention.
  EXPECT_FALSE(compare(ref, log(1, 1.000002F, {0, 1}, -1)).pass);
  // Nor without the scores.
  const auto without = [](std::string text) {
    for (size_t at = 0; (at = text.find("index_weights", at)) != std::string::npos;) {
      text.replace(at, 13, "other_weights");
    }
    return text;
  };
  EXPECT_FALSE(compare(without(ref), without(log(1, 1.000002F, {0, 2}, -1))).pass);
}

}  // namespace
}  // namespace assay
