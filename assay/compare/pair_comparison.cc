#include "assay/compare/pair_comparison.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "assay/compare/evidence.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/self_check.h"
#include "assay/compare/verdict.h"
#include "assay/log/sketch.h"

namespace assay {
namespace {

constexpr size_t kFewOutliers = 4;
constexpr size_t kOutlierShare = 100;

// Whether `other` holds about the same value there; NaN never counts as shared.
bool is_shared(const Garbage& garbage, const Record& other) {
  if (garbage.index >= static_cast<int64_t>(other.values.size())) return false;
  const float value = other.values[static_cast<size_t>(garbage.index)];
  if (value == garbage.value) return true;
  if (!std::isfinite(garbage.value)) return false;
  return std::abs(value - garbage.value) <= 0.5F * std::abs(garbage.value);
}

bool is_padding(const Garbage& garbage) {
  return garbage.reason == GarbageReason::kPadding;
}

// Of padding, or of all else but `kept`.
void drop_shared(const Record& other, bool padding, std::vector<Garbage>& garbage,
                 const std::vector<int64_t>& kept = {}) {
  std::erase_if(garbage, [&](const Garbage& found) {
    return is_padding(found) == padding && found.reason != GarbageReason::kHeapMetadata &&
           is_shared(found, other) && !std::binary_search(kept.begin(), kept.end(), found.index);
  });
}

// Values that no engine computes, out of the tensor's scale in one of two records and the same in
// both, within the tolerance: beside them an error of any other value would be none.
std::vector<int64_t> garbage_of_both(const Record& ref, const Record& got,
                                     const std::vector<Garbage>& garbage,
                                     const Tolerance& tolerance) {
  std::vector<int64_t> indices;
  for (const Garbage& found : garbage) {
    const auto index = static_cast<size_t>(found.index);
    if (found.reason != GarbageReason::kMagnitude) continue;
    if (index >= std::min(ref.values.size(), got.values.size())) continue;
    const auto a = static_cast<double>(ref.values[index]);
    const double difference = std::abs(a - static_cast<double>(got.values[index]));
    const bool same = difference <= tolerance.rel_l2.value_or(kDefaultRelL2) * std::abs(a);
    if (same && std::abs(a) >= kNotComputed) indices.push_back(found.index);
  }
  return indices;
}

// Of heads, what both logs mask: beside it an error of any other logit would be none. Where all
// values are there, it is padding.
std::vector<int64_t> masks_of_both(const Record& ref, const Record& got) {
  std::vector<int64_t> indices;
  if (!is_logits_name(ref.checkpoint) || (ref.has_all_values() && got.has_all_values())) {
    return indices;
  }
  const float ref_most = most_mask(ref);
  const float got_most = most_mask(got);
  for (size_t i = 0; i < std::min(ref.values.size(), got.values.size()); ++i) {
    const float a = ref.values[i];
    const float b = got.values[i];
    const bool is_mask = a <= ref_most && b <= got_most && std::isfinite(a) && std::isfinite(b);
    if (is_mask) indices.push_back(static_cast<int64_t>(i));
  }
  return indices;
}

// Lists what both mask, but for what is listed already.
void add_masks(const Record& record, const std::vector<int64_t>& masks,
               std::vector<Garbage>& garbage) {
  std::set<int64_t> listed;
  for (const Garbage& found : garbage) listed.insert(found.index);
  for (const int64_t index : masks) {
    if (listed.contains(index)) continue;
    garbage.push_back({index, record.values[static_cast<size_t>(index)], GarbageReason::kPadding});
  }
}

bool too_many_outliers(size_t count, const Record& record) {
  return count > std::max(kFewOutliers, record.values.size() / kOutlierShare);
}

void drop_too_many_outliers(const Record& record, std::vector<Garbage>& garbage) {
  const auto is_outlier = [](const Garbage& found) {
    return found.reason == GarbageReason::kMagnitude;
  };
  const auto outliers =
      static_cast<size_t>(std::count_if(garbage.begin(), garbage.end(), is_outlier));
  if (too_many_outliers(outliers, record)) std::erase_if(garbage, is_outlier);
}

// The places of padding in a record, ascending.
std::vector<int64_t> padding_of(const std::vector<Garbage>& garbage) {
  std::vector<int64_t> places;
  for (const Garbage& found : garbage) {
    if (is_padding(found)) places.push_back(found.index);
  }
  return places;
}

// In print the high half of an address is 0, and any value before it may be its low half: one that
// the engine computed, too.
bool could_be_computed(const Garbage& heap_word, const Record& record) {
  const auto index = static_cast<size_t>(heap_word.index);
  return index % 2 == 0 && index + 2 < record.values.size() && record.values[index + 1] == 0;
}

// Whether all values may have been printed by "%.6f", without which the high half of an address is
// no 0.
bool is_printed(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) {
    return static_cast<float>(std::nearbyint(static_cast<double>(value) * 1e6) / 1e6) == value;
  });
}

