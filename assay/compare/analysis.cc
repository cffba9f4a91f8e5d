#include "assay/compare/analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <tuple>
#include <utility>

#include "assay/compare/log_index.h"
#include "assay/log/log_reader.h"
#include "base/error.h"

namespace assay {
namespace {

// The first pair of a record that is none of the allocator's by itself, but could be.
struct Candidate {
  int32_t checkpoint;
  int64_t token_idx;
  float low;
  float high;
};

struct Sums {
  double sum = 0;
  double sum_of_squares = 0;
};

class Analyzer {
 public:
  explicit Analyzer(const std::string& path) : log_(path) { analysis_.path = path; }

  Analysis analyze() {
    while (const Record* record = log_.next()) add(*record);
    analysis_.header = log_.header();
    analysis_.warnings = log_.warnings();
    if (analysis_.records == 0) throw no_records_error(log_);
    add_by_prefix();
    finish();
    return std::move(analysis_);
  }

 private:
  void add(const Record& record) {
    const int32_t id = names_.id(record.checkpoint);
    if (id == static_cast<int32_t>(analysis_.stats.size())) {
      CheckpointStats stats;
      stats.checkpoint = parse_checkpoint_name(record.checkpoint);
      stats.min = std::numeric_limits<double>::infinity();
      stats.max = -stats.min;
      analysis_.stats.push_back(stats);
      sums_.emplace_back();
    }
    ++analysis_.records;
    tokens_.insert(record.token_idx);
    add_values(record, analysis_.stats[static_cast<size_t>(id)], sums_[static_cast<size_t>(id)]);
    const std::vector<Garbage> found = find_garbage(record);
    add_unseen(record, id);
    int listed[4] = {};
    for (const Garbage& garbage : found) {
      const bool list = listed[static_cast<size_t>(garbage.reason)]++ < kMaxListed;
      add_garbage(id, record.token_idx, garbage, list);
    }
    const bool heap = std::any_of(found.begin(), found.end(), [](const Garbage& garbage) {
      return garbage.reason == GarbageReason::kHeapMetadata;
    });
    if (heap) {
      // The words are in pairs: the low halves are at even indices.
      for (const Garbage& garbage : found) {
        if (garbage.reason == GarbageReason::kHeapMetadata && garbage.index % 2 == 0 &&
            garbage.value != 0) {
          ++prefixes_[{id, pointer_prefix(garbage.value)}];
        }
      }
    } else if (record.values.size() >= 2 && record.values[1] == 0 && record.values[0] != 0) {
      candidates_.push_back({id, record.token_idx, record.values[0], record.values[1]});
    }
  }

  // NaN and infinities that the summary counts in the part of the tensor that is not logged. Those
  // of logits that are known to be infinities fill padding rows.
  void add_unseen(const Record& record, int32_t id) {
    if (!record.summary || record.has_all_values()) return;
    if (record.checkpoint == "logits" && record.summary->nan == 0) return;
    int64_t seen = 0;
    for (const float value : record.values) seen += std::isfinite(value) ? 0 : 1;
    const int64_t unseen = std::min(record.summary->nonfinite, record.n) - seen;
    if (unseen <= 0) return;
    const float value = std::numeric_limits<float>::quiet_NaN();
    add_garbage(id, record.token_idx, {kUnknownIndex, value, GarbageReason::kNonfinite}, true);
    analysis_.garbage_values += unseen - 1;
    analysis_.stats[static_cast<size_t>(id)].garbage += unseen - 1;
  }

  static void add_values(const Record& record, CheckpointStats& stats, Sums& sums) {
    ++stats.records;
    stats.values += static_cast<int64_t>(record.values.size());
    for (const float value : record.values) {
      if (!std::isfinite(value)) {
        ++stats.nonfinite;
        continue;
      }
      const auto wide = static_cast<double>(value);
      stats.zeros += value == 0 ? 1 : 0;
      stats.min = std::min(stats.min, wide);
      stats.max = std::max(stats.max, wide);
      sums.sum += wide;
      sums.sum_of_squares += wide * wide;
    }
  }

  void add_garbage(int32_t checkpoint, int64_t token_idx, const Garbage& garbage, bool list) {
    ++analysis_.garbage_values;
    ++analysis_.stats[static_cast<size_t>(checkpoint)].garbage;
    if (garbage.index != kUnknownIndex) ++analysis_.positions[garbage.index];
    garbage_tokens_.insert(token_idx);
    if (list) analysis_.garbage.push_back({checkpoint, token_idx, garbage});
  }

  void add_by_prefix() {
    for (const Candidate& candidate : candidates_) {
      const auto known = prefixes_.find({candidate.checkpoint, pointer_prefix(candidate.low)});
      if (known == prefixes_.end() || known->second < 2) continue;
      add_garbage(candidate.checkpoint, candidate.token_idx,
                  {0, candidate.low, GarbageReason::kHeapMetadata}, true);
      add_garbage(candidate.checkpoint, candidate.token_idx,
                  {1, candidate.high, GarbageReason::kHeapMetadata}, true);
    }
  }

  void finish() {
    analysis_.tokens = static_cast<int64_t>(tokens_.size());
    analysis_.garbage_tokens = static_cast<int64_t>(garbage_tokens_.size());
    analysis_.garbage_rate =
        static_cast<double>(analysis_.garbage_tokens) / static_cast<double>(analysis_.tokens);
    for (size_t i = 0; i < sums_.size(); ++i) {
      CheckpointStats& stats = analysis_.stats[i];
      const auto finite = static_cast<double>(stats.values - stats.nonfinite);
      stats.mean = sums_[i].sum / finite;  // 0 / 0 is NaN
      stats.rms = std::sqrt(sums_[i].sum_of_squares / finite);
      if (finite == 0) stats.min = stats.max = std::numeric_limits<double>::quiet_NaN();
    }
    sort();
  }

  // Sorts the checkpoints as the network computes, and the garbage by token and then so.
  void sort() {
    std::vector<std::pair<ComputeOrder, int32_t>> order;
    for (const CheckpointStats& stats : analysis_.stats) {
      const auto id = static_cast<int32_t>(order.size());
      order.emplace_back(compute_order(stats.checkpoint, id), id);
    }
    std::sort(order.begin(), order.end());
    std::vector<CheckpointStats> stats;
    std::vector<int32_t> place(order.size());
    for (const auto& [key, id] : order) {
      place[static_cast<size_t>(id)] = static_cast<int32_t>(stats.size());
      stats.push_back(std::move(analysis_.stats[static_cast<size_t>(id)]));
    }
    analysis_.stats = std::move(stats);
    for (ListedGarbage& listed : analysis_.garbage) {
      listed.checkpoint = place[static_cast<size_t>(listed.checkpoint)];
    }
    std::stable_sort(analysis_.garbage.begin(), analysis_.garbage.end(),
                     [](const ListedGarbage& a, const ListedGarbage& b) {
                       return std::tie(a.token_idx, a.checkpoint) <
                              std::tie(b.token_idx, b.checkpoint);
                     });
  }

  LogReader log_;
  Analysis analysis_;
  NameTable names_;
  std::vector<Sums> sums_;
  std::set<int64_t> tokens_;
  std::set<int64_t> garbage_tokens_;
  std::map<std::pair<int32_t, uint16_t>, int> prefixes_;  // words seen of each
  std::vector<Candidate> candidates_;
};

}  // namespace

Analysis analyze_log(const std::string& path) {
  return Analyzer(path).analyze();
}

}  // namespace assay
