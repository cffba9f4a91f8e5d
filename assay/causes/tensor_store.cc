#include "assay/causes/tensor_store.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "assay/compare/log_probabilities.h"

namespace assay::causes {
namespace {

constexpr int64_t kMaxKeptValues = int64_t{1} << 26;  // 256 MiB
constexpr int64_t kMaxMatrixValues = int64_t{1} << 25;

}  // namespace

TensorStore::TensorStore(const Comparison& comparison)
    : comparison_(comparison),
      ref_loader_(comparison.ref_log->loader()),
      got_loader_(comparison.got_log->loader()) {
  for (const RecordResult& result : comparison.results) {
    results_[{result.checkpoint, result.token_idx}] = &result;
  }
  for (size_t i = 0; i < comparison.checkpoints.size(); ++i) {
    names_[comparison.checkpoints[i].name] = static_cast<int32_t>(i);
  }
  const auto sibling = names_.find(std::string(kLogProbabilitiesName));
  if (sibling != names_.end()) names_.try_emplace(std::string(kLogitsName), sibling->second);
  known_tokens_ = tokens();
}

int32_t TensorStore::checkpoint_id(const std::string& checkpoint) const {
  const auto found = names_.find(checkpoint);
  return found == names_.end() ? -1 : found->second;
}

const Record* TensorStore::load(const LogIndex& log, IndexLoader& loader,
                                const std::string& checkpoint, int64_t token_idx) {
  int64_t entry = -1;
  for (const std::string& name : {checkpoint, sibling_of(checkpoint)}) {
    const int32_t id = log.names().find(name);
    if (entry < 0 && id >= 0) entry = log.find(id, token_idx);
  }
  return entry < 0 ? nullptr : &log.load(log.entries()[static_cast<size_t>(entry)], loader);
}

const Record* TensorStore::ref(const std::string& checkpoint, int64_t token_idx) {
  return load(*comparison_.ref_log, ref_loader_, checkpoint, token_idx);
}

const Record* TensorStore::got(const std::string& checkpoint, int64_t token_idx) {
  return load(*comparison_.got_log, got_loader_, checkpoint,
              token_idx + comparison_.alignment.offset);
}

const RecordResult* TensorStore::result(const std::string& checkpoint, int64_t token_idx) const {
  const auto found = results_.find({checkpoint_id(checkpoint), token_idx});
  return found == results_.end() ? nullptr : found->second;
}

int64_t TensorStore::last_position(const std::string& checkpoint) const {
  const int32_t id = checkpoint_id(checkpoint);
  auto after = results_.lower_bound({id + 1, std::numeric_limits<int64_t>::min()});
  if (id < 0 || after == results_.begin()) return -1;
  --after;
  return after->first.first == id ? after->first.second : -1;
}

bool TensorStore::fill(const std::string& checkpoint, int64_t token_idx, bool of_ref, int64_t row,
                       Matrix& matrix) {
  const Record* record = of_ref ? ref(checkpoint, token_idx) : got(checkpoint, token_idx);
  if (!of_ref && (record == nullptr || !record->has_all_values())) {
    const RecordResult* judged = result(checkpoint, token_idx);
    record = judged != nullptr && !judged->failed() ? ref(checkpoint, token_idx) : nullptr;
  }
  if (record == nullptr || !record->has_all_values() || record->n == 0) return false;
  if (matrix.empty()) {
    if (record->n > kMaxMatrixValues / matrix.rows) return false;
    matrix = Matrix(matrix.rows, record->n);
  }
  if (record->n != matrix.columns) return false;
  float* out = matrix.row(row);
  for (size_t i = 0; i < record->values.size(); ++i) {
    if (!std::isfinite(record->values[i])) return false;
    out[i] = record->values[i];
  }
  return true;
}

std::shared_ptr<const Matrix> TensorStore::matrix(const std::string& checkpoint,
                                                  const std::vector<int64_t>& positions,
                                                  bool of_ref) {
  const std::lock_guard lock(reading_);
  const auto key = std::make_pair((of_ref ? "ref " : "got ") + checkpoint, positions);
  const auto found = kept_.find(key);
  if (found != kept_.end()) return found->second;
  auto read = std::make_shared<Matrix>();
  read->rows = static_cast<int64_t>(positions.size());
  for (size_t i = 0; i < positions.size() && read; ++i) {
    if (!fill(checkpoint, positions[i], of_ref, static_cast<int64_t>(i), *read)) read = nullptr;
  }
  if (read && read->empty()) read = nullptr;
  if (read) kept_values_ += read->rows * read->columns;
  if (kept_values_ > kMaxKeptValues) {
    kept_.clear();
    kept_values_ = 0;
  }
  return kept_[key] = read;
}

void TensorStore::use_unjudged(bool use) {
  use_unjudged_ = use;
}

std::shared_ptr<const Matrix> TensorStore::computed(const std::string& checkpoint,
                                                    const std::vector<int64_t>& positions) {
  if (use_reference_) return reference(checkpoint, positions);
  const auto is_judged = [&](int64_t position) { return result(checkpoint, position) != nullptr; };
  if (!use_unjudged_ && !std::ranges::all_of(positions, is_judged)) return nullptr;
  return matrix(checkpoint, positions, false);
}

std::shared_ptr<const Matrix> TensorStore::reference(const std::string& checkpoint,
                                                     const std::vector<int64_t>& positions) {
  return matrix(checkpoint, positions, true);
}

const std::vector<int64_t>& TensorStore::tokens() const {
  static const std::vector<int64_t> none;
  for (const auto* log : {comparison_.got_log.get(), comparison_.ref_log.get()}) {
    if (log->header() && !log->header()->tokens.empty()) return log->header()->tokens;
  }
  return none;
}

void TensorStore::find_chosen_tokens(const std::vector<bool>& choosable) {
  for (const auto* log : {comparison_.got_log.get(), comparison_.ref_log.get()}) {
    if (log->header() && !log->header()->sampling.empty()) return;
  }
  known_tokens_ = tokens();
  while (!known_tokens_.empty()) {
    const RecordResult* before = result(std::string(kLogitsName), std::ssize(known_tokens_) - 1);
    if (before == nullptr || !before->metrics.argmax_ref) return;
    const int64_t id = *before->metrics.argmax_ref;
    if (before->metrics.argmax_got != id || id < 0 || id >= std::ssize(choosable) ||
        !choosable[static_cast<size_t>(id)]) {
      return;
    }
    known_tokens_.push_back(id);
  }
}

}  // namespace assay::causes
