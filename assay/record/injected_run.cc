#include "assay/record/injected_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "assay/compare/log_index.h"
#include "assay/compare/median.h"
#include "assay/record/backend.h"
#include "base/error.h"
#include "engine/session.h"

namespace assay {
namespace {

constexpr const char* kInjectHint =
    "log the reference with --checkpoints layers --values all, or with all its ops";

// The reference's values at positions 0, 1, ... of the checkpoints between layers.
class Reference {
 public:
  Reference(const std::string& path, const ModelConfig& config) : path_(path), config_(config) {
    const LogIndex log(path);
    if (log.header()) header_ = *log.header();
    warnings_ = log.warnings();
    read(log);
    count_positions();
  }

  int64_t n_positions() const { return n_positions_; }
  const LogHeader& header() const { return header_; }  // empty where the log has none
  const std::vector<std::string>& warnings() const { return warnings_; }

  // Whether any evaluated position has the checkpoint.
  bool has(const std::string& checkpoint) const {
    const auto rows = values_.find(checkpoint);
    return rows != values_.end() && !rows->second.empty() &&
           rows->second.begin()->first < n_positions_;
  }

  // [width], or null: the reference may end before the logits.
  const std::vector<float>* find(const std::string& checkpoint, int64_t position) const {
    const auto rows = values_.find(checkpoint);
    if (rows == values_.end()) return nullptr;
    const auto row = rows->second.find(position);
    return row == rows->second.end() ? nullptr : &row->second;
  }

 private:
  int64_t width(const std::string& checkpoint) const {
    return checkpoint == "logits" ? config_.n_vocab : config_.embedding_length;
  }

  void read(const LogIndex& log) {
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      values_[checkpoint_name(Checkpoint::kOutput, layer)] = {};
    }
    values_["embedding"] = {};
    values_["logits"] = {};
    IndexLoader loader = log.loader();
    for (const IndexEntry& entry : log.entries()) {
      const auto rows = values_.find(log.names().name(entry.checkpoint));
      if (rows == values_.end()) continue;
      Record& record = log.load(entry, loader);
      const std::string where = log.where(entry);
      if (record.n != width(record.checkpoint)) {
        throw Error(fmt::format("'{}' has {} elements, the model {}", record.checkpoint, record.n,
                                width(record.checkpoint)),
                    where, "give the log of this model");
      }
      if (!record.has_all_values()) {
        if (record.checkpoint == "logits") continue;
        throw Error(fmt::format("'{}' at token {} holds {} of its {} values", record.checkpoint,
                                record.token_idx, record.values.size(), record.n),
                    where, kInjectHint);
      }
      rows->second[record.token_idx] = std::move(record.values);
    }
  }

  void count_positions() {
    std::string first_missing = "embedding";
    while (find("embedding", n_positions_) != nullptr) ++n_positions_;
    if (n_positions_ == 0) {
      throw Error("the reference has no 'embedding' at token 0, which the first layer reads", path_,
                  kInjectHint);
    }
    for (int layer = 0; layer < config_.n_layers; ++layer) {
      const std::string name = checkpoint_name(Checkpoint::kOutput, layer);
      int64_t position = 0;
      while (position < n_positions_ && find(name, position) != nullptr) ++position;
      if (position == 0)
        throw Error(fmt::format("the reference has no '{}' at token 0", name), path_, kInjectHint);
      if (position < n_positions_) first_missing = name;
      n_positions_ = position;
    }
    if (n_positions_ > config_.context_length) {
      throw Error(fmt::format("the reference has {} positions, the model's context {}",
                              n_positions_, config_.context_length),
                  path_, "give the log of this model");
    }
    int64_t logged = 0;
    for (const auto& [name, rows] : values_) {
      if (!rows.empty()) logged = std::max(logged, rows.rbegin()->first + 1);
    }
    if (n_positions_ == logged) return;
    warnings_.push_back(
        fmt::format("{} has no '{}' at token {}: of its {} tokens only those before are measured",
                    printable(path_), first_missing, n_positions_, logged));
  }

  std::string path_;
  const ModelConfig& config_;
  std::map<std::string, std::map<int64_t, std::vector<float>>> values_;
  LogHeader header_;
  std::vector<std::string> warnings_;
  int64_t n_positions_ = 0;
};

// The reference's values before every layer.
class Injector : public LayerInput {
 public:
  explicit Injector(const Reference& reference) : reference_(reference) {}

  bool replace(int layer, int64_t first, int64_t n_tokens, int64_t width, float* values) override {
    const std::string name =
        layer == 0 ? "embedding" : checkpoint_name(Checkpoint::kOutput, layer - 1);
    for (int64_t t = 0; t < n_tokens; ++t) {
      const std::vector<float>* row = reference_.find(name, first + t);
      std::copy(row->begin(), row->end(), values + t * width);
    }
    return true;
  }

