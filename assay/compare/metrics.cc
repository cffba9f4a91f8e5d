#include "assay/compare/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <vector>

#include "assay/compare/single_values.h"
#include "assay/compare/value_metrics.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// x / y where 0 / 0 is no difference and x / 0 is an infinite one.
double relative(double x, double y) {
  return x == 0 && y == 0 ? 0 : x / y;
}

// `most`, the largest of what was seen, NaN once one was.
void raise(double& most, double value) {
  if (!std::isnan(most) && !(value <= most)) most = value;
}

// Summaries of the same tensor may have been computed in other orders, or by 32-bit floats.
constexpr double kSummaryRounding = 1e-6;
constexpr double kUnseen = 1e-3;  // an error of logits that their padding must not hide

// What is known of a whole tensor without all of its values.
struct Whole {
  // The norm, or its estimate.
  std::optional<double> norm() const {
    if (l2 || !sketch) return l2;
    return sketch_norm(*sketch);
  }

  std::optional<Sketch> sketch;
  std::optional<double> l2;
  std::optional<Summary> summary;
  std::optional<int64_t> nonfinite;
  std::optional<int64_t> nan;
  std::vector<TopValue> top;
};

// Of a record with all values only what is asked for is computed.
Whole whole_of(const Record& record, std::span<const float> values, bool sketch_wanted,
               bool norm_wanted) {
  Whole whole;
  if (record.has_all_values()) {
    whole.top = largest_values(values);
    if (sketch_wanted) whole.sketch = compute_sketch(record.values);
    if (norm_wanted) {
      const Summary summary = summarize(record.values);
      whole.l2 = summary.l2;
      whole.summary = summary;
      whole.nonfinite = summary.nonfinite;
      whole.nan = summary.nan;
    }
    return whole;
  }
  whole.sketch = record.sketch;
  if (record.summary) {
    if (!std::isnan(record.summary->l2)) whole.l2 = record.summary->l2;
    whole.summary = record.summary;
    whole.nonfinite = record.summary->nonfinite;
    whole.nan = record.summary->nan;
    whole.top = record.summary->top;
  }
  return whole;
}

// With d the difference of the two tensors: |max a - max b| and |min a - min b| are at most |d|'s
// largest element, so at most ||d||; |mean a - mean b| is at most ||d|| / sqrt(n) (Cauchy-Schwarz).
// `share`: of a difference, in the reference's norm.
template <class Share>
void raise_to_summaries(const Summary& a, const Summary& b, const Share& share, Metrics& metrics) {
  double least = 0;  // that ||d|| can be; NaN, where one of the two lacks a number, is not above it
  for (const double known :
       {std::abs(a.max - b.max), std::abs(a.min - b.min),
        std::abs(a.mean - b.mean) * std::sqrt(static_cast<double>(metrics.n))}) {
    if (known > least) least = known;
    metrics.comparable = metrics.comparable || !std::isnan(known);
  }
  const double bound = share(least);
  if (bound > kSummaryRounding) raise(metrics.rel_l2, bound);
  const bool same_top = std::equal(a.top.begin(), a.top.end(), b.top.begin(), b.top.end(),
                                   [](const TopValue& x, const TopValue& y) {
                                     return x.index == y.index && x.value == y.value;
                                   });
  metrics.identical = metrics.identical && same_top && a.argmax == b.argmax && bound == 0;
}

// Equal infinities are equal, a NaN never is; where a summary does not say which it counted, it may
// be a NaN. Infinities that the other log can neither confirm nor deny are padding in logits, and
// nothing else has any. A NaN is none of the largest values, whoever says so.
void add_nonfinite(const Whole& ref, const Whole& got, bool is_logits, Metrics& metrics) {
  if (ref.nonfinite && got.nonfinite && *ref.nonfinite != *got.nonfinite) {
    metrics.nonfinite = std::max(metrics.nonfinite, std::abs(*ref.nonfinite - *got.nonfinite));
  }
  for (const Whole* whole : {&ref, &got}) {
    const bool alone = !is_logits && ref.nonfinite.has_value() != got.nonfinite.has_value();
    const int64_t nonfinite = whole->nonfinite.value_or(0);
    const int64_t suspects = alone ? nonfinite : whole->nan.value_or(nonfinite);
    const auto nan = std::count_if(whole->top.begin(), whole->top.end(),
                                   [](const TopValue& top) { return std::isnan(top.value); });
    metrics.nonfinite = std::max({metrics.nonfinite, suspects, static_cast<int64_t>(nan)});
  }
}

