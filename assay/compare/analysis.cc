#include "assay/compare/analysis.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "assay/compare/log_index.h"
#include "assay/compare/missing_records.h"
#include "assay/compare/replicas.h"
#include "assay/compare/sequence_rows.h"
#include "assay/log/log_reader.h"
#include "assay/log/run_files.h"
#include "base/error.h"
#include "model/architecture.h"

namespace assay {
namespace {

// Of one checkpoint, what its statistics are made of.
struct Sums {
  double sum = 0;
  double sum_of_squares = 0;
  int64_t finite = 0;
  std::vector<float> sample;  // finite values
  std::mt19937_64 random;

  // A reservoir: Vitter, "Random sampling with a reservoir", 1985, algorithm R.
  void add(float value) {
    const auto wide = static_cast<double>(value);
    sum += wide;
    sum_of_squares += wide * wide;
    ++finite;
    if (sample.size() < kStatsSample) {
      sample.push_back(value);
      return;
    }
    const uint64_t place = random() % static_cast<uint64_t>(finite);
    if (place < kStatsSample) sample[place] = value;
  }
};

// Summaries may count any number of values up to 2^63 - 1, which is then the largest that is
// reported.
void add_up_to_most(int64_t& sum, int64_t more) {
  if (__builtin_add_overflow(sum, more, &sum)) sum = std::numeric_limits<int64_t>::max();
}

// The quantile of sorted values, interpolated linearly; `share` from 0 to 1.
double quantile(const std::vector<double>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return sorted[below] + part * (sorted[above] - sorted[below]);
}

void add_robust(const Sums& sums, CheckpointStats& stats) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  stats.median = stats.mad = stats.p01 = stats.p99 = kNaN;
  stats.sampled = sums.finite > static_cast<int64_t>(kStatsSample);
  if (sums.sample.empty()) return;
  std::vector<double> sorted(sums.sample.begin(), sums.sample.end());
  std::sort(sorted.begin(), sorted.end());
  stats.median = quantile(sorted, 0.5);
  stats.p01 = quantile(sorted, 0.01);
  stats.p99 = quantile(sorted, 0.99);
  for (double& value : sorted) value = std::abs(value - stats.median);
  std::sort(sorted.begin(), sorted.end());
  stats.mad = quantile(sorted, 0.5);
}

class Analyzer {
 public:
  // `file`: which of the run's files `path` is.
  Analyzer(const std::string& path, int32_t file, ReplicaCheck& replicas)
      : log_(path), sequences_(path), loader_(log_.file()), file_(file), replicas_(replicas) {
    analysis_.path = path;
  }

  Analysis analyze() {
    while (const Record* record = log_.next()) add(*record);
    analysis_.header = log_.header();
    analysis_.warnings = log_.warnings();
    if (analysis_.records == 0) throw no_records_error(log_);
    add_further_words();
    const std::vector<Suspicion>& odd = forensics_.suspicions();
    analysis_.suspicions.insert(analysis_.suspicions.begin(), odd.begin(), odd.end());
    drop_first_positions();
    drop_unchanged_heads();
    drop_repeated_norms();
    drop_single_experts();
    drop_streams();
    drop_roundings();
    drop_cut_off();
    add_missing_records();
    finish();
    return std::move(analysis_);
  }

 private:
  // A record of a whole sequence is one of each token.
  void add(const Record& record) {
    const int32_t rows = sequences_.rows_of(record, log_.place());
    if (rows == 1) {
      add_token(record);
      hold_to_ranks(record, 0, 1);
      return;
    }
    forensics_.find_contradiction(record, id_of(record.checkpoint), find_garbage(record));
    for (int32_t row = 0; row < rows; ++row) {
      Record& token = loader_.load_row(log_.place(), row, rows);
      token.rank = record.rank;
      add_token(token);
      token.dims = record.dims;
      token.shape = record.shape;  // which dims are of
      hold_to_ranks(token, row, rows);
    }
  }

  void hold_to_ranks(const Record& record, int32_t row, int32_t rows) {
    RecordPlace place = log_.place();
    place.file = file_;
    const ReplicaCheck::Found found = replicas_.add(record, {place, row, rows});
    if (found == ReplicaCheck::Found::kNothing) return;
    const SuspicionKind kind = found == ReplicaCheck::Found::kConflict ? SuspicionKind::kConflict
                                                                       : SuspicionKind::kReplica;
    analysis_.suspicions.push_back(
        {kind, id_of(record.checkpoint), record.token_idx, 0, std::ssize(record.values)});
  }

