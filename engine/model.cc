#include "engine/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/linear_config.h"
#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// The experts' gate and up in one tensor, which has those of each expert together.
constexpr std::string_view kGateUpExperts = "ffn_gate_up_exps";

// What older files of linear attention have, in the order of rows_by_key_head().
constexpr std::string_view kSsmIn = "ssm_in.weight";

// Takes tensors out of the file by name and remembers which were taken.
class TensorBinder {
 public:
  // Vectors that were copied out are kept in `floats`, matrices that were put together in `made`.
  TensorBinder(const Gguf& gguf, std::deque<std::vector<float>>& floats,
               std::deque<std::vector<std::byte>>& made)
      : gguf_(gguf), floats_(floats), made_(made) {}

  bool has(const std::string& name) const { return gguf_.find_tensor(name) != nullptr; }

  // A matrix of rows × columns; `rows` 0 takes any number.
  WeightMatrix matrix(const std::string& name, int64_t rows, int64_t columns) {
    const GgufTensor& tensor = take(name);
    if (tensor.dims.size() > 2 || tensor.columns() != columns ||
        (rows != 0 && tensor.rows() != rows)) {
      reject_shape(tensor, rows == 0 ? fmt::format("[{}, any]", columns)
                                     : fmt::format("[{}, {}]", columns, rows));
    }
    return {tensor.type, tensor.rows(), tensor.columns(), tensor.data.data()};
  }

  // `length` numbers in rows of `columns`; 0: in one.
  std::vector<float> vector(const std::string& name, int64_t length, int64_t columns = 0) {
    const GgufTensor& tensor = take(name);
    if (columns == 0) columns = length;
    if (tensor.columns() != columns || tensor.rows() * columns != length) {
      reject_shape(tensor, columns == length ? fmt::format("[{}]", length)
                                             : fmt::format("[{}, {}]", columns, length / columns));
    }
    std::vector<float> values(static_cast<size_t>(length));
    const size_t bytes = row_bytes(tensor.type, columns);
    for (int64_t row = 0; row < tensor.rows(); ++row) {
      dequantize_row(tensor.type, tensor.data.data() + static_cast<size_t>(row) * bytes, columns,
                     values.data() + row * columns);
    }
    return values;
  }

  const float* kept_vector(const std::string& name, int64_t length, int64_t columns = 0) {
    return floats_.emplace_back(vector(name, length, columns)).data();
  }