// What a record's padding may be left out beside. An engine must not say by itself which of its
// logits count: only where the other has padding, too, or no elements any more.
struct OtherPadding {
  std::vector<int64_t> places;
  int64_t n = 0;  // elements of the other

  bool allows(const Garbage& garbage) const {
    return !is_padding(garbage) || garbage.index >= n ||
           std::binary_search(places.begin(), places.end(), garbage.index);
  }
};

// Of the reference's garbage, what a comparison leaves out: no NaN, which fails wherever it is met.
std::vector<int64_t> ref_out(const std::vector<Garbage>& garbage, const OtherPadding& got) {
  std::vector<int64_t> indices;
  for (const Garbage& found : garbage) {
    if (std::isfinite(found.value) && got.allows(found)) {
      indices.push_back(found.index);
    }
  }
  return indices;
}

// The same of the other's garbage: nothing that the engine may have computed, unless a log of fewer
// digits cannot tell. `chosen`: nor what may be a logit that it chooses.
std::vector<int64_t> got_out(const std::vector<Garbage>& garbage, const Record& got,
                             const OtherPadding& ref, bool chosen) {
  std::vector<int64_t> indices;
  const bool printed = garbage.empty() || is_printed(got.values);
  for (const Garbage& found : garbage) {
    const bool heap = found.reason == GarbageReason::kHeapMetadata;
    if (!std::isfinite(found.value) || (!heap && !is_padding(found))) continue;
    if (heap && could_be_computed(found, got) && (chosen || !printed)) continue;
    if (ref.allows(found)) indices.push_back(found.index);
  }
  return indices;
}

