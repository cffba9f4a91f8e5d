// Log-probabilities are logits but for a constant, which the records give in one of three ways.
#include "assay/compare/log_probabilities.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/compare/made_records.h"

namespace assay {
namespace {

const Record kLogitsRecord = record(random_values(64, 3));

double log_sum(const std::vector<float>& values) {
  double sum = 0;
  for (const float value : values) sum += std::exp(static_cast<double>(value));
  return std::log(sum);
}

Record log_softmax(const Record& logits, const std::string& checkpoint = "logprobs") {
  const double constant = log_sum(logits.values);
  Record made = record(logits.values, checkpoint);
  for (float& value : made.values) {
    value = static_cast<float>(static_cast<double>(value) - constant);
  }
  return made;
}

// A list of the most probable tokens and nothing else.
Record top_of(const Record& logprobs, size_t count) {
  Record made;
  made.checkpoint = "logprobs";
  made.n = logprobs.n;
  for (int64_t i = 0; i < logprobs.n; ++i) {
    made.top.push_back({i, logprobs.values[static_cast<size_t>(i)]});
  }
  std::sort(made.top.begin(), made.top.end(),
            [](const TopValue& a, const TopValue& b) { return a.value > b.value; });
  made.top.resize(count);
  return made;
}

Record read_top(size_t count) {
  Record made = top_of(log_softmax(kLogitsRecord), count);
  read_as_logits(made);
  return made;
}

TEST(LogProbabilities, HaveTwoNames) {
  EXPECT_TRUE(is_logits_name("logits"));
  EXPECT_TRUE(is_logits_name("logprobs"));
  EXPECT_FALSE(is_logits_name("logits_raw"));
  EXPECT_FALSE(is_logits_name("layer_0_output"));
  EXPECT_EQ(sibling_of("logits"), "logprobs");
  EXPECT_EQ(sibling_of("logprobs"), "logits");
  EXPECT_EQ(sibling_of("q"), "");
}

TEST(ReadAsLogits, MovesTheListToTheLargestElements) {
  const Record made = read_top(10);
  ASSERT_TRUE(made.summary);
  const Summary& summary = *made.summary;
  ASSERT_EQ(summary.top.size(), 10U);
  EXPECT_EQ(summary.argmax, made.top[0].index);
  EXPECT_EQ(summary.max, static_cast<double>(made.top[0].value));
  EXPECT_TRUE(std::isnan(summary.min) && std::isnan(summary.mean) && std::isnan(summary.l2));
  EXPECT_FALSE(summary.counts_nonfinite);
}

// Breaks if a list took the place of what the record knows better.
TEST(ReadAsLogits, KeepsRecordsWithMoreInformation) {
  Record whole = log_softmax(kLogitsRecord);
  whole.top = top_of(whole, 10).top;
  read_as_logits(whole);
  EXPECT_FALSE(whole.summary) << "all values tell more";
  Record logits = top_of(log_softmax(kLogitsRecord), 10);
  logits.checkpoint = "logits";
  read_as_logits(logits);
  EXPECT_FALSE(logits.summary) << "it has another name";
  for (const size_t count : {2U, 10U}) {
    Record summarised = head_of(log_softmax(kLogitsRecord), 4, true, false);
    const Summary before = *summarised.summary;
    summarised.top = top_of(log_softmax(kLogitsRecord), count).top;
    read_as_logits(summarised);
    EXPECT_EQ(summarised.summary->l2, before.l2);
    EXPECT_EQ(summarised.summary->top.size(), std::max<size_t>(count, before.top.size()));
  }
}

// Breaks if logits could be taken for log-probabilities, or two of a kind for two kinds.
TEST(AreLogProbabilities, RequiresExactlyOneOfTwo) {
  const Record named = log_softmax(kLogitsRecord);
  const Record unnamed = log_softmax(kLogitsRecord, "logits");
  const Record summarised = head_of(unnamed, 4, true, false);
  for (const Record& one : {named, unnamed, summarised, read_top(10)}) {
    EXPECT_TRUE(are_log_probabilities(kLogitsRecord, one));
    EXPECT_TRUE(are_log_probabilities(one, kLogitsRecord));
    for (const Record& other : {named, unnamed, summarised, read_top(10)}) {
      EXPECT_FALSE(are_log_probabilities(one, other));
    }
  }
  const Record head = head_of(kLogitsRecord, 4, true, false);
  EXPECT_FALSE(are_log_probabilities(kLogitsRecord, head));
  Record negative = kLogitsRecord;  // below 0 as log-probabilities are, but of no sum of 1
  for (float& value : negative.values) value -= 20;
  EXPECT_FALSE(are_log_probabilities(kLogitsRecord, negative));
  EXPECT_FALSE(are_log_probabilities(kLogitsRecord, head_of(negative, 4, true, false)));
  Record near = unnamed;
  for (float& value : near.values) value -= 0.002F;
  EXPECT_FALSE(are_log_probabilities(kLogitsRecord, near)) << "beyond kUnitSum";
  Record nan = unnamed;
  nan.values[3] = std::nanf("");
  EXPECT_NO_THROW(are_log_probabilities(kLogitsRecord, nan));
  EXPECT_FALSE(are_log_probabilities(kLogitsRecord, record({}))) << "no values at all";
}

void expect_near(const std::vector<float>& a, const std::vector<float>& b, double most) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(a[i]), static_cast<double>(b[i]), most) << i;
  }
}

