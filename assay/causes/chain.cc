#include "assay/causes/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "base/interrupt.h"

namespace assay::causes {
namespace {

constexpr int64_t kMaxPositions = 1024;
constexpr int64_t kFurther = 64;  // positions that are read even if none of them is judged

using Tensors = std::map<Op, std::shared_ptr<const Matrix>>;

std::shared_ptr<const Matrix> find(const Tensors& rows, Op op) {
  const auto known = rows.find(op);
  return known == rows.end() ? nullptr : known->second;
}

// `times` times the same rows.
std::shared_ptr<const Matrix> repeated(std::shared_ptr<const Matrix> rows, size_t times) {
  if (times == 1 || !rows) return rows;
  auto all = std::make_shared<Matrix>(static_cast<int64_t>(times) * rows->rows, rows->columns);
  for (size_t i = 0; i < times; ++i) {
    std::ranges::copy(rows->values, all->row(static_cast<int64_t>(i) * rows->rows));
  }
  return all;
}

// Of rows of n runs, those from row `first` of each on.
std::shared_ptr<const Matrix> rows_from(int64_t first, std::shared_ptr<const Matrix> rows,
                                        size_t n_runs) {
  if (first == 0) return rows;
  const int64_t of_run = rows->rows / static_cast<int64_t>(n_runs);
  auto late =
      std::make_shared<Matrix>(static_cast<int64_t>(n_runs) * (of_run - first), rows->columns);
  for (size_t i = 0; i < n_runs; ++i) {
    const int64_t run = static_cast<int64_t>(i);
    std::copy(rows->row(run * of_run + first), rows->row((run + 1) * of_run),
              late->row(run * (of_run - first)));
  }
  return late;
}

// Part i of n of the rows.
std::shared_ptr<const Matrix> part(std::shared_ptr<const Matrix> rows, size_t i, size_t n) {
  if (n == 1) return rows;
  const int64_t count = rows->rows / static_cast<int64_t>(n);
  auto own = std::make_shared<Matrix>(count, rows->columns);
  std::copy_n(rows->row(static_cast<int64_t>(i) * count), count * rows->columns, own->row(0));
  return own;
}

// One below the other.
std::shared_ptr<const Matrix> stacked(std::vector<Matrix> parts) {
  if (parts.size() == 1) return std::make_shared<Matrix>(std::move(parts.front()));
  auto all = std::make_shared<Matrix>();
  all->columns = parts.front().columns;
  for (const Matrix& own : parts) {
    if (own.rows != parts.front().rows || own.columns != all->columns) {
      throw std::logic_error("a mistake gives tensors of several sizes");
    }
    all->rows += own.rows;
    all->values.insert(all->values.end(), own.values.begin(), own.values.end());
  }
  return all;
}

}  // namespace

Chain::Chain(const Network& network, TensorStore& store, Op target, std::vector<int64_t> wanted,
             bool short_of_masks)
    : network_(network), store_(store), target_(target) {
  const std::vector<int64_t> asked = wanted;
  find_ops(std::move(wanted), short_of_masks);
  if (complete()) check_target(asked);
  for (const Op op : ops_) {
    if (!(op == target_) && passes(op, asked)) right_.insert(op);
  }
}

bool Chain::passes(Op op, const std::vector<int64_t>& wanted) const {
  const std::string name = op.name();
  return std::any_of(wanted.begin(), wanted.end(),
                     [&](int64_t position) { return store_.result(name, position) != nullptr; }) &&
         std::all_of(wanted.begin(), wanted.end(), [&](int64_t position) {
           const RecordResult* result = store_.result(name, position);
           return result == nullptr || !result->failed();
         });
}

const RecordResult* Chain::failure_passed_over(int64_t position) const {
  for (const Op op : ops_) {
    if (op == target_) continue;
    const bool read_later = last_attention_ && !after_attention_.contains(op);
    for (const int64_t at : positions_of(op)) {
      if (at != position && !(read_later && at < position)) continue;
      const RecordResult* result = store_.result(op.name(), at);
      if (result != nullptr && result->failed()) return result;
    }
  }
  return nullptr;
}

bool Chain::spans_layers() const {
  return std::ranges::count_if(ops_, [&](Op op) { return reads_back(network_.kind_of(op)); }) > 1;
}

void Chain::find_ops(std::vector<int64_t> wanted, bool short_of_masks) {
  const std::vector<int64_t> asked = wanted;
  restart(std::move(wanted));
  resolve(target_, true);
  if (!has_attention_ || asked.empty()) return;
  // Attention reads every position up to its own,
  const int64_t last = *std::max_element(asked.begin(), asked.end());
  int64_t more = last;
  if (!short_of_masks) {
    more = std::max(last, std::min(store_.last_position(target_.name()), kFurther - 1));
  }
  if (last >= kMaxPositions) {
    missing_ =
        fmt::format("the first {} positions (the comparison reaches {})", kMaxPositions, last);
    return;
  }
  // and, where its mask is at fault, some after it: as far as these are known.
  const int64_t last_token = std::ssize(store_.known_tokens()) - 1;
  for (const int64_t end : {more, std::min(more, last_token), last}) {
    if (end < last) continue;
    std::vector<int64_t> all;
    for (int64_t position = 0; position <= end; ++position) all.push_back(position);
    restart(std::move(all));
    if (resolve(target_, true)) break;
  }
  for (size_t i = 0; i < positions_.size(); ++i) {
    wanted_[i] = std::find(asked.begin(), asked.end(), positions_[i]) != asked.end();
    if (wanted_[i]) wanted_positions_.push_back(positions_[i]);
  }
  for (const Op op : ops_) {
    if (reads_back(network_.kind_of(op))) {
      last_attention_ = op;
      after_attention_.clear();
    } else if (last_attention_) {
      after_attention_.insert(op);
    }
  }
}

void Chain::restart(std::vector<int64_t> positions) {
  positions_ = std::move(positions);
  wanted_.assign(positions_.size(), true);
  ops_.clear();
  missing_.clear();
  lacks_weights_ = false;
  size_mismatch_.clear();
  logged_.clear();
  columns_.clear();
  tokens_.clear();
}

// Depth first, so that ops_ ends up in the order of computing.
bool Chain::resolve(Op op, bool is_target) {
  if (logged_.contains(op) || std::find(ops_.begin(), ops_.end(), op) != ops_.end()) return true;
  if (!is_target) {
    if (auto rows = logged(op, positions_)) {
      columns_[op] = rows->columns;
      logged_[op] = std::move(rows);
      return true;
    }
  }
  if (op.layer >= network_.n_layers || !network_.can_compute(op)) {
    if (missing_.empty()) {
      missing_ = op.name();
      lacks_weights_ = is_target;
    }
    return false;
  }
  if (network_.kind_of(op) == OpKind::kEmbedding && tokens_.empty()) {
    const std::vector<int64_t>& tokens = store_.known_tokens();
    for (const int64_t position : positions_) {
      const int64_t token =
          position < std::ssize(tokens) ? tokens[static_cast<size_t>(position)] : -1;
      if (token < 0 || token >= network_.model->token_embedding.rows) {
        if (missing_.empty()) missing_ = op.name();
        return false;
      }
      tokens_.push_back(static_cast<int32_t>(token));
    }
  }
  has_attention_ = has_attention_ || reads_back(network_.kind_of(op));
  for (const Op input : network_.inputs(op)) {
    if (!resolve(input, false)) return false;
  }
  if (!find_columns(op)) return false;
  ops_.push_back(op);
  return true;
}

std::string Chain::missing_input() const {
  if (target_.layer >= network_.n_layers) return {};  // a log may name any layer
  const bool knows_tokens = std::ranges::all_of(
      positions_, [&](int64_t position) { return position < std::ssize(store_.known_tokens()); });
  std::set<Op> seen;
  std::vector<Op> open = network_.inputs(target_);
  while (!open.empty()) {
    const Op op = open.back();
    open.pop_back();
    if (!seen.insert(op).second || logged(op, positions_)) continue;
    const std::vector<Op> inputs = network_.inputs(op);
    if (inputs.empty() && !knows_tokens) return network_.inputs(target_).front().name();
    open.insert(open.end(), inputs.begin(), inputs.end());
  }
  return {};
}

// What the log holds of an op; what is not of the model's size is none of it.
std::shared_ptr<const Matrix> Chain::logged(Op op, const std::vector<int64_t>& positions) const {
  auto rows = store_.computed(op.name(), positions);
  const int64_t width = network_.width(op);
  return rows && width > 0 && rows->columns != width ? nullptr : rows;
}

bool Chain::find_columns(Op op) {
  const std::vector<Op> inputs = network_.inputs(op);
  std::vector<int64_t> sizes;
  sizes.reserve(inputs.size());
  for (const Op input : inputs) sizes.push_back(columns_.at(input));
  if (const auto columns = network_.columns(op, sizes)) {
    columns_[op] = *columns;
    return true;
  }
  missing_ = op.name();
  size_mismatch_ = op.name() + " cannot be computed from what is logged:";
  for (size_t i = 0; i < inputs.size(); ++i) {
    size_mismatch_ +=
        fmt::format("{} {} has {} elements", i > 0 ? "," : "", inputs[i].name(), sizes[i]);
  }
  return false;
}

void Chain::check_target(const std::vector<int64_t>& wanted) {
  const std::string name = target_.name();
  for (const int64_t position : wanted) {
    const RecordResult* result = store_.result(name, position);
    if (result == nullptr || result->metrics.n == columns_.at(target_)) continue;
    missing_ = name;
    size_mismatch_ = fmt::format("what it is computed from gives {} elements, it has {}",
                                 columns_.at(target_), result->metrics.n);
    return;
  }
}

double Chain::multiplications_of(Op op) const {
  const bool few = op == last_attention_ || after_attention_.contains(op);
  // What the naive kernels compute takes as long as so many multiplications of a product: what they
  // make of an element; of one and a key the score and the sum of the values, of which a mask lets
  // half be seen.
  constexpr int64_t kElement = 50;
  constexpr int64_t kKey = 8;
  int64_t each = kElement;
  if (reads_back(network_.kind_of(op))) each += kKey * std::ssize(positions_);
  if (const Linear* linear = network_.linear(op)) each = linear->weight.columns;
  return static_cast<double>(few ? wanted_positions_.size() : positions_.size()) *
         static_cast<double>(columns_.at(op)) * static_cast<double>(each);
}

double Chain::base_multiplications() const {
  double sum = 0;
  for (const Op op : ops_) sum += multiplications_of(op);
  return sum;
}

double Chain::bytes() const {
  double sum = 0;
  for (const Op op : ops_) {
    sum += static_cast<double>(positions_of(op).size() * sizeof(float)) *
           static_cast<double>(columns_.at(op));
  }
  return sum;
}

const std::vector<int64_t>& Chain::positions_of(Op op) const {
  return after_attention_.contains(op) ? wanted_positions_ : positions_;
}

// Of `values`, at all positions or the wanted ones of each run, the rows that the op reads.
std::shared_ptr<const Matrix> Chain::rows_for(Op op, std::shared_ptr<const Matrix> values,
                                              size_t n_runs) const {
  const size_t n_rows = n_runs * positions_of(op).size();
  if (!values || values->rows == static_cast<int64_t>(n_rows)) return values;
  auto rows = std::make_shared<Matrix>(static_cast<int64_t>(n_rows), values->columns);
  int64_t to = 0;
  for (int64_t from = 0; from < values->rows; ++from) {
    if (!wanted_[static_cast<size_t>(from) % wanted_.size()]) continue;
    std::copy_n(values->row(from), values->columns, rows->row(to++));
  }
  return rows;
}

Inputs Chain::inputs(Op op, const Values& values) const {
  Inputs inputs;
  inputs.positions = positions_of(op);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    if (!after_attention_.contains(op) || wanted_[i]) inputs.tokens.push_back(tokens_[i]);
  }
  if (op == last_attention_) inputs.wanted = wanted_;
  inputs.other = [this, op, values](Op asked) -> std::shared_ptr<const Matrix> {
    auto known = values(asked);
    return known ? rows_for(op, std::move(known)) : logged(asked, positions_of(op));
  };
  for (const Op input : network_.inputs(op)) {
    inputs.held.push_back(rows_for(op, values(input)));
    inputs.rows.push_back(inputs.held.back().get());
  }
  return inputs;
}