std::vector<int64_t> union_of(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

// The garbage of both records, and what it sets aside.
struct Quarantine {
  std::vector<Garbage> ref;
  std::vector<Garbage> got;
  std::vector<int64_t> ref_out;
  std::vector<int64_t> got_out;
  std::vector<int64_t> not_chosen;   // of got_out, what is no logit that the engine chooses
  std::vector<int64_t> ref_garbage;  // of ref_out, what hides a value of the tensor
  std::vector<int64_t> got_garbage;
  std::vector<int64_t> of_both;  // values that are garbage and the same in both
};

// Of `out`, the places whose true values are not known: no padding, and not what both hold.
std::vector<int64_t> hidden_by(const std::vector<int64_t>& out, const std::vector<Garbage>& garbage,
                               const std::vector<int64_t>& of_both) {
  std::vector<int64_t> indices;
  for (const Garbage& found : garbage) {
    if (is_padding(found)) continue;
    if (std::binary_search(of_both.begin(), of_both.end(), found.index)) continue;
    if (std::find(out.begin(), out.end(), found.index) != out.end()) indices.push_back(found.index);
  }
  std::sort(indices.begin(), indices.end());
  return indices;
}

// Whether what the record states of its whole tensor has that value in it: then it is the
// tensor's, right or wrong, and not one that was written into the log.
bool states_value(const Record& record, float value) {
  const double magnitude = std::abs(static_cast<double>(value));
  const auto holds = [&](double norm) { return magnitude > norm / 2 && magnitude <= 1.01 * norm; };
  return (record.summary && holds(record.summary->l2)) ||
         (record.sketch && holds(sketch_norm(*record.sketch)));
}

void drop_stated(const Record& record, std::vector<Garbage>& garbage) {
  const bool stated = std::any_of(garbage.begin(), garbage.end(), [&](const Garbage& found) {
    return !is_padding(found) && std::isfinite(found.value) && states_value(record, found.value);
  });
  if (!stated) return;
  std::erase_if(garbage, [](const Garbage& found) {
    return !is_padding(found) && std::isfinite(found.value);
  });
}

Quarantine quarantine(const Record& ref, const Record& got, const Tolerance& tolerance) {
  Quarantine found;
  found.ref = find_garbage(ref);
  found.got = find_garbage(got);
  const std::vector<int64_t> masks = masks_of_both(ref, got);
  if (found.ref.empty() && found.got.empty() && masks.empty()) return found;
  const OtherPadding ref_padding{padding_of(found.ref), ref.n};
  const OtherPadding got_padding{padding_of(found.got), got.n};
  found.of_both = union_of(garbage_of_both(ref, got, found.ref, tolerance),
                           garbage_of_both(ref, got, found.got, tolerance));
  if (too_many_outliers(found.of_both.size(), ref)) found.of_both.clear();
  found.of_both = union_of(std::move(found.of_both), masks);
  drop_stated(ref, found.ref);
  drop_stated(got, found.got);
  drop_shared(got, false, found.ref, found.of_both);
  drop_shared(ref, false, found.got, found.of_both);
  drop_too_many_outliers(ref, found.ref);
  drop_too_many_outliers(got, found.got);
  found.ref_out = ref_out(found.ref, got_padding);
  found.got_out = got_out(found.got, got, ref_padding, false);
  found.not_chosen = got_out(found.got, got, ref_padding, true);
  found.ref_garbage = hidden_by(found.ref_out, found.ref, found.of_both);
  found.got_garbage = hidden_by(found.got_out, found.got, found.of_both);
  add_masks(ref, masks, found.ref);
  add_masks(got, masks, found.got);
  drop_shared(got, true, found.ref);
  drop_shared(ref, true, found.got);
  return found;
}

// Whether -Infinity is all that the record has from `begin` on, and begins there.
bool is_masked_from(const Record& record, int64_t begin) {
  const auto masked = [](float value) { return std::isinf(value) && value < 0; };
  const auto at = record.values.begin() + begin;
  return record.has_all_values() && std::all_of(at, record.values.end(), masked) && begin > 0 &&
         !masked(*(at - 1));
}

// Whether one of two records of logits is padded: with -Infinity, or to a multiple.
bool is_padded_vocabulary(const Record& ref, const Record& got) {
  if (!is_logits_name(ref.checkpoint)) return false;
  const Record& longer = ref.n > got.n ? ref : got;
  const int64_t shorter = std::min(ref.n, got.n);
  const int64_t further = longer.n - shorter;
  if (further < 2 || further > shorter) return false;
  if (is_masked_from(longer, shorter)) return true;
  return may_be_padded(shorter, longer.n);
}

// Of the largest elements, those that are NaN or +Infinity.
int64_t count_bad(const std::vector<TopValue>& top) {
  return std::count_if(top.begin(), top.end(),
                       [](const TopValue& entry) { return !(entry.value < INFINITY); });
}

void fail_size(const Record& ref, const Record& got, PairComparison& pair) {
  pair.result =
      failed_result(Metric::kSize, static_cast<double>(got.n), static_cast<double>(ref.n));
  pair.result.metrics.n = ref.n;
}

}  // namespace

PairComparison compare_pair(const Record& ref, const Record& given, const Tolerance& tolerance,
                            const CompareOptions& options) {
  PairComparison pair;
  pair.ref_n = ref.n;
  pair.got_n = given.n;
  if (ref.n != given.n && !is_padded_vocabulary(ref, given)) {
    fail_size(ref, given, pair);
    return pair;
  }
  pair.longer_is_partial = ref.n != given.n && !(ref.n > given.n ? ref : given).has_all_values();
  const bool is_logits = is_logits_name(ref.checkpoint);
  Record shifted;
  const Record* other = &given;
  if (is_logits && are_log_probabilities(ref, given)) {
    shifted = in_terms_of(ref, given);
    other = &shifted;
  }
  const Record& got = *other;
  Quarantine found;
  if (options.quarantine != QuarantineMode::kOff) found = quarantine(ref, got, tolerance);
  const SetAside set_aside{union_of(union_of(found.ref_out, found.got_out), found.of_both),
                           !found.ref_garbage.empty(), !found.got_garbage.empty()};
  pair.result.metrics = compare_records(ref, got, is_logits, set_aside);
  if (other == &shifted) {
    pair.result.metrics.fitted_constant = !is_constant_known(ref, given);
    pair.result.metrics.called_log_probabilities =
        ref.checkpoint == kLogProbabilitiesName || given.checkpoint == kLogProbabilitiesName;
  }
  int64_t& nonfinite = pair.result.metrics.nonfinite;
  nonfinite = std::max(nonfinite, count_bad(given.top));
  if (is_logits && !set_aside.indices.empty()) {
    choose_from_all(ref, got, found.ref_out, found.not_chosen, pair.result.metrics);
  }
  const bool ref_is_sound = contradiction_in(ref, found.ref_garbage).empty();
  const double held_to = tolerance.rel_l2.value_or(1);
  judge_record(tolerance, options,
               {ref_is_sound, contradiction_in(given, found.got_garbage, held_to)}, pair.result);
  pair.ref_garbage = std::move(found.ref);
  pair.got_garbage = std::move(found.got);
  const size_t garbage = pair.ref_garbage.size() + pair.got_garbage.size();
  if (options.quarantine == QuarantineMode::kFail && garbage > 0 && !pair.result.failed()) {
    fail_record(Metric::kQuarantine, static_cast<double>(garbage), 0, pair.result);
  }
  return pair;
}

