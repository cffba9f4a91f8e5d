// compare --own-error: each record held to what the model gives for the inputs in its own log.
#include "assay/causes/own_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "assay/log/log_reader.h"
#include "tests/causes/faulty_logs.h"

namespace assay {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr double kLimit = 1e-6;

class OwnErrorsOfLogs : public FaultyLogs {
 protected:
  // What is changed of a record; false leaves it out.
  using Edit = std::function<bool(Record&)>;

  std::string right(const std::string& name, const std::string& checkpoints = "ops",
                    int64_t values = kAllValues) {
    model_ = load(name);
    return log(*model_, *make_reference_kernels(), "right", checkpoints, values);
  }
  std::string faulty(const std::string& name, Kernels& kernels,
                     const std::string& checkpoints = "ops") {
    model_ = load(name);
    return log(*model_, kernels, "faulty", checkpoints);
  }

  std::string edited(const std::string& path, const Edit& edit, const std::string& header = "") {
    LogReader reader(path);
    std::string text;
    while (const Record* read = reader.next()) {
      if (text.empty()) {
        text = header.empty() ? contents(path).substr(0, contents(path).find('\n') + 1) : header;
      }
      Record record = *read;
      if (edit(record)) text += line(record.checkpoint, record.token_idx, record.values);
    }
    return put("edited", text);
  }
  static Edit at(const std::string& checkpoint, int64_t token_idx, const Edit& edit) {
    return [=](Record& record) {
      const bool is_here = record.checkpoint == checkpoint && record.token_idx == token_idx;
      return !is_here || edit(record);
    };
  }
  static bool leave_out(Record&) { return false; }

  Comparison judge(const std::string& ref, const std::string& got, double limit = kLimit,
                   CompareOptions options = {}) {
    Comparison comparison = compare_logs(ref, got, options);
    judge_own_errors(*model_, options, {.limit = limit, .is_alone = ref == got}, comparison);
    find_causes(model_.get(), comparison);
    return comparison;
  }
  Comparison judge_alone(const std::string& log) { return judge(log, log); }

  // "layer_1_v@3", where it is the first failure, and by its own error.
  static std::string first_failure(const Comparison& comparison) {
    if (!comparison.first_divergence) return "none";
    const FirstDivergence& first = *comparison.first_divergence;
    EXPECT_EQ(first.metric, Metric::kOwnError);
    EXPECT_FALSE(comparison.pass);
    EXPECT_EQ(comparison.own_errors->first_failed->checkpoint.name, first.checkpoint.name);
    EXPECT_EQ(comparison.own_errors->first_failed->token_idx, first.token_idx);
    return first.checkpoint.name + "@" + std::to_string(first.token_idx);
  }
  static std::string first_unproven(const Comparison& comparison) {
    EXPECT_EQ(comparison.verdict, Verdict::kIncomplete);
    EXPECT_FALSE(comparison.pass);
    const auto& first = comparison.evidence.first_unproven;
    return first ? first->checkpoint.name + "@" + std::to_string(first->token_idx) : "none";
  }

