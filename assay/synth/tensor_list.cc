#include "assay/synth/tensor_list.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace assay {
namespace {

constexpr float kNormDeviation = 0.25F;
// Scores with a deviation of 2 attend to a few tokens, not evenly to all: with the smaller output
// this keeps the rows of different tokens from becoming equal, layer after layer.
constexpr double kQkvGain = 1.41;
constexpr double kAttnOutGain = 0.5;
constexpr float kBiasDeviation = 0.1F;
constexpr double kLogitDeviation = 3.0;
constexpr float kEmbeddingDeviation = 0.5F;
// Tied rows must be small compared with what the layers add, or each token would only predict
// itself.
constexpr float kTiedDeviation = 0.03F;

class Lister {
 public:
  explicit Lister(const SynthConfig& config) : config_(config), model_(config.model) {}

  std::vector<SynthTensor> list() && {
    const int64_t width = model_.embedding_length;
    const bool learned = model_.architecture->position == PositionKind::kLearned;
    const float deviation = config_.tied ? kTiedDeviation : kEmbeddingDeviation;
    add("token_embd.weight", {width, model_.n_vocab}, 0.0F, deviation);
    if (learned) {
      add("position_embd.weight", {width, model_.context_length}, 0.0F, deviation);
    }
    add_values("rope_freqs.weight", config_.rope_freqs);
    add_values("rope_factors_long.weight", config_.rope_long);
    add_values("rope_factors_short.weight", config_.rope_short);
    for (int64_t layer = 0; layer < model_.n_layers; ++layer) add_layer(layer);
    const double embedding = static_cast<double>(kTiedDeviation);
    const double gain =
        config_.tied ? kLogitDeviation / (embedding * std::sqrt(static_cast<double>(width))) : 1.0;
    add_norm("output_norm", width, static_cast<float>(gain),
             model_.architecture->norm == NormKind::kLayer);
    if (!config_.tied) add_matrix("output", model_.n_vocab, width, kLogitDeviation, false);
    return std::move(tensors_);
  }

 private:
  void add(std::string name, std::vector<int64_t> dims, float mean, float deviation) {
    tensors_.push_back({std::move(name), std::move(dims), mean, deviation, {}, TensorType::kF32});
  }

  void add_values(const char* name, const std::vector<float>& values) {
    if (values.empty()) return;
    add(name, {static_cast<int64_t>(values.size())}, 0.0F, 0.0F);
    tensors_.back().values = values;
  }

  void add_matrix(const std::string& name, int64_t rows, int64_t columns, double gain, bool bias) {
    add(name + ".weight", {columns, rows}, 0.0F,
        static_cast<float>(gain / std::sqrt(static_cast<double>(columns))));
    if (bias) add(name + ".bias", {rows}, 0.0F, kBiasDeviation);
  }

  void add_norm(const std::string& name, int64_t width, float gain, bool bias) {
    add(name + ".weight", {width}, gain, gain * kNormDeviation);
    if (bias) add(name + ".bias", {width}, 0.0F, gain * kBiasDeviation);
  }

  void add_layer(int64_t layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const std::span<const OpSpec> ops = model_.architecture->layer;
    for (size_t i = 0; i < ops.size();) {
      const OpSpec& op = ops[i];
      const std::string name = prefix + std::string(op.tensor);
      if (op.kind == OpKind::kNorm) {
        add_norm(name, model_.width(op.norm_width), 1.0F, op.bias == Presence::kAlways);
      }
      if (op.kind != OpKind::kLinear) {
        ++i;
        continue;
      }
      int64_t rows = 0;  // of all ops that share the tensor
      for (; i < ops.size() && ops[i].tensor == op.tensor; ++i) rows += model_.width(ops[i].width);
      add_matrix(name, rows, model_.width(input_width(ops, op)), gain_of(op), has_bias(op));
    }
  }

  static bool is_qkv(const OpSpec& op) {
    return op.out == Checkpoint::kQ || op.out == Checkpoint::kK || op.out == Checkpoint::kV;
  }

  static double gain_of(const OpSpec& op) {
    if (is_qkv(op)) return kQkvGain;
    return op.out == Checkpoint::kAttnOut ? kAttnOutGain : 1.0;
  }

  bool has_bias(const OpSpec& op) const {
    return is_qkv(op) ? config_.qkv_bias : config_.other_bias;
  }

  const SynthConfig& config_;
  const ModelConfig& model_;
  std::vector<SynthTensor> tensors_;
};

}  // namespace

std::vector<SynthTensor> tensor_list(const SynthConfig& config) {
  return Lister(config).list();
}

}  // namespace assay
