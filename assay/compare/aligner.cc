#include "assay/compare/aligner.h"

#include <algorithm>
#include <map>

#include "assay/compare/median.h"
#include "assay/compare/policy.h"

namespace assay {
namespace {

constexpr double kPoorMatch = 0.1;  // a median rel_l2 above it starts a search for an offset

// Whether the tokens of a checkpoint match poorly. One is enough where a search may settle the
// offset: massive activations, which are the same at all tokens, make others match whatever it is.
// For advice alone (`all`) each must.
bool is_poor_match(const Attempt& attempt, bool all) {
  std::map<int32_t, std::vector<double>> errors;
  for (const RecordResult& result : attempt.measured.results) {
    if (!result.of_ref) continue;
    const double rel_l2 = result.metrics.rel_l2;
    // NaN and infinite are poor matches
    errors[result.checkpoint].push_back(rel_l2 <= 1e300 ? rel_l2 : 1e300);
  }
  const auto is_poor = [](auto& of_checkpoint) {
    return upper_median(of_checkpoint.second) > kPoorMatch;
  };
  return all ? std::all_of(errors.begin(), errors.end(), is_poor)
             : errors.empty() || std::any_of(errors.begin(), errors.end(), is_poor);
}

int64_t count_matches(const Attempt& attempt) {
  return std::ranges::count_if(attempt.measured.results, [](const RecordResult& result) {
    return result.of_ref && result.metrics.facts.any() && result.metrics.rel_l2 <= kDefaultRelL2;
  });
}

}  // namespace

Attempt Aligner::compare_under(Alignment& alignment) {
  Attempt attempt = try_alignment(alignment);
  const bool settles = can_align_by_data(request_.ref, request_.got, alignment.mode);
  if (alignment.mode != AlignMode::kAuto || alignment.shift != Alignment::Shift::kNone ||
      !is_poor_match(attempt, !settles)) {
    return attempt;
  }
  const Alignment found =
      find_alignment(request_.ref, request_.got, [&](const Record& a, const Record& b) {
        return compare_pair(a, b, Tolerance(), request_.options).result.metrics.rel_l2;
      });
  if (!settles) {
    excluded_offset_ = found.offset;
    return attempt;
  }
  if (found.offset == alignment.offset) {
    alignment = found;
    return attempt;
  }
  // Where most records match as they stand, a fault is what does not.
  Attempt shifted = try_alignment(found);
  if (count_matches(shifted) <= count_matches(attempt)) return attempt;
  alignment = found;
  shifted_by_data_ = true;
  return shifted;
}

Attempt Aligner::try_alignment(const Alignment& alignment) {
  Attempt attempt;
  attempt.pairing =
      pair_records(request_.ref, request_.got, request_.names, alignment, request_.options);
  MeasureRequest request = request_;
  request.offset = alignment.offset;
  attempt.measured = measure(attempt.pairing.pairs, request, pool_);
  return attempt;
}

}  // namespace assay
