#include "assay/compare/metrics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "assay/compare/difference_bounds.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/single_values.h"
#include "assay/compare/value_metrics.h"

namespace assay {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Equal infinities are equal, a NaN never is; where a summary does not say which it counted, what
// is not listed as infinite may be a NaN. Infinities that the other log can neither confirm nor
// deny are padding in logits, and nothing else has any. A NaN is not among the largest values,
// whoever says so.
void add_nonfinite(const Record& ref, const Record& got, const RecordView& ref_view,
                   const RecordView& got_view, Metrics& metrics) {
  const bool both = ref_view.nonfinite && got_view.nonfinite;
  const bool alone = ref_view.nonfinite.has_value() != got_view.nonfinite.has_value();
  if (both && *ref_view.nonfinite != *got_view.nonfinite) {
    metrics.nonfinite =
        std::max(metrics.nonfinite, std::abs(*ref_view.nonfinite - *got_view.nonfinite));
  }
  for (const auto& [record, view] : {std::pair(&ref, &ref_view), {&got, &got_view}}) {
    const auto nan = std::count_if(view->top.begin(), view->top.end(),
                                   [](const TopValue& top) { return std::isnan(top.value); });
    metrics.nonfinite = std::max(metrics.nonfinite, static_cast<int64_t>(nan));
    const int64_t nonfinite = view->nonfinite.value_or(0);
    if (alone && !metrics.is_logits) metrics.nonfinite = std::max(metrics.nonfinite, nonfinite);
    if (view->nan) metrics.nonfinite = std::max(metrics.nonfinite, *view->nan);
    if (view->nan || nonfinite == 0) continue;
    const auto listed = std::count_if(record->values.begin(), record->values.end(),
                                      [](float value) { return std::isinf(value); });
    metrics.unclear_nonfinite = metrics.unclear_nonfinite || nonfinite > listed;
  }
}

// Elements from `common` on that one lists as infinite, and that the other lists or counts as
// finite, or says nothing of: only -Infinity in logits may be padding.
int64_t infinite_beside_finite(const RecordView& ref, const RecordView& got, size_t common,
                               std::span<const int64_t> excluded, bool is_logits) {
  int64_t count = 0;
  for (const auto& [mine, other] : {std::pair(&ref, &got), {&got, &ref}}) {
    const KnownValues known(other->values, other->top);
    for (const TopValue& top : mine->top) {
      if (top.index < static_cast<int64_t>(common) || std::isnan(top.value)) continue;
      if (std::binary_search(excluded.begin(), excluded.end(), top.index)) continue;
      const std::optional<float> there = known.at(top.index);
      const bool differs = there && std::isinf(*there) != std::isinf(top.value);
      const bool is_padding = is_logits && top.value < 0;
      const bool uncounted =
          !there && std::isinf(top.value) && other->nonfinite.value_or(is_padding ? 1 : 0) == 0;
      count += differs || uncounted ? 1 : 0;
    }
  }
  return count;
}

std::optional<int64_t> argmax_of(const Record& record, const RecordView& view) {
  if (record.has_all_values() && !view.top.empty()) return view.top.front().index;
  if (record.has_all_values() || !record.summary || record.summary->argmax < 0) {
    return std::nullopt;
  }
  return record.summary->argmax;
}

// The value of an element that may be the largest.
std::optional<float> logit_at(const Record& record, int64_t index) {
  if (const auto value = value_at(record, index)) return value;
  const bool is_largest =
      record.summary && record.summary->argmax == index && !std::isnan(record.summary->max);
  return is_largest ? std::optional(static_cast<float>(record.summary->max)) : std::nullopt;
}

void set_regret(const Record& ref, const Record& got, Metrics& metrics) {
  metrics.regret.reset();
  metrics.min_regret.reset();
  metrics.level = false;
  if (!metrics.argmax_ref || !metrics.argmax_got) return;
  if (*metrics.argmax_ref == *metrics.argmax_got) {
    metrics.regret = 0;
    return;
  }
  const auto best = logit_at(ref, *metrics.argmax_ref);
  const auto chosen = logit_at(ref, *metrics.argmax_got);
  const auto other = logit_at(got, *metrics.argmax_ref);
  metrics.level = other && other == logit_at(got, *metrics.argmax_got);
  const auto most_unlisted = ref.summary ? most_of_unlisted(ref, ref.summary->top) : std::nullopt;
  if (best && chosen) {
    metrics.regret = static_cast<double>(*best) - static_cast<double>(*chosen);
  } else if (best && most_unlisted) {
    metrics.min_regret = static_cast<double>(*best) - *most_unlisted;
  }
}

void add_logits_metrics(const Record& ref, const Record& got, const RecordView& ref_view,
                        const RecordView& got_view, Metrics& metrics) {
  metrics.argmax_ref = argmax_of(ref, ref_view);
  metrics.argmax_got = argmax_of(got, got_view);
  set_regret(ref, got, metrics);
  if (ref_view.top.empty() || got_view.top.empty()) return;
  const KnownValues listed({}, got_view.top);
  const auto shared = std::ranges::count_if(
      ref_view.top, [&](const TopValue& top) { return listed.at(top.index).has_value(); });
  metrics.topk_overlap = static_cast<double>(shared) / static_cast<double>(ref_view.top.size());
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

// Of logits without NaN. There is none beside +Infinity, nor where all are -Infinity.
bool has_softmax(std::span<const float> logits) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  return largest != logits.end() && std::isfinite(*largest);
}

void poison(Metrics& metrics) {
  metrics.max_abs = metrics.mean_abs = metrics.rms = metrics.rel_l2 = metrics.cosine = kNaN;
  metrics.nmse = metrics.observed_error = metrics.max_abs_lower_bound = kNaN;
  metrics.all_zero = metrics.identical = false;
  if (metrics.kl) metrics.kl = kNaN;
}

// The root mean square of the log-probabilities that a record without values lists, as it lists
// them; nothing where it is another kind of record.
std::optional<double> rms_of_list(const Record& record) {
  if (record.checkpoint != kLogProbabilitiesName || record.top.empty()) return std::nullopt;
  double squares = 0;
  for (const TopValue& entry : record.top) {
    const auto value = static_cast<double>(entry.value);
    if (std::isfinite(value)) squares += value * value;
  }
  return std::sqrt(squares / static_cast<double>(record.top.size()));
}

// Elements that are numbers on both sides; those left out stand as infinities.
int64_t count_finite(const ValueSums& sums) {
  return sums.count - sums.infinite - sums.nonfinite;
}

// The distances of the values that both records hold.
void add_values(const ValueSums& sums, int64_t n_excluded, Metrics& metrics) {
  metrics.compared = sums.count - n_excluded;
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
  metrics.facts.head = count_finite(sums) > 0 && !metrics.all_zero;
}

// What is known of the tensors beyond the values that both hold.
void add_whole(const RecordView& ref, const RecordView& got, size_t common, const ValueSums& sums,
               Metrics& metrics) {
  const double head_norm = std::sqrt(sums.a_2);
  const double head_difference = std::sqrt(sums.difference_2);
  const ViewPair pair = pair_views(ref, got, common, head_difference, head_norm, metrics);
  if (ref.norm() && metrics.n > 0) {
    const double part = static_cast<double>(metrics.compared) / static_cast<double>(metrics.n);
    metrics.rel_l2 = relative(head_difference, std::max(head_norm, pair.norm * std::sqrt(part)));
  }
  if ((ref.norm() || got.norm()) && metrics.n > 0) {
    metrics.ref_rms = pair.norm / std::sqrt(static_cast<double>(metrics.n));
    metrics.padded = pair.padded;
  } else if (metrics.compared == 0) {
    metrics.ref_rms = pair.norm;
  }
  raise_to_bounds(pair, metrics);
  metrics.all_zero = metrics.all_zero && (metrics.compared > 0 || metrics.facts.zeros);
  if (metrics.padded) metrics.facts.sketch = metrics.facts.summary = false;
  // Sums over no number say nothing.
  if (metrics.n > 0 && (ref.nonfinite == metrics.n || got.nonfinite == metrics.n)) {
    metrics.facts = {};
  }
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
  // At most the elements beyond n are padding.
  summary.nonfinite = std::max<int64_t>(0, summary.nonfinite - (record.n - n));
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
  return argmax_of(record, view_of(record, values, false, {}));
}

// Whether its summary counts elements that are not finite, and neither it nor the values tell that
// they are no NaN.
bool may_hide_nan(const Record& record) {
  if (!record.summary || record.summary->nan) return false;
  const auto listed = std::count_if(record.values.begin(), record.values.end(),
                                    [](float value) { return std::isinf(value); });
  return record.summary->nonfinite > listed;
}

// What counts of the elements that only `longer` has.
void add_elements_beyond(const Record& ref, const Record& got, std::span<const int64_t> excluded,
                         Metrics& metrics) {
  const Record& longer = ref.n > got.n ? ref : got;
  metrics.nonfinite += bad_beyond(longer, excluded, metrics.n);
  if (metrics.nonfinite > 0) poison(metrics);
  const bool is_whole = longer.has_all_values();
  if (!is_whole) {
    metrics.facts.head = metrics.facts.head || metrics.facts.all_values;
    metrics.facts.all_values = false;
    metrics.unclear_nonfinite = metrics.unclear_nonfinite || may_hide_nan(longer);
  }
  if (!metrics.is_logits) return;
  // The token that they choose may be among the elements that the other record does not have.
  const std::optional<int64_t> argmax = argmax_without(longer, excluded);
  if (is_whole && (!argmax || *argmax < metrics.n)) return;
  (&longer == &ref ? metrics.argmax_ref : metrics.argmax_got) = argmax;
  set_regret(ref, got, metrics);
}

Metrics compare_cut(const Record& ref, const Record& got, bool is_logits,
                    const SetAside& set_aside) {
  Metrics metrics = ref.n > got.n
                        ? compare_records(first_elements(ref, got.n), got, is_logits, set_aside)
                        : compare_records(ref, first_elements(got, ref.n), is_logits, set_aside);
  metrics.cut = true;
  if (!metrics.facts.any()) metrics.rel_l2 = metrics.nmse = kNaN;
  add_elements_beyond(ref, got, set_aside.indices, metrics);
  return metrics;
}

}  // namespace

