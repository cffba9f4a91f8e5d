// What one log lets a reader know of a tensor: what it states, or what all values give.
#include "assay/compare/record_view.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/compare/made_records.h"

namespace assay {
namespace {

constexpr ViewRequest kAll{.sums = true, .sketch = true};
constexpr ViewRequest kNothing{};

const Record kWhole = record(random_values(100, 1));

// Marks a statement, so that a test sees where it comes from.
Record with_marks(Record made) {
  made.summary = silent_summary();
  made.summary->l2 = 1234;
  made.summary->top = {{7, 99}};
  made.summary->nonfinite = 3;
  made.summary->nan = 2;
  made.summary->counts_nonfinite = true;
  made.sketch.emplace().fill(5);
  return made;
}

TEST(RecordView, ComputesRequestedFactsFromAllValues) {
  const RecordView view = view_of(kWhole, kWhole.values, false, kAll);
  EXPECT_EQ(view.values.size(), 100U);
  EXPECT_EQ(view.sketch, compute_sketch(kWhole.values));
  ASSERT_TRUE(view.summary);
  EXPECT_EQ(view.l2, summarize(kWhole.values).l2);
  EXPECT_EQ(view.nonfinite, 0);
  EXPECT_EQ(view.nan, 0);
  const RecordView none = view_of(kWhole, kWhole.values, false, kNothing);
  EXPECT_FALSE(none.sketch || none.summary || none.l2 || none.nonfinite || none.nan);
  ASSERT_EQ(none.top.size(), static_cast<size_t>(kSummaryTop));
  EXPECT_EQ(none.top[0].index, largest_values(kWhole.values)[0].index);
}

// Breaks if a statement stood for what the values say otherwise.
TEST(RecordView, PrefersAllValuesToStatements) {
  const Record stated = with_marks(kWhole);
  const RecordView view = view_of(stated, stated.values, false, kAll);
  EXPECT_EQ(view.sketch, compute_sketch(kWhole.values));
  EXPECT_EQ(view.l2, summarize(kWhole.values).l2);
  EXPECT_EQ(view.nonfinite, 0);
  EXPECT_NE(view.top[0].index, 7);
}

// Breaks if a norm were computed from values of which one is garbage.
TEST(RecordView, UsesOnlyStatementsForSpoiledValues) {
  const RecordView bare = view_of(kWhole, kWhole.values, true, kAll);
  EXPECT_FALSE(bare.sketch || bare.summary || bare.l2 || bare.nonfinite || bare.nan);
  EXPECT_EQ(bare.top.size(), static_cast<size_t>(kSummaryTop)) << "of the values that are left";
  const Record stated = with_marks(kWhole);
  const RecordView view = view_of(stated, stated.values, true, kNothing);
  EXPECT_EQ(view.l2, 1234);
  EXPECT_EQ(view.sketch, stated.sketch);
  EXPECT_EQ(view.nonfinite, 3);
  EXPECT_EQ(view.nan, 2);
  ASSERT_EQ(view.top.size(), 1U);
  EXPECT_EQ(view.top[0].index, 7);
}

TEST(RecordView, HeadKeepsItsStatements) {
  Record head = with_marks(head_of(kWhole, 10, false, false));
  const RecordView view = view_of(head, head.values, false, kAll);
  EXPECT_EQ(view.values.size(), 10U);
  EXPECT_EQ(view.l2, 1234);
  EXPECT_EQ(view.sketch, head.sketch);
  EXPECT_EQ(view.top.size(), 1U);
  head.summary->l2 = std::nan("");
  head.summary->counts_nonfinite = false;
  head.summary->nan.reset();
  const RecordView less = view_of(head, head.values, false, kAll);
  EXPECT_FALSE(less.l2 || less.nonfinite || less.nan) << "a summary may leave numbers out";
  head.summary.reset();
  EXPECT_TRUE(view_of(head, head.values, false, kAll).top.empty())
      << "the largest of a head are not those of the tensor";
}

// What is set aside arrives as -Infinity, and is not among the largest.
TEST(RecordView, LargestElementsIgnoreExcludedValues) {
  std::vector<float> kept = kWhole.values;
  const auto first = static_cast<size_t>(largest_values(kept)[0].index);
  kept[first] = -std::numeric_limits<float>::infinity();
  for (const bool spoiled : {false, true}) {
    const RecordView view = view_of(kWhole, kept, spoiled, kNothing);
    EXPECT_EQ(view.top[0].index, largest_values(kWhole.values)[1].index) << spoiled;
  }
}

TEST(RecordView, NormIsStatedOrEstimated) {
  RecordView view;
  EXPECT_FALSE(view.norm());
  view.sketch.emplace().fill(3);
  EXPECT_DOUBLE_EQ(*view.norm(), 3);
  view.l2 = 4;
  EXPECT_EQ(view.norm(), 4);
  view.l2 = 0;
  EXPECT_EQ(view.norm(), 0) << "a norm of 0 is stated";
}

}  // namespace
}  // namespace assay