TEST(InTermsOf, ConstantFollowsFromTheSumOfAllValues) {
  const Record logprobs = log_softmax(kLogitsRecord);
  expect_near(in_terms_of(kLogitsRecord, logprobs).values, kLogitsRecord.values, 1e-5);
  expect_near(in_terms_of(logprobs, kLogitsRecord).values, logprobs.values, 1e-5);
}

// Breaks if a statement of the whole stayed as it was beside values that moved.
TEST(InTermsOf, StatementsShiftWithTheValues) {
  const Record logprobs = log_softmax(kLogitsRecord);
  Record whole = logprobs;
  whole.summary = summarize(whole.values);
  whole.sketch = compute_sketch(whole.values);
  const Record shifted = in_terms_of(kLogitsRecord, whole);
  EXPECT_FALSE(shifted.summary || shifted.sketch) << "computed from the values";
  const Record part = in_terms_of(kLogitsRecord, head_of(logprobs, 4, true, true));
  expect_near(part.values, {kLogitsRecord.values.begin(), kLogitsRecord.values.begin() + 4}, 1e-5);
  const Summary right = summarize(kLogitsRecord.values);
  ASSERT_TRUE(part.summary && part.sketch);
  EXPECT_NEAR(part.summary->l2, right.l2, 1e-5 * right.l2);
  EXPECT_NEAR(part.summary->mean, right.mean, 1e-5);
  EXPECT_NEAR(part.summary->min, right.min, 1e-5);
  EXPECT_NEAR(part.summary->max, right.max, 1e-5);
  ASSERT_EQ(part.summary->top.size(), right.top.size());
  EXPECT_NEAR(part.summary->top[1].value, right.top[1].value, 1e-5);
  EXPECT_LT(sketch_distance(*part.sketch, compute_sketch(kLogitsRecord.values)), 1e-4);
}

// Breaks if the sketch of elements of which some are not finite moved as that of all, or if a wrong
// sketch were dropped, where the reference has all values.
TEST(InTermsOf, SketchShiftsByTheElementsThatAreFinite) {
  const Record part = head_of(log_softmax(kLogitsRecord), 4, true, true);
  Record unknown = part;
  unknown.summary->counts_nonfinite = false;
  Record bare = part;
  bare.summary.reset();
  const Sketch right = compute_sketch(kLogitsRecord.values);
  for (const Record& got : {unknown, bare}) {
    ASSERT_TRUE(in_terms_of(kLogitsRecord, got).sketch);
    EXPECT_LT(sketch_distance(*in_terms_of(kLogitsRecord, got).sketch, right), 1e-4);
    Record silent = head_of(kLogitsRecord, 4, true, true);
    silent.summary->counts_nonfinite = false;
    EXPECT_FALSE(in_terms_of(silent, got).sketch) << "nothing says which are finite";
  }
  Record infinite = part;
  infinite.summary->nonfinite = 2;
  EXPECT_FALSE(in_terms_of(kLogitsRecord, infinite).sketch);
  Record padded = kLogitsRecord;
  padded.values[7] = padded.values[9] = -INFINITY;
  Record got = head_of(log_softmax(padded), 4, true, true);
  ASSERT_TRUE(in_terms_of(padded, got).sketch);
  EXPECT_LT(sketch_distance(*in_terms_of(padded, got).sketch, compute_sketch(padded.values)), 1e-4);
}