  std::shared_ptr<Model> model_;
};

// Breaks if an op of a network were held to another one's, or a set of checkpoints that an honest
// engine logs called incomplete.
TEST_F(OwnErrorsOfLogs, AreNoiseInRightLogsOfAllNetworks) {
  for (const char* name : {"tinyllama", "gpt2", "phi2", "cohere2", "falcon", "gemma3", "mixtral",
                           "deepseek2", "gpt-oss", "smollm3", "olmo2"}) {
    for (const char* checkpoints :
         {"ops", "layers", "logits", "layer_*_attn", "layer_*_residual,final_norm"}) {
      if (std::string(checkpoints).find("residual") != std::string::npos &&
          load(name)->config().find(Checkpoint::kAttnResidual) == nullptr) {
        continue;
      }
      const std::string right_log = right(name, checkpoints);
      const Comparison comparison = judge_alone(right_log);
      EXPECT_TRUE(comparison.pass) << name << " " << checkpoints;
      ASSERT_TRUE(comparison.own_errors) << name;
      EXPECT_EQ(comparison.own_errors->held, std::ssize(comparison.results)) << name;
      EXPECT_EQ(comparison.own_errors->not_held, 0) << name << " " << checkpoints;
      EXPECT_LT(comparison.own_errors->largest->value, kLimit) << name << " " << checkpoints;
      if (std::string(checkpoints).find('*') != std::string::npos) continue;
      EXPECT_THAT(comparison.warnings, testing::IsEmpty()) << name << " " << checkpoints;
      CompareOptions demanding;
      demanding.selection.set_checkpoints(checkpoints, "--checkpoints");
      EXPECT_TRUE(judge(right_log, right_log, kLimit, demanding).pass) << name << checkpoints;
    }
  }
}

// Breaks if what follows from a mistake were charged with it, or the mistake passed because the
// reference has it, too.
TEST_F(OwnErrorsOfLogs, NameTheOpThatIsWrongAndNothingElse) {
  for (const Checkpoint checkpoint : {Checkpoint::kV, Checkpoint::kFfnGate, Checkpoint::kAttnOut}) {
    Negated wrong(checkpoint, 1);
    const std::string path = faulty("tinyllama", wrong);
    const Comparison comparison = judge_alone(path);
    const std::string name = checkpoint_name(checkpoint, 1);
    EXPECT_EQ(first_failure(comparison), name + "@0");
    EXPECT_EQ(comparison.own_errors->failed, 12);
    EXPECT_NEAR(comparison.own_errors->largest->value, 2, 1e-3);
    EXPECT_THAT(comparison.cause_hint,
                HasSubstr(name + " is not what the model gives for layer_1"));
    for (const RecordResult& result : comparison.results) {
      const std::string& other = comparison.checkpoints[size_t(result.checkpoint)].name;
      EXPECT_EQ(result.failed(), other == name) << other;
    }
  }
}

// Breaks if a layer were taken for right because the ops within it are not logged.
TEST_F(OwnErrorsOfLogs, OfLayersAloneNameTheLayer) {
  Negated wrong(Checkpoint::kV, 1);
  const Comparison comparison = judge_alone(faulty("tinyllama", wrong, "layers"));
  EXPECT_EQ(first_failure(comparison), "layer_1_output@0");
  for (const RecordResult& result : comparison.results) {
    EXPECT_EQ(result.failed(),
              comparison.checkpoints[size_t(result.checkpoint)].name == "layer_1_output");
  }
  EXPECT_THAT(comparison.cause_hint, HasSubstr("what the model gives for layer_0_output"));
}

TEST_F(OwnErrorsOfLogs, HoldARightReferenceAndAWrongLog) {
  const std::string ref = right("tinyllama");
  const std::string got = edited(ref, at("layer_1_attn", 7, [](Record& record) {
                                   for (float& value : record.values) value *= 1.001F;
                                   return true;
                                 }));
  EXPECT_TRUE(compare_logs(ref, got, {}).pass);
  const Comparison comparison = judge(ref, got);
  EXPECT_EQ(first_failure(comparison), "layer_1_attn@7");
  EXPECT_NEAR(comparison.own_errors->largest->value, 1e-3, 1e-5);
  // What is computed from it is right for what it would have been.
  EXPECT_EQ(comparison.own_errors->failed, 2);
}

TEST_F(OwnErrorsOfLogs, NoNumberIsNoNoise) {
  const std::string ref = right("tinyllama");
  for (const float value : {std::nanf(""), INFINITY}) {
    const std::string got = edited(ref, at("layer_1_attn", 7, [&](Record& record) {
                                     record.values[3] = value;
                                     return true;
                                   }));
    const Comparison comparison = judge(got, got);
    EXPECT_FALSE(comparison.pass);
    EXPECT_EQ(comparison.own_errors->first_failed->checkpoint.name, "layer_1_attn");
    EXPECT_TRUE(std::isnan(comparison.own_errors->largest->value));
    // Its reader is held to nothing.
    EXPECT_EQ(comparison.own_errors->first_not_held->checkpoint.name, "layer_1_attn_out");
    EXPECT_EQ(comparison.own_errors->not_held, 1);
  }
}

// Breaks if a log that is compared with itself passed without what it lacks on both sides.
TEST_F(OwnErrorsOfLogs, OfALogAloneDemandEveryLayerAndToken) {
  const std::string ref = right("tinyllama");
  const auto drop = [&](const Edit& is_kept) {
    const std::string got = edited(ref, is_kept);
    return first_unproven(judge(got, got));
  };
  EXPECT_EQ(drop([](Record& r) { return !r.checkpoint.starts_with("layer_0_"); }),
            "layer_0_attn_norm@0");
  EXPECT_EQ(drop([](Record& r) { return r.checkpoint != "layer_1_k"; }), "layer_1_k@0");
  EXPECT_EQ(drop([](Record& r) { return r.token_idx != 5; }), "embedding@5");
  EXPECT_EQ(drop([](Record& r) { return r.token_idx != 0; }), "embedding@0");
  EXPECT_EQ(drop([](Record& r) { return r.token_idx != 11; }), "embedding@11");
  EXPECT_EQ(drop(at("logits", 3, leave_out)), "logits@3");
  EXPECT_EQ(drop(at("layer_0_ffn_act", 4, leave_out)), "layer_0_ffn_act@4");
  // A reference says itself what there should be.
  const std::string got = edited(ref, at("layer_0_ffn_act", 4, leave_out));
  EXPECT_TRUE(judge(got, ref).pass);
}

TEST_F(OwnErrorsOfLogs, OfALogAloneTheLastStepsMayBeOfTheLastTokenAlone) {
  const std::string ref = right("tinyllama");
  const auto is_of_last_steps = [](const Record& record) {
    return record.checkpoint == "logits" || record.checkpoint == "final_norm";
  };
  const std::string last = edited(
      ref, [&](Record& record) { return !is_of_last_steps(record) || record.token_idx == 11; });
  EXPECT_TRUE(judge(last, last).pass);
  const std::string two = edited(
      ref, [&](Record& record) { return record.checkpoint != "logits" || record.token_idx >= 10; });
  EXPECT_EQ(first_unproven(judge(two, two)), "logits@0");
}

// Breaks if a kind of checkpoint that was asked for could be missing in all layers.
TEST_F(OwnErrorsOfLogs, OfALogAloneDemandEachKindThatIsNamed) {
  const std::string ref = right("tinyllama");
  const std::string got =
      edited(ref, [](Record& r) { return !r.checkpoint.ends_with("_ffn_norm"); });
  const auto judge_for = [&](const std::string& checkpoints) {
    CompareOptions options;
    options.selection.set_checkpoints(checkpoints, "--checkpoints");
    return judge(got, got, kLimit, options);
  };
  const Comparison named = judge_for("ops");
  EXPECT_EQ(first_unproven(named), "layer_0_ffn_norm@0");
  // In the last layer after the last attention, which no other position reads.
  EXPECT_EQ(named.evidence.unproven, 12 + 1);
  EXPECT_TRUE(judge_for("layers").pass);
  // The header says that all was to be logged. Where none does, all that the model computes is.
  EXPECT_EQ(first_unproven(judge(got, got)), "layer_0_ffn_norm@0");
  const auto keep = [](Record&) { return true; };
  const auto header_with = [&](const std::string& checkpoints) {
    std::string header = contents(ref).substr(0, contents(ref).find('\n') + 1);
    const std::string all = ",\"checkpoints\":\"ops\"";
    return header.replace(header.find(all), all.size(), checkpoints);
  };
  const std::string silent = edited(got, keep, header_with(""));
  EXPECT_EQ(first_unproven(judge(silent, silent)), "layer_0_ffn_norm@0");
  const auto judge_stated = [&](const Edit& edit, const std::string& checkpoints) {
    const std::string log = edited(ref, edit, header_with(checkpoints));
    return judge(log, log);
  };
  const auto is_q = [](Record& r) { return r.checkpoint.ends_with("_q"); };
  EXPECT_TRUE(judge_stated(is_q, R"(,"checkpoints":"layer_*_q")").pass);
  EXPECT_EQ(first_unproven(judge_stated(is_q, R"(,"checkpoints":"layer_*_q,logits")")),
            "logits@11");
  // One that does not name all that is logged is not believed.
  EXPECT_EQ(first_unproven(judge_stated(is_q, R"(,"checkpoints":"layer_0_q")")), "embedding@0");
  // Of a set of which all kinds are there the header may still say that more was to be.
  const auto is_of_layers = [](Record& r) {
    return r.checkpoint == "embedding" || r.checkpoint == "logits" ||
           r.checkpoint.ends_with("_output");
  };
  const std::string layers = edited(ref, is_of_layers);
  EXPECT_EQ(first_unproven(judge(layers, layers)), "layer_0_attn_norm@0");
  const std::string unknown = edited(layers, keep, header_with(""));
  EXPECT_TRUE(judge(unknown, unknown).pass);
  const std::string last = edited(ref, [](Record& r) { return r.checkpoint != "logits"; });
  CompareOptions all;
  all.selection.set_checkpoints("ops", "--checkpoints");
  EXPECT_EQ(first_unproven(judge(last, last, kLimit, all)), "logits@11");
}

// Breaks if an engine that goes on with another token than its logits choose were not found out.
TEST_F(OwnErrorsOfLogs, TokensAfterThePromptAreThoseThatTheLogitsChoose) {
  const auto header = [](const std::string& more) {
    return R"({"assay":1,"model":{"name":"","sha256":"","arch":"llama","type":""},)"
           R"("tokens":[1,45,120,7,201,33])" +
           more + "}\n";
  };
  const auto keep = [](Record&) { return true; };
  const std::string ref = right("tinyllama");
  const std::string other = put("other", contents(edited(ref, keep, header(""))));
  const Comparison alone = judge_alone(other);
  EXPECT_EQ(first_unproven(alone), "embedding@6");
  EXPECT_THAT(alone.evidence.first_unproven->reason, HasSubstr("the logits before it choose"));
  EXPECT_EQ(alone.own_errors->failed, 0);
  const Comparison copy = judge(put("copy", contents(other)), other);
  EXPECT_TRUE(copy.pass);
  EXPECT_THAT(copy.warnings, testing::ElementsAre(HasSubstr("other: at token 6 embedding: "
                                                            "its token is not the one")));
  EXPECT_TRUE(judge_alone(edited(ref, keep, header(R"(,"sampling":"temp 1")"))).pass);
  // With what the logits choose.
  for (size_t next = 6; next < prompt_.size(); ++next) {
    LogReader reader(right("tinyllama", "logits"));
    while (const Record* record = reader.next()) {
      if (record->token_idx + 1 != static_cast<int64_t>(next)) continue;
      prompt_[next] =
          static_cast<int32_t>(std::ranges::max_element(record->values) - record->values.begin());
    }
  }
  const std::string greedy = right("tinyllama");
  const Comparison chosen = judge_alone(edited(greedy, keep, header("")));
  EXPECT_TRUE(chosen.pass);
  EXPECT_THAT(chosen.warnings, testing::IsEmpty());
}

TEST_F(OwnErrorsOfLogs, WhatIsAllowedToBeMissingIsExcused) {
  const std::string ref = right("tinyllama");
  const std::string got = edited(ref, [](Record& r) { return r.checkpoint != "layer_1_k"; });
  CompareOptions options;
  options.allow_missing = {"layer_*_k"};
  EXPECT_TRUE(judge(got, got, kLimit, options).pass);
  CompareOptions narrowed;
  narrowed.selection.set_checkpoints("layer_*_v,layer_*_output", "--checkpoints");
  const Comparison comparison = judge(got, got, kLimit, narrowed);
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.own_errors->held, 48);
}

