#include "engine/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

// Takes tensors out of the file by name and remembers which were taken.
class TensorBinder {
 public:
  // Vectors that were copied out are kept in `floats`.
  TensorBinder(const Gguf& gguf, std::deque<std::vector<float>>& floats)
      : gguf_(gguf), floats_(floats) {}

  bool has(const std::string& name) const { return gguf_.find_tensor(name) != nullptr; }

  // A matrix of rows × columns; `rows` 0 takes any number.
  WeightMatrix matrix(const std::string& name, int64_t rows, int64_t columns) {
    const GgufTensor& tensor = take(name);
    if (tensor.dims.size() > 2 || tensor.columns() != columns ||
        (rows != 0 && tensor.rows() != rows)) {
      refuse_shape(tensor, rows == 0 ? fmt::format("[{}, any]", columns)
                                     : fmt::format("[{}, {}]", columns, rows));
    }
    return {tensor.type, tensor.rows(), tensor.columns(), tensor.data.data()};
  }

  std::vector<float> vector(const std::string& name, int64_t length) {
    const GgufTensor& tensor = take(name);
    if (tensor.columns() != length || tensor.rows() != 1) {
      refuse_shape(tensor, fmt::format("[{}]", length));
    }
    std::vector<float> values(static_cast<size_t>(length));
    dequantize_row(tensor.type, tensor.data.data(), length, values.data());
    return values;
  }

  const float* kept_vector(const std::string& name, int64_t length) {
    return floats_.emplace_back(vector(name, length)).data();
  }

  Linear linear(const std::string& name, int64_t rows, int64_t columns, Presence bias) {
    Linear result;
    result.weight = matrix(name + ".weight", rows, columns);
    const std::string bias_name = name + ".bias";
    if (bias == Presence::kAlways || (bias == Presence::kOptional && has(bias_name))) {
      result.bias = kept_vector(bias_name, rows);
    }
    return result;
  }

  Norm norm(const std::string& name, int64_t width, NormKind kind) {
    Norm result;
    result.weight = kept_vector(name + ".weight", width);
    if (kind == NormKind::kLayer) result.bias = kept_vector(name + ".bias", width);
    return result;
  }

  // A tensor that nothing reads is a computation that is not done.
  void refuse_leftovers(std::string_view architecture) const {
    for (const GgufTensor& tensor : gguf_.tensors()) {
      if (taken_.count(tensor.name) == 0) {
        throw Error(fmt::format("tensor '{}' is not one that Assay uses for architecture '{}'",
                                tensor.name, architecture),
                    gguf_.path(), "the model computes something that Assay does not know");
      }
    }
  }

 private:
  const GgufTensor& take(const std::string& name) {
    const GgufTensor* tensor = gguf_.find_tensor(name);
    if (tensor == nullptr) {
      throw Error(fmt::format("tensor '{}' is missing", name), gguf_.path(),
                  "the file is incomplete, or holds a vocabulary only");
    }
    taken_.insert(name);
    return *tensor;
  }

  [[noreturn]] void refuse_shape(const GgufTensor& tensor, const std::string& wanted) const {
    throw Error(fmt::format("tensor '{}' has the shape [{}], the hyperparameters say {}",
                            tensor.name, fmt::join(tensor.dims, ", "), wanted),
                gguf_.path());
  }

  const Gguf& gguf_;
  std::deque<std::vector<float>>& floats_;
  std::set<std::string, std::less<>> taken_;
};

// Divisors of the rotary frequencies: each a finite number above zero.
std::vector<float> rope_factors(TensorBinder& binder, const std::string& name,
                                const ModelConfig& config, const std::string& path) {
  std::vector<float> factors = binder.vector(name, config.rotary_dim / 2);
  for (const float factor : factors) {
    if (!(factor > 0.0F) || !std::isfinite(factor)) {
      throw Error(
          fmt::format("tensor '{}' holds {}, which is not a finite number above 0", name, factor),
          path);
    }
  }
  return factors;
}

Linear slice(const Linear& fused, int64_t first, int64_t count) {
  Linear part;
  part.weight = fused.weight.slice(first, count);
  if (fused.bias != nullptr) part.bias = fused.bias + first;
  return part;
}

