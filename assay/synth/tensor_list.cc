#include "assay/synth/tensor_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <utility>

#include "engine/hf/parts.h"
#include "engine/hf/scales.h"

namespace assay {
namespace {

constexpr float kNormDeviation = 0.25F;
constexpr float kLayerScale = 0.875F;
// Scores with a deviation of 2 attend to a few tokens, not evenly to all: with the smaller output
// this keeps the rows of different tokens from becoming equal, layer after layer.
constexpr double kQkvGain = 1.41;
constexpr double kAttnOutGain = 0.5;
// Experts that are chosen clearly: a near tie would be decided by rounding.
constexpr double kRouterGain = 2.0;
// Streams that change each other, and do not grow much from layer to layer.
constexpr double kCoefficientGain = 0.5;
constexpr float kBiasDeviation = 0.1F;
constexpr double kLogitDeviation = 3.0;
constexpr float kEmbeddingDeviation = 0.5F;
// Softplus makes them decays that last for some tokens.
constexpr float kStepMean = -2.0F;
constexpr float kStepDeviation = 0.5F;
// Tied rows must be small compared with what the layers add, or each token would only predict
// itself.
constexpr float kTiedDeviation = 0.03F;

class Lister {
 public:
  explicit Lister(const SynthConfig& config) : config_(config), model_(config.model) {}

  std::vector<SynthTensor> list() && {
    const Architecture& architecture = *model_.architecture;
    const int64_t width = model_.embedding_length;
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(width)));
    const bool tied = config_.hf.tied;
    float deviation = tied ? kTiedDeviation : kEmbeddingDeviation;
    if (architecture.embedding_root) deviation /= root;
    add_table("token_embd.weight", {width, model_.n_vocab}, deviation).is_matrix = true;
    if (architecture.embedding_norm && !architecture.plain_output_norm)
      add_norm("token_embd_norm", nullptr, {width}, 1.0F, true);
    if (architecture.position == PositionKind::kLearned) {
      add_table("position_embd.weight", {width, model_.context_length}, deviation);
    }
    for (const auto& [name, values] : config_.hf.rope_factors) {
      add(name, nullptr, {std::ssize(values)}, 0.0F, 0.0F).values = values;
    }
    for (const OpSpec& op : tables_of_layers()) add_table_of_layers(op);
    for (int64_t layer = 0; layer < model_.n_layers; ++layer) add_layer(layer);
    const double of_rows = static_cast<double>(deviation) * std::sqrt(static_cast<double>(width)) *
                           row_scale(config_.hf, "output", 0);
    const double gain = tied ? kLogitDeviation / of_rows : 1.0;
    const bool biased = model_.norm == NormKind::kLayer && architecture.norm_bias;
    if (!architecture.plain_output_norm)
      add_norm(std::string(architecture.output_norm), nullptr, {width}, static_cast<float>(gain),
               biased);
    if (!tied) {
      const bool has_bias =
          architecture.output_bias == Presence::kAlways ||
          (architecture.output_bias == Presence::kOptional && config_.hf.parts.logits_bias);
      add_matrix("output", nullptr, {width, model_.n_vocab}, kLogitDeviation, has_bias);
    } else if (splits_tied(config_.hf)) {
      const SynthTensor& embedding = tensors_.front();
      SynthTensor output = embedding;
      output.name = "output.weight";
      output.drawn_as = embedding.name;
      tensors_.push_back(std::move(output));
    }
    return std::move(tensors_);
  }

 private:
  SynthTensor& add(std::string name, const OpSpec* op, std::vector<int64_t> dims, float mean,
                   float deviation) {
    SynthTensor& tensor = tensors_.emplace_back();
    tensor.name = std::move(name);
    tensor.op = op;
    tensor.dims = std::move(dims);
    tensor.mean = mean;
    tensor.deviation = deviation;
    return tensor;
  }

  SynthTensor& add_table(const char* name, std::vector<int64_t> dims, float deviation) {
    return add(name, nullptr, std::move(dims), 0.0F, deviation);
  }

