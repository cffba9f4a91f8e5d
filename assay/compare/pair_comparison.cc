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

// Padding is left out where both have it, or where the other has no elements any more: an engine
// must not say by itself which of its logits count.
std::vector<int64_t> excluded_indices(const PairComparison& pair, int64_t padding) {
  std::vector<int64_t> indices;
  for (const auto* garbage : {&pair.ref_garbage, &pair.got_garbage}) {
    for (const Garbage& found : *garbage) {
      if (found.reason == GarbageReason::kNonfinite) continue;
      if (garbage == &pair.got_garbage && found.reason == GarbageReason::kMagnitude) continue;
      if (!is_padding(found) || found.index >= padding) indices.push_back(found.index);
    }
  }
  std::sort(indices.begin(), indices.end());
  indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
  return indices;
}

}  // namespace

PairComparison compare_pair(const Record& ref, const Record& got, const Tolerance& tolerance,
                            const CompareOptions& options) {
  PairComparison pair;
  std::vector<int64_t> excluded;
  if (options.quarantine != QuarantineMode::kOff) {
    pair.ref_garbage = find_garbage(ref);
    pair.got_garbage = find_garbage(got);
    const int64_t padding =
        std::max(padding_begin(pair.ref_garbage, ref), padding_begin(pair.got_garbage, got));
    drop_shared(got, false, pair.ref_garbage);
    drop_shared(ref, false, pair.got_garbage);
    drop_too_many_outliers(ref, pair.ref_garbage);
    drop_too_many_outliers(got, pair.got_garbage);
    excluded = excluded_indices(pair, padding);
    drop_shared(got, true, pair.ref_garbage);
    drop_shared(ref, true, pair.got_garbage);
  }
  pair.ref_n = ref.n;
  pair.got_n = got.n;
  pair.longer_is_partial = ref.n != got.n && !(ref.n > got.n ? ref : got).has_all_values();
  pair.result.metrics = compare_records(ref, got, ref.checkpoint == "logits", excluded);
  judge_record(tolerance, options.strict_argmax, pair.result);
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