 private:
  const Reference& reference_;
};

double relative_l2(const std::vector<float>& ref, const float* got) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < ref.size(); ++i) {
    const double a = ref[i];
    // Padding of the vocabulary may be an infinity on both sides.
    if (std::isinf(a) && ref[i] == got[i]) continue;
    difference += (a - got[i]) * (a - got[i]);
    norm += a * a;
  }
  return difference == 0 ? 0 : std::sqrt(difference / norm);
}

struct TokenError {
  int64_t token_idx = 0;
  double error = 0;
};

// NaN is the largest.
bool is_smaller(const TokenError& a, const TokenError& b) {
  return !std::isnan(a.error) && (std::isnan(b.error) || a.error < b.error);
}

// The first of the largest.
TokenError worst(const std::vector<TokenError>& errors) {
  return *std::max_element(errors.begin(), errors.end(), is_smaller);
}

// Compares the engine's output with the reference.
class OpErrorProbe : public Probe {
 public:
  explicit OpErrorProbe(const Reference& reference) : reference_(reference) {}

  bool wants(Checkpoint checkpoint, int) override {
    return checkpoint == Checkpoint::kEmbedding || checkpoint == Checkpoint::kOutput ||
           (checkpoint == Checkpoint::kLogits && reference_.has("logits"));
  }

  void observe(Checkpoint checkpoint, int layer, int64_t first, int64_t n_tokens, int64_t width,
               const float* values) override {
    const std::string name = checkpoint_name(checkpoint, layer);
    if (!errors.contains(name)) order.push_back(name);
    for (int64_t t = 0; t < n_tokens; ++t) {
      const std::vector<float>* row = reference_.find(name, first + t);
      if (row != nullptr) {
        errors[name].push_back({first + t, relative_l2(*row, values + t * width)});
      }
    }
  }

  std::vector<std::string> order;
  std::map<std::string, std::vector<TokenError>> errors;  // at tokens that the reference has

 private:
  const Reference& reference_;
};

// A quantised model may be compared with the log of the model that it was made from, so another
// file is not an error.
void check_hash(const Model& model, const Reference& reference,
                std::vector<std::string>& warnings) {
  const LogHeader::Model& stated = reference.header().model;
  if (stated.sha256.empty() || stated.sha256 == model.gguf().sha256()) return;
  warnings.push_back(fmt::format(
      "{} is not the reference's model file ({} {}, SHA-256 {}): the errors include those of "
      "different weights",
      printable(model.gguf().path()), printable(stated.name, 40), printable(stated.type, 20),
      printable(stated.sha256, 64)));
}

}  // namespace

InjectedRun run_injected(const InjectOptions& options) {
  InjectedRun run;
  run.backend = chosen_backend(options.backend);
  ThreadPool pool(options.n_threads);
  const auto kernels = make_kernels(run.backend, math_of(options.math), pool);
  const Model model(std::make_shared<Gguf>(options.model_path));
  const Reference reference(options.reference_path, model.config());
  run.warnings = reference.warnings();
  check_hash(model, reference, run.warnings);
  run.tokens = reference.n_positions();
  const std::vector<int64_t>& known_tokens = reference.header().tokens;
  // Ids matter only to the embedding, which is taken from the reference if they are unknown.
  std::vector<int32_t> tokens;
  for (int64_t i = 0; i < run.tokens; ++i) {
    const bool known = i < std::ssize(known_tokens);
    const int64_t id = known ? known_tokens[static_cast<size_t>(i)] : 0;
    tokens.push_back(static_cast<int32_t>(std::clamp<int64_t>(id, -1, model.config().n_vocab)));
  }
  const bool tokens_known = run.tokens <= std::ssize(known_tokens);
  const SessionOptions session{.capacity = run.tokens, .batch = 512, .kv_type = options.kv_type};
  OpErrorProbe injected(reference);
  Injector injector(reference);
  Session(model, *kernels, session).eval(tokens, &injected, &injector);
  OpErrorProbe plain(reference);
  if (tokens_known) Session(model, *kernels, session).eval(tokens, &plain);
  for (const std::string& name : injected.order) {
    if (name == "embedding" && !tokens_known) continue;
    std::vector<TokenError>& errors = injected.errors[name];
    const TokenError largest = worst(errors);
    StepError step;
    step.checkpoint = name;
    step.token_idx = largest.token_idx;
    step.own_max = largest.error;
    step.own_median = upper_median(errors, is_smaller).error;
    if (tokens_known) step.total_max = worst(plain.errors[name]).error;
    run.steps.push_back(std::move(step));
  }
  return run;
}

}  // namespace assay