// Breaks if a norm, which a constant changes by the mean, were forgotten where no mean is stated.
TEST(InTermsOf, NormWithoutAMeanIsAsFarFromTheReferences) {
  const Summary right = summarize(kLogitsRecord.values);
  for (const bool has_values : {true, false}) {
    const Record ref = has_values ? kLogitsRecord : head_of(kLogitsRecord, 4, true, false);
    Record got = head_of(log_softmax(kLogitsRecord), 4, true, false);
    got.summary->mean = std::nan("");
    EXPECT_NEAR(in_terms_of(ref, got).summary->l2, right.l2, 1e-4);
    got.summary->l2 += 5;
    EXPECT_NEAR(in_terms_of(ref, got).summary->l2, right.l2 + 5, 1e-4);
    got.summary->l2 = 0;
    EXPECT_EQ(in_terms_of(ref, got).summary->l2, 0) << "no norm is below 0";
  }
}

TEST(InTermsOf, ConstantFollowsFromMeansWithoutValues) {
  const Record logits = head_of(kLogitsRecord, 4, true, false);
  const Record logprobs = head_of(log_softmax(kLogitsRecord), 6, true, false);
  const Record there = in_terms_of(logits, logprobs);
  expect_near(there.values, {kLogitsRecord.values.begin(), kLogitsRecord.values.begin() + 6}, 1e-4);
}

TEST(InTermsOf, ConstantFollowsFromCommonElementsWithoutMeans) {
  const Record logits = head_of(kLogitsRecord, 0, true, false);
  const Record shifted = in_terms_of(logits, read_top(10));
  ASSERT_EQ(shifted.summary->top.size(), 10U);
  for (size_t i = 0; i < logits.summary->top.size(); ++i) {
    EXPECT_EQ(shifted.summary->top[i].index, logits.summary->top[i].index);
    EXPECT_NEAR(shifted.summary->top[i].value, logits.summary->top[i].value, 1e-4);
  }
}

// Breaks if a constant absorbed an error: probabilities that are off by a factor are wrong.
TEST(InTermsOf, ConstantStaysWithinTheBoundsOfTheLogits) {
  const Record logits = head_of(kLogitsRecord, 0, true, false);
  Record wrong = read_top(10);
  for (TopValue& top : wrong.summary->top) top.value += 5;
  const Record shifted = in_terms_of(logits, wrong);
  EXPECT_GT(static_cast<double>(shifted.summary->top[0].value), logits.summary->max + 1)
      << "an error of 5 nats stays one";
}

// Breaks if records that nothing relates were compared, or if a NaN went with what was dropped.
TEST(InTermsOf, WithoutAConstantOnlyNaNRemains) {
  const Record logits = head_of(kLogitsRecord, 0, false, true);
  Record got = head_of(log_softmax(kLogitsRecord), 4, false, true);
  got.values[2] = std::nanf("");
  got.values[3] = -INFINITY;
  const Record shifted = in_terms_of(logits, got);
  ASSERT_EQ(shifted.values.size(), 1U);
  EXPECT_TRUE(std::isnan(shifted.values[0]));
  EXPECT_FALSE(shifted.summary || shifted.sketch);
  EXPECT_EQ(shifted.n, got.n);
}

