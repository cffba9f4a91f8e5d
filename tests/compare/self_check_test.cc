// Statements of one log about a tensor must agree; here each is made to lie.
#include "assay/compare/self_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "tests/compare/made_records.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::string_view kSummaryAlone = "the numbers of its summary";
constexpr std::string_view kSummaryAndValues = "its summary and its values";
constexpr std::string_view kSketchAndValues = "its sketch and its values";
constexpr std::string_view kSketchAndSummary = "its sketch and its summary";

Record stated(const std::vector<float>& values, size_t head, bool summary, bool sketch) {
  return head_of(record(values, "q"), head, summary, sketch);
}

std::vector<float> rounded(std::vector<float> values, double unit) {
  for (float& value : values) {
    value = static_cast<float>(std::nearbyint(static_cast<double>(value) / unit) * unit);
  }
  return values;
}

struct NamedValues {
  const char* name;
  std::vector<float> values;
};

std::vector<NamedValues> tensors() {
  std::vector<float> massive = random_values(896, 4);
  massive[500] = 9000;
  std::vector<float> biased = random_values(896, 5);
  for (float& value : biased) value += 1000;
  std::vector<float> small = random_values(896, 6);
  for (float& value : small) value *= 1e-30F;
  std::vector<float> padded = random_values(1000, 7);
  padded.insert(padded.end(), 24, -INFINITY);
  std::vector<float> far_padded = random_values(1000, 7);
  far_padded.insert(far_padded.end(), 24, -1e30F);
  std::vector<float> broken = random_values(896, 8);
  broken[3] = broken[700] = std::nanf("");
  broken[4] = INFINITY;
  std::vector<float> one_hot(896, 0.0F);
  one_hot[100] = -5;
  std::vector<float> masked(896, -1.0F);  // more than kSummaryTop share the maximum
  for (size_t i = 300; i < 320; ++i) masked[i] = 2;
  return {{"random", random_values(896, 3)},
          {"massive", massive},
          {"biased", biased},
          {"small", small},
          {"padded", padded},
          {"padded with a number", far_padded},
          {"broken", broken},
          {"one of all", one_hot},
          {"level", masked},
          {"constant", std::vector<float>(896, -3.0F)},
          {"zeros", std::vector<float>(896, 0.0F)},
          {"NaN only", std::vector<float>(896, std::nanf(""))},
          {"one element", {2.5F}},
          {"one negative element", {-2.5F}},
          {"empty", {}}};
}

// Breaks if a sound log were called broken: each form in which an engine may log each tensor.
TEST(SelfCheck, RightRecordsAgreeInEveryForm) {
  for (const NamedValues& tensor : tensors()) {
    for (const size_t head : {size_t{0}, size_t{1}, size_t{10}, tensor.values.size()}) {
      if (head > tensor.values.size()) continue;
      for (const bool summary : {false, true}) {
        for (const bool sketch : {false, true}) {
          const Record right = stated(tensor.values, head, summary, sketch);
          EXPECT_EQ(contradiction_in(right, {}), "")
              << tensor.name << ", head " << head << (summary ? ", summary" : "")
              << (sketch ? ", sketch" : "");
        }
      }
    }
  }
}

// A summary may leave out each of its numbers.
TEST(SelfCheck, MissingSummaryNumbersContradictNothing) {
  for (const NamedValues& tensor : tensors()) {
    for (unsigned left_out = 0; left_out < 128; ++left_out) {
      Record part = stated(tensor.values, std::min<size_t>(10, tensor.values.size()), true, true);
      Summary& summary = *part.summary;
      if ((left_out & 1U) != 0) summary.min = kNaN;
      if ((left_out & 2U) != 0) summary.max = kNaN;
      if ((left_out & 4U) != 0) summary.mean = kNaN;
      if ((left_out & 8U) != 0) summary.l2 = kNaN;
      if ((left_out & 16U) != 0) summary.argmax = -1;
      if ((left_out & 32U) != 0) summary.top.clear();
      if ((left_out & 64U) != 0) {
        summary.counts_nonfinite = false;
        summary.nonfinite = 0;
        summary.nan.reset();
      }
      EXPECT_EQ(contradiction_in(part, {}), "") << tensor.name << ", without " << left_out;
    }
  }
}

