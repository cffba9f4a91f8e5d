// Parts of tensors, as ranks hold them, put together.
#include "assay/compare/rank_parts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "assay/log/sketch.h"
#include "tests/compare/made_records.h"

namespace assay {
namespace {

// Breaks if any grid of pieces was put together other than by the definition of its axes.
TEST(RankPartsTest, EveryGridOfPiecesIsPutTogether) {
  const std::vector<std::vector<int64_t>> cuts = {{3, 1}, {2}, {1, 0, 2}};  // sizes along 3 axes
  const std::vector<int64_t> shape = {4, 2, 3};
  std::vector<float> whole(24);
  std::iota(whole.begin(), whole.end(), 1.0F);
  std::vector<RankPart> parts;
  for (size_t a = 0; a < 2; ++a) {
    for (size_t c = 0; c < 3; ++c) {
      RankPart made{.record = {}, .rank = {}, .where = "x:1"};
      made.piece = {static_cast<int64_t>(a), 0, static_cast<int64_t>(c)};
      const int64_t first_a = a == 0 ? 0 : 3;
      const int64_t first_c = c == 2 ? 1 : 0;
      made.record.shape = {cuts[0][a], 2, cuts[2][c]};
      for (int64_t i = 0; i < cuts[0][a]; ++i) {
        for (int64_t j = 0; j < 2; ++j) {
          for (int64_t k = 0; k < (c == 1 ? 0 : c == 0 ? 1 : 2); ++k) {
            const int64_t at = ((first_a + i) * 2 + j) * 3 + first_c + k;
            made.record.values.push_back(whole[static_cast<size_t>(at)]);
          }
        }
      }
      made.record.n = std::ssize(made.record.values);
      ASSERT_EQ(made.record.n, element_count(made.record.shape));
      parts.push_back(std::move(made));
    }
  }
  std::reverse(parts.begin(), parts.end());
  const Record joined = put_together(parts);
  EXPECT_EQ(joined.shape, shape);
  EXPECT_EQ(joined.values, whole);
  // Of heads, what comes before the first value that is not logged.
  for (RankPart& one : parts) {
    if (one.piece == std::vector<int64_t>{0, 0, 2}) one.record.values.resize(3);
    one.record.summary = summarize(one.record.values);
  }
  const Record head = put_together(parts);
  EXPECT_EQ(head.n, 24);
  EXPECT_EQ(head.values, std::vector<float>(whole.begin(), whole.begin() + 5));
}

// Breaks if what is stated of pieces was not what a whole tensor would state.
TEST(RankPartsTest, SummariesOfPiecesAreThatOfTheWhole) {
  const std::vector<float> whole = random_values(60, 5);
  std::vector<RankPart> parts;
  for (std::ptrdiff_t i = 0; i < 3; ++i) {
    const std::ptrdiff_t from = i * 20;
    RankPart made{.record = record({whole.begin() + from, whole.begin() + from + 20}),
                  .rank = {},
                  .where = "x:1"};
    made.record.summary = summarize(made.record.values);
    made.record.values.clear();
    made.record.shape = {20};
    made.piece = {i};
    parts.push_back(std::move(made));
  }
  const Summary expected = summarize(whole);
  const Record joined = put_together(parts);
  ASSERT_TRUE(joined.summary);
  EXPECT_EQ(joined.summary->min, expected.min);
  EXPECT_EQ(joined.summary->max, expected.max);
  EXPECT_NEAR(joined.summary->mean, expected.mean, 1e-12);
  EXPECT_NEAR(joined.summary->l2, expected.l2, 1e-12);
  EXPECT_EQ(joined.summary->argmax, expected.argmax);
  ASSERT_EQ(joined.summary->top.size(), expected.top.size());
  for (size_t i = 0; i < expected.top.size(); ++i) {
    EXPECT_EQ(joined.summary->top[i].index, expected.top[i].index);
  }
  EXPECT_EQ(joined.summary->nonfinite, 0);
}

}  // namespace
}  // namespace assay