TEST(MostOfUnlisted, IsTheLeastThatIsListed) {
  const std::vector<TopValue> top = {{4, 9}, {2, 7.5F}};
  EXPECT_EQ(most_of_unlisted(kLogitsRecord, top), 7.5);
  EXPECT_FALSE(most_of_unlisted(kLogitsRecord, {}));
  EXPECT_FALSE(most_of_unlisted(kLogitsRecord, std::vector<TopValue>{{4, NAN}}));
}

// Breaks if two that choose other tokens with probability 0.9 were level.
TEST(MostOfUnlisted, IsWhatTheListedProbabilitiesLeave) {
  Record made;
  made.checkpoint = "logprobs";
  made.n = 64;
  made.top = {{7, static_cast<float>(std::log(0.9))}};
  read_as_logits(made);
  EXPECT_NEAR(std::exp(*most_of_unlisted(made, made.summary->top)), 0.1, 2 * kUnitSum);
  for (TopValue& value : made.summary->top) value.value += 5;  // in terms of other logits
  EXPECT_NEAR(std::exp(*most_of_unlisted(made, made.summary->top) - 5), 0.1, 2 * kUnitSum);
  made.top = made.summary->top = {{7, static_cast<float>(std::log(0.3))}};
  EXPECT_NEAR(std::exp(*most_of_unlisted(made, made.summary->top)), 0.3, 1e-6) << "as much";
}

// Breaks if a list of the largest elements had to name the first of them twice.
TEST(ReadAsLogits, TheFirstOfTheLargestIsChosen) {
  Record made = record({1, 2}, "logits");
  made.n = 64;
  made.summary.emplace(empty_summary()).top = {{9, 5}, {3, 4}};
  read_as_logits(made);
  EXPECT_EQ(made.summary->argmax, 9);
  made.summary->argmax = 3;
  read_as_logits(made);
  EXPECT_EQ(made.summary->argmax, 3) << "it is stated";
  made.checkpoint = "q";
  made.summary->argmax = -1;
  read_as_logits(made);
  EXPECT_EQ(made.summary->argmax, -1) << "nothing is chosen from it";
}

// Breaks if logits that are all far below zero were read as log-probabilities: their largest could
// be those of some vocabulary, but the other log has all values.
TEST(LogProbabilities, LowLogitsAreNone) {
  std::vector<float> values = random_values(300, 9);
  for (float& value : values) value -= 6;
  const Record whole = record(values, "logits");
  const Record part = head_of(whole, 10, true, false);
  EXPECT_FALSE(are_log_probabilities(whole, part));
  EXPECT_FALSE(are_log_probabilities(part, whole));
  const Record normalised = head_of(log_softmax(whole, "logits"), 10, true, false);
  EXPECT_TRUE(are_log_probabilities(whole, normalised));
  EXPECT_TRUE(are_log_probabilities(normalised, whole));
}

TEST(ReadAsLogits, DropsSumsOverPadding) {
  Record made = head_of(kLogitsRecord, 4, true, false);
  made.checkpoint = "logits";
  made.summary->nonfinite = 2;
  made.summary->min = made.summary->mean = -INFINITY;
  made.summary->l2 = INFINITY;
  read_as_logits(made);
  EXPECT_TRUE(std::isnan(made.summary->min) && std::isnan(made.summary->mean));
  EXPECT_TRUE(std::isnan(made.summary->l2));
  made.summary->nonfinite = 0;
  made.summary->l2 = INFINITY;
  read_as_logits(made);
  EXPECT_EQ(made.summary->l2, INFINITY) << "of nothing but finite values";
}

// Breaks if log-softmax with a wrong normaliser were a whole proof: of heads and sketches any
// constant fits.
TEST(IsConstantKnown, OnlyByAllValuesOfOneSide) {
  const Record& logits = kLogitsRecord;
  const Record right = log_softmax(logits, "logits");
  EXPECT_TRUE(is_constant_known(logits, right));
  EXPECT_TRUE(is_constant_known(head_of(logits, 4, true, true), right));
  EXPECT_TRUE(is_constant_known(logits, head_of(right, 4, true, true)));
  EXPECT_FALSE(is_constant_known(head_of(logits, 4, true, true), head_of(right, 4, true, true)));
}

}  // namespace
}  // namespace assay
