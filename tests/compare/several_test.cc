#include "assay/compare/several.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "assay/compare/matrix.h"
#include "tests/compare/log_files.h"

namespace assay {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double kUnknown = -1;

// Pairs in the order (0, 1), (0, 2), ... with these worst errors; those up to 1e-2 pass, and
// kUnknown stands for one that is inconclusive.
SeveralComparison judged(size_t n, const std::vector<double>& errors) {
  SeveralComparison several;
  size_t at = 0;
  std::vector<std::string> names;
  for (size_t a = 0; a < n; ++a) {
    names.push_back(std::string(1, static_cast<char>('A' + a)));
    for (size_t b = a + 1; b < n; ++b) {
      RunPair pair;
      pair.a = a;
      pair.b = b;
      const double error = errors.at(at++);
      pair.worst_rel_l2 = error == kUnknown ? 0 : error;
      pair.pass = error != kUnknown && error <= 1e-2;
      pair.verdict = error == kUnknown ? Verdict::kInconclusive
                     : pair.pass       ? Verdict::kNoise
                                       : Verdict::kWrong;
      several.pairs.push_back(pair);
    }
  }
  judge_several(names, several);
  return several;
}

TEST(Several, AllAgree) {
  const SeveralComparison several = judged(3, {1e-6, 1e-3, 1e-3});
  EXPECT_EQ(several.consensus, Consensus::kAgree);
  EXPECT_THAT(several.outliers, IsEmpty());
}

TEST(Several, OneDiffersFromTwoThatAgree) {
  for (size_t outlier = 0; outlier < 3; ++outlier) {
    std::vector<double> errors = {0.5, 0.5, 0.5};
    errors[2 - outlier] = 1e-6;  // the pair without it
    const SeveralComparison several = judged(3, errors);
    EXPECT_EQ(several.consensus, Consensus::kOutlier);
    EXPECT_THAT(several.outliers, ElementsAre(outlier));
  }
  EXPECT_THAT(judged(3, {1e-6, 0.5, 0.5}).why,
              HasSubstr("C differs from A, B, which agree with each other within rel_l2 1e-06"));
}

// NaN counts as infinitely far.
TEST(Several, NaNRunIsTheOutlier) {
  EXPECT_THAT(judged(3, {INFINITY, 1e-6, INFINITY}).outliers, ElementsAre(1U));
  EXPECT_THAT(judged(3, {NAN, 1e-6, NAN}).outliers, ElementsAre(1U));
  EXPECT_THAT(judged(3, {NAN, 0.02, NAN}).outliers, ElementsAre(1U));
}

TEST(Several, TwoOfFiveDifferFromTheMajority) {
  // A B C agree; D and E agree with nobody, or with each other.
  for (const double d_e : {0.5, 1e-6}) {
    const SeveralComparison several =
        judged(5, {1e-6, 1e-6, 0.5, 0.5, 1e-6, 0.5, 0.5, 0.5, 0.5, d_e});
    EXPECT_EQ(several.consensus, Consensus::kOutlier);
    EXPECT_THAT(several.outliers, ElementsAre(3U, 4U));
  }
}

TEST(Several, WithoutAMajorityItCannotTell) {
  EXPECT_EQ(judged(3, {0.3, 0.4, 0.5}).consensus, Consensus::kCannotTell);
  EXPECT_EQ(judged(4, {1e-6, 0.5, 0.5, 0.5, 0.5, 1e-6}).consensus, Consensus::kCannotTell)
      << "two against two";
  // A agrees with B and B with C, but not A with C: which of the ends is wrong?
  const SeveralComparison chain = judged(3, {9e-3, 1.5e-2, 9e-3});
  EXPECT_EQ(chain.consensus, Consensus::kCannotTell);
  EXPECT_THAT(chain.why, HasSubstr("A, B agree, but so do B, C"));
  EXPECT_THAT(chain.outliers, IsEmpty());
}

TEST(Several, FarOffRunIsTheOutlierEvenIfOthersDiffer) {
  const SeveralComparison several = judged(3, {0.02, 1.3, 1.2});
  EXPECT_EQ(several.consensus, Consensus::kOutlier);
  EXPECT_THAT(several.outliers, ElementsAre(2U));
  EXPECT_THAT(several.why, HasSubstr("do not agree within the tolerance either"));
}

// Breaks if two that are as wrong as each other, or hold nothing, could blame the third.
TEST(Several, NoOutlierIfTheOthersAreFarApart) {
  EXPECT_EQ(judged(3, {1, std::numeric_limits<double>::infinity(), 20}).consensus,
            Consensus::kCannotTell);
  EXPECT_EQ(judged(3, {1, NAN, 20}).consensus, Consensus::kCannotTell);
}

// Breaks if a log that holds nothing hid that another is wrong, or were called wrong itself.
TEST(Several, InconclusiveRunHasNoVote) {
  const double none = kUnknown;
  // C differs from A and B; D holds nothing, and neither does E.
  const SeveralComparison one = judged(4, {1e-6, 0.5, none, 0.5, none, none});
  EXPECT_EQ(one.consensus, Consensus::kOutlier);
  EXPECT_THAT(one.outliers, ElementsAre(2U));
  EXPECT_THAT(one.unproved, ElementsAre(3U));
  EXPECT_THAT(one.why, HasSubstr("C differs from A, B, which agree"));
  EXPECT_THAT(one.why, HasSubstr("; D has no vote: its records prove nothing"));
  EXPECT_THAT(judged(5, {1e-6, 0.5, none, none, 0.5, none, none, none, none, none}).outliers,
              ElementsAre(2U));
  // The rest agree, which is not all of them.
  const SeveralComparison rest = judged(4, {1e-6, 1e-6, none, 1e-6, none, none});
  EXPECT_EQ(rest.consensus, Consensus::kCannotTell);
  EXPECT_THAT(rest.outliers, IsEmpty());
  EXPECT_THAT(rest.unproved, ElementsAre(3U));
  EXPECT_THAT(rest.why, HasSubstr("A, B, C agree with each other: rel_l2 1e-06 at most; D has no"));
  // D agrees with C, and could not be held to the others: it is no outlier.
  const SeveralComparison part = judged(4, {1e-6, 1e-6, none, 1e-6, none, 1e-6});
  EXPECT_EQ(part.consensus, Consensus::kCannotTell);
  EXPECT_THAT(part.outliers, IsEmpty());
  EXPECT_THAT(part.why, HasSubstr("; D could not be held to all of these"));
  // One is far off though the others differ too.
  EXPECT_THAT(judged(4, {0.02, 1.3, none, 1.2, none, none}).outliers, ElementsAre(2U));
  // Nothing at all.
  const SeveralComparison nothing = judged(3, {none, none, none});
  EXPECT_EQ(nothing.consensus, Consensus::kCannotTell);
  EXPECT_THAT(nothing.unproved, ElementsAre(0U, 1U, 2U));
  EXPECT_THAT(nothing.why, testing::StartsWith("no run could be held to another; A has no vote"));
}

// Two of zeros differ from three that agree, and are nothing to each other.
TEST(Several, ZerosDifferFromAMajority) {
  EXPECT_THAT(judged(5, {1e-6, 1e-6, 1, 1, 1e-6, 1, 1, 1, 1, kUnknown}).outliers,
              ElementsAre(3U, 4U));
  EXPECT_EQ(judged(3, {1, 1, kUnknown}).consensus, Consensus::kCannotTell);
}

class SeveralLogs : public LogFiles {
 protected:
  std::string run(const std::string& file, const std::string& engine, const std::string& type,
                  float shift, const std::string& math = "exact") {
    return put(file, "{\"assay\":1,\"model\":{\"name\":\"m\",\"arch\":\"llama\",\"type\":\"" +
                         type + "\"},\"tokens\":[1,2],\"prompt\":\"x\",\"engine\":\"" + engine +
                         "\",\"backend\":\"cpu\",\"math\":\"" + math + "\"}\n" +
                         line("logits", 0, {1 + shift, 2, 3}) + line("logits", 1, {4, 5, 6}));
  }
};

TEST_F(SeveralLogs, NamesTheOutlierByItsEngine) {
  const SeveralComparison several =
      compare_several({run("a.jsonl", "one", "F32", 0), run("b.jsonl", "two", "F32", 1),
                       run("c.jsonl", "three", "F32", 1e-4F)},
                      {});
  EXPECT_EQ(several.consensus, Consensus::kOutlier);
  EXPECT_THAT(several.outliers, ElementsAre(1U));
  EXPECT_THAT(several.why, HasSubstr("two cpu exact differs from one cpu exact, three cpu exact"));
  EXPECT_EQ(several.pairs.size(), 3U);
  EXPECT_EQ(several.pairs[0].first_divergence->token_idx, 0);
}

TEST_F(SeveralLogs, TwoOfZerosDoNotOutvoteOne) {
  const auto zeros = [&](const std::string& file) {
    return put(file, line("logits", 0, {0, 0, 0}));
  };
  const SeveralComparison several = compare_several(
      {put("a.jsonl", line("logits", 0, {1, 2, 3})), zeros("b.jsonl"), zeros("c.jsonl")}, {});
  EXPECT_EQ(several.consensus, Consensus::kCannotTell);
  EXPECT_THAT(several.outliers, IsEmpty());
}

// Breaks if agreement of heads read like that of whole tensors.
TEST_F(SeveralLogs, WhatWasNotComparedIsTold) {
  const auto head = [&](const std::string& file) {
    return put(file, line("layer_0_output", 0, {1, 2, 3}) + line("logits", 0, {1, 2}, ",\"n\":3"));
  };
  const SeveralComparison several =
      compare_several({head("a.jsonl"), head("b.jsonl"), head("c.jsonl")}, {});
  EXPECT_EQ(several.consensus, Consensus::kAgree);
  EXPECT_EQ(
      several.why,
      "all 3 agree with each other: rel_l2 0 at most; of 3 of 6 compared records only a part; "
      "argmax not known in 3 of them");
}

// Breaks if of two that differ the first were the outlier because a third has nothing.
TEST_F(SeveralLogs, TwoRunsHaveNoOutlier) {
  const std::string a = put("a.jsonl", line("logits", 0, {1, 2, 3}));
  const std::string b = put("b.jsonl", line("logits", 0, {3, 1, 2}));
  const std::string c = put("c.jsonl", line("logits", 0, {}, ",\"n\":3"));
  EXPECT_THAT(compare_several({a, b, c}, {}).outliers, IsEmpty());
  EXPECT_THAT(compare_several({b, c, a}, {}).outliers, IsEmpty());
}

TEST_F(SeveralLogs, RejectsALogGivenTwice) {
  const std::string a = run("a.jsonl", "one", "F32", 0);
  EXPECT_THAT(error_of([&] {
                compare_several({a, run("b.jsonl", "two", "F32", 0), folder_ + "/./a.jsonl"}, {});
              }),
              HasSubstr("must not vote twice"));
}

// Breaks if a copy of a wrong log outvoted the right one without a word.
TEST_F(SeveralLogs, WarnsOfACopy) {
  const std::string a = run("a.jsonl", "one", "F32", 0);
  const std::string b = run("b.jsonl", "two", "F32", 1);
  const std::string copy = folder_ + "/copy.jsonl";
  std::filesystem::copy_file(b, copy);
  EXPECT_THAT(compare_several({a, b, copy}, {}).warnings,
              Contains(copy + " has the bytes of " + b +
                       ": if it is a copy and no run of its own, it votes twice; leave it out"));
  EXPECT_THAT(compare_several({a, b, run("c.jsonl", "three", "F32", 1)}, {}).warnings, IsEmpty());
}

TEST_F(SeveralLogs, MatrixHasEnginesModelsAndTypes) {
  run("ref32.jsonl", "oracle", "F32", 0, "float64");
  run("ref8.jsonl", "oracle", "Q8_0", 0, "float64");
  run("one32.jsonl", "one", "F32", 1e-5F);
  run("one8.jsonl", "one", "Q8_0", 2);
  run("two32.jsonl", "two", "F32", 0);
  put("plain.jsonl", line("logits", 0, {1, 2}));
  const RunMatrix matrix = compare_matrix({folder_}, {});
  EXPECT_THAT(matrix.engines, ElementsAre("oracle cpu float64", "one cpu exact", "two cpu exact"));
  ASSERT_EQ(matrix.rows.size(), 2U);
  EXPECT_EQ(matrix.rows[0].type, "F32");
  EXPECT_EQ(matrix.rows[0].cells.size(), 3U);
  EXPECT_EQ(matrix.rows[1].cells.size(), 2U);
  EXPECT_FALSE(matrix.pass);
  for (const MatrixCell& cell : matrix.rows[1].cells) {
    if (cell.is_reference) continue;
    EXPECT_EQ(cell.pair->verdict, Verdict::kWrong);
  }
  EXPECT_EQ(matrix.left_out.size(), 1U);
  MatrixOptions other;
  other.reference = "two";
  EXPECT_EQ(compare_matrix({folder_}, other).rows[0].reference, folder_ + "/two32.jsonl");
  other.reference = "none";
  EXPECT_THAT(error_of([&] { compare_matrix({folder_}, other); }), HasSubstr("--reference none"));
  EXPECT_THAT(error_of([&] { compare_matrix({folder_ + "/no"}, {}); }), HasSubstr("cannot open"));
}

}  // namespace
}  // namespace assay