// The norm of logits that differences are taken against: the reference's, but no more than padding
// leaves of it, beside which every error would be small. Logits are seldom far larger than those
// that are known: the largest of all and the values logged.
double norm_of_logits(const Whole& ref, std::span<const float> values, double norm, int64_t n) {
  constexpr double kMost = 10;
  if (ref.top.empty()) return norm;
  double largest = 0;
  const auto see = [&](float value) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(static_cast<double>(value)));
  };
  std::for_each(values.begin(), values.end(), see);
  for (const TopValue& top : ref.top) see(top.value);
  return largest > 0 ? std::min(norm, kMost * largest * std::sqrt(static_cast<double>(n))) : norm;
}

// Raises rel_l2 to what sketches and summaries say of the elements that were not compared.
// `norm`: what differences are taken against, the reference's norm or less.
void add_whole(const Whole& ref, const Whole& got, double head_difference, double head_l2,
               const std::optional<double>& norm, Metrics& metrics) {
  const std::optional<double> ref_l2 = ref.norm();
  const std::optional<double> got_l2 = got.norm();
  // Sums are no more exact than they are printed.
  const auto share = [&](double difference) {
    return relative(difference, difference > kSummaryRounding * *ref_l2 ? *norm : *ref_l2);
  };
  if (ref_l2 && metrics.n > 0) {
    const double part = static_cast<double>(metrics.compared) / static_cast<double>(metrics.n);
    metrics.rel_l2 = relative(head_difference, std::max(head_l2, *norm * std::sqrt(part)));
  }
  if (ref.sketch && got.sketch) {
    raise(metrics.rel_l2, share(sketch_distance(*ref.sketch, *got.sketch)));
    metrics.identical = metrics.identical && *ref.sketch == *got.sketch;
    metrics.comparable = true;
  }
  if (ref_l2 && got_l2 && (*ref_l2 == 0) != (*got_l2 == 0)) {
    raise(metrics.rel_l2, *ref_l2 == 0 ? std::numeric_limits<double>::infinity() : 1);
    metrics.comparable = true;
  }
  // What one of the two says of itself proves nothing.
  metrics.all_zero = metrics.all_zero && !(ref_l2 && got_l2 && (*ref_l2 != 0 || *got_l2 != 0));
  if (ref.l2 && got.l2) {
    const double difference = std::abs(*ref.l2 - *got.l2);
    if (!(relative(difference, *ref.l2) <= kSummaryRounding)) {
      raise(metrics.rel_l2, share(difference));
    }
    metrics.comparable = true;
  }
  if (ref.summary && got.summary && ref_l2) {
    raise_to_summaries(*ref.summary, *got.summary, share, metrics);
  }
}

// Raises rel_l2 to what single values say of the elements that were not compared. `head_2`: the
// squared difference of those that were.
void add_single_values(const Whole& ref, std::span<const float> ref_values, const Whole& got,
                       std::span<const float> got_values, double head_2,
                       const std::optional<double>& norm, Metrics& metrics) {
  const auto known = [](const Whole& whole, std::span<const float> values) {
    return SingleValues{values, whole.top, whole.summary ? &*whole.summary : nullptr};
  };
  const std::map<int64_t, double> differences =
      least_differences(known(ref, ref_values), known(got, got_values),
                        std::min(ref_values.size(), got_values.size()));
  if (differences.empty()) return;
  double squares = head_2;
  for (const auto& [index, difference] : differences) {
    squares += difference * difference;
    raise(metrics.observed_error, difference);
  }
  metrics.identical = false;
  metrics.comparable = true;
  if (norm) {
    raise(metrics.rel_l2, relative(std::sqrt(squares), *norm));
    return;
  }
  // The reference says nothing but its values: the others are as large as these.
  double of_values = 0;
  for (const float value : ref_values) {
    if (std::isfinite(value)) of_values += static_cast<double>(value) * static_cast<double>(value);
  }
  const double share =
      static_cast<double>(metrics.n) / static_cast<double>(std::max<size_t>(ref_values.size(), 1));
  raise(metrics.rel_l2, relative(std::sqrt(squares), std::sqrt(of_values * share)));
}