PairComparison check_alone(const Record& got) {
  const bool is_logits = is_logits_name(got.checkpoint);
  int64_t nonfinite = std::count_if(got.values.begin(), got.values.end(), [&](float value) {
    return std::isnan(value) || (std::isinf(value) && !(is_logits && value < 0));
  });
  nonfinite += count_bad(got.top) + (got.summary ? count_bad(got.summary->top) : 0);
  if (got.sketch) {  // sums of finite values
    nonfinite += std::count_if(got.sketch->begin(), got.sketch->end(),
                               [](double sum) { return !std::isfinite(sum); });
  }
  if (got.summary) {
    const Summary& summary = *got.summary;
    const bool padding = is_logits && summary.nan == 0;
    if (!padding) nonfinite = std::max(nonfinite, summary.nonfinite);
    nonfinite = std::max(nonfinite, summary.nan.value_or(0));
    for (const double number : {summary.min, summary.max, summary.mean, summary.l2}) {
      nonfinite += std::isinf(number) ? 1 : 0;
    }
  }
  PairComparison pair;
  pair.result.of_ref = false;
  pair.result.metrics.n = got.n;
  if (nonfinite > 0) {
    pair.result = failed_result(Metric::kNonfinite, static_cast<double>(nonfinite), 0);
    pair.result.of_ref = false;
    pair.result.metrics.n = got.n;
    pair.result.metrics.nonfinite = nonfinite;
    for (const Garbage& garbage : find_garbage(got)) {
      if (garbage.reason == GarbageReason::kNonfinite) pair.got_garbage.push_back(garbage);
    }
    return pair;
  }
  if (const std::string_view found = contradiction_of(got); !found.empty()) {
    fail_record(Metric::kContradiction, std::numeric_limits<double>::quiet_NaN(), 0, pair.result);
    pair.result.contradicts_itself = true;
    pair.result.reason = found;
  }
  return pair;
}

int64_t count_nan(const Record& record) {
  const auto is_nan = [](auto value) { return std::isnan(value); };
  const auto count = static_cast<int64_t>(std::ranges::count_if(record.values, is_nan));
  bool may_have_infinity =
      std::ranges::any_of(record.values, [](float value) { return std::isinf(value); });
  const auto count_top = [&](const std::vector<TopValue>& top) {
    return static_cast<int64_t>(std::ranges::count_if(top, is_nan, &TopValue::value));
  };
  int64_t stated = count_top(record.top);
  if (record.summary) {
    stated = std::max({stated, count_top(record.summary->top), record.summary->nan.value_or(0)});
    may_have_infinity = may_have_infinity || record.summary->nonfinite > 0;
  }
  if (record.sketch && !may_have_infinity) {
    stated = std::max<int64_t>(stated, std::ranges::any_of(*record.sketch, is_nan) ? 1 : 0);
  }
  return std::max(count, stated);
}

bool has_nonfinite_beside(const Record& ref, const Record& got) {
  const size_t common = std::min(ref.values.size(), got.values.size());
  for (size_t i = 0; i < common; ++i) {
    const float a = ref.values[i];
    const float b = got.values[i];
    if (!std::isfinite(b) && a != b && !(std::isnan(a) && std::isnan(b))) return true;
  }
  return check_alone(got).result.metrics.nonfinite > check_alone(ref).result.metrics.nonfinite;
}

}  // namespace assay