  // `count` numbers, in one row or, as files of Mamba-2 have them, each in a row of its own.
  const float* numbers_of_heads(const std::string& name, int64_t count) {
    const GgufTensor* tensor = gguf_.find_tensor(name);
    const bool in_rows = tensor != nullptr && tensor->dims.size() == 2 && tensor->columns() == 1;
    return kept_vector(name, count, in_rows ? 1 : 0);
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

  // `n_experts` matrices of rows × columns.
  Linear experts(const std::string& name, int64_t rows, int64_t columns, int64_t n_experts,
                 Presence bias) {
    const GgufTensor& tensor = take(name + ".weight");
    if (tensor.dims != std::vector<int64_t>{columns, rows, n_experts}) {
      reject_shape(tensor, fmt::format("[{}, {}, {}]", columns, rows, n_experts));
    }
    Linear result;
    result.weight = {tensor.type, tensor.rows(), columns, tensor.data.data()};
    if (bias == Presence::kAlways) {
      result.bias = kept_vector(name + ".bias", rows * n_experts, rows);
    }
    return result;
  }

  // attn_kv_b of files that have it in two: of each head the rows of attn_k_b, which are its
  // columns there, and then those of attn_v_b. As float, unless both parts are of one type without
  // blocks.
  Linear joined_kv_b(const std::string& prefix, const ModelConfig& config) {
    const int64_t rank = config.kv_lora_rank;
    const int64_t of_k = config.unrotated_dim();
    const int64_t of_v = config.value_dim;
    const GgufTensor& k = of_heads(prefix + "attn_k_b.weight", {of_k, rank, config.n_heads});
    const GgufTensor& v = of_heads(prefix + "attn_v_b.weight", {rank, of_v, config.n_heads});
    const int64_t rows = config.n_heads * (of_k + of_v);
    const bool kept = k.type == v.type && tensor_type_info(k.type).block_elements == 1;
    const TensorType type = kept ? k.type : TensorType::kF32;
    const size_t size = row_bytes(type, 1);
    std::vector<std::byte>& bytes =
        made_.emplace_back(static_cast<size_t>(rows) * row_bytes(type, rank));
    std::vector<std::byte> row(row_bytes(type, std::max(of_k, rank)));
    const auto read = [&](const GgufTensor& tensor, int64_t number) {
      const size_t stored = row_bytes(tensor.type, tensor.columns());
      const std::byte* from = tensor.data.data() + static_cast<size_t>(number) * stored;
      if (kept) {
        std::memcpy(row.data(), from, stored);
      } else {
        dequantize_row(tensor.type, from, tensor.columns(), reinterpret_cast<float*>(row.data()));
      }
    };
    std::byte* to = bytes.data();
    for (int64_t head = 0; head < config.n_heads; ++head) {
      for (int64_t column = 0; column < rank; ++column) {
        read(k, head * rank + column);
        for (int64_t i = 0; i < of_k; ++i) {
          std::memcpy(to + static_cast<size_t>(i * rank + column) * size,
                      row.data() + static_cast<size_t>(i) * size, size);
        }
      }
      to += static_cast<size_t>(of_k * rank) * size;
      for (int64_t i = 0; i < of_v; ++i, to += static_cast<size_t>(rank) * size) {
        read(v, head * of_v + i);
        std::memcpy(to, row.data(), static_cast<size_t>(rank) * size);
      }
    }
    Linear result;
    result.weight = {type, rows, rank, bytes.data()};
    return result;
  }

  // Of queries, keys and values of linear attention, or of their gate, where older files have both
  // in one tensor.
  Linear part_of_ssm_in(const std::string& prefix, const ModelConfig& config, Checkpoint part) {
    const DeltaShape& shape = config.delta;
    const WeightMatrix whole =
        matrix(prefix + std::string(kSsmIn), shape.qkv_width() + shape.value_width(),
               config.embedding_length);
    const size_t size = row_bytes(whole.type, whole.columns);
    std::vector<std::byte>& bytes = made_.emplace_back();
    const std::vector<int64_t> rows = rows_by_key_head(shape, part);
    bytes.reserve(rows.size() * size);
    for (const int64_t row : rows) {
      const auto* from = static_cast<const std::byte*>(whole.slice(row, 1).data);
      bytes.insert(bytes.end(), from, from + size);
    }
    Linear result;
    result.weight = {whole.type, std::ssize(rows), whole.columns, bytes.data()};
    return result;
  }

  // Of a norm without weights.
  const float* ones(int64_t width) {
    return floats_.emplace_back(static_cast<size_t>(width), 1.0F).data();
  }

  // `width` numbers in rows of `columns`.
  Norm norm(const std::string& name, int64_t width, int64_t columns, Presence bias) {
    Norm result;
    const bool is_bare = !has(name + ".weight") && has(name);
    result.weight = kept_vector(name + (is_bare ? "" : ".weight"), width, columns);
    if (bias == Presence::kAlways) result.bias = kept_vector(name + ".bias", width);
    return result;
  }

  // `width` numbers, divided by `divisor`.
  Norm divided_norm(const std::string& name, int64_t width, double divisor) {
    std::vector<float>& values = floats_.emplace_back(vector(name, width));
    for (float& value : values) value = static_cast<float>(static_cast<double>(value) / divisor);
    return {values.data()};
  }

  // A tensor that nothing reads is a computation that is not done.
  void reject_leftovers(const ModelConfig& config) const {
    for (const GgufTensor& tensor : gguf_.tensors()) {
      if (taken_.count(tensor.name) > 0 || is_ignored(tensor.name, config)) continue;
      throw Error(fmt::format("tensor '{}' is not one that Assay uses for architecture '{}'",
                              tensor.name, config.architecture->name),
                  gguf_.path(), "the model computes something that Assay does not know");
    }
  }

 private:
  static bool is_ignored(std::string_view name, const ModelConfig& config) {
    for (int64_t i = 0; i < config.n_ignored_layers; ++i) {
      if (name.starts_with(fmt::format("blk.{}.", config.n_layers + i))) return true;
    }
    for (int64_t i = 0; i < config.n_layers; ++i) {
      const std::string prefix = fmt::format("blk.{}.", i);
      if (config.layer(i).kv_layer < 0 || !name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      return is_of_kv(name.substr(0, name.rfind('.')));
    }
    return false;
  }

  const GgufTensor& take(const std::string& name) {
    const GgufTensor* tensor = gguf_.find_tensor(name);
    if (tensor == nullptr) {
      throw Error(fmt::format("tensor '{}' is missing", name), gguf_.path(),
                  "the file is incomplete, or holds a vocabulary only");
    }
    taken_.insert(name);
    return *tensor;
  }

  const GgufTensor& of_heads(const std::string& name, const std::vector<int64_t>& dims) {
    const GgufTensor& tensor = take(name);
    if (tensor.dims != dims) reject_shape(tensor, fmt::format("[{}]", fmt::join(dims, ", ")));
    return tensor;
  }

  [[noreturn]] void reject_shape(const GgufTensor& tensor, const std::string& wanted) const {
    throw Error(fmt::format("tensor '{}' has the shape [{}], the hyperparameters say {}",
                            tensor.name, fmt::join(tensor.dims, ", "), wanted),
                gguf_.path());
  }

  const Gguf& gguf_;
  std::deque<std::vector<float>>& floats_;
  std::deque<std::vector<std::byte>>& made_;
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

Linear rows_of(const Linear& fused, int64_t first, int64_t count) {
  Linear part;
  part.weight = fused.weight.slice(first, count);
  if (fused.bias != nullptr) part.bias = fused.bias + first;
  return part;
}

bool is_qkv(Checkpoint checkpoint) {
  return checkpoint == Checkpoint::kQ || checkpoint == Checkpoint::kK ||
         checkpoint == Checkpoint::kV;
}

// A state that grew would overflow.
void check_decay(std::span<const float> decay, const std::string& name, const std::string& path) {
  for (const float value : decay) {
    if (value <= 0.0F && std::isfinite(value)) continue;
    throw Error(
        fmt::format("tensor '{}' holds {}, which is not a finite number of at most 0", name, value),
        path, "it has to be -exp(A_log)");
  }
}

void check_scale(float scale, const std::string& name, const std::string& path) {
  if (std::isfinite(scale)) return;
  throw Error(fmt::format("tensor '{}' holds {}, which is not a finite number", name, scale), path);
}

// Of an op whose tensor is in front of the layers.
void bind_of_model(TensorBinder& binder, const OpSpec& op, int64_t number,
                   const ModelConfig& config, Layer& layer) {
  const std::string name(op.tensor);
  const int64_t length = config.ple_length;
  if (op.kind == OpKind::kNorm) {
    layer.norm(op.out) = binder.norm(name, length, length, Presence::kNever);
  } else if (op.width == Width::kOtherStreams) {  // a matrix for each
    layer.linear(op.out) = binder.experts(name, config.embedding_length, config.embedding_length,
                                          config.n_streams - 1, Presence::kNever);
  } else if (op.kind == OpKind::kLinear) {
    const Linear all =
        binder.linear(name, config.n_layers * length, config.embedding_length, Presence::kNever);
    layer.linear(op.out) = rows_of(all, number * length, length);
  }
}

// The weights of a layer. A tensor that several ops share has the rows of each, one after the
// other; so has attn_qkv, which a file may have in the place of attn_q, attn_k and attn_v. In the
// place of attn_kv_b it may have attn_k_b and attn_v_b, and in that of linear attention's attn_qkv
// and attn_gate ssm_in.
Layer bind_layer(TensorBinder& binder, int64_t number, const ModelConfig& config,
                 const std::string& path) {
  Layer layer;
  const std::string prefix = fmt::format("blk.{}.", number);
  const LayerConfig& own = config.layer(number);
  const std::span<const OpSpec> ops = own.ops;
  const auto width = [&](Width of) { return config.width(of, own); };
  if (find_spec(ops, Checkpoint::kExperts) != nullptr && config.routing.n_experts == 0) {
    throw Error(fmt::format("layer {} has experts, and key '{}.{}' does not say how many", number,
                            config.architecture->name, hyperparameter::kExpertCount),
                path);
  }
  const bool fused_qkv = binder.has(prefix + "attn_qkv.weight");
  const auto tensor_of = [&](const OpSpec& op) {
    return fused_qkv && is_qkv(op.out) ? std::string_view("attn_qkv") : op.tensor;
  };
  for (size_t i = 0; i < ops.size();) {
    const OpSpec& first = ops[i];
    const std::string name = prefix + std::string(tensor_of(first));
    if (first.of_model) {
      bind_of_model(binder, first, number, config, layer);
      ++i;
      continue;
    }
    if (first.kind == OpKind::kNorm && first.tensor.empty()) {
      layer.norm(first.out).weight = binder.ones(width(first.weight_width()));
    } else if (first.kind == OpKind::kNorm && (first.over_root || first.over_width)) {
      const int64_t length = width(first.weight_width());
      const auto count = static_cast<double>(length);
      const std::string of_weights =
          first.suffix == kWeightSuffix ? name + ".weight" : prefix + first.tensor_name();
      layer.norm(first.out) =
          binder.divided_norm(of_weights, length, first.over_root ? std::sqrt(count) : count);
    } else if (first.kind == OpKind::kNorm) {
      layer.norm(first.out) =
          binder.norm(name, width(first.weight_width()), width(first.norm_width), first.bias);
    }
    if (first.kind == OpKind::kExpertLinear) {
      const int64_t n_used = config.routing.n_used;
      const Width input = find_spec(ops, first.in.front())->width;
      const int64_t columns = width(input) / (is_of_used_experts(input) ? n_used : 1);
      const int64_t rows = width(first.width) / n_used;
      const std::string both = prefix + std::string(kGateUpExperts);
      const bool is_half = first.out != Checkpoint::kExpertOut && binder.has(both + ".weight");
      layer.linear(first.out) = binder.experts(is_half ? both : name, is_half ? 2 * rows : rows,
                                               columns, config.routing.n_experts, first.bias);
      if (is_half) {
        layer.linear(first.out).first = first.out == Checkpoint::kFfnUp ? rows : 0;
        layer.linear(first.out).count = rows;
      }
    }
    if (first.kind == OpKind::kAttention && !first.tensor.empty()) {
      layer.extra.sinks = binder.kept_vector(name + ".weight", config.n_heads);
    }
    if (first.kind == OpKind::kAdd && !first.tensor.empty() && binder.has(name + ".weight")) {
      layer.extra.scale = binder.vector(name + ".weight", 1).front();
      check_scale(layer.extra.scale, name + ".weight", path);
    }
    if (first.kind == OpKind::kStreams && !first.tensor.empty()) {
      layer.extra.first_stream = binder.kept_vector(name + ".weight", width(first.width));
    }
    if (first.kind == OpKind::kConv) {
      layer.extra.conv = binder.kept_vector(name + ".weight", width(first.width) * config.conv_taps,
                                            config.conv_taps);
    }
    if (first.kind == OpKind::kConv && first.bias != Presence::kNever &&
        binder.has(name + ".bias")) {
      layer.extra.conv_bias = binder.kept_vector(name + ".bias", width(first.width));
    }
    if (first.kind == OpKind::kSsm) {
      layer.extra.skip =
          binder.numbers_of_heads(prefix + std::string(kSkipTensor), config.delta.n_value_heads);
    }
    if (has_state(first.kind)) {
      const DeltaShape& shape = config.delta;
      layer.extra.decay = shape.own_decays
                              ? binder.kept_vector(name, shape.n_decays(), shape.key_dim)
                              : binder.numbers_of_heads(name, shape.n_value_heads);
      layer.extra.dt =
          binder.kept_vector(prefix + std::string(kStepTensor) + ".bias", shape.n_value_heads);
      check_decay({layer.extra.decay, static_cast<size_t>(shape.n_decays())}, name, path);
    }
    const std::string bias = name + std::string(config.architecture->choice_bias_suffix);
    if (first.kind == OpKind::kSelect && binder.has(bias)) {
      layer.extra.choice_bias = binder.kept_vector(bias, config.routing.n_experts);
    }
    if (const std::string scales = prefix + first.tensor_name();
        first.kind == OpKind::kWeigh && !first.tensor.empty() && binder.has(scales)) {
      const int64_t n_experts = config.routing.n_experts;
      layer.extra.expert_scales = binder.kept_vector(scales, n_experts);
      for (int64_t expert = 0; expert < n_experts; ++expert) {
        check_scale(layer.extra.expert_scales[expert], scales, path);
      }
    }
    if (first.kind != OpKind::kLinear) {
      ++i;
      continue;
    }
    size_t end = i;
    int64_t rows = 0;
    for (; end < ops.size() && ops[end].kind == OpKind::kLinear &&
           tensor_of(ops[end]) == tensor_of(first);
         ++end) {
      rows += width(ops[end].width);
    }
    const int64_t columns = width(input_width(ops, first));
    const bool is_there = binder.has(name + ".weight");
    const bool is_of_linear =
        first.out == Checkpoint::kLinearQkv || first.out == Checkpoint::kLinearZ;
    const Linear whole = first.out == Checkpoint::kKvB && !is_there
                             ? binder.joined_kv_b(prefix, config)
                         : is_of_linear && !is_there && binder.has(prefix + std::string(kSsmIn))
                             ? binder.part_of_ssm_in(prefix, config, first.out)
                             : binder.linear(name, rows, columns, first.bias);
    for (int64_t row = 0; i < end; ++i) {
      const int64_t count = width(ops[i].width);
      layer.linear(ops[i].out) = rows_of(whole, row, count);
      row += count;
    }
  }
  return layer;
}

}  // namespace

Model::Model(std::shared_ptr<const Gguf> gguf)
    : gguf_(std::move(gguf)), config_(ModelConfig::from_gguf(*gguf_)) {
  const Architecture& architecture = *config_.architecture;
  const int64_t width = config_.embedding_length;
  TensorBinder binder(*gguf_, floats_, made_);

  token_embedding = binder.matrix("token_embd.weight", 0, width);
  config_.n_vocab = token_embedding.rows;
  output.weight = binder.has("output.weight")
                      ? binder.matrix("output.weight", config_.n_vocab, width)
                      : token_embedding;
  if (architecture.output_bias == Presence::kAlways ||
      (architecture.output_bias == Presence::kOptional && binder.has("output.bias"))) {
    output.bias = binder.kept_vector("output.bias", config_.n_vocab);
  }
  if (architecture.position == PositionKind::kLearned) {
    position_embedding = binder.matrix("position_embd.weight", 0, width);
    if (position_embedding.rows < config_.context_length) {
      throw Error(fmt::format("tensor 'position_embd.weight' holds {} positions, the context "
                              "length is {}",
                              position_embedding.rows, config_.context_length),
                  gguf_->path());
    }
  }
  if (config_.ple_length > 0) {
    ple_embedding = binder.matrix("per_layer_token_embd.weight",
                                  architecture.short_layer_table ? 0 : config_.n_vocab,
                                  config_.n_layers * config_.ple_length);
    if (ple_embedding.rows > config_.n_vocab) {
      throw Error(fmt::format("tensor 'per_layer_token_embd.weight' has {} rows for {} tokens",
                              ple_embedding.rows, config_.n_vocab),
                  gguf_->path());
    }
  }
  if (architecture.rope_freqs && binder.has("rope_freqs.weight")) {
    rope_factors_short = rope_factors(binder, "rope_freqs.weight", config_, gguf_->path());
    rope_factors_long = rope_factors_short;
  }
  if (!config_.rope_divisors.empty()) {
    rope_factors_short = rope_factors_long = config_.rope_divisors;
  }
  if (architecture.rope_long_short && binder.has("rope_factors_long.weight")) {
    rope_factors_long = rope_factors(binder, "rope_factors_long.weight", config_, gguf_->path());
    rope_factors_short = rope_factors(binder, "rope_factors_short.weight", config_, gguf_->path());
  }

  for (int64_t i = 0; i < config_.n_layers; ++i) {
    layers.push_back(bind_layer(binder, i, config_, gguf_->path()));
  }
  const bool biased = config_.norm == NormKind::kLayer && architecture.norm_bias;
  if (architecture.embedding_norm && architecture.plain_output_norm) {
    embedding_norm.weight = binder.ones(width);
  } else if (architecture.embedding_norm) {
    embedding_norm = binder.norm("token_embd_norm", width, width, Presence::kAlways);
  }
  if (architecture.plain_output_norm) {
    output_norm.weight = binder.ones(width);
  } else {
    output_norm = binder.norm(std::string(architecture.output_norm), width, width,
                              biased ? Presence::kAlways : Presence::kNever);
  }
  binder.reject_leftovers(config_);
}

}  // namespace assay