  // Routers keep their precision in every type of file.
  void add_matrix(const std::string& name, const OpSpec* op, const std::vector<int64_t>& dims,
                  double gain, bool bias) {
    // Files have what transformers multiplies afterwards; they keep their size.
    const double scale =
        row_scale(config_.hf, op == nullptr ? std::string_view(name) : op->tensor, 0);
    add(name + ".weight", op, dims, 0.0F,
        static_cast<float>(gain / scale / std::sqrt(static_cast<double>(dims[0]))))
        .is_matrix =
        op == nullptr || (op->out != Checkpoint::kRouter && op->out != Checkpoint::kSharedScore &&
                          !op->tensor.starts_with("altup_"));
    if (bias) add(name + ".bias", op, {dims.begin() + 1, dims.end()}, 0.0F, kBiasDeviation);
  }

  void add_norm(const std::string& name, const OpSpec* op, const std::vector<int64_t>& dims,
                float gain, bool bias) {
    const bool has_gate = op != nullptr && op->n_inputs > 1;
    const float added = config_.hf.model->norm_plus_one && !has_gate ? 1.0F : 0.0F;
    add(name + ".weight", op, dims, gain - added, gain * kNormDeviation).added = added;
    if (bias) add(name + ".bias", op, dims, 0.0F, gain * kBiasDeviation);
  }

  // Ops whose tensors are in front of the layers.
  std::vector<OpSpec> tables_of_layers() const {
    std::vector<OpSpec> ops;
    for (const LayerConfig* layer : {&model_.layers.front(), &model_.layers.back()}) {
      for (const OpSpec& op : layer->ops) {
        const bool is_there = std::ranges::find(ops, op.tensor, &OpSpec::tensor) != ops.end();
        if (op.of_model && !is_there) ops.push_back(op);
      }
    }
    return ops;
  }

  void add_table_of_layers(const OpSpec& op) {
    const std::string name(op.tensor);
    const int64_t all = model_.n_layers * model_.ple_length;
    if (op.kind == OpKind::kNorm) {
      add_norm(name, nullptr, {model_.ple_length}, 1.0F, false);
    } else if (op.width == Width::kOtherStreams) {
      const int64_t width = model_.embedding_length;
      add_matrix(name, nullptr, {width, width, model_.n_streams - 1}, 1.0, false);
    } else if (op.kind == OpKind::kLinear) {  // as precise in every type of file
      add_matrix(name, nullptr, {model_.embedding_length, all}, 1.0, false);
      tensors_.back().is_matrix = false;
    } else {
      const int64_t own = config_.hf.ple_tokens;
      add(name + ".weight", nullptr, {all, own > 0 ? own : model_.n_vocab}, 0.0F,
          1.0F / model_.ple_factor())
          .is_matrix = true;
    }
  }

  void add_layer(int64_t layer) {
    const std::string prefix = fmt::format("blk.{}.", layer);
    const LayerConfig& own = model_.layer(layer);
    const std::span<const OpSpec> ops = own.ops;
    for (size_t i = 0; i < ops.size();) {
      const OpSpec& op = ops[i];
      if (op.of_model) {
        ++i;
        continue;
      }
      const std::string name = prefix + std::string(op.tensor);
      if (op.kind == OpKind::kLinear) {
        int64_t rows = 0;  // of all ops that share the tensor
        for (; i < ops.size() && ops[i].tensor == op.tensor; ++i) {
          rows += model_.width(ops[i].width, own);
        }
        if (is_first_of(ops, op)) {
          add_matrix(name, &op, {model_.width(input_width(ops, op), own), rows}, gain_of(op),
                     has_bias(config_.hf, op));
        }
        continue;
      }
      if (is_first_of(ops, op)) add_others(layer, name, op);
      ++i;
    }
  }

  // Routers of residual streams and their norms are read twice.
  static bool is_first_of(std::span<const OpSpec> ops, const OpSpec& op) {
    return op.tensor.empty() || op.kind == OpKind::kWeigh || !op.tensor.starts_with("altup_") ||
           &*std::ranges::find(ops, op.tensor, &OpSpec::tensor) == &op;
  }