Metrics compare_records(const Record& ref, const Record& got, bool is_logits,
                        const SetAside& set_aside) {
  if (ref.n != got.n) return compare_cut(ref, got, is_logits, set_aside);
  const std::span<const int64_t> excluded = set_aside.indices;
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
  metrics.in_nats =
      ref.checkpoint == kLogProbabilitiesName || got.checkpoint == kLogProbabilitiesName;
  metrics.listed_nats = rms_of_list(got);
  if (!metrics.listed_nats) metrics.listed_nats = rms_of_list(ref);
  const ValueSums sums = sum_values(a, b);
  const auto n_excluded = std::count_if(excluded.begin(), excluded.end(), [&](int64_t index) {
    return index < static_cast<int64_t>(common);
  });
  add_values(sums, n_excluded, metrics);
  const bool listed = ref.has_all_values() && got.has_all_values();
  const bool spoiled = set_aside.spoils_ref || set_aside.spoils_got;
  metrics.facts.all_values = listed && !spoiled && count_finite(sums) > 0;
  RecordView ref_view;
  RecordView got_view;
  if (is_logits || !metrics.facts.all_values) {
    const bool needs_sums = !metrics.facts.all_values;
    ref_view = view_of(ref, ref_values, set_aside.spoils_ref,
                       {needs_sums, needs_sums && got.sketch.has_value()});
    got_view = view_of(got, got_values, set_aside.spoils_got,
                       {needs_sums, needs_sums && ref.sketch.has_value()});
  }
  metrics.max_abs_lower_bound = metrics.observed_error;
  if (!metrics.facts.all_values) {
    add_nonfinite(ref, got, ref_view, got_view, metrics);
    metrics.nonfinite = std::max(
        metrics.nonfinite, infinite_beside_finite(ref_view, got_view, common, excluded, is_logits));
    const int64_t beyond =
        nonfinite_beyond(ref, common, excluded, got_view.nonfinite, true) +
        nonfinite_beyond(got, common, excluded, ref_view.nonfinite, got.has_all_values());
    if (is_logits && !ref_view.nonfinite && got.has_all_values() && has_mask(got, common)) {
      metrics.unclear_nonfinite = true;
    }
    metrics.nonfinite = std::max(metrics.nonfinite, sums.nonfinite + beyond);
    add_whole(ref_view, got_view, common, sums, metrics);
    metrics.max_abs_lower_bound = metrics.observed_error;
    const double root_mean_square = metrics.rel_l2 * metrics.ref_rms;
    if (!(root_mean_square <= metrics.max_abs_lower_bound))
      metrics.max_abs_lower_bound = root_mean_square;
  }
  if (is_logits) {
    add_logits_metrics(ref, got, ref_view, got_view, metrics);
    // Beside +Infinity, here the same on both sides, no softmax has a value.
    const bool has_kl = metrics.nonfinite > 0 || (has_softmax(a) && has_softmax(b));
    if (listed && has_kl) metrics.kl = kl_divergence(a, b);
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
  set_regret(ref, got, metrics);
}

}  // namespace assay
