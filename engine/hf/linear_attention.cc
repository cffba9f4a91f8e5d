#include "engine/hf/linear_attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/linear_config.h"
#include "engine/model_config.h"
#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

// Whether value heads are where a GGUF file has them.
bool in_one_order(const DeltaShape& shape) {
  return shape.grouped || shape.n_key_heads == 1 || shape.n_key_heads == shape.n_value_heads;
}

bool is_by_key_head(const HfConfig& config, const OpSpec& op) {
  return config.model->fused_by_kv_head &&
         (op.out == Checkpoint::kLinearQkv || op.out == Checkpoint::kLinearZ);
}

// Of rows of `size` for each value head.
void add_value_heads(const DeltaShape& shape, int64_t size, std::vector<int64_t>& rows) {
  const int64_t first = std::ssize(rows);
  const int64_t in_group = shape.n_value_heads / shape.n_key_heads;
  for (int64_t head = 0; head < shape.n_value_heads; ++head) {
    const int64_t from = head % shape.n_key_heads * in_group + head / shape.n_key_heads;
    for (int64_t i = 0; i < size; ++i) rows.push_back(first + from * size + i);
  }
}

}  // namespace

void read_linear_attention(const ConfigObject& object, HfConfig& config, Keys& keys) {
  using namespace hyperparameter;
  if (!has_checkpoint(*config.architecture, Checkpoint::kDelta)) return;
  DeltaShape& shape = config.delta;
  shape.n_key_heads = object.whole({"linear_num_key_heads"}, kMaxHeads);
  shape.n_value_heads = object.whole({"linear_num_value_heads"}, kMaxHeads);
  shape.key_dim = object.whole({"linear_key_head_dim"}, kMaxLinearHead);
  shape.value_dim = object.whole({"linear_value_head_dim"}, kMaxLinearHead);
  shape.grouped = config.architecture->grouped_value_heads;
  if (shape.n_value_heads % shape.n_key_heads != 0) {
    object.refuse("linear_num_key_heads",
                  fmt::format("is {}, which does not divide the {} value heads", shape.n_key_heads,
                              shape.n_value_heads));
  }
  const auto check_width = [&](const char* key, int64_t heads, int64_t width) {
    if (width <= kMaxLinearWidth) return;
    object.refuse(key, fmt::format("gives {} heads {} elements, allowed are {} of all", heads,
                                   width, kMaxLinearWidth));
  };
  check_width("linear_key_head_dim", shape.n_key_heads, shape.key_width());
  check_width("linear_value_head_dim", shape.n_value_heads, shape.value_width());
  keys.whole(kLinearTaps, object.whole({"linear_conv_kernel_dim"}, kMaxConvTaps));
  keys.whole(kLinearKeyHeads, shape.n_key_heads);
  keys.whole(kLinearValueHeads, shape.n_value_heads);
  keys.whole(kLinearKeyLength, shape.key_dim);
  keys.whole(kLinearValues, shape.value_width());
}

std::vector<bool> linear_attention_layers(const ConfigObject& object, const HfConfig& config) {
  const auto count = static_cast<size_t>(config.n_layers);
  std::vector<bool> layers(count);
  if (!has_checkpoint(*config.architecture, Checkpoint::kDelta)) return layers;
  const std::vector<std::string> types = object.texts("layer_types");
  const int64_t interval = object.whole({"full_attention_interval"}, kMaxAttentionPeriod,
                                        config.architecture->attention_period);
  for (size_t i = 0; i < count; ++i) {
    layers[i] = types.empty() ? static_cast<int64_t>(i + 1) % interval != 0
                              : i < types.size() && types[i] == kLinearLayer;
  }
  return layers;
}

std::vector<int64_t> linear_attention_rows(const HfConfig& config, const OpSpec& op) {
  const DeltaShape& shape = config.delta;
  if (is_by_key_head(config, op)) return rows_by_key_head(shape, op.out);
  std::vector<int64_t> rows;
  if (in_one_order(shape)) return rows;
  switch (op.out) {
    case Checkpoint::kLinearQkv:
    case Checkpoint::kLinearConv:
      for (int64_t row = 0; row < 2 * shape.key_width(); ++row) rows.push_back(row);
      add_value_heads(shape, shape.value_dim, rows);
      break;
    case Checkpoint::kLinearZ:
      add_value_heads(shape, shape.value_dim, rows);
      break;
    case Checkpoint::kLinearA:
    case Checkpoint::kLinearB:
    case Checkpoint::kDelta:
      add_value_heads(shape, 1, rows);
      break;
    default:
      break;
  }
  return rows;
}

int64_t linear_attention_module_rows(const HfConfig& config, const OpSpec& op) {
  const DeltaShape& shape = config.delta;
  return is_by_key_head(config, op) ? shape.qkv_width() + shape.value_width() : 0;
}

std::vector<int64_t> linear_attention_columns(const HfConfig& config, const OpSpec& op) {
  const DeltaShape& shape = config.delta;
  std::vector<int64_t> columns;
  if (op.in.front() != Checkpoint::kDeltaNorm || in_one_order(shape)) return columns;
  add_value_heads(shape, shape.value_dim, columns);
  return columns;
}

FormedTensor minus_exp(const FormedTensor& tensor, std::deque<std::string>& made) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(tensor.type, tensor.data.data(), count, values.data());
  for (float& value : values) value = static_cast<float>(-std::exp(static_cast<double>(value)));
  const auto bytes = std::as_bytes(std::span(values));
  const std::string& kept =
      made.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return {TensorType::kF32, tensor.dims, std::as_bytes(std::span(kept))};
}

}  // namespace assay