// The record's value at `index`, where it is known.
std::optional<double> value_at(const Record& record, int64_t index) {
  if (index < static_cast<int64_t>(record.values.size())) {
    return static_cast<double>(record.values[static_cast<size_t>(index)]);
  }
  if (!record.summary) return std::nullopt;
  for (const TopValue& value : record.summary->top) {
    if (value.index == index) return static_cast<double>(value.value);
  }
  return std::nullopt;
}

std::optional<int64_t> argmax_of(const Record& record, const Whole& whole) {
  if (record.has_all_values() && !whole.top.empty()) return whole.top.front().index;
  if (record.has_all_values() || !record.summary || record.summary->argmax < 0) {
    return std::nullopt;
  }
  return record.summary->argmax;
}

void set_regret(const Record& ref, Metrics& metrics) {
  metrics.regret.reset();
  if (!metrics.argmax_ref || !metrics.argmax_got) return;
  const auto best = value_at(ref, *metrics.argmax_ref);
  const auto chosen = value_at(ref, *metrics.argmax_got);
  if (*metrics.argmax_ref == *metrics.argmax_got) {
    metrics.regret = 0;
  } else if (best && chosen) {
    metrics.regret = *best - *chosen;
  }
}

void add_logits_metrics(const Record& ref, const Record& got, const Whole& ref_whole,
                        const Whole& got_whole, Metrics& metrics) {
  metrics.argmax_ref = argmax_of(ref, ref_whole);
  metrics.argmax_got = argmax_of(got, got_whole);
  set_regret(ref, metrics);
  if (!ref_whole.top.empty() && !got_whole.top.empty()) {
    int64_t shared = 0;
    for (const TopValue& x : ref_whole.top) {
      shared += std::count_if(got_whole.top.begin(), got_whole.top.end(),
                              [&](const TopValue& y) { return x.index == y.index; });
    }
    metrics.topk_overlap = static_cast<double>(shared) / static_cast<double>(ref_whole.top.size());
  }
}

// `values` with -Infinity in the excluded places, in `kept`: equal infinities take no part in any
// sum, and -Infinity in no argmax.
std::span<const float> without(const std::vector<float>& values, std::span<const int64_t> excluded,
                               std::vector<float>& kept) {
  if (excluded.empty()) return values;
  kept = values;
  for (const int64_t index : excluded) {
    if (index >= std::ssize(kept)) continue;
    kept[static_cast<size_t>(index)] = -std::numeric_limits<float>::infinity();
  }
  return kept;
}

// Takes the excluded elements out of the counts of a whole that was made of all values.
void leave_out(const Record& record, std::span<const int64_t> excluded, Whole& whole) {
  if (!record.has_all_values() || !whole.nonfinite) return;
  for (const int64_t index : excluded) {
    if (index >= std::ssize(record.values)) continue;
    const float value = record.values[static_cast<size_t>(index)];
    *whole.nonfinite -= std::isfinite(value) ? 0 : 1;
    if (whole.nan) *whole.nan -= std::isnan(value) ? 1 : 0;
  }
}

// Of logits without NaN. There is none beside +Infinity, nor where all are -Infinity.
bool has_softmax(std::span<const float> logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  return largest != logits.end() && std::isfinite(*largest);
}

void poison(Metrics& metrics) {
  metrics.max_abs = metrics.mean_abs = metrics.rms = metrics.rel_l2 = metrics.cosine = kNaN;
  metrics.nmse = metrics.observed_error = metrics.least_max_abs = kNaN;
  metrics.all_zero = metrics.identical = false;
  if (metrics.kl) metrics.kl = kNaN;
}