// Breaks if records of which a part is logged were taken for held.
TEST_F(OwnErrorsOfLogs, HeadsAreCountedAndProveNothingOfALogAlone) {
  const std::string ref = right("tinyllama");
  const auto with_heads = [](Record& record) {
    const std::string& name = record.checkpoint;
    if (name == "layer_0_attn") record.values.resize(10);
    return true;
  };
  std::string text = contents(edited(ref, with_heads));
  for (size_t i = text.find("\"layer_0_attn\""); i != std::string::npos;
       i = text.find("\"layer_0_attn\"", i + 1)) {
    const size_t shape = text.find("[1,10]", i);
    text.replace(shape, 6, "[1,128]");
  }
  const std::string got = put("heads", text);
  const Comparison alone = judge(got, got);
  EXPECT_EQ(first_unproven(alone), "layer_0_attn@0");
  EXPECT_EQ(alone.own_errors->not_held, 12);
  CompareOptions allowed;
  allowed.allow_missing = {"layer_*_attn"};
  EXPECT_EQ(first_unproven(judge(got, got, kLimit, allowed)), "layer_0_attn@0") << "it is there";
  EXPECT_THAT(alone.own_errors->first_not_held->reason, HasSubstr("only a part"));
  // What follows is computed through it.
  EXPECT_LT(alone.own_errors->largest->value, kLimit);
  EXPECT_TRUE(judge(ref, got).pass);
  const std::string heads = right("tinyllama", "ops", 10);
  EXPECT_THAT(error_of([&] { judge(heads, heads); }),
              AllOf(HasSubstr("no record can be held"),
                    HasSubstr("of the first, embedding at token "
                              "0, only a part of its values"),
                    HasSubstr("--checkpoints ops --values all")));
}