// Breaks if a log of few decimals, which states its whole from the full ones, were called broken.
TEST(SelfCheck, ValuesOfFewDecimalsAgree) {
  for (const double scale : {1.0, 1e-2, 1e-4}) {
    std::vector<float> exact = random_values(896, 3);
    for (float& value : exact) value *= static_cast<float>(scale);
    for (const double unit : {1e-6, 1e-5, 1e-4}) {
      for (const size_t head : {size_t{10}, exact.size()}) {
        Record printed = stated(exact, head, true, true);
        printed.values = rounded(printed.values, unit);
        EXPECT_EQ(contradiction_in(printed, {}), "") << scale << ", " << unit << ", " << head;
      }
    }
  }
  Record coarse = stated(rounded(random_values(896, 3), 1e-6), 896, true, true);
  for (float& value : coarse.values) value *= 1.1F;
  coarse.values = rounded(coarse.values, 1e-6);
  EXPECT_EQ(contradiction_in(coarse, {}), kSummaryAndValues) << "more than decimals take away";
  // Zeros are numbers of two decimals, too, and explain no norm.
  Record zeros = stated(random_values(896, 3), 896, true, true);
  for (double& sum : *zeros.sketch) sum *= 1e-3;
  zeros.summary.reset();
  zeros.values.assign(896, 0.0F);
  EXPECT_EQ(contradiction_in(zeros, {}), kSketchAndValues);
  // As tightly as values, where they are not printed with few decimals.
  Record held = stated(random_values(896, 3), 896, true, true);
  held.summary->l2 *= 1.005;
  EXPECT_EQ(contradiction_in(held, {}), "");
  EXPECT_EQ(contradiction_in(held, {}, 1e-6), kSummaryAndValues);
  held.values = rounded(held.values, 1e-3);
  EXPECT_EQ(contradiction_in(held, {}, 1e-6), "") << "where they are, within 1 %";
}

// Another choice among elements that are level is no lie.
TEST(SelfCheck, AnyTiedMaximumMayBeTheArgmax) {
  std::vector<float> level(896, -1.0F);
  for (size_t i = 300; i < 320; ++i) level[i] = 2;
  Record other = stated(level, 10, true, false);
  other.summary->argmax = 319;
  EXPECT_EQ(contradiction_in(other, {}), "");
  std::vector<float> values = random_values(896, 3);
  values[300] = 20;
  Record wrong = stated(values, 10, true, false);
  wrong.summary->argmax = 319;
  EXPECT_EQ(contradiction_in(wrong, {}), kSummaryAlone);
}

using Lie = std::function<void(Record&)>;

struct Case {
  const char* name;
  std::string_view found;
  Lie lie;
};

void expect_found(const std::vector<Case>& cases, const Record& right) {
  ASSERT_EQ(contradiction_in(right, {}), "");
  for (const Case& c : cases) {
    Record wrong = right;
    c.lie(wrong);
    EXPECT_EQ(contradiction_in(wrong, {}), c.found) << c.name;
  }
}

// No values and no sketch: what one number of a summary implies for another.
TEST(SelfCheck, FindsInconsistentSummaries) {
  // A constant would leave the norm between its bounds; these are spread.
  const Record right = stated(random_values(896, 3), 0, true, false);
  expect_found(
      {{"min above max", kSummaryAlone, [](Record& r) { r.summary->min = r.summary->max + 1; }},
       {"mean above max", kSummaryAlone,
        [](Record& r) {
          r.summary->mean = r.summary->max * 1.1;
          r.summary->l2 = r.summary->max * 30;
        }},
       {"mean below min", kSummaryAlone,
        [](Record& r) {
          r.summary->mean = r.summary->min * 1.1;
          r.summary->l2 = -r.summary->min * 29;
        }},
       {"max above the norm", kSummaryAlone,
        [](Record& r) { r.summary->l2 = r.summary->max * 0.98; }},
       {"min beyond the norm", kSummaryAlone,
        [](Record& r) { r.summary->min = -r.summary->l2 * 1.02; }},
       {"norm above what the extremes allow", kSummaryAlone,
        [](Record& r) {
          r.summary->l2 = 1.02 * std::sqrt(896) * std::max(r.summary->max, -r.summary->min);
        }},
       {"mean beyond what the norm allows", kSummaryAlone,
        [](Record& r) { r.summary->mean = 1.02 * r.summary->l2 / std::sqrt(896); }},
       {"fewer than no elements that are not finite", kSummaryAlone,
        [](Record& r) { r.summary->nonfinite = -1; }},
       {"more NaN than elements that are not finite", kSummaryAlone,
        [](Record& r) { r.summary->nan = 1; }},
       {"a largest element that is not one", kSummaryAlone,
        [](Record& r) { r.summary->top.back().index = 896; }},
       {"an argmax that is no element", kSummaryAlone, [](Record& r) { r.summary->argmax = 896; }},
       {"a largest element above the maximum", kSummaryAlone,
        [](Record& r) { r.summary->top.front().value *= 1.1F; }},
       {"a largest element below the minimum", kSummaryAlone,
        [](Record& r) { r.summary->top.back().value = -100; }},
       {"largest elements that rise", kSummaryAlone,
        [](Record& r) { std::swap(r.summary->top.front(), r.summary->top.back()); }},
       {"a maximum above all of the largest", kSummaryAlone,
        [](Record& r) {
          for (TopValue& top : r.summary->top) top.value *= 0.5F;
        }},
       {"an argmax that is not among the largest", kSummaryAlone,
        [](Record& r) { r.summary->argmax = (r.summary->top.front().index + 1) % 896; }}},
      right);
}

