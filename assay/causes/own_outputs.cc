#include "assay/causes/own_outputs.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "assay/causes/distance.h"
#include "assay/causes/expert_distance.h"
#include "assay/causes/own_tokens.h"
#include "assay/causes/search_places.h"
#include "assay/causes/stages.h"
#include "assay/compare/log_probabilities.h"
#include "base/thread_pool.h"

namespace assay::causes {
namespace {

using mistakes::Inputs;
using mistakes::Matrix;
using mistakes::Network;
using mistakes::Op;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr int64_t kBlock = 32;  // positions that are computed at once
constexpr int64_t kMaxPosition = int64_t{1} << 31;

constexpr std::string_view kUnknownName = "the model computes nothing of that name";
constexpr std::string_view kNoPosition = "its token_idx is no position";
constexpr std::string_view kPart = "only a part of its values is logged";
constexpr std::string_view kNoInput =
    "what it is computed from is neither logged with all values nor follows from what is";
constexpr std::string_view kNoToken =
    "a token up to there is not known: log the embedding too, or the logits that choose it";
constexpr std::string_view kReplayed = "the experts are not the engine's own choice";

constexpr std::string_view kNotFinite = "it holds values that are not finite";
constexpr std::string_view kNotFiniteInModel = "the model gives values that are not finite for it";
constexpr std::string_view kOtherSize = "it is not of the size that it has in the model";

// The result of an op at several positions.
struct Rows {
  Matrix values;
  std::vector<char> known;  // of each row; threads write it side by side
};

bool are_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

class Walk {
 public:
  Walk(const Network& network, const LogIndex& log, const OwnOutputRequest& request)
      : network_(network),
        log_(log),
        request_(request),
        pool_(request.n_threads),
        stages_(stages_of(network)) {
    list_records();
    tokens_ = own_tokens(network, log, positions_, request.first, request.limit, pool_);
    find_needed();
  }

  std::vector<OwnOutput> run() {
    const auto rows = std::ssize(positions_);
    const int64_t share = (rows + pool_.n_threads() - 1) / pool_.n_threads();
    const int64_t block = std::clamp(share, int64_t{1}, kBlock);
    const int64_t blocks = (rows + block - 1) / block;
    for (size_t stage = 0; stage < stages_.size(); ++stage) {
      begin_stage(stage);
      std::atomic<int64_t> next = 0;
      pool_.parallel_for(pool_.n_threads(), 1, [&](int64_t begin, int64_t end) {
        if (begin == end) return;
        IndexLoader loader = log_.loader();
        for (int64_t i = next++; i < blocks; i = next++) {
          run_block(stage, i * block, std::min((i + 1) * block, rows), loader);
          count_block(blocks);
        }
      });
      end_stage(stage);
    }
    return std::move(outputs_);
  }

 private:
  // --- What is logged, and what has to be computed to hold it. ---

  void list_records() {
    const auto is_position = [&](const IndexEntry& entry) {
      return entry.token_idx >= request_.first && entry.token_idx - request_.first < kMaxPosition;
    };
    std::vector<std::optional<Op>> ops;
    for (int32_t id = 0; id < log_.names().size(); ++id) {
      ops.push_back(find_op(log_.names().name(id)));
      if (ops.back() && !is_computed(*ops.back())) ops.back().reset();
    }
    std::set<int64_t> positions;
    for (const IndexEntry& entry : log_.entries()) {
      if (is_position(entry)) positions.insert(entry.token_idx - request_.first);
    }
    const auto n_tokens = log_.header() ? std::ssize(log_.header()->tokens) : 0;
    const int64_t last = positions.empty() ? -1 : *positions.rbegin();
    for (int64_t at = 0; at < n_tokens && at <= last; ++at) positions.insert(at);
    positions_.assign(positions.begin(), positions.end());
    for (int64_t i = 0; i < std::ssize(log_.entries()); ++i) {
      const IndexEntry& entry = log_.entry(i);
      const std::optional<Op>& op = ops[static_cast<size_t>(entry.checkpoint)];
      if (!op || !is_position(entry)) {
        outputs_.push_back(
            {.entry = i, .position = entry.token_idx, .not_held = op ? kNoPosition : kUnknownName});
        continue;
      }
      const int64_t position = entry.token_idx - request_.first;
      const auto row = std::ranges::lower_bound(positions_, position) - positions_.begin();
      records_[*op].emplace_back(row, i);
    }
    for (auto& [op, records] : records_) std::ranges::sort(records);
  }

  bool is_computed(Op op) const { return op.layer < network_.n_layers && network_.can_compute(op); }

  // What is logged, and what that is computed from.
  void find_needed() {
    for (size_t stage = stages_.size(); stage-- > 0;) {
      for (size_t i = stages_[stage].size(); i-- > 0;) {
        const Op op = stages_[stage][i];
        if (!records_.contains(op) && !last_reader_.contains(op)) continue;
        needed_.insert(op);
        for (const Op input : network_.inputs(op)) last_reader_.try_emplace(input, stage);
      }
    }
  }