TEST_F(OwnErrorsOfLogs, KnowTheTokensOfTheHeader) {
  const std::string ref = right("tinyllama", "ops");
  std::string header = contents(ref).substr(0, contents(ref).find('\n') + 1);
  header.replace(header.find("120"), 3, "121");
  const std::string other = edited(
      ref, [](Record&) { return true; }, header);
  EXPECT_EQ(first_failure(judge(other, other)), "embedding@2");
  // Without them the embedding can be held to nothing, and all that follows from it to it.
  const std::string none = edited(
      ref, [](Record&) { return true; },
      R"({"assay":1,"model":{"name":"","sha256":"","arch":"llama","type":""},"tokens":[]})"
      "\n");
  const Comparison comparison = judge(none, none);
  EXPECT_EQ(first_unproven(comparison), "embedding@0");
  EXPECT_EQ(comparison.own_errors->not_held, 12);
  EXPECT_EQ(comparison.own_errors->failed, 0);
}

TEST_F(OwnErrorsOfLogs, PositionsThatAreSwappedAreFound) {
  const std::string ref = right("tinyllama");
  const std::string got = edited(ref, [](Record& record) {
    if (record.token_idx == 3 || record.token_idx == 8) record.token_idx = 11 - record.token_idx;
    return true;
  });
  EXPECT_EQ(first_failure(judge(got, got)), "embedding@3");
}