Inputs Chain::inputs_of_base(Op op) const {
  return inputs(op, [this](Op asked) { return find(base_, asked); });
}

const Matrix& Chain::base() const {
  if (base_.empty()) {
    base_ = logged_;
    for (const Op op : ops_) {
      check_interrupted();
      base_[op] = std::make_shared<Matrix>(network_.compute(op, inputs_of_base(op)));
    }
  }
  return *base_.at(target_);
}

Inputs Chain::inputs(Op op) const {
  base();
  return inputs_of_base(op);
}

// Rows before position `from` become what they should be.
void Chain::restore_rows_before(int64_t from, Op op, Matrix& values) const {
  const Matrix& right = *base_.at(op);
  const std::vector<int64_t>& positions = positions_of(op);
  if (values.rows != right.rows || values.columns != right.columns) return;
  for (int64_t row = 0; row < right.rows; ++row) {
    if (positions[static_cast<size_t>(row)] >= from) continue;
    std::copy_n(right.row(row), right.columns, values.row(row));
  }
}

// The first position whose row, in one of the runs, is not what it should be, to the bit; nothing
// where all are.
std::optional<int64_t> Chain::first_changed(Op op, const Matrix& values, size_t n_runs) const {
  const Matrix& right = *base_.at(op);
  const std::vector<int64_t>& positions = positions_of(op);
  const auto n = static_cast<int64_t>(n_runs);
  if (values.rows != n * right.rows || values.columns != right.columns) return positions.front();
  const auto bytes = static_cast<size_t>(right.columns) * sizeof(float);
  for (int64_t row = 0; row < right.rows; ++row) {
    for (int64_t i = 0; i < n; ++i) {
      if (std::memcmp(values.row(i * right.rows + row), right.row(row), bytes) != 0) {
        return positions[static_cast<size_t>(row)];
      }
    }
  }
  return std::nullopt;
}