// Breaks if a number were held to the norm and the extremes alone, where the log may lack these.
TEST(SelfCheck, FindsNumbersThatNoOtherOneIsStatedFor) {
  Record right = stated(random_values(896, 3), 0, true, false);
  right.summary->max = right.summary->l2 = kNaN;
  expect_found(
      {{"mean above the largest element", kSummaryAlone,
        [](Record& r) { r.summary->mean = r.summary->top.front().value * 1.1; }},
       {"min above the largest element", kSummaryAlone,
        [](Record& r) { r.summary->min = r.summary->top.front().value * 1.1; }},
       {"largest elements beyond the norm", kSummaryAlone, [](Record& r) { r.summary->l2 = 1e-3; }},
       {"a mean that one large element does not leave", kSummaryAlone,
        [](Record& r) { r.summary->max = r.summary->top.front().value = 1e30F; }},
       {"a mean that one small element does not leave", kSummaryAlone,
        [](Record& r) { r.summary->min = -1e30; }}},
      right);
}

// Breaks if a sketch were held to the norm alone, which the log may lack.
TEST(SelfCheck, FindsNumbersBeyondTheSketch) {
  Record right = stated(random_values(896, 3), 0, true, true);
  right.summary->l2 = kNaN;
  expect_found({{"mean", kSketchAndSummary,
                 [](Record& r) {
                   r.summary->mean = 1e30;
                   r.summary->max = r.summary->min = kNaN;
                   r.summary->top.clear();
                 }},
                {"extremes", kSketchAndSummary,
                 [](Record& r) {
                   r.summary->min = -1e30;
                   r.summary->mean = kNaN;
                 }},
                {"largest elements", kSketchAndSummary,
                 [](Record& r) {
                   for (TopValue& top : r.summary->top) top.value *= 100;
                   r.summary->max = r.summary->min = kNaN;
                 }},
                {"a sketch of zeros", kSketchAndSummary, [](Record& r) { r.sketch->fill(0); }},
                {"a sketch beyond the extremes", kSketchAndSummary,
                 [](Record& r) {
                   for (double& sum : *r.sketch) sum *= 100;
                 }}},
               right);
}

// Breaks if an infinite norm, beside which no difference is large, were a norm.
TEST(SelfCheck, FindsInfiniteSums) {
  const Record record = stated(random_values(64, 3), 10, true, false);
  for (double Summary::*number : {&Summary::min, &Summary::max, &Summary::mean, &Summary::l2}) {
    for (const double infinity : {INFINITY, -INFINITY}) {
      Record made = record;
      *made.summary.*number = infinity;
      EXPECT_EQ(contradiction_in(made, {}), kSummaryAlone);
    }
  }
}

// Breaks if a record could state another choice than its own values show.
TEST(SelfCheck, FindsAnArgmaxContradictedByValues) {
  std::vector<float> values = random_values(896, 3);
  values[7] = 20;
  for (const size_t head : {size_t{10}, size_t{896}}) {
    Record record = stated(values, head, true, false);
    record.summary->top.clear();
    EXPECT_EQ(contradiction_in(record, {}), "");
    record.summary->argmax = 3;
    EXPECT_EQ(contradiction_in(record, {}), kSummaryAndValues) << head;
  }
}

