// Shapes [H, 1]: a column of one token, as engines of matrices times vectors have it.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/compare/comparison_case.h"
#include "tests/compare/made_records.h"

namespace assay {
namespace {

class ColumnShapesTest : public ComparisonTest {
 protected:
  static std::string shaped(const std::string& name, int token, const std::string& shape,
                            const std::vector<float>& values) {
    return fmt::format(
        R"({{"checkpoint":"{}","token_idx":{},"dtype":"f32","shape":{},"values":[{}]}})"
        "\n",
        name, token, shape, fmt::join(values, ","));
  }

  // Three tokens of a network of width 8 and 12 ids.
  static std::string log(const std::string& width, const std::string& ids, float factor = 1) {
    std::string all;
    for (unsigned token = 0; token < 3; ++token) {
      const int at = static_cast<int>(token);
      std::vector<float> logits = random_values(12, 10 + token);
      for (float& value : logits) value *= token == 2 ? factor : 1;
      all += shaped("embedding", at, width, random_values(8, token));
      all += shaped("logits", at, ids, logits);
    }
    return all;
  }
};

// Breaks if a column of H values were read as H tokens, of which the next token's record is a
// second statement.
TEST_F(ColumnShapesTest, AColumnIsOfOneToken) {
  const std::string rows = log("[1,8]", "[1,12]");
  const std::string columns = log("[8,1]", "[12,1]");
  for (const auto& [ref, got] : {std::pair(rows, columns),
                                 {columns, rows},
                                 {columns, columns},
                                 {log("[8]", "[12]"), columns}}) {
    const Comparison comparison = compare(ref, got);
    EXPECT_EQ(comparison.verdict, Verdict::kMatch);
    EXPECT_EQ(comparison.evidence.whole, 6);
    EXPECT_EQ(comparison.argmax_agree, 3);
  }
  const Comparison wrong = compare(rows, log("[8,1]", "[12,1]", -1));
  EXPECT_FALSE(wrong.pass);
  EXPECT_EQ(wrong.first_divergence->token_idx, 2);
  EXPECT_EQ(wrong.failed, 1);
}

// Breaks if one element for each token, where other tensors show the tokens, were one token's.
TEST_F(ColumnShapesTest, AColumnBesideRowsOfTokensIsOfThese) {
  const std::vector<float> scores = random_values(3, 7);
  std::vector<float> rows;
  std::string single;
  for (unsigned token = 0; token < 3; ++token) {
    const std::vector<float> row = random_values(8, token);
    rows.insert(rows.end(), row.begin(), row.end());
    single += shaped("embedding", static_cast<int>(token), "[8]", row);
    single += shaped("layer_0_ffn_gate", static_cast<int>(token), "[1]", {scores[token]});
  }
  const std::string whole =
      shaped("embedding", 0, "[3,8]", rows) + shaped("layer_0_ffn_gate", 0, "[3,1]", scores);
  EXPECT_EQ(compare(single, whole).evidence.whole, 6);
  EXPECT_EQ(compare(whole, single).evidence.whole, 6);
  // Of the other log's width, too.
  std::string ids;
  for (int token = 0; token < 3; ++token)
    ids += shaped("logits", token, "[1]", {scores[static_cast<size_t>(token)]});
  EXPECT_EQ(compare(ids, shaped("logits", 0, "[3,1]", scores)).compared, 3);
}

}  // namespace
}  // namespace assay