// Of several runs the op as it should be computed, where what it reads is right before a position:
// so it is itself.
std::shared_ptr<const Matrix> Chain::computed_from(int64_t position, Op op, const Changed& changed,
                                                   size_t n_runs, double& work) const {
  const std::vector<int64_t>& positions = positions_of(op);
  const auto first = std::ranges::lower_bound(positions, position) - positions.begin();
  if (first == std::ssize(positions)) return nullptr;
  work += static_cast<double>(n_runs) * multiplications_of(op) *
          static_cast<double>(std::ssize(positions) - first) /
          static_cast<double>(positions.size());
  if (reads_back(network_.kind_of(op))) {
    std::vector<Matrix> results;
    for (size_t i = 0; i < n_runs; ++i) {
      Inputs in = inputs_of_run(op, changed, i, n_runs);
      if (in.wanted.empty()) in.wanted.assign(positions.size(), true);
      std::fill_n(in.wanted.begin(), first, false);
      results.push_back(network_.compute(op, in));
      restore_rows_before(position, op, results.back());
    }
    return stacked(std::move(results));
  }
  Inputs in;
  for (size_t i = 0; i < n_runs; ++i) {
    in.positions.insert(in.positions.end(), positions.begin() + first, positions.end());
  }
  for (const Op input : network_.inputs(op)) {
    const auto known = changed.find(input);
    in.held.push_back(
        known != changed.end()
            ? rows_from(first, rows_for(op, known->second.values, n_runs), n_runs)
            : repeated(rows_from(first, rows_for(op, find(base_, input)), 1), n_runs));
    in.rows.push_back(in.held.back().get());
  }
  Matrix late = network_.compute(op, in);
  if (first == 0) return std::make_shared<Matrix>(std::move(late));
  const Matrix& right = *base_.at(op);
  auto all = std::make_shared<Matrix>(static_cast<int64_t>(n_runs) * right.rows, right.columns);
  const int64_t count = right.rows - first;
  for (int64_t i = 0; i < static_cast<int64_t>(n_runs); ++i) {
    std::copy_n(right.row(0), first * right.columns, all->row(i * right.rows));
    std::copy_n(late.row(i * count), count * right.columns, all->row(i * right.rows + first));
  }
  return all;
}

