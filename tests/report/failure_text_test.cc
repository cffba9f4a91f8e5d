#include "assay/report/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "assay/report/table_report.h"
#include "tests/compare/comparison_case.h"
#include "tests/report/example.h"

namespace assay {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::Pair;

// Sentences of what real comparisons find.
class FailureText : public ComparisonTest {
 protected:
  static std::string table(const Comparison& comparison) {
    return text_of(TableReport(), comparison, {.command = "assay"});
  }
};

TEST_F(FailureText, StrictArgmaxIsNamedWhereOnlyItFails) {
  const std::string ref = line("logits", 0, {100, 100.001F, 1});
  const std::string got = line("logits", 0, {100.002F, 100.001F, 1});
  EXPECT_EQ(verdict_meaning(compare(ref, got)),
            "the argmax flips between candidates that are level within the error");
  options_.strict_argmax = true;
  const Comparison strict = compare(ref, got);
  EXPECT_EQ(first_failure_text(strict),
            "logits at token 0: the argmax differs by 0.000999 in the reference, which the "
            "errors allow, but --strict-argmax does not");
  EXPECT_THAT(std::string(verdict_meaning(strict)), HasSubstr("which --strict-argmax does not"));
}

// Two tokens of a layer with three experts, of which a token uses one.
TEST_F(FailureText, FlipsOfExpertsAreToldWithTheirMargin) {
  const auto log = [](float second, float expert, float sign) {
    return line("layer_2_router", 0, {1, second, -3}) + line("layer_2_experts", 0, {expert}) +
           line("layer_2_output", 0, {sign, 2, 3}) + line("logits", 0, {sign, -1, 9});
  };
  const std::string ref = log(0.999F, 0, 1);
  const Comparison level = compare(ref, log(1.001F, 1, -5));
  EXPECT_EQ(verdict_meaning(level),
            "experts flip between candidates that are level within the error");
  EXPECT_EQ(flips_text(level),
            "1 flip of experts: layer_2_experts at token 0 has expert 1 in place of 0, 0.001 apart "
            "in the reference's router, where errors reach 0.002; 2 records that follow from there "
            "are excused");
  EXPECT_THAT(table(level),
              HasSubstr("where that is Assay:\n                    assay run MODEL --follow "));
  EXPECT_THAT(table(level), HasSubstr("got.followed.jsonl")) << "not the log that was judged";
  EXPECT_EQ(flips_text(compare(ref, ref)), "");

  EXPECT_EQ(
      first_failure_text(compare(ref, log(0.999F, 2, 1))),
      "layer_2_experts at token 0: other experts: the log's own router prefers other experts");
  options_.strict_argmax = true;
  const Comparison strict = compare(ref, log(1.001F, 1, 1));
  EXPECT_EQ(first_failure_text(strict),
            "layer_2_experts at token 0: other experts, 0.001 apart in the reference's router, "
            "which the errors allow, but --strict-argmax does not");
}

// Breaks if an error of 0 were told where the argmax differs by more than the errors.
TEST_F(FailureText, AnArgmaxBeyondTheErrorIsToldWithIt) {
  for (const bool strict : {false, true}) {
    options_.strict_argmax = strict;
    const Comparison comparison = compare(line("logits", 0, {100, 99.1F, 100, 100, 100}),
                                          line("logits", 0, {99.4F, 99.6F, 99.4F, 99.4F, 99.4F}));
    EXPECT_EQ(comparison.verdict, Verdict::kDrift);
    EXPECT_EQ(first_failure_reason(comparison),
              strict ? "the argmax differs by 0.9 in the reference, more than the errors explain"
                     : "the argmax differs by 0.9 in the reference, errors reach 0.6");
    EXPECT_EQ(verdict_meaning(comparison), "the argmax differs by more than the error explains");
  }
}

// Breaks if the distance to an element that the reference does not have were told as "nan": an
// argmax in what looks like the padding of the vocabulary.
TEST_F(FailureText, AnArgmaxBeyondTheCommonElementsIsToldByItsPlace) {
  std::vector<float> values = waves(60);
  const std::string shorter = line("logits", 0, values);
  values.resize(64);
  values[62] = 11;
  const std::string longer = line("logits", 0, values);
  EXPECT_EQ(first_failure_reason(compare(shorter, longer)),
            "the other's argmax is element 62, the two have 60 in common");
  EXPECT_EQ(first_failure_reason(compare(longer, shorter)),
            "the reference's argmax is element 62, the two have 60 in common");
}

TEST_F(FailureText, ATensorOfAnotherSizeIsToldWithBothSizes) {
  const Comparison comparison =
      compare(line("layer_0_q", 0, {1, 9, 3}), line("layer_0_q", 0, {1, 9, 3, 11}));
  EXPECT_EQ(first_failure_reason(comparison),
            "4 elements, 3 in the reference: not the same tensor");
  EXPECT_EQ(verdict_meaning(comparison), "tensors of other sizes than the reference's");
  EXPECT_EQ(first_failure_reason(
                compare(line("layer_0_q", 0, {1, 9}), line("layer_0_q", 0, {1, 9, 3, 11}))),
            "4 elements, 2 in the reference: not the same tensor (2 times as many: if these are "
            "tokens, the shape is [2, 2], and dims, where given, begins with t)");
}

// Breaks if a log that says one thing twice, and not the same, failed without a word of which.
TEST_F(FailureText, AContradictionNamesWhatDoesNotAgree) {
  const std::string sound = line("layer_0_q", 0, {1, 2, 3});
  const std::string contradicting =
      line("layer_0_q", 0, {1, 2, 3}, R"(,"n":3,"summary":{"l2":900,"mean":2,"min":1,"max":3})");
  const Comparison comparison = compare(sound, contradicting);
  ASSERT_EQ(comparison.failed, 1);
  EXPECT_THAT(first_failure_reason(comparison),
              testing::StartsWith("the log contradicts itself: "));
  EXPECT_EQ(verdict_meaning(comparison), "the judged log contradicts itself");
}

TEST_F(FailureText, WhatTheQuarantineTookIsNotCalledEqual) {
  std::vector<float> values(64, 1);
  const std::string clean = line("layer_0_q", 0, values);
  values[9] = 1e30F;
  const Comparison left_out = compare(line("layer_0_q", 0, values), clean);
  ASSERT_EQ(left_out.quarantined, 1);
  EXPECT_EQ(verdict_meaning(left_out), "everything that was compared is equal");
  EXPECT_EQ(verdict_meaning(compare(clean, clean)), "everything that was compared is equal");
}

// Breaks if zeros were reported where none exist, or missed where they do.
TEST_F(FailureText, WhatProvesNothingIsNamedAsItIs) {
  const auto texts = [&](const std::string& ref, const std::string& got, Verdict verdict) {
    const Comparison comparison = compare(ref, got);
    EXPECT_EQ(comparison.verdict, verdict);
    return std::pair<std::string, std::string>(unproven_text(comparison.results[0]),
                                               verdict_meaning(comparison));
  };
  const std::string zeros = line("layer_0_q", 0, {0, 0, 0});
  EXPECT_THAT(texts(zeros, zeros, Verdict::kInconclusive),
              Pair("all zeros on both sides", HasSubstr("hold nothing but zeros")));
  const std::string known = line("layer_0_q", 0, {1, 2, 3});
  const std::string empty =
      R"({"checkpoint":"layer_0_q","token_idx":0,"dtype":"f32","shape":[3],"values":[],"n":3})"
      "\n";
  const std::string meaning = "nothing failed, but 1 record of the reference was not shown";
  EXPECT_THAT(texts(known, empty, Verdict::kIncomplete),
              Pair("the logs have no value, sketch or summary of it in common", meaning));
  options_.policy = Policy([](const std::string&) {
    Tolerance tolerance;
    tolerance.kl = 0.1;
    return tolerance;
  });
  EXPECT_THAT(texts(known, known, Verdict::kIncomplete),
              Pair("no limit of the policy can be held there; give rel_l2", meaning));
}

// Breaks if the verdict's line called a log whole of which a part was compared, or said nothing of
// an argmax that nobody knows.
TEST_F(FailureText, TheEvidenceLineSaysWhatWasShown) {
  const std::string q = line("layer_0_q", 0, {1, 2, 3});
  const std::string logits = line("logits", 0, {1, 2, 3});
  EXPECT_EQ(evidence_text(compare(q + logits, q + logits)), "2 of 2 records whole, argmax 1 of 1");
  const std::string head =
      R"({"checkpoint":"logits","token_idx":0,"dtype":"f32","shape":[9],"values":[1,2,3],"n":9})"
      "\n";
  EXPECT_EQ(evidence_text(compare(q + head, q + head)),
            "2 records of the reference: 1 whole, 1 partial, argmax not known");
  EXPECT_EQ(evidence_text(compare(q + logits, q)),
            "2 records of the reference: 1 whole, 1 unproven, argmax not known");
  EXPECT_EQ(evidence_text(compare(q + logits, line("layer_0_q", 0, {1, 2, 4}) + logits)),
            "2 records of the reference: 1 whole, 1 failed, argmax 1 of 1");
  options_.allow_missing = {"logits"};
  EXPECT_EQ(evidence_text(compare(q + logits, q)),
            "2 records of the reference: 1 whole, 1 excused");
}

TEST_F(FailureText, ASingleRecordGrewFromNothing) {
  const Comparison one =
      compare(line("layer_4_q", 0, {1, 2, 3}), line("layer_4_q", 0, {1, 2, 3.2F}));
  ASSERT_EQ(one.verdict, Verdict::kDrift);
  EXPECT_EQ(verdict_meaning(one), "the error is beyond the tolerance, but small beside the values");
  const auto two = [&](float error) {
    return line("layer_4_q", 0, {1, 2, 3 + error / 5}) + line("layer_4_k", 0, {1, 2, 3 + error});
  };
  const Comparison grown = compare(two(0), two(0.1F));
  ASSERT_EQ(grown.verdict, Verdict::kDrift);
  EXPECT_EQ(verdict_meaning(grown), "the error grew little by little beyond the tolerance");
  const Comparison sudden =
      compare(line("layer_4_q", 0, {1, 2, 3}) + line("layer_4_k", 0, {1, 2, 3}),
              line("layer_4_q", 0, {1, 2, 3}) + line("layer_4_k", 0, {1, 2, 3.05F}));
  ASSERT_EQ(sudden.verdict, Verdict::kDrift);
  EXPECT_EQ(verdict_meaning(sudden),
            "the error is beyond the tolerance, but small beside the values");
}

// Breaks if a search that its bound ended left out what it did not try without a word.
TEST_F(FailureText, TellsWhichMistakesWereNotTried) {
  Comparison comparison = compare(line("layer_0_q", 0, {1, 2}), line("layer_0_q", 0, {1, 7}));
  EXPECT_EQ(causes_not_tried(comparison), "");
  EXPECT_THAT(table(comparison), Not(HasSubstr("not tried")));
  comparison.causes_not_tried = {"rounding", "eps"};
  EXPECT_THAT(
      table(comparison),
      HasSubstr("  not tried         everywhere, as the work is bounded: rounding, eps; logs"));
}

// Breaks if the search for scales and shifts reported a value that does not exist.
TEST_F(FailureText, WhereNotANumberComesFirstTheStepBeforeIsToLookAt) {
  const auto run = [&](float value) {
    return line("layer_0_attn_norm", 0, {1, 2, 3}) + line("layer_0_q", 0, {1, value, 3});
  };
  Comparison comparison = compare(run(2), run(std::nanf("")));
  comparison.cause_hint = "no scale, sign or shift explains the difference";
  EXPECT_EQ(first_failure_reason(comparison), "1 value that is not finite");
  EXPECT_EQ(verdict_meaning(comparison), "not a number, or infinite, in the judged log");
  EXPECT_EQ(verdict_meaning(compare(run(std::nanf("")), run(2))),
            "not a number, or infinite, in the reference");
  EXPECT_EQ(verdict_meaning(compare(run(std::nanf("")), run(std::nanf("")))),
            "not a number, or infinite, in both logs");
  EXPECT_EQ(cause_hint(comparison),
            "the first values that are not finite: look at the step before, from "
            "layer_0_attn_norm, which is finite, to here");
  EXPECT_THAT(table(comparison), Not(HasSubstr("no scale")));
  Comparison alone =
      compare(line("layer_0_q", 0, {1, 2}), line("layer_0_q", 0, {1, std::nanf("")}));
  EXPECT_EQ(cause_hint(alone), "the first values that are not finite: look at the inputs");
}

}  // namespace
}  // namespace assay