  // The place of the checkpoint in analysis_.stats.
  int32_t id_of(const std::string& checkpoint) {
    const int32_t id = names_.id(checkpoint);
    if (id == static_cast<int32_t>(analysis_.stats.size())) {
      CheckpointStats stats;
      stats.checkpoint = parse_checkpoint_name(checkpoint);
      stats.min = std::numeric_limits<double>::infinity();
      stats.max = -stats.min;
      analysis_.stats.push_back(stats);
      sums_.emplace_back();
    }
    return id;
  }

  void add_token(const Record& record) {
    const int32_t id = id_of(record.checkpoint);
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
    forensics_.add(record, id, found, log_.header());
    missing_.add(id, checkpoint_of(id), record);
    note_sizes(record, found);
  }

  // An engine that counts tokens from 1 rotates by nothing at what it calls 1, and attends to that
  // token alone: what comes out is what went in. (At 0 no repeat is reported at all.)
  void drop_first_positions() {
    const int64_t first = *tokens_.begin();
    if (first > 1) return;  // the log begins later; some engines count from 1
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      return one.kind == SuspicionKind::kRepeat && one.token_idx == first &&
             one.of_token_idx == first &&
             is_unchanged_at_first_position(one.of_checkpoint, one.checkpoint);
    });
  }

  // The first values of a tensor may be those of its input: a rotation leaves some dimensions as
  // they are, parts of each head begin with the first one's, and attention may be on one token
  // alone.
  void drop_unchanged_heads() {
    static const std::set<std::pair<std::string, std::string>> pairs = {
        {"kv_b", "k"}, {"kv_b", "k_rope"}, {"q_and_gate", "q"}, {"linear_ba", "linear_b"}};
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kRepeat || !one.is_of_head) return false;
      const CheckpointName& input = checkpoint_of(one.of_checkpoint);
      const CheckpointName& output = checkpoint_of(one.checkpoint);
      const bool is_input = one.of_token_idx == one.token_idx ||
                            (output.op == "attn" && one.of_token_idx < one.token_idx);
      return is_input && input.layer == output.layer &&
             (pairs.contains({input.op, output.op}) || turns_into(input.op, output.op));
    });
  }

  // What follows from nearly the same numbers is the same where numbers are rounded.
  void drop_roundings() {
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kRepeat || one.checkpoint != one.of_checkpoint) return false;
      const CheckpointName& output = checkpoint_of(one.checkpoint);
      return any_op(output.op, [&](const OpSpec& op) {
        const int32_t input = names_.find(checkpoint_name(op.in[0], output.layer));
        return (op.kind == OpKind::kLinear || op.kind == OpKind::kNorm) && op.n_inputs == 1 &&
               input >= 0 && forensics_.nearly_repeats(input, one.token_idx, one.of_token_idx);
      });
    });
  }

  // The sum of a token's experts, where it has one and its weight is on what that reads, is what
  // the expert gives.
  void drop_single_experts() {
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kRepeat || one.of_token_idx != one.token_idx) return false;
      const CheckpointName& input = checkpoint_of(one.of_checkpoint);
      const CheckpointName& output = checkpoint_of(one.checkpoint);
      return input.layer == output.layer && any_op(output.op, [&](const OpSpec& op) {
               return op.kind == OpKind::kMix && op.n_inputs == 1 &&
                      checkpoint_op(op.in[0]) == input.op;
             });
    });
  }

  // Of several residual streams the first values are those of the first, which a step between them
  // may give as it was.
  void drop_streams() {
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kRepeat || one.of_token_idx != one.token_idx) return false;
      const CheckpointName& input = checkpoint_of(one.of_checkpoint);
      return any_op(checkpoint_of(one.checkpoint).op, [&](const OpSpec& op) {
        return op.kind == OpKind::kStreams &&
               std::any_of(op.in.begin(), op.in.begin() + op.n_inputs,
                           [&](Checkpoint each) { return checkpoint_op(each) == input.op; });
      });
    });
  }

  // A cutoff leaves few values of a gate, and of some tokens none.
  void drop_cut_off() {
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kAllZero) return false;
      return any_op(checkpoint_of(one.checkpoint).op, [&](const OpSpec& op) {
        return op.kind == OpKind::kCutoff ||
               (op.kind == OpKind::kActivation &&
                std::any_of(op.in.begin(), op.in.begin() + op.n_inputs,
                            [](Checkpoint each) { return each == Checkpoint::kFfnCutoff; }));
      });
    });
  }

  // Whether an op rotates `input` and gives `output`, or attends to it.
  bool turns_into(const std::string& input, const std::string& output) const {
    return any_op(output, [&](const OpSpec& op) {
      const size_t read = op.kind == OpKind::kAttention ? 2 : 0;
      if (op.kind != OpKind::kRope && op.kind != OpKind::kAttention) return false;
      return checkpoint_op(op.in[read]) == input || is_before_norm(input, op.in[read]);
    });
  }

  // Whether `normed` is `input` in files that lack the norm between them.
  bool is_before_norm(const std::string& input, Checkpoint normed) const {
    return any_op(std::string(checkpoint_op(normed)), [&](const OpSpec& op) {
      return op.if_present && checkpoint_op(op.in[0]) == input;
    });
  }

  // Whether `is` holds for an op that gives `output` in a layer of the architecture that the header
  // names, or of any.
  template <typename Predicate>
  bool any_op(const std::string& output, const Predicate& is) const {
    const auto found = find_checkpoint(output, true);
    if (!found) return false;
    const Architecture* named =
        analysis_.header ? find_architecture(analysis_.header->model.arch) : nullptr;
    return std::ranges::any_of(architectures(), [&](const Architecture& architecture) {
      if (named != nullptr && named != &architecture) return false;
      const auto has = [&](std::span<const OpSpec> layer) {
        const OpSpec* op = find_spec(layer, *found);
        return op != nullptr && is(*op);
      };
      return has(architecture.layer) ||
             std::ranges::any_of(architecture.variants, has, &LayerVariant::ops);
    });
  }

  // A norm without weights gives what it is given if that is normalised already: an embedding that
  // has a norm of its own.
  void drop_repeated_norms() {
    std::erase_if(analysis_.suspicions, [&](const Suspicion& one) {
      if (one.kind != SuspicionKind::kRepeat || one.of_token_idx != one.token_idx) return false;
      const CheckpointName& input = checkpoint_of(one.of_checkpoint);
      const CheckpointName& output = checkpoint_of(one.checkpoint);
      return input.layer < 0 && input.name == "embedding" && output.layer == 0 &&
             normalises_again(output.op);
    });
  }

  // Whether it is such a norm of the first layer in the architecture that the header names, or in
  // any.
  bool normalises_again(const std::string& op) const {
    const auto found = find_checkpoint(op, true);
    const Architecture* named =
        analysis_.header ? find_architecture(analysis_.header->model.arch) : nullptr;
    return found && std::ranges::any_of(architectures(), [&](const Architecture& architecture) {
             if (named != nullptr && named != &architecture) return false;
             const OpSpec* spec = find_spec(architecture.layer, *found);
             return architecture.embedding_norm && spec != nullptr && spec->kind == OpKind::kNorm &&
                    spec->tensor.empty() && spec->in[0] == Checkpoint::kOutput;
           });
  }

  void add_missing_records() {
    for (const MissingRecord& each : missing_.found(analysis_.header)) {
      Suspicion missing{SuspicionKind::kLost, each.checkpoint, each.token_idx, 0, 0};
      missing.name = each.name;
      analysis_.suspicions.push_back(missing);
    }
  }

  const CheckpointName& checkpoint_of(int32_t id) const {
    return analysis_.stats[static_cast<size_t>(id)].checkpoint;
  }

  bool is_unchanged_at_first_position(int32_t input, int32_t output) const {
    const CheckpointName& a = checkpoint_of(input);
    const CheckpointName& b = checkpoint_of(output);
    return a.layer == b.layer && (turns_into(a.op, b.op) || turns_into(b.op, a.op));
  }

  void note_sizes(const Record& record, const std::vector<Garbage>& found) {
    const double scale = usual_magnitude(record);
    for (const Garbage& garbage : found) {
      if (garbage.reason == GarbageReason::kPadding) continue;
      const auto magnitude = std::abs(static_cast<double>(garbage.value));
      const bool finite = std::isfinite(magnitude);
      if (finite && !(scale > 0 && magnitude >= kMagnitudeScale * scale)) continue;
      out_of_scale_tokens_.insert(record.token_idx);
      if (!finite) continue;
      double& smallest = analysis_.smallest_out_of_scale;
      smallest = smallest == 0 ? magnitude : std::min(smallest, magnitude);
      analysis_.largest_out_of_scale = std::max(analysis_.largest_out_of_scale, magnitude);
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
    count_garbage(id, GarbageReason::kNonfinite, unseen - 1);
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
      sums.add(value);
    }
  }

  void count_garbage(int32_t checkpoint, GarbageReason reason, int64_t count) {
    add_up_to_most(analysis_.garbage_values, count);
    add_up_to_most(analysis_.garbage_by_reason[reason], count);
    add_up_to_most(analysis_.stats[static_cast<size_t>(checkpoint)].garbage, count);
  }

  void add_garbage(int32_t checkpoint, int64_t token_idx, const Garbage& garbage, bool list) {
    count_garbage(checkpoint, garbage.reason, 1);
    if (garbage.index != kUnknownIndex) ++analysis_.positions[garbage.index];
    garbage_tokens_.insert(token_idx);
    if (list) analysis_.garbage.push_back({checkpoint, token_idx, garbage});
  }

  // What was taken for something else in one record alone is listed once, as what it is.
  void add_further_words() {
    std::map<std::tuple<int32_t, int64_t, int64_t>, ListedGarbage*> listed;
    for (ListedGarbage& garbage : analysis_.garbage) {
      listed[{garbage.checkpoint, garbage.token_idx, garbage.garbage.index}] = &garbage;
    }
    std::vector<Forensics::Word> added;
    for (const Forensics::Word& word : forensics_.further_words()) {
      const auto found = listed.find({word.checkpoint, word.token_idx, word.garbage.index});
      if (found == listed.end()) {
        added.push_back(word);
      } else {
        GarbageReason& reason = found->second->garbage.reason;
        --analysis_.garbage_by_reason[reason];
        ++analysis_.garbage_by_reason[word.garbage.reason];
        reason = word.garbage.reason;
      }
    }
    for (const Forensics::Word& word : added) {
      add_garbage(word.checkpoint, word.token_idx, word.garbage, true);
    }
  }

  void finish() {
    analysis_.tokens = static_cast<int64_t>(tokens_.size());
    analysis_.garbage_tokens = static_cast<int64_t>(garbage_tokens_.size());
    analysis_.garbage_rate =
        static_cast<double>(analysis_.garbage_tokens) / static_cast<double>(analysis_.tokens);
    analysis_.out_of_scale_tokens = static_cast<int64_t>(out_of_scale_tokens_.size());
    analysis_.out_of_scale_rate =
        static_cast<double>(analysis_.out_of_scale_tokens) / static_cast<double>(analysis_.tokens);
    for (size_t i = 0; i < sums_.size(); ++i) {
      add_robust(sums_[i], analysis_.stats[i]);
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
    std::vector<CheckpointName> names;
    for (const CheckpointStats& stats : analysis_.stats) names.push_back(stats.checkpoint);
    const std::vector<int32_t> place = order_checkpoints(names);
    std::vector<CheckpointStats> stats(names.size());
    for (size_t id = 0; id < names.size(); ++id) {
      stats[static_cast<size_t>(place[id])] = std::move(analysis_.stats[id]);
    }
    analysis_.stats = std::move(stats);
    for (ListedGarbage& listed : analysis_.garbage) {
      listed.checkpoint = place[static_cast<size_t>(listed.checkpoint)];
    }
    for (Suspicion& suspicion : analysis_.suspicions) {
      suspicion.checkpoint = place[static_cast<size_t>(suspicion.checkpoint)];
      if (suspicion.of_checkpoint >= 0) {
        suspicion.of_checkpoint = place[static_cast<size_t>(suspicion.of_checkpoint)];
      }
    }
    const auto earlier = [](const auto& a, const auto& b) {
      return std::tie(a.token_idx, a.checkpoint) < std::tie(b.token_idx, b.checkpoint);
    };
    std::stable_sort(analysis_.garbage.begin(), analysis_.garbage.end(), earlier);
    std::stable_sort(analysis_.suspicions.begin(), analysis_.suspicions.end(), earlier);
  }

  LogReader log_;
  SequenceRows sequences_;
  RecordLoader loader_;
  int32_t file_;
  ReplicaCheck& replicas_;
  Analysis analysis_;
  NameTable names_;
  std::vector<Sums> sums_;
  std::set<int64_t> tokens_;
  std::set<int64_t> garbage_tokens_;
  std::set<int64_t> out_of_scale_tokens_;
  Forensics forensics_;
  MissingRecords missing_;
};

}  // namespace

Analysis analyze_log(const std::string& path) {
  ReplicaCheck replicas({path});
  return Analyzer(path, 0, replicas).analyze();
}

std::vector<Analysis> analyze_run(const std::string& path) {
  const std::vector<std::string> files = run_files(path);
  ReplicaCheck replicas(files);
  std::vector<Analysis> analyses;
  for (const std::string& file : files) {
    analyses.push_back(Analyzer(file, static_cast<int32_t>(analyses.size()), replicas).analyze());
  }
  return analyses;
}

}  // namespace assay