Inputs Chain::inputs_of_run(Op op, const Changed& changed, size_t i, size_t n_runs) const {
  return inputs(op, [&, i, n_runs](Op asked) {
    const auto known = changed.find(asked);
    return known != changed.end() ? part(known->second.values, i, n_runs) : find(base_, asked);
  });
}

std::vector<Matrix> Chain::run(const std::set<Op>& wrong, const Compute& compute, size_t n_runs,
                               int64_t from, double& work) const {
  base();
  // What is computed from none of these stays as it is.
  Changed changed;
  for (const Op op : ops_) {
    std::optional<int64_t> first;  // position
    for (const Op input : network_.inputs(op)) {
      const auto known = changed.find(input);
      if (known != changed.end()) first = std::min(first.value_or(INT64_MAX), known->second.from);
    }
    std::shared_ptr<const Matrix> values;
    if (wrong.contains(op)) {
      check_interrupted();
      work += static_cast<double>(n_runs) * multiplications_of(op);
      std::vector<Matrix> results;
      for (size_t i = 0; i < n_runs; ++i) {
        results.push_back(compute(op, inputs_of_run(op, changed, i, n_runs), i));
        restore_rows_before(from, op, results.back());
      }
      values = stacked(std::move(results));
    } else if (first) {
      check_interrupted();
      values = computed_from(*first, op, changed, n_runs, work);
    }
    if (!values) continue;
    if (const auto position = first_changed(op, *values, n_runs)) {
      changed[op] = {std::move(values), *position};
    }
  }
  const auto known = changed.find(target_);
  std::vector<Matrix> results;
  for (size_t i = 0; i < n_runs; ++i) {
    results.push_back(known != changed.end() ? *part(known->second.values, i, n_runs)
                                             : *base_.at(target_));
  }
  return results;
}

}  // namespace assay::causes
