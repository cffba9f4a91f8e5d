#include "assay/compare/pair_comparison.h"

#include <algorithm>
#include <cmath>

#include "assay/compare/verdict.h"

namespace assay {
namespace {

constexpr size_t kFewOutliers = 4;
constexpr size_t kOutlierShare = 100;

// Whether `other` holds about the same value there; NaN is nobody's value.
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

// Of padding, or of all else.
void drop_shared(const Record& other, bool padding, std::vector<Garbage>& garbage) {
  std::erase_if(garbage, [&](const Garbage& found) {
    return is_padding(found) == padding && found.reason != GarbageReason::kHeapMetadata &&
           is_shared(found, other);
  });
}

void drop_too_many_outliers(const Record& record, std::vector<Garbage>& garbage) {
  const auto is_outlier = [](const Garbage& found) {
    return found.reason == GarbageReason::kMagnitude;
  };
  const auto outliers =
      static_cast<size_t>(std::count_if(garbage.begin(), garbage.end(), is_outlier));
  if (outliers > std::max(kFewOutliers, record.values.size() / kOutlierShare)) {
    std::erase_if(garbage, is_outlier);
  }
}

// Where the padding of the record begins, which ends it; its size if it has none.
int64_t padding_begin(const std::vector<Garbage>& garbage, const Record& record) {
  const auto first = std::find_if(garbage.begin(), garbage.end(), is_padding);
  return first == garbage.end() ? record.n : first->index;
}

// In print the high half of an address is 0, and any value before it may be its low half: one that
// the engine computed, too.
bool may_be_computed(const Garbage& heap_word, const Record& record) {
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

bool is_at_or_after(const Garbage& garbage, int64_t padding) {
  return !is_padding(garbage) || garbage.index >= padding;
}

// Of the reference's garbage, what a comparison leaves out: no NaN, which fails wherever it is met.
std::vector<int64_t> ref_out(const PairComparison& pair, int64_t padding) {
  std::vector<int64_t> indices;
  for (const Garbage& found : pair.ref_garbage) {
    if (!std::isfinite(found.value) || !is_at_or_after(found, padding)) continue;
    indices.push_back(found.index);
  }
  return indices;
}

// The same of the other's garbage: nothing that the engine may have computed, unless a log of fewer
// digits cannot tell. `chosen`: nor what may be a logit that it chooses.
std::vector<int64_t> got_out(const PairComparison& pair, const Record& got, int64_t padding,
                             bool chosen) {
  std::vector<int64_t> indices;
  const bool printed = pair.got_garbage.empty() || is_printed(got.values);
  for (const Garbage& found : pair.got_garbage) {
    const bool heap = found.reason == GarbageReason::kHeapMetadata;
    if (!std::isfinite(found.value) || (!heap && !is_padding(found))) continue;
    if (heap && may_be_computed(found, got) && (chosen || !printed)) continue;
    if (is_at_or_after(found, padding)) indices.push_back(found.index);
  }
  return indices;
}

std::vector<int64_t> union_of(std::vector<int64_t> a, const std::vector<int64_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end());
  a.erase(std::unique(a.begin(), a.end()), a.end());
  return a;
}

// Whether garbage of `got` alone is among the first `n` elements.
bool excuses_itself(std::vector<int64_t> of_ref, const std::vector<int64_t>& of_got, int64_t n) {
  std::sort(of_ref.begin(), of_ref.end());
  return std::any_of(of_got.begin(), of_got.end(), [&](int64_t index) {
    return index < n && !std::binary_search(of_ref.begin(), of_ref.end(), index);
  });
}

bool tells_of_all(const Record& record) {
  return record.has_all_values() || record.sketch || record.summary;
}

}  // namespace

PairComparison compare_pair(const Record& ref, const Record& got, const Tolerance& tolerance,
                            const CompareOptions& options) {
  PairComparison pair;
  std::vector<int64_t> excluded;
  std::vector<int64_t> of_ref;
  std::vector<int64_t> of_got;
  std::vector<int64_t> not_chosen;
  if (options.quarantine != QuarantineMode::kOff) {
    pair.ref_garbage = find_garbage(ref);
    pair.got_garbage = find_garbage(got);
    const int64_t padding =
        std::max(padding_begin(pair.ref_garbage, ref), padding_begin(pair.got_garbage, got));
    drop_shared(got, false, pair.ref_garbage);
    drop_shared(ref, false, pair.got_garbage);
    drop_too_many_outliers(ref, pair.ref_garbage);
    drop_too_many_outliers(got, pair.got_garbage);
    // Padding is left out where both have it, or where the other has no elements any more: an
    // engine must not say by itself which of its logits count.
    of_ref = ref_out(pair, padding);
    of_got = got_out(pair, got, padding, false);
    not_chosen = got_out(pair, got, padding, true);
    excluded = union_of(of_ref, of_got);
    drop_shared(got, true, pair.ref_garbage);
    drop_shared(ref, true, pair.got_garbage);
  }
  pair.ref_n = ref.n;
  pair.got_n = got.n;
  pair.longer_is_partial = ref.n != got.n && !(ref.n > got.n ? ref : got).has_all_values();
  const bool is_logits = ref.checkpoint == "logits";
  pair.result.metrics = compare_records(ref, got, is_logits, excluded);
  if (is_logits && !excluded.empty()) {
    choose_from_all(ref, got, of_ref, not_chosen, pair.result.metrics);
  }
  judge_record(tolerance, options.strict_argmax, pair.result);
  const bool in_part = !ref.has_all_values() || !got.has_all_values();
  if (in_part && tells_of_all(ref) && tells_of_all(got) &&
      excuses_itself(of_ref, of_got, std::min(ref.n, got.n))) {
    leave_unheld(
        "the other log's sketch or summary has garbage in it, and nothing else tells of all its "
        "values",
        pair.result);
  }
  const size_t garbage = pair.ref_garbage.size() + pair.got_garbage.size();
  if (options.quarantine == QuarantineMode::kFail && garbage > 0 && pair.result.pass) {
    pair.result.pass = false;
    pair.result.status = Verdict::kWrong;
    pair.result.failing_metric = "quarantine";
    pair.result.failing_value = static_cast<double>(garbage);
  }
  return pair;
}

}  // namespace assay
