#include "assay/compare/alignment.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "assay/compare/input_tokens.h"
#include "assay/compare/log_probabilities.h"
#include "assay/compare/median.h"

namespace assay {
namespace {

constexpr size_t kComparedTokens = 8;
constexpr double kExplained = 0.1;  // the largest median distance of an offset that explains
constexpr double kFarBetter = 0.1;  // times the distance under offset 0
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::optional<int64_t> plus(int64_t token_idx, int64_t offset) {
  int64_t sum = 0;
  if (__builtin_add_overflow(token_idx, offset, &sum)) return std::nullopt;
  return sum;
}

// The checkpoint that both logs have and that is computed last; -1 if there is none. In ref's
// names.
int32_t last_common_checkpoint(const LogIndex& ref, const LogIndex& got) {
  int32_t last = -1;
  ComputeOrder last_order;
  for (int32_t id = 0; id < ref.names().size(); ++id) {
    const std::string& name = ref.names().name(id);
    if (got.names().find(name) < 0) continue;
    const ComputeOrder order = compute_order(parse_checkpoint_name(name), id);
    if (last < 0 || last_order < order) {
      last = id;
      last_order = order;
    }
  }
  return last;
}

std::vector<int64_t> tokens_of(const LogIndex& log, int32_t checkpoint) {
  std::vector<int64_t> tokens;
  for (const IndexEntry& entry : log.entries()) {
    if (entry.checkpoint == checkpoint) tokens.push_back(entry.token_idx);
  }
  std::sort(tokens.begin(), tokens.end());
  return tokens;
}

// Distances of records of one checkpoint, each record read once.
class Sample {
 public:
  Sample(const LogIndex& ref, const LogIndex& got, int32_t checkpoint,
         const RecordDistance& distance)
      : ref_(ref),
        got_(got),
        ref_checkpoint_(checkpoint),
        got_checkpoint_(got.names().find(ref.names().name(checkpoint))),
        distance_(distance),
        ref_loader_(ref.loader()),
        got_loader_(got.loader()) {}

  // The median distance under `offset` over the tokens that both have; infinite if they are none,
  // or one of several.
  double median(const std::vector<int64_t>& tokens, int64_t offset) {
    std::vector<double> distances;
    for (const int64_t token : tokens) {
      const auto shifted = plus(token, offset);
      const int64_t there = shifted ? got_.find(got_checkpoint_, *shifted) : -1;
      if (there < 0) continue;
      const double distance =
          distance_(load(ref_, ref_.find(ref_checkpoint_, token), ref_loader_, ref_cache_),
                    load(got_, there, got_loader_, got_cache_));
      distances.push_back(std::isnan(distance) ? kInfinity : distance);
    }
    if (distances.empty() || (distances.size() == 1 && tokens.size() > 1)) return kInfinity;
    return upper_median(distances);
  }

  // The token of `others` whose record is nearest to the reference's at `token`; those looked at
  // are not kept. Nothing if they are too many to read.
  std::optional<int64_t> nearest(int64_t token, const std::vector<int64_t>& others) {
    constexpr size_t kMaxRead = 2048;
    if (others.size() > kMaxRead) return std::nullopt;
    const Record& mine = load(ref_, ref_.find(ref_checkpoint_, token), ref_loader_, ref_cache_);
    std::optional<int64_t> best;
    double least = kInfinity;
    for (const int64_t other : others) {
      const int64_t entry = got_.find(got_checkpoint_, other);
      const double distance =
          distance_(mine, got_.load(got_.entries()[static_cast<size_t>(entry)], got_loader_));
      if (!(distance < least)) continue;
      least = distance;
      best = other;
    }
    return best;
  }

 private:
  static const Record& load(const LogIndex& log, int64_t entry, IndexLoader& loader,
                            std::map<int64_t, Record>& cache) {
    const auto found = cache.find(entry);
    if (found != cache.end()) return found->second;
    const IndexEntry& place = log.entries()[static_cast<size_t>(entry)];
    return cache[entry] = std::move(log.load(place, loader));
  }