// The distances of the values that both records hold.
void add_values(const ValueSums& sums, int64_t n_excluded, Metrics& metrics) {
  metrics.compared = sums.count - n_excluded;
  metrics.comparable = metrics.compared > 0;
  const double count = static_cast<double>(std::max<int64_t>(metrics.compared, 1));
  metrics.max_abs = metrics.observed_error = sums.max_difference;
  metrics.mean_abs = sums.abs_difference / count;
  metrics.rms = std::sqrt(sums.difference_2 / count);
  metrics.ref_rms = std::sqrt(sums.a_2 / count);
  metrics.rel_l2 = relative(std::sqrt(sums.difference_2), std::sqrt(sums.a_2));
  const double norms = std::sqrt(sums.a_2) * std::sqrt(sums.b_2);
  metrics.cosine = norms > 0 ? std::min(1.0, sums.a_b / norms) : (sums.a_2 == sums.b_2 ? 1 : 0);
  metrics.max_ulp = sums.max_ulp;
  metrics.sign_flips = sums.sign_flips;
  metrics.nonfinite = sums.nonfinite;
  // Excluded elements stand as infinities.
  metrics.all_zero =
      sums.a_2 == 0 && sums.b_2 == 0 && sums.max_ulp == 0 && sums.infinite == n_excluded;
  metrics.identical = sums.difference_2 == 0 && sums.max_ulp == 0;
}

// The record as if the tensor had only its first `n` elements: what its whole is known by is gone.
Record first_elements(const Record& record, int64_t n) {
  Record part = record;
  part.n = n;
  if (static_cast<int64_t>(part.values.size()) > n) part.values.resize(static_cast<size_t>(n));
  part.sketch.reset();
  if (part.has_all_values() || !part.summary) {
    part.summary.reset();
    return part;
  }
  Summary& summary = *part.summary;
  summary.min = summary.mean = summary.l2 = kNaN;
  summary.nonfinite = 0;
  summary.nan.reset();
  // Of the largest elements those before n are the largest there, and if the very largest is one,
  // it is the maximum.
  if (summary.argmax >= n) {
    summary.argmax = -1;
    summary.max = kNaN;
  }
  std::erase_if(summary.top, [n](const TopValue& value) { return value.index >= n; });
  return part;
}

// NaN, or +Infinity, which is chosen before all else and is no padding, among the elements from `n`
// on; of a record without all values any NaN that its summary tells of.
int64_t bad_beyond(const Record& record, std::span<const int64_t> excluded, int64_t n) {
  if (!record.has_all_values()) return record.summary ? record.summary->nan.value_or(0) : 0;
  std::vector<float> kept;
  const std::span<const float> values = without(record.values, excluded, kept);
  return std::count_if(values.begin() + n, values.end(), [](float value) {
    return std::isnan(value) || (std::isinf(value) && value > 0);
  });
}

std::optional<int64_t> argmax_without(const Record& record, std::span<const int64_t> excluded) {
  std::vector<float> kept;
  const std::span<const float> values = without(record.values, excluded, kept);
  return argmax_of(record, whole_of(record, values, false, false));
}

// What counts of the elements that only `longer` has.
void add_elements_beyond(const Record& ref, const Record& got, bool is_logits,
                         std::span<const int64_t> excluded, Metrics& metrics) {
  const Record& longer = ref.n > got.n ? ref : got;
  metrics.nonfinite += bad_beyond(longer, excluded, metrics.n);
  if (metrics.nonfinite > 0) poison(metrics);
  if (!is_logits) return;
  // The token that they choose may be among the elements that the other record does not have.
  const std::optional<int64_t> argmax = argmax_without(longer, excluded);
  if (!argmax || *argmax < metrics.n) return;
  (&longer == &ref ? metrics.argmax_ref : metrics.argmax_got) = argmax;
  set_regret(ref, metrics);
}

}  // namespace