void bind_attention(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
                    Layer& layer) {
  const Architecture& architecture = *config.architecture;
  const int64_t width = config.embedding_length;
  const int64_t q_width = config.q_width();
  const int64_t kv_width = config.kv_width();
  if (architecture.fused_qkv) {
    const Linear fused =
        binder.linear(prefix + "attn_qkv", q_width + 2 * kv_width, width, architecture.qkv_bias);
    layer.q = slice(fused, 0, q_width);
    layer.k = slice(fused, q_width, kv_width);
    layer.v = slice(fused, q_width + kv_width, kv_width);
  } else {
    layer.q = binder.linear(prefix + "attn_q", q_width, width, architecture.qkv_bias);
    layer.k = binder.linear(prefix + "attn_k", kv_width, width, architecture.qkv_bias);
    layer.v = binder.linear(prefix + "attn_v", kv_width, width, architecture.qkv_bias);
  }
  layer.attn_out = binder.linear(prefix + "attn_output", width, q_width, architecture.other_bias);
}

void bind_ffn(TensorBinder& binder, const std::string& prefix, const ModelConfig& config,
              Layer& layer) {
  const Architecture& architecture = *config.architecture;
  const int64_t width = config.embedding_length;
  const int64_t inner = config.feed_forward_length;
  if (architecture.fused_gate_up) {
    const Linear fused =
        binder.linear(prefix + "ffn_up", 2 * inner, width, architecture.other_bias);
    layer.ffn_gate = slice(fused, 0, inner);
    layer.ffn_up = slice(fused, inner, inner);
  } else {
    if (architecture.ffn == FfnKind::kSiluGated) {
      layer.ffn_gate = binder.linear(prefix + "ffn_gate", inner, width, architecture.other_bias);
    }
    layer.ffn_up = binder.linear(prefix + "ffn_up", inner, width, architecture.other_bias);
  }
  layer.ffn_down = binder.linear(prefix + "ffn_down", width, inner, architecture.other_bias);
}

}  // namespace

Model::Model(std::shared_ptr<const Gguf> gguf)
    : gguf_(std::move(gguf)), config_(ModelConfig::from_gguf(*gguf_)) {
  const Architecture& architecture = *config_.architecture;
  const int64_t width = config_.embedding_length;
  TensorBinder binder(*gguf_, floats_);

  token_embedding = binder.matrix("token_embd.weight", 0, width);
  config_.n_vocab = token_embedding.rows;
  output = binder.has("output.weight") ? binder.matrix("output.weight", config_.n_vocab, width)
                                       : token_embedding;
  if (architecture.position == PositionKind::kLearned) {
    position_embedding = binder.matrix("position_embd.weight", 0, width);
    if (position_embedding.rows < config_.context_length) {
      throw Error(fmt::format("tensor 'position_embd.weight' holds {} positions, the context "
                              "length is {}",
                              position_embedding.rows, config_.context_length),
                  gguf_->path());
    }
  }
  if (architecture.rope_freqs && binder.has("rope_freqs.weight")) {
    rope_factors_short = rope_factors(binder, "rope_freqs.weight", config_, gguf_->path());
    rope_factors_long = rope_factors_short;
  }
  if (architecture.rope_long_short && binder.has("rope_factors_long.weight")) {
    rope_factors_long = rope_factors(binder, "rope_factors_long.weight", config_, gguf_->path());
    rope_factors_short = rope_factors(binder, "rope_factors_short.weight", config_, gguf_->path());
  }

  for (int64_t i = 0; i < config_.n_layers; ++i) {
    const std::string prefix = fmt::format("blk.{}.", i);
    Layer layer;
    layer.attn_norm = binder.norm(prefix + "attn_norm", width, architecture.norm);
    bind_attention(binder, prefix, config_, layer);
    layer.ffn_norm = binder.norm(prefix + "ffn_norm", width, architecture.norm);
    bind_ffn(binder, prefix, config_, layer);
    layers.push_back(layer);
  }
  output_norm = binder.norm("output_norm", width, architecture.norm);
  binder.refuse_leftovers(architecture.name);
}

}  // namespace assay