  std::vector<int64_t> entries_at(Op op, int64_t row) const {
    std::vector<int64_t> entries;
    const auto found = records_.find(op);
    if (found == records_.end()) return entries;
    auto at = std::ranges::lower_bound(found->second, std::pair(row, int64_t{-1}));
    for (; at != found->second.end() && at->first == row; ++at) entries.push_back(at->second);
    return entries;
  }

  // --- What is computed. ---

  void begin_stage(size_t stage) {
    for (const Op op : stages_[stage]) {
      const auto reader = last_reader_.find(op);
      if (!needed_.contains(op) || reader == last_reader_.end() || reader->second == stage)
        continue;
      Rows& rows = kept_[op];
      rows.values = Matrix(std::ssize(positions_), network_.width(op));
      rows.known.assign(positions_.size(), 0);
    }
    attended_ = 0;
    const Op first = stages_[stage].front();
    if (!reads_back(network_.kind_of(first)) || !needed_.contains(first)) return;
    const std::vector<Op> inputs = inputs_read_back(first);
    while (attended_ < positions_.size() && is_attended(inputs, attended_)) ++attended_;
  }

  // The inputs that an op of reads_back() reads at earlier positions.
  std::vector<Op> inputs_read_back(Op op) const {
    std::vector<Op> inputs = network_.inputs(op);
    inputs.erase(inputs.begin(), inputs.begin() + network_.first_read_back(op));
    return inputs;
  }

  // Whether keys and values of a row are known, and no position is left out before it.
  bool is_attended(const std::vector<Op>& inputs, size_t row) const {
    return positions_[row] == static_cast<int64_t>(row) &&
           std::ranges::all_of(inputs, [&](Op op) { return kept_.at(op).known[row] != 0; });
  }

  void end_stage(size_t stage) {
    std::erase_if(kept_, [&](const auto& one) { return last_reader_.at(one.first) <= stage; });
  }

  void count_block(int64_t blocks) {
    const std::lock_guard lock(mutex_);
    ++done_;
    if (request_.progress) request_.progress(done_, blocks * std::ssize(stages_));
  }

  void run_block(size_t stage, int64_t begin, int64_t end, IndexLoader& loader) {
    std::map<Op, Rows> own;
    std::vector<OwnOutput> outputs;
    for (const Op op : stages_[stage]) {
      if (!needed_.contains(op)) continue;
      Rows rows = computed(op, begin, end, own);
      for (int64_t row = begin; row < end; ++row) {
        take_logged(op, row, begin, rows, own, loader, outputs);
      }
      const auto kept = kept_.find(op);
      if (kept != kept_.end()) {
        std::ranges::copy(rows.values.values, kept->second.values.row(begin));
        std::ranges::copy(rows.known, kept->second.known.begin() + begin);
      }
      own[op] = std::move(rows);
    }
    const std::lock_guard lock(mutex_);
    outputs_.insert(outputs_.end(), outputs.begin(), outputs.end());
  }

  // The row of an op that is computed before, in this block (`own`, from `begin` on) or before it;
  // null where it is not known.
  const float* row_of(Op op, int64_t row, int64_t begin, const std::map<Op, Rows>& own) const {
    const auto here = own.find(op);
    const Rows& rows = here != own.end() ? here->second : kept_.at(op);
    const int64_t at = here != own.end() ? row - begin : row;
    return rows.known[static_cast<size_t>(at)] != 0 ? rows.values.row(at) : nullptr;
  }

  bool can_compute(Op op, int64_t row, int64_t begin, const std::map<Op, Rows>& own) const {
    if (network_.kind_of(op) == OpKind::kEmbedding) {
      return tokens_[static_cast<size_t>(row)].id >= 0;
    }
    if (reads_back(network_.kind_of(op)) && row >= static_cast<int64_t>(attended_)) {
      return false;
    }
    return std::ranges::all_of(network_.inputs(op),
                               [&](Op input) { return row_of(input, row, begin, own) != nullptr; });
  }

  // The op at the rows from `begin` to `end`, as far as its inputs are known.
  Rows computed(Op op, int64_t begin, int64_t end, const std::map<Op, Rows>& own) const {
    Rows rows{Matrix(end - begin, network_.width(op)),
              std::vector<char>(static_cast<size_t>(end - begin))};
    if (!is_computed(op)) return rows;
    Inputs inputs;
    std::vector<int64_t> which;
    for (int64_t row = begin; row < end; ++row) {
      if (!can_compute(op, row, begin, own)) continue;
      which.push_back(row);
      inputs.positions.push_back(positions_[static_cast<size_t>(row)]);
      inputs.tokens.push_back(tokens_[static_cast<size_t>(row)].id);
    }
    if (which.empty()) return rows;
    const bool attends = reads_back(network_.kind_of(op));
    for (const Op input : network_.inputs(op)) {
      // Keys and values of all positions.
      if (attends && std::ssize(inputs.rows) >= network_.first_read_back(op)) {
        inputs.rows.push_back(&kept_.at(input).values);
        continue;
      }
      auto read = std::make_shared<Matrix>(std::ssize(which), network_.width(input));
      for (int64_t i = 0; i < read->rows; ++i) {
        std::copy_n(row_of(input, which[static_cast<size_t>(i)], begin, own), read->columns,
                    read->row(i));
      }
      inputs.rows.push_back(read.get());
      inputs.held.push_back(std::move(read));
    }
    const Matrix result = network_.compute(op, inputs);
    for (int64_t i = 0; i < result.rows; ++i) {
      const int64_t at = which[static_cast<size_t>(i)] - begin;
      std::copy_n(result.row(i), result.columns, rows.values.row(at));
      rows.known[static_cast<size_t>(at)] = 1;
    }
    return rows;
  }