TEST_F(OwnErrorsOfLogs, AnotherModelIsNotTheLogs) {
  const std::string got = right("tinyllama");
  model_ = load("tinyllama", "q8_0");  // of the same sizes
  EXPECT_EQ(first_failure(judge(got, got)), "embedding@0");
  model_ = load("gpt2");
  EXPECT_THAT(error_of([&] { judge(got, got); }),
              HasSubstr("give the model that both engines ran"));
}

TEST_F(OwnErrorsOfLogs, ExpertsAreHeldByTheRouterOfTheLog) {
  const std::string ref = right("mixtral");
  std::vector<float> router;
  const std::string got = edited(ref, [&](Record& record) {
    if (record.token_idx != 4) return true;
    if (record.checkpoint == "layer_0_router") router = record.values;
    if (record.checkpoint != "layer_0_experts") return true;
    const auto least = std::ranges::min_element(router) - router.begin();
    record.values[0] = static_cast<float>(least);
    return true;
  });
  const Comparison comparison = judge(ref, got);
  EXPECT_EQ(comparison.own_errors->first_failed->checkpoint.name, "layer_0_experts");
  EXPECT_EQ(comparison.own_errors->first_failed->token_idx, 4);
  EXPECT_GT(comparison.own_errors->first_failed->value, 1e-2);
  // The same experts in another order are the same choice; what has their order is not.
  const std::string turned = edited(ref, [](Record& record) {
    if (record.checkpoint == "layer_0_experts") std::ranges::reverse(record.values);
    return true;
  });
  const Comparison order = judge(turned, turned);
  EXPECT_EQ(order.own_errors->first_failed->checkpoint.name, "layer_0_expert_weights");
}