  void add_others(int64_t layer, const std::string& name, const OpSpec& op) {
    if (op.kind == OpKind::kNorm && !op.tensor.empty()) {
      const LayerConfig& own = model_.layer(layer);
      const int64_t length = model_.width(op.norm_width, own);
      if (op.suffix != kWeightSuffix) {  // of a router
        add(name + std::string(op.suffix), &op, {length}, 1.0F, kNormDeviation);
        return;
      }
      std::vector<int64_t> dims = {length};
      if (op.weight_per_head) dims.push_back(model_.width(op.width, own) / length);
      add_norm(name, &op, dims, 1.0F, op.bias == Presence::kAlways);
    }
    if (op.kind == OpKind::kExpertLinear) {
      const int64_t n_used = model_.routing.n_used;
      const Width input = input_width(model_.layer(layer).ops, op);
      const int64_t columns = model_.width(input) / (is_of_used_experts(input) ? n_used : 1);
      add_matrix(name, &op, {columns, model_.width(op.width) / n_used, model_.routing.n_experts},
                 1.0, has_bias(config_.hf, op));
    }
    if (op.kind == OpKind::kWeigh && !op.tensor.empty()) {
      add(name + std::string(op.suffix), &op, {model_.routing.n_experts}, 1.0F, kNormDeviation);
    }
    if (op.kind == OpKind::kAttention && !op.tensor.empty()) {
      add(name + ".weight", &op, {model_.n_heads}, 0.0F, 1.0F);
    }
    if (op.kind == OpKind::kAdd && !op.tensor.empty()) {
      add(name + ".weight", &op, {1}, kLayerScale, 0.0F);
    }
    if (op.kind == OpKind::kStreams && !op.tensor.empty()) {
      add(name + ".weight", &op, {model_.embedding_length}, 1.0F, kNormDeviation);
    }
    if (op.kind == OpKind::kConv) {
      const auto deviation = 1.0 / std::sqrt(static_cast<double>(model_.conv_taps));
      add(name + ".weight", &op, {model_.conv_taps, model_.width(op.width)}, 0.0F,
          static_cast<float>(deviation));
      if (op.bias != Presence::kNever && has_bias(config_.hf, op)) {
        add(name + ".bias", &op, {model_.width(op.width)}, 0.0F, kBiasDeviation);
      }
    }
    if (op.kind == OpKind::kSsm) {
      const int64_t heads = model_.delta.n_value_heads;
      add(fmt::format("blk.{}.{}", layer, kSkipTensor), &op,
          has_step_product(op) ? std::vector{heads} : std::vector<int64_t>{1, heads}, 1.0F,
          kNormDeviation);
    }
    if (has_state(op.kind)) {
      const int64_t heads = model_.delta.n_value_heads;
      const int64_t of_head = model_.delta.n_decays() / heads;
      const bool in_rows = op.kind == OpKind::kSsm;
      add(name, &op, in_rows ? std::vector{of_head, heads} : std::vector{heads}, -1.0F, 0.0F);
      add(fmt::format("blk.{}.{}.bias", layer, kStepTensor), &op, {heads}, kStepMean,
          kStepDeviation);
    }
    if (op.kind == OpKind::kSelect && has_bias(config_.hf, op)) {
      add(name + std::string(config_.hf.architecture->choice_bias_suffix), &op,
          {model_.routing.n_experts}, 0.0F, kBiasDeviation);
    }
  }

  double gain_of(const OpSpec& op) const {
    switch (op.out) {
      case Checkpoint::kAltupRouter:  // its input is divided by its length
        return static_cast<double>(model_.embedding_length);
      case Checkpoint::kAltupCoefs:
      case Checkpoint::kCorrectCoefs:
        return kCoefficientGain;
      case Checkpoint::kQ:
      case Checkpoint::kK:
      case Checkpoint::kV:
      case Checkpoint::kKvA:
      case Checkpoint::kKvB:
        return kQkvGain;
      case Checkpoint::kAttnOut:
        return kAttnOutGain;
      case Checkpoint::kRouter:
        return kRouterGain;
      default:
        return 1.0;
    }
  }

  const SynthConfig& config_;
  const ModelConfig& model_;
  std::vector<SynthTensor> tensors_;
};

}  // namespace

int64_t SynthTensor::rows() const {
  return std::accumulate(dims.begin() + 1, dims.end(), int64_t{1}, std::multiplies());
}

void SynthTensor::draw_row(const RandomWeights& random, int64_t row, float* out) const {
  if (values.empty()) {
    random.draw(row * columns(), columns(), mean, deviation, out);
  } else {
    std::copy(values.begin(), values.end(), out);
  }
}

std::vector<SynthTensor> tensor_list(const SynthConfig& config) {
  return Lister(config).list();
}

}  // namespace assay