// All values are there: each number of the summary is theirs.
TEST(SelfCheck, FindsASummaryOfOtherValues) {
  const std::vector<float> values = random_values(896, 3);
  expect_found({{"norm", kSummaryAndValues, [](Record& r) { r.summary->l2 *= 1.02; }},
                {"max", kSummaryAndValues,
                 [](Record& r) {
                   r.summary->max *= 1.03;
                   r.summary->top.clear();
                 }},
                {"min", kSummaryAndValues, [](Record& r) { r.summary->min *= 0.9; }},
                {"mean", kSummaryAndValues,
                 [](Record& r) { r.summary->mean += 0.02 * r.summary->l2 / std::sqrt(896); }},
                {"count", kSummaryAndValues, [](Record& r) { r.summary->nonfinite = 2; }},
                {"count of NaN", kSummaryAndValues,
                 [](Record& r) {
                   r.summary->counts_nonfinite = false;
                   r.summary->nan = 1;
                 }},
                {"a NaN that is not counted", kSummaryAndValues,
                 [](Record& r) { r.values[5] = std::nanf(""); }},
                {"a largest element", kSummaryAndValues,
                 [](Record& r) { r.summary->top[2].index = (r.summary->top[2].index + 1) % 896; }},
                {"largest elements that are not", kSummaryAndValues,
                 [](Record& r) {
                   const auto it = std::ranges::find_if(r.values, [](float v) { return v < 0; });
                   r.summary->top[4] = {it - r.values.begin(), *it};
                 }},
                {"largest elements in disorder", kSummaryAlone,
                 [](Record& r) { std::swap(r.summary->top[2], r.summary->top[3]); }},
                {"all of another tensor", kSummaryAndValues,
                 [](Record& r) { r.values = random_values(896, 4); }}},
               stated(values, 896, true, false));
}

// A head: what it shows must fit into a tensor with that summary.
TEST(SelfCheck, FindsAHeadOutsideItsSummary) {
  std::vector<float> values = random_values(896, 3);
  values[7] = 20;  // one of the largest, within the head
  const Record right = stated(values, 10, true, false);
  expect_found(
      {{"a value above the maximum", kSummaryAndValues,
        [](Record& r) {
          r.values[3] = 25;
          r.summary->l2 *= 1.2;
        }},
       {"a value below the minimum", kSummaryAndValues, [](Record& r) { r.values[3] = -15; }},
       {"a norm above the whole's", kSummaryAndValues,
        [](Record& r) {
          r.summary->min = r.summary->max = r.summary->mean = kNaN;
          r.summary->top.clear();
          r.summary->l2 = 19;
        }},
       {"a largest element of another value", kSummaryAndValues,
        [](Record& r) { r.values[7] = 19; }},
       {"a NaN that is not counted", kSummaryAndValues,
        [](Record& r) { r.values[3] = std::nanf(""); }}},
      right);
}

TEST(SelfCheck, FindsASketchOfAnotherTensor) {
  const std::vector<float> values = random_values(896, 3);
  const auto of_another = [](Record& r) { r.sketch = compute_sketch(random_values(896, 4)); };
  const auto slightly = [](Record& r) { (*r.sketch)[5] *= 1.5; };
  const auto far = [](Record& r) {
    for (double& sum : *r.sketch) sum *= 0.3;
  };
  const auto farther = [](Record& r) {
    for (double& sum : *r.sketch) sum *= 3;
  };
  expect_found({{"of another", kSketchAndValues, of_another},
                {"one sum of 64", kSketchAndValues, slightly},
                {"NaN", "its sketch and any sum of finite values",
                 [](Record& r) { r.sketch->at(3) = kNaN; }}},
               stated(values, 896, false, true));
  expect_found({{"too small", kSketchAndSummary, far}, {"too large", kSketchAndSummary, farther}},
               stated(values, 0, true, true));
  expect_found({{"of a tensor smaller than its head", kSketchAndValues,
                 [](Record& r) {
                   for (double& sum : *r.sketch) sum *= 0.01;
                 }}},
               stated(values, 10, false, true));
}

// Breaks if garbage in the values made a liar of a sound record, or hid that what is left lies.
TEST(SelfCheck, IgnoresValuesThatAreSetAside) {
  const std::vector<int64_t> set_aside = {3};
  for (const size_t head : {size_t{10}, size_t{896}}) {
    Record garbage = stated(random_values(896, 3), head, true, true);
    garbage.values[3] = 1e30F;
    EXPECT_NE(contradiction_in(garbage, {}), "") << head;
    EXPECT_EQ(contradiction_in(garbage, set_aside), "") << head;
    garbage.values[4] = 50;
    EXPECT_EQ(contradiction_in(garbage, set_aside), kSummaryAndValues) << head;
    garbage.summary.reset();
    garbage.values[4] = 5000;
    EXPECT_EQ(contradiction_in(garbage, set_aside), kSketchAndValues) << head;
  }
}