// Breaks if a choice that the log does not hold were taken from a near tie.
TEST_F(OwnErrorsOfLogs, ExpertsThatAreLevelAreNotChosenForTheLog) {
  const std::string ref = right("mixtral", "layers");
  EXPECT_EQ(judge(ref, ref).own_errors->not_held, 0);
  const Comparison wide = judge(ref, ref, 0.9);
  EXPECT_GT(wide.own_errors->not_held, 0);
  EXPECT_EQ(wide.own_errors->failed, 0);
}

// Breaks if what a split excuses were held to nothing, or not counted.
TEST_F(OwnErrorsOfLogs, HoldWhatFollowsASplit) {
  const std::string ref = right("tinyllama", "ops");
  const std::string short_header =
      R"({"assay":1,"model":{"name":"","sha256":"","arch":"llama","type":""},"tokens":[1,45,120,7,201,33]})"
      "\n";
  const auto keep = [](Record&) { return true; };
  const auto chooses_another = at("logits", 7, [](Record& record) {
    record.values[99] = 1 + *std::ranges::max_element(record.values);
    return true;
  });
  const std::string first = put("first", contents(edited(ref, chooses_another, short_header)));
  prompt_[8] = 17;
  const std::string other = right("tinyllama", "ops");
  const std::string second = put("second", contents(edited(other, keep, short_header)));
  const Comparison held = judge(first, second);
  ASSERT_TRUE(held.split);
  EXPECT_GT(held.own_errors->excused, 0);
  EXPECT_EQ(held.own_errors->excused, held.split->left_out);
  EXPECT_EQ(held.own_errors->excused_held, held.own_errors->excused);
  EXPECT_EQ(held.own_errors->failed, 0);
  const std::string wrong = edited(second, at("layer_1_attn", 10, [](Record& record) {
                                     for (float& value : record.values) value = -value;
                                     return true;
                                   }));
  const Comparison failed = judge(first, wrong);
  EXPECT_EQ(failed.own_errors->first_failed->checkpoint.name, "layer_1_attn");
  EXPECT_EQ(failed.own_errors->first_failed->token_idx, 10);
  EXPECT_EQ(failed.own_errors->excused - failed.own_errors->excused_held, 0);
  EXPECT_EQ(failed.split->left_out, held.split->left_out - failed.own_errors->failed);
}

// Breaks if one of several sequences were left out, or held by another's tokens.
TEST_F(OwnErrorsOfLogs, HoldEachOfSeveralSequences) {
  const std::string a = right("tinyllama");
  std::string text = R"({"assay":1,"tokens":[[1,45,120,7,201,33,90,250,16,77,150,64],)"
                     R"([1,9,120,7,201,33,90,250,16,77,150,64]],"sequences":["a","b"]})"
                     "\n";
  const auto add = [&](const std::string& path, const std::string& name, float factor) {
    LogReader reader(path);
    while (const Record* read = reader.next()) {
      Record record = *read;
      if (record.checkpoint == "layer_1_k" && record.token_idx == 6) {
        for (float& value : record.values) value *= factor;
      }
      text += line(record.checkpoint, record.token_idx, record.values,
                   ",\"sequence\":\"" + name + "\"");
    }
  };
  add(a, "a", 1);
  prompt_[1] = 9;
  const std::string b = right("tinyllama");
  const std::string one_only = text;
  add(b, "b", 1);
  const std::string both = put("both", text);
  const Comparison comparison = judge(both, both);
  EXPECT_TRUE(comparison.pass);
  EXPECT_EQ(comparison.own_errors->held, std::ssize(comparison.results));
  EXPECT_EQ(comparison.own_errors->not_held, 0);
  text = one_only;
  add(b, "b", 1.01F);
  const std::string wrong = put("wrong", text);
  const Comparison failed = judge(wrong, wrong);
  EXPECT_EQ(first_failure(failed), "layer_1_k@6");
  EXPECT_EQ(failed.own_errors->first_failed->checkpoint.sequence, "b");
  EXPECT_THAT(failed.cause_hint, HasSubstr("layer_1_k is not what the model gives"));
  const std::string lacks = put("lacks", one_only);
  EXPECT_THAT(error_of([&] { judge(lacks, lacks); }),
              HasSubstr("lacks: has no record of 1 sequence that its header lists, the first 'b'"));
  EXPECT_TRUE(judge(lacks, both).pass) << "held to a reference, which says what there is to be";
}

}  // namespace
}  // namespace assay