  // --- What it is held to. ---

  // Holds what is logged of a row to what was computed, and takes its place.
  void take_logged(Op op, int64_t row, int64_t begin, Rows& rows, const std::map<Op, Rows>& own,
                   IndexLoader& loader, std::vector<OwnOutput>& outputs) const {
    char& known = rows.known[static_cast<size_t>(row - begin)];
    const std::span<float> values{rows.values.row(row - begin),
                                  static_cast<size_t>(rows.values.columns)};
    const std::vector<int64_t> entries = entries_at(op, row);
    const bool selects = network_.kind_of(op) == OpKind::kSelect;
    std::span<const float> router;
    if (selects && known != 0) {
      const Op input = network_.inputs(op).front();
      router = {row_of(input, row, begin, own), static_cast<size_t>(network_.width(input))};
      if (entries.empty() && are_experts_level(network_, op, router, values, request_.limit)) {
        known = 0;
      }
    }
    const std::vector<float> right(values.begin(), values.end());
    const bool is_known = known != 0;
    for (const int64_t entry : entries) {
      const Record& record = log_.load(log_.entry(entry), loader);
      OwnOutput output{.entry = entry, .position = positions_[static_cast<size_t>(row)]};
      if (!record.has_all_values()) {
        output.not_held = kPart;
      } else if (record.n != std::ssize(values)) {
        fail(kOtherSize, output);
      } else if (!are_finite(record.values)) {
        fail(kNotFinite, output);
      } else if (selects && is_replayed()) {
        output.not_held = kReplayed;
      } else if (!is_known) {
        output.not_held = missing_before(row);
      } else if (!are_finite(right)) {
        fail(kNotFiniteInModel, output);
      } else {
        output.error = selects ? expert_distance(network_, op, router, record.values)
                               : distance_of(op, right, record);
        output.is_unchosen = op.checkpoint == Checkpoint::kEmbedding &&
                             tokens_[static_cast<size_t>(row)].is_unchosen;
      }
      outputs.push_back(output);
      // What is not right in itself is no input of anything.
      if (!output.reason.empty() || !are_finite(record.values)) {
        known = 0;
      } else if (record.has_all_values()) {
        std::ranges::copy(record.values, values.begin());
        known = 1;
      }
    }
  }

  std::string_view missing_before(int64_t row) const {
    const std::span<const OwnToken> until(tokens_.data(), static_cast<size_t>(row) + 1);
    const bool tokens = log_.header() && !log_.header()->tokens.empty();
    return tokens && std::ranges::count(until, -1, &OwnToken::id) > 0 ? kNoToken : kNoInput;
  }

  static void fail(std::string_view reason, OwnOutput& output) {
    output.error = kNaN;
    output.reason = reason;
  }

  bool is_replayed() const { return log_.header() && log_.header()->routing == kRoutingReplayed; }

  static double distance_of(Op op, const std::vector<float>& right, const Record& logged) {
    if (op.checkpoint == Checkpoint::kLogits) {
      Record computed;
      computed.checkpoint = kLogitsName;
      computed.values = right;
      computed.n = std::ssize(right);
      if (are_log_probabilities(computed, logged)) {
        return relative_distance(right, in_terms_of(computed, logged).values);
      }
    }
    return relative_distance(right, logged.values);
  }

  const Network& network_;
  const LogIndex& log_;
  const OwnOutputRequest& request_;
  ThreadPool pool_;
  std::vector<std::vector<Op>> stages_;
  std::vector<int64_t> positions_;                                  // of each row, ascending
  std::vector<OwnToken> tokens_;                                    // of each row
  std::map<Op, std::vector<std::pair<int64_t, int64_t>>> records_;  // rows and entries
  std::map<Op, size_t> last_reader_;                                // the last stage that reads it
  std::set<Op> needed_;
  std::map<Op, Rows> kept_;  // what later stages read
  size_t attended_ = 0;      // rows from the first whose attention can be computed
  std::mutex mutex_;
  int64_t done_ = 0;  // blocks
  std::vector<OwnOutput> outputs_;
};

}  // namespace

std::vector<OwnOutput> own_outputs(const Network& network, const LogIndex& log,
                                   const OwnOutputRequest& request) {
  return Walk(network, log, request).run();
}

}  // namespace assay::causes