// Log-probabilities in a list: of a distribution, and those of the values beside them.
class SelfCheckTop : public testing::Test {
 protected:
  SelfCheckTop() {
    std::vector<float> values = random_values(64, 3);
    double sum = 0;
    for (const float value : values) sum += std::exp(static_cast<double>(value));
    for (float& value : values) value -= static_cast<float>(std::log(sum));
    right_ = record(values, "logprobs");
    for (int64_t i = 0; i < 64; ++i) right_.top.push_back({i, values[static_cast<size_t>(i)]});
    std::sort(right_.top.begin(), right_.top.end(),
              [](const TopValue& a, const TopValue& b) { return a.value > b.value; });
  }

  // The `count` most probable, and the first `head` values.
  Record part(size_t count, size_t head) const {
    Record made = right_;
    made.top.resize(count);
    made.values.resize(head);
    return made;
  }

  Record right_;
};

TEST_F(SelfCheckTop, CorrectListsAgree) {
  for (const size_t count : {0, 1, 5, 64}) {
    for (const size_t head : {0, 10, 64}) {
      EXPECT_EQ(contradiction_in(part(count, head), {}), "") << count << " and " << head;
    }
  }
  Record sure = part(1, 0);
  sure.top[0].value = 0;
  EXPECT_EQ(contradiction_in(sure, {}), "") << "certainty";
}

TEST_F(SelfCheckTop, FindsProbabilitiesNotSummingToOne) {
  constexpr std::string_view kSum = "its probabilities and a sum of 1";
  Record many = part(64, 0);
  for (TopValue& top : many.top) top.value += 0.1F;
  EXPECT_EQ(contradiction_in(many, {}), kSum) << "a sum above 1";
  Record few = part(64, 0);
  for (TopValue& top : few.top) top.value -= 0.1F;
  EXPECT_EQ(contradiction_in(few, {}), kSum) << "none is left for the rest";
  Record positive = part(1, 0);
  positive.top[0].value = 0.1F;
  EXPECT_EQ(contradiction_in(positive, {}), kSum) << "above certainty";
  for (const float off : {-0.06F, 0.06F}) {
    Record all = part(0, 64);
    for (float& value : all.values) value += off;
    EXPECT_EQ(contradiction_in(all, {}), kSum) << off << " of all, beside nothing else";
  }
}

TEST_F(SelfCheckTop, FindsAListOfOtherValues) {
  constexpr std::string_view kList = "its most probable tokens and its values";
  Record swapped = part(5, 64);
  std::swap(swapped.top.front().index, swapped.top.back().index);
  EXPECT_EQ(contradiction_in(swapped, {}), kList);
  Record hidden = part(5, 64);
  hidden.top.erase(hidden.top.begin());
  EXPECT_EQ(contradiction_in(hidden, {}), kList) << "a value above all that are listed";
}

// Breaks if a list could differ from the summary beside it, which is what is compared.
TEST_F(SelfCheckTop, FindsAListOfAnotherSummary) {
  constexpr std::string_view kSummary = "its most probable tokens and its summary";
  const std::vector<float> values = right_.values;
  Record right = part(5, 0);
  right.summary = summarize(values);
  EXPECT_EQ(contradiction_in(right, {}), "");
  Record lower = right;
  for (TopValue& top : lower.top) top.value -= 0.5F;
  EXPECT_EQ(contradiction_in(lower, {}), kSummary);
  Record other_ids = right;
  for (TopValue& top : other_ids.top) top.index = (top.index + 1) % 64;
  EXPECT_EQ(contradiction_in(other_ids, {}), kSummary);
  lower.summary->top.clear();
  EXPECT_EQ(contradiction_in(lower, {}), kSummary) << "the maximum alone";
}

// Breaks if each token of a list were looked for among all of the summary's, which are its own.
TEST_F(SelfCheckTop, ListsOfAWholeVocabularyTakeLinearTime) {
  constexpr int64_t kVocabulary = 400'000;
  Record whole;
  whole.checkpoint = "logprobs";
  whole.n = kVocabulary;
  const auto each = -std::log(static_cast<float>(kVocabulary));
  for (int64_t i = 0; i < kVocabulary; ++i) whole.top.push_back({i, each});
  whole.summary.emplace(empty_summary()).top = whole.top;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(contradiction_in(whole, {}), "");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
}

}  // namespace
}  // namespace assay
