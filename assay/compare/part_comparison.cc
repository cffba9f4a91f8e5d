#include "assay/compare/part_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <vector>

#include "assay/compare/evidence.h"
#include "assay/compare/pair_comparison.h"
#include "assay/compare/replicas.h"
#include "assay/compare/self_check.h"
#include "assay/compare/verdict.h"

namespace assay {
namespace {

constexpr double kNearlyAll = 0.99;  // of ||difference||^2

double distance(const Record& a, const Record& b) {
  if (a.n != b.n || a.values.size() != b.values.size())
    return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (size_t i = 0; i < a.values.size(); ++i) {
    const double x = static_cast<double>(a.values[i]) - static_cast<double>(b.values[i]);
    sum += x * x;
  }
  return std::sqrt(sum);
}

// Replicas that do not have the same bits.
struct ReplicaDifference {
  std::vector<size_t> parts;  // of the first tensor that differs: the first rank's and all others
  std::vector<size_t> odd;    // those that differ from the most
  double largest = 0;
};

// Which of replicas differ from what most of them have.
std::vector<size_t> odd_ones(const std::vector<RankPart>& parts, const std::vector<size_t>& alike) {
  std::vector<size_t> best;
  for (const size_t candidate : alike) {
    std::vector<size_t> others;
    for (const size_t other : alike) {
      if (difference_of_replicas(parts[candidate].record, parts[other].record))
        others.push_back(other);
    }
    if (2 * others.size() < alike.size()) return others;
    if (best.empty() || others.size() < best.size()) best = std::move(others);
  }
  return best;
}

std::optional<ReplicaDifference> replica_difference(const std::vector<RankPart>& parts) {
  std::map<size_t, std::vector<size_t>> replicas_of;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t first = parts[i].replica_of;
    if (first >= 0) replicas_of[static_cast<size_t>(first)].push_back(i);
  }
  for (const auto& [first, replicas] : replicas_of) {
    ReplicaDifference found{.parts = {first}, .odd = {}};
    bool differs = false;
    for (const size_t i : replicas) {
      found.parts.push_back(i);
      const auto difference = difference_of_replicas(parts[first].record, parts[i].record);
      if (!difference) continue;
      differs = true;
      if (!(*difference <= found.largest)) found.largest = *difference;
    }
    if (!differs) continue;
    found.odd = odd_ones(parts, found.parts);
    return found;
  }
  return std::nullopt;
}

std::string ranks_text(const RankedRecord& side, const std::vector<size_t>& parts) {
  constexpr size_t kMost = 4;
  std::vector<std::string> texts;
  for (const size_t part : parts) {
    if (texts.size() == kMost) {
      texts.push_back("...");
      break;
    }
    texts.push_back(rank_text(side.parts[part].rank, side.sizes));
  }
  return fmt::format("{}", fmt::join(texts, "; "));
}

// Of two ranks each may be the odd one: the one further from the reference.
std::vector<size_t> further_from(const Record& ref, const RankedRecord& got,
                                 const ReplicaDifference& found) {
  if (found.parts.size() != 2) return found.odd;
  const double first = distance(ref, got.parts[found.parts[0]].record);
  const double second = distance(ref, got.parts[found.parts[1]].record);
  if (first < second) return {found.parts[1]};
  if (second < first) return {found.parts[0]};
  return found.parts;
}

bool states_nothing(const Record& record) {
  const auto says = [](double number) { return !std::isnan(number); };
  const auto& summary = record.summary;
  const bool summarized =
      summary &&
      (says(summary->min) || says(summary->max) || says(summary->mean) || says(summary->l2) ||
       summary->argmax >= 0 || !summary->top.empty() || summary->nonfinite > 0);
  return record.n > 0 && record.values.empty() && record.top.empty() && !record.sketch &&
         !summarized;
}

// Of replicas, one that says nothing leaves open whether it holds the same; of pieces, what of the
// tensor is its own.
void hold_to_silent_parts(const std::vector<RankPart>& parts, RecordResult& result) {
  for (const RankPart& part : parts) {
    if (result.failed() || !states_nothing(part.record)) continue;
    if (part.replica_of >= 0) {
      lacks_replica(result);
    } else if (result.evidence != Evidence::kUnproven) {
      result.evidence = Evidence::kUnproven;
      result.status = Verdict::kIncomplete;
      result.reason = kSilentPart;
    }
  }
}

void hold_replicas(const RankedRecord& ref, const RankedRecord& got, RecordResult& result) {
  hold_to_silent_parts(ref.parts, result);
  hold_to_silent_parts(got.parts, result);
  if (replica_difference(ref.parts) && !result.failed()) {
    result.evidence = Evidence::kUnproven;
    result.status = Verdict::kIncomplete;
    result.reason = kReplicasDiffer;
  }
  const auto found = replica_difference(got.parts);
  if (!found) return;
  const bool worse =
      result.failing_metric == Metric::kNonfinite || result.failing_metric == Metric::kSize;
  if (!worse) result.evidence = Evidence::kUnproven;  // so that this is why it fails
  fail_record(Metric::kReplica, found->largest, 0, result);
  result.ranks = ranks_text(got, further_from(ref.record, got, *found));
}

void hold_to_themselves(const RankedRecord& ref, const RankedRecord& got, RecordResult& result) {
  for (const RankPart& part : got.parts) {
    if (part.contradiction.empty()) continue;
    result.contradicts_itself = true;
    if (result.failed()) return;
    fail_record(Metric::kContradiction, std::numeric_limits<double>::quiet_NaN(), 0, result);
    result.reason = part.contradiction;
    result.ranks = rank_text(part.rank, got.sizes);
    return;
  }
  for (const RankPart& part : ref.parts) {
    if (part.contradiction.empty() || result.failed()) continue;
    result.evidence = Evidence::kUnproven;
    result.status = Verdict::kIncomplete;
    result.reason = kReferenceUnsound;
  }
}

// The pieces of one side, and what the other states about the same elements.
struct HeldPieces {
  std::vector<RankPart> ref;
  std::vector<RankPart> got;
};

bool same_pieces(const std::vector<RankPart>& a, const std::vector<RankPart>& b) {
  return std::ranges::equal(a, b, [](const RankPart& x, const RankPart& y) {
    return x.piece == y.piece && x.record.n == y.record.n;
  });
}

PartLayout layout_of(const std::vector<RankPart>& pieces) {
  std::vector<const RankPart*> pointers;
  for (const RankPart& piece : pieces) pointers.push_back(&piece);
  return PartLayout(pointers);
}

// The pieces that `whole` has.
std::vector<RankPart> cut_like(const Record& whole, const std::vector<RankPart>& pieces) {
  std::vector<RankPart> cut;
  for (const RankPart& piece : pieces) {
    RankPart part{.record = {}, .rank = piece.rank, .where = {}};
    part.piece = piece.piece;
    part.record.shape = piece.record.shape;
    part.record.n = piece.record.n;
    cut.push_back(std::move(part));
  }
  auto at = whole.values.begin();
  layout_of(pieces).for_each_run([&](size_t part, int64_t, int64_t count) {
    std::vector<float>& values = cut[part].record.values;
    values.insert(values.end(), at, at + count);
    at += count;
    return true;
  });
  return cut;
}

std::optional<HeldPieces> pieces_in_common(const RankedRecord& ref, const RankedRecord& got) {
  HeldPieces held{pieces_of(ref.parts), pieces_of(got.parts)};
  if (held.ref.size() > 1 && same_pieces(held.ref, held.got)) return held;
  if (ref.record.n != got.record.n) return std::nullopt;
  if (held.got.size() > 1 && ref.record.has_all_values()) {
    held.ref = cut_like(ref.record, held.got);
    return held;
  }
  if (held.ref.size() > 1 && got.record.has_all_values()) {
    held.got = cut_like(got.record, held.ref);
    return held;
  }
  return std::nullopt;
}

// What the ranks' parts show one by one; the record must have been held by its own before.
void hold_pieces(HeldPieces held, const RankedRecord& got, const Tolerance& tolerance,
                 const CompareOptions& options, RecordResult& result) {
  double squares = 0;
  double ref_squares = 0;
  bool all_whole = true;
  for (size_t i = 0; i < held.got.size(); ++i) {
    Record& a = held.ref[i].record;
    Record& b = held.got[i].record;
    if (a.n == 0 && b.n == 0) continue;
    a.checkpoint = b.checkpoint = "part";  // the argmax is that of the whole
    CompareOptions any = options;
    any.whole_required = any.strict_argmax = false;
    const PairComparison part = compare_pair(a, b, Tolerance(), any);
    const Metrics& metrics = part.result.metrics;
    const Metric metric = part.result.failing_metric;
    if (metric != Metric::kNone && metric != Metric::kRelL2 && !result.failed()) {
      fail_record(metric, part.result.failing_value, part.result.failing_tolerance, result);
      result.reason = part.result.reason;
      result.ranks = rank_text(held.got[i].rank, got.sizes);
    }
    const SharedFacts& facts = metrics.facts;
    all_whole = all_whole && (facts.all_values || facts.sketch || facts.zeros);
    const double norm = metrics.ref_rms * std::sqrt(static_cast<double>(metrics.n));
    // A norm of 0 leaves rel_l2 infinite, or 0.
    squares += std::pow(metrics.rel_l2 * norm, 2);
    ref_squares += norm * norm;
  }
  if (result.failed()) return;
  const double rel_l2 =
      ref_squares > 0 ? std::sqrt(squares / ref_squares) : std::numeric_limits<double>::quiet_NaN();
  if (!all_whole && !(rel_l2 > result.metrics.rel_l2)) return;
  result.metrics.rel_l2 = std::max(result.metrics.rel_l2, rel_l2);
  if (all_whole) result.metrics.facts.sketch = true;
  RecordResult judged;
  judged.metrics = result.metrics;
  judge_record(tolerance, options, {}, judged);
  judged.checkpoint = result.checkpoint;
  result = judged;
}

bool have_all_values(const std::vector<RankPart>& parts) {
  return std::ranges::all_of(parts,
                             [](const RankPart& part) { return part.record.has_all_values(); });
}

// The parts that hold nearly all of the difference, where not all of them do.
void blame_ranks(const Record& ref, const RankedRecord& got, RecordResult& result) {
  const std::vector<RankPart> pieces = pieces_of(got.parts);
  if (pieces.size() < 2 || !ref.has_all_values() || !got.record.has_all_values()) return;
  if (ref.n != got.record.n) return;
  std::vector<double> squares(pieces.size());
  double all = 0;
  size_t at = 0;
  layout_of(pieces).for_each_run([&](size_t part, int64_t, int64_t count) {
    for (int64_t i = 0; i < count; ++i, ++at) {
      const double x =
          static_cast<double>(ref.values[at]) - static_cast<double>(got.record.values[at]);
      const double square = std::isfinite(x)                          ? x * x
                            : ref.values[at] == got.record.values[at] ? 0
                                                                      : 1e300;
      squares[part] += square;
      all += square;
    }
    return true;
  });
  std::vector<size_t> order(pieces.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return squares[a] > squares[b]; });
  double share = 0;
  std::vector<std::string> ranks;
  for (const size_t part : order) {
    if (!(share < kNearlyAll * all)) break;
    share += squares[part];
    ranks.push_back(rank_text(pieces[part].rank, got.sizes));
  }
  if (ranks.size() < pieces.size()) result.ranks = fmt::format("{}", fmt::join(ranks, "; "));
}

}  // namespace

void lacks_replica(RecordResult& result) {
  if (result.failed()) return;
  result.evidence = Evidence::kUnproven;
  result.status = Verdict::kIncomplete;
  result.reason = kLacksReplica;
}

void hold_parts(const RankedRecord& ref, const RankedRecord& got, const Tolerance& tolerance,
                const CompareOptions& options, RecordResult& result) {
  if (ref.parts.empty() && got.parts.empty()) return;
  if (!have_all_values(ref.parts) || !have_all_values(got.parts)) {
    const bool judged = !result.failed() && result.reason != kReferenceUnsound;
    auto held = judged ? pieces_in_common(ref, got) : std::nullopt;
    if (held) hold_pieces(std::move(*held), got, tolerance, options, result);
  }
  hold_to_themselves(ref, got, result);
  if (result.failed() && result.ranks.empty()) blame_ranks(ref.record, got, result);
  hold_replicas(ref, got, result);
}

}  // namespace assay