Metrics compare_records(const Record& ref, const Record& got, bool is_logits,
                        std::span<const int64_t> excluded) {
  if (ref.n != got.n) {
    Metrics metrics = ref.n > got.n
                          ? compare_records(first_elements(ref, got.n), got, is_logits, excluded)
                          : compare_records(ref, first_elements(got, ref.n), is_logits, excluded);
    metrics.cut = true;
    if (!metrics.comparable) metrics.rel_l2 = metrics.nmse = kNaN;
    add_elements_beyond(ref, got, is_logits, excluded, metrics);
    return metrics;
  }
  const size_t common = std::min(ref.values.size(), got.values.size());
  std::vector<float> kept_ref;
  std::vector<float> kept_got;
  const std::span<const float> ref_values = without(ref.values, excluded, kept_ref);
  const std::span<const float> got_values = without(got.values, excluded, kept_got);
  const std::span<const float> a = ref_values.first(common);
  const std::span<const float> b = got_values.first(common);
  Metrics metrics;
  metrics.n = ref.n;
  metrics.is_logits = is_logits;
  const ValueSums sums = sum_values(a, b);
  const auto n_excluded = std::count_if(excluded.begin(), excluded.end(), [&](int64_t index) {
    return index < static_cast<int64_t>(common);
  });
  add_values(sums, n_excluded, metrics);
  const bool whole_values = ref.has_all_values() && got.has_all_values();
  Whole ref_whole;
  Whole got_whole;
  if (is_logits || !whole_values) {
    ref_whole = whole_of(ref, ref_values, got.sketch.has_value(), !whole_values);
    got_whole = whole_of(got, got_values, ref.sketch.has_value(), !whole_values);
  }
  if (!whole_values) {
    leave_out(ref, excluded, ref_whole);
    leave_out(got, excluded, got_whole);
    add_nonfinite(ref_whole, got_whole, is_logits, metrics);
    const int64_t beyond = nonfinite_beyond(ref, common, excluded, got_whole.nonfinite) +
                           nonfinite_beyond(got, common, excluded, ref_whole.nonfinite);
    metrics.nonfinite = std::max(metrics.nonfinite, sums.nonfinite + beyond);
  }
  metrics.least_max_abs = metrics.observed_error;
  // A tensor whose garbage was left out cannot be held against a sketch that includes it.
  if (!whole_values && excluded.empty()) {
    const std::optional<double> whole = ref_whole.norm();
    std::optional<double> norm = whole;
    if (norm && is_logits) norm = norm_of_logits(ref_whole, a, *norm, ref.n);
    add_whole(ref_whole, got_whole, std::sqrt(sums.difference_2), std::sqrt(sums.a_2), norm,
              metrics);
    add_single_values(ref_whole, ref_values, got_whole, got_values, sums.difference_2, norm,
                      metrics);
    metrics.least_max_abs = metrics.observed_error;
    if (norm && metrics.n > 0) {
      metrics.ref_rms = *norm / std::sqrt(static_cast<double>(metrics.n));
      metrics.padded = kSummaryRounding * *whole > kUnseen * *norm;
    }
  }
  if (!whole_values) raise(metrics.least_max_abs, metrics.rel_l2 * metrics.ref_rms);
  if (is_logits) {
    add_logits_metrics(ref, got, ref_whole, got_whole, metrics);
    // Beside +Infinity, here the same on both sides, no softmax has a value.
    const bool has_kl = metrics.nonfinite > 0 || (has_softmax(a) && has_softmax(b));
    if (whole_values && has_kl) metrics.kl = kl_divergence(a, b);
  }
  metrics.nmse = metrics.rel_l2 * metrics.rel_l2;
  if (metrics.nonfinite > 0) poison(metrics);
  return metrics;
}

void choose_from_all(const Record& ref, const Record& got, std::span<const int64_t> ref_out,
                     std::span<const int64_t> got_out, Metrics& metrics) {
  if (ref.has_all_values()) metrics.argmax_ref = argmax_without(ref, ref_out);
  if (got.has_all_values()) metrics.argmax_got = argmax_without(got, got_out);
  const auto is_in = [](std::span<const int64_t> indices, const std::optional<int64_t>& index) {
    return index && std::find(indices.begin(), indices.end(), *index) != indices.end();
  };
  // A summary was made with the garbage in it.
  if (is_in(ref_out, metrics.argmax_ref)) metrics.argmax_ref.reset();
  if (is_in(got_out, metrics.argmax_got)) metrics.argmax_got.reset();
  const bool got_hides = is_in(got_out, metrics.argmax_ref);
  const bool ref_hides = is_in(ref_out, metrics.argmax_got);
  if (got_hides) metrics.argmax_got.reset();
  if (ref_hides) metrics.argmax_ref.reset();
  set_regret(ref, metrics);
}

}  // namespace assay