  const LogIndex& ref_;
  const LogIndex& got_;
  int32_t ref_checkpoint_;
  int32_t got_checkpoint_;
  const RecordDistance& distance_;
  IndexLoader ref_loader_;
  IndexLoader got_loader_;
  std::map<int64_t, Record> ref_cache_;
  std::map<int64_t, Record> got_cache_;
};

// How many tokens two logs have in common under `offset`. Both are sorted.
int64_t in_common(const std::vector<int64_t>& tokens, const std::vector<int64_t>& others,
                  int64_t offset) {
  return std::count_if(tokens.begin(), tokens.end(), [&](int64_t token) {
    const auto there = plus(token, offset);
    return there && std::binary_search(others.begin(), others.end(), *there);
  });
}

// An offset that explains the data.
struct Candidate {
  int64_t offset = 0;
  double median = 0;
  int64_t common = 0;
};

// Of those that explain the data as well as the best, the one under which most tokens are in
// common, then the nearest to 0: where tokens repeat, so do their records.
const Candidate* best_of(const std::vector<Candidate>& candidates) {
  constexpr double kAsWell = 2;
  double least = kInfinity;
  for (const Candidate& candidate : candidates) least = std::min(least, candidate.median);
  const Candidate* best = nullptr;
  for (const Candidate& candidate : candidates) {
    if (candidate.median > kAsWell * least) continue;
    const auto rank = [](const Candidate& c) {
      return std::make_tuple(-c.common, std::abs(c.offset), c.offset);
    };
    if (best == nullptr || rank(candidate) < rank(*best)) best = &candidate;
  }
  return best;
}

// From the middle on, where positions tell tokens apart best.
std::vector<int64_t> sampled(std::vector<int64_t> tokens) {
  const size_t from = tokens.size() > kComparedTokens ? (tokens.size() - kComparedTokens) / 2 : 0;
  tokens.erase(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(from));
  if (tokens.size() > kComparedTokens) tokens.resize(kComparedTokens);
  return tokens;
}

Alignment align_by(const LogIndex& ref, const LogIndex& got, int32_t checkpoint,
                   const RecordDistance& distance) {
  Alignment alignment;
  const std::vector<int64_t> all = tokens_of(ref, checkpoint);
  const std::vector<int64_t> others =
      tokens_of(got, got.names().find(ref.names().name(checkpoint)));
  if (all.empty() || others.empty()) return alignment;
  const std::vector<int64_t> tokens = sampled(all);
  Sample sample(ref, got, checkpoint, distance);
  std::set<int64_t> offsets = {others.front() - all.front(), others.back() - all.back()};
  for (int64_t offset = -kMaxShift; offset <= kMaxShift; ++offset) offsets.insert(offset);
  const double unshifted = sample.median(tokens, 0);
  const auto nearest = sample.nearest(tokens[tokens.size() / 2], others);
  if (nearest) offsets.insert(*nearest - tokens[tokens.size() / 2]);
  const int64_t half = (std::min(std::ssize(all), std::ssize(others)) + 1) / 2;
  std::vector<Candidate> candidates;
  for (const int64_t offset : offsets) {
    const double median = sample.median(tokens, offset);
    if (offset == 0 || !(median <= kExplained) || !(median < kFarBetter * unshifted)) continue;
    const int64_t common = in_common(all, others, offset);
    if (common >= half) candidates.push_back({offset, median, common});
  }
  double chosen = unshifted;
  int64_t chosen_common = -1;
  if (const Candidate* best = best_of(candidates)) {
    alignment.offset = best->offset;
    chosen = best->median;
    chosen_common = best->common;
  }
  // The next best of those that were not chosen. One that explains fewer tokens does so because
  // these repeat, which makes the chosen one no less sure.
  double next = kInfinity;
  for (const int64_t offset : offsets) {
    const double median = sample.median(tokens, offset);
    const bool repeats = median <= kExplained && in_common(all, others, offset) < chosen_common;
    if (offset != alignment.offset && !repeats) next = std::min(next, median);
  }
  if (chosen == kInfinity) {
    alignment.confidence = 0;
  } else if (next != kInfinity) {
    alignment.confidence = next > 0 ? std::clamp(1 - chosen / next, 0.0, 1.0) : 0;
  }
  return alignment;
}

// The tokens at which something of the reference is proven, and nothing fails.
std::set<int64_t> proven_tokens(std::span<const RecordResult> results) {
  std::set<int64_t> proven;
  std::set<int64_t> failed;
  for (const RecordResult& result : results) {
    const bool shown = result.evidence == Evidence::kWhole || result.evidence == Evidence::kPartial;
    if (result.failed()) failed.insert(result.token_idx);
    if (shown && result.of_ref) proven.insert(result.token_idx);
  }
  for (const int64_t token_idx : failed) proven.erase(token_idx);
  return proven;
}

}  // namespace

Alignment align_by_headers(const LogIndex& ref, const LogIndex& got, AlignMode mode,
                           int64_t offset) {
  Alignment alignment;
  alignment.mode = mode;
  if (mode == AlignMode::kFixed) {
    alignment.offset = offset;
    return alignment;
  }
  if (mode == AlignMode::kAuto) {
    if (const auto shift = left_out_offset(ref, got)) {
      alignment.offset = *shift;
      alignment.shift = Alignment::Shift::kByTokens;
      return alignment;
    }
  }
  check_same_input(ref, got);
  return alignment;
}

bool can_align_by_data(const LogIndex& ref, const LogIndex& got, AlignMode mode) {
  return mode == AlignMode::kAuto && !have_tokens(ref, got);
}

Alignment find_alignment(const LogIndex& ref, const LogIndex& got, const RecordDistance& distance) {
  const int32_t checkpoint = last_common_checkpoint(ref, got);
  if (checkpoint < 0) return {};
  Alignment alignment = align_by(ref, got, checkpoint, distance);
  const int32_t embedding = ref.names().find("embedding");
  if (alignment.offset != 0 || embedding < 0 || got.names().find("embedding") < 0) {
    return alignment;
  }
  // A token that stands there twice has the same embedding twice.
  constexpr double kSure = 0.5;
  constexpr size_t kMinTokens = 3;
  const Alignment other = align_by(ref, got, embedding, distance);
  const std::vector<int64_t> tokens = tokens_of(ref, embedding);
  if (other.offset == 0 || !(other.confidence >= kSure) || tokens.size() < kMinTokens) {
    return alignment;
  }
  alignment.offset = other.offset;
  alignment.confidence = other.confidence;
  alignment.shift = Alignment::Shift::kByEmbedding;
  return alignment;
}

bool leaves_out_shared_positions(const LogIndex& ref, const LogIndex& got, int64_t offset,
                                 std::span<const RecordResult> results) {
  const std::set<int64_t> proven = proven_tokens(results);
  std::map<int32_t, std::pair<int64_t, int64_t>> ranges;  // of ref's checkpoints, first and last
  for (const IndexEntry& entry : ref.entries()) {
    auto& [first, last] =
        ranges.try_emplace(entry.checkpoint, entry.token_idx, entry.token_idx).first->second;
    first = std::min(first, entry.token_idx);
    last = std::max(last, entry.token_idx);
  }
  const auto is_left_out = [&](int32_t checkpoint, int64_t token_idx) {
    if (checkpoint < 0 || ref.find(checkpoint, token_idx) < 0) return false;
    const auto& [first, last] = ranges.at(checkpoint);
    int64_t of_ref = 0;
    if (__builtin_sub_overflow(token_idx, offset, &of_ref)) return true;
    return (of_ref < first || of_ref > last) && !proven.contains(of_ref);
  };
  const int64_t places = std::ssize(got.entries()) + std::ssize(got.incomplete());
  for (int64_t place = 0; place < places; ++place) {
    const IndexEntry& entry = got.entry(place);
    const std::string& name = got.names().name(entry.checkpoint);
    if (is_left_out(ref.names().find(name), entry.token_idx) ||
        is_left_out(ref.names().find(sibling_of(name)), entry.token_idx)) {
      return true;
    }
  }
  return false;
}

}  // namespace assay
