#include "engine/hf/tensor_forms.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "engine/hf/linear_attention.h"
#include "kernels/reference/dequantize.h"

namespace assay {
namespace {

size_t element_bytes(TensorType type) {
  return row_bytes(type, 1);
}

std::span<const std::byte> keep(std::string bytes, std::deque<std::string>& made) {
  return std::as_bytes(std::span(made.emplace_back(std::move(bytes))));
}

FormedTensor transposed(const FormedTensor& tensor, std::deque<std::string>& made) {
  const auto rows = static_cast<size_t>(tensor.dims[1]);
  const auto columns = static_cast<size_t>(tensor.dims[0]);
  const size_t size = element_bytes(tensor.type);
  std::string bytes(tensor.data.size(), '\0');
  for (size_t row = 0; row < rows; ++row) {
    for (size_t column = 0; column < columns; ++column) {
      std::memcpy(&bytes[(column * rows + row) * size],
                  &tensor.data[(row * columns + column) * size], size);
    }
  }
  return {tensor.type, {tensor.dims[1], tensor.dims[0]}, keep(std::move(bytes), made)};
}

// Where the rows of q, k and v are in transformers' module.
class RowOrder {
 public:
  RowOrder(const HfConfig& config, bool fused) : config_(config), fused_(fused) {}

  // The rows of the module, and its row that is row `row` of the GGUF file's tensor.
  int64_t count(Checkpoint part) const {
    const int64_t q = config_.n_heads * config_.head_dim;
    const int64_t kv = config_.n_kv_heads * config_.head_dim;
    if (fused_) return q + 2 * kv;
    return part == Checkpoint::kQ ? q : kv;
  }
  int64_t source(Checkpoint part, int64_t row) const {
    if (!fused_) return head_row(part, row);
    const int64_t q = config_.n_heads * config_.head_dim;
    const int64_t kv = config_.n_kv_heads * config_.head_dim;
    if (row < q) return in_module(Checkpoint::kQ, head_row(Checkpoint::kQ, row));
    if (row < q + kv) return in_module(Checkpoint::kK, head_row(Checkpoint::kK, row - q));
    return in_module(Checkpoint::kV, row - q - kv);
  }

 private:
  // The row of q, k or v with its own head's rows in transformers' order.
  int64_t head_row(Checkpoint part, int64_t row) const {
    const bool rotated = config_.rotary_dim > 0 && part != Checkpoint::kV;
    if (!rotated || config_.model->rope_pairing == config_.architecture->rope_pairing) return row;
    const int64_t within = row % config_.head_dim;
    if (within >= config_.rotary_dim) return row;
    const int64_t half = config_.rotary_dim / 2;
    const int64_t from = config_.architecture->rope_pairing == RopePairing::kAdjacent
                             ? within / 2 + within % 2 * half
                             : within % half * 2 + within / half;
    return row - within + from;
  }

  int64_t in_module(Checkpoint part, int64_t row) const {
    const int64_t size = config_.head_dim;
    const int64_t per_group = config_.n_heads / config_.n_kv_heads;
    const int64_t head = row / size;
    if (config_.model->fused_by_kv_head) {
      const int64_t group = part == Checkpoint::kQ ? head / per_group : head;
      const int64_t place = part == Checkpoint::kQ   ? head % per_group
                            : part == Checkpoint::kK ? per_group
                                                     : per_group + 1;
      return (group * (per_group + 2) + place) * size + row % size;
    }
    if (part == Checkpoint::kQ) return row;
    return (config_.n_heads + (part == Checkpoint::kK ? 0 : config_.n_kv_heads)) * size + row;
  }

  const HfConfig& config_;
  bool fused_;
};

bool is_reordered(const HfConfig& config, const OpSpec& op) {
  const bool fused = op.tensor == "attn_qkv" && config.model->fused_by_kv_head;
  const bool rotated = op.out == Checkpoint::kQ || op.out == Checkpoint::kK;
  return op.kind == OpKind::kLinear &&
         (fused || (rotated && config.rotary_dim > 0 &&
                    config.model->rope_pairing != config.architecture->rope_pairing));
}

FormedTensor reordered_columns(const FormedTensor& tensor, const std::vector<int64_t>& order,
                               std::deque<std::string>& made) {
  if (tensor.dims.size() != 2 || tensor.dims[0] != std::ssize(order)) {
    throw Error(fmt::format("has the shape [{}], config.json says {} columns",
                            fmt::join(tensor.dims.rbegin(), tensor.dims.rend(), ", "),
                            order.size()));
  }
  const size_t size = element_bytes(tensor.type);
  std::string bytes(tensor.data.size(), '\0');
  char* to = bytes.data();
  for (int64_t row = 0; row < tensor.dims[1]; ++row) {
    for (const int64_t from : order) {
      std::memcpy(to, &tensor.data[static_cast<size_t>(row * tensor.dims[0] + from) * size], size);
      to += size;
    }
  }
  return {tensor.type, tensor.dims, keep(std::move(bytes), made)};
}

// Of a tensor of `n_rows` rows.
FormedTensor reordered(const FormedTensor& tensor, const std::vector<int64_t>& order,
                       int64_t n_rows, std::deque<std::string>& made) {
  const bool is_row = tensor.dims.size() == 1;  // a bias: each of its elements belongs to a row
  if (tensor.dims.size() > 2 || tensor.dims.back() != n_rows) {
    throw Error(fmt::format("has the shape [{}], config.json says {} rows",
                            fmt::join(tensor.dims.rbegin(), tensor.dims.rend(), ", "), n_rows));
  }
  const size_t size = row_bytes(tensor.type, is_row ? 1 : tensor.dims[0]);
  std::string bytes(order.size() * size, '\0');
  char* to = bytes.data();
  for (const int64_t from : order) {
    std::memcpy(to, &tensor.data[static_cast<size_t>(from) * size], size);
    to += size;
  }
  std::vector<int64_t> dims = tensor.dims;
  dims.back() = std::ssize(order);
  return {tensor.type, dims, keep(std::move(bytes), made)};
}

// The rows from `first` on.
FormedTensor without_rows(const FormedTensor& tensor, int64_t first) {
  if (tensor.dims.size() != 2 || tensor.dims[1] <= first) {
    throw Error(fmt::format("has the shape [{}], and no more than {} rows in front of position 0",
                            fmt::join(tensor.dims.rbegin(), tensor.dims.rend(), ", "), first));
  }
  return {tensor.type,
          {tensor.dims[0], tensor.dims[1] - first},
          tensor.data.subspan(static_cast<size_t>(first) * row_bytes(tensor.type, tensor.dims[0]))};
}

// Rows of a module that has a gate and then what it multiplies.
struct Half {
  int64_t first = 0;
  int64_t length = 0;  // 0: there is no such module
};

Half half_of_module(const HfConfig& config, const OpSpec& op) {
  if (!config.model->shared_mlp || op.kind != OpKind::kLinear) return {};
  if (op.out == Checkpoint::kSharedGate && op.tensor == "ffn_up_shexp") return {};  // all in one
  switch (op.out) {
    case Checkpoint::kFfnGate:
      return {0, config.feed_forward_length};
    case Checkpoint::kFfnUp:
      return {config.feed_forward_length, config.feed_forward_length};
    case Checkpoint::kSharedGate:
      return {0, config.shared_feed_forward_length};
    case Checkpoint::kSharedUp:
      return {config.shared_feed_forward_length, config.shared_feed_forward_length};
    default:
      return {};
  }
}

}  // namespace

int64_t shared_module_rows(const HfConfig& config, const OpSpec& op) {
  const Half half = half_of_module(config, op);
  return half.length > 0 ? 2 * half.length : linear_attention_module_rows(config, op);
}

FormedTensor formed(const FormedTensor& tensor, const HfConfig& config, const OpSpec& op,
                    std::deque<std::string>& made) {
  FormedTensor result = tensor;
  if (config.model->transposed && op.kind == OpKind::kLinear && tensor.dims.size() == 2) {
    result = transposed(result, made);
  }
  if (op.tensor == "position_embd" && config.model->first_position > 0) {
    return without_rows(result, config.model->first_position);
  }
  if (op.kind == OpKind::kConv && tensor.dims.size() == 3 && tensor.dims[1] == 1) {
    result.dims = {tensor.dims[0], tensor.dims[2]};
  }
  // Groups of values, which are normalised by themselves.
  if (op.norm_width == Width::kSsmGroup && tensor.dims.size() == 1 &&
      tensor.dims[0] == config.delta.value_width()) {
    result.dims = {tensor.dims[0] / config.delta.n_key_heads, config.delta.n_key_heads};
  }
  const std::vector<int64_t> columns = linear_attention_columns(config, op);
  if (!columns.empty()) return reordered_columns(result, columns, made);
  const std::vector<int64_t> order = module_rows(config, op);
  if (order.empty()) return result;
  const int64_t shared = shared_module_rows(config, op);
  return reordered(result, order, shared > 0 ? shared : std::ssize(order), made);
}

std::vector<int64_t> module_rows(const HfConfig& config, const OpSpec& op) {
  std::vector<int64_t> rows = linear_attention_rows(config, op);
  if (const Half half = half_of_module(config, op); half.length > 0) {
    for (int64_t row = 0; row < half.length; ++row) rows.push_back(half.first + row);
  }
  if (!rows.empty() || !is_reordered(config, op)) return rows;
  const RowOrder order(config, op.tensor == "attn_qkv");
  for (int64_t row = 0; row < order.count(op.out); ++row) rows.push_back(order.source(op.out, row));
  return rows;
}

FormedTensor plus_one(const FormedTensor& tensor, std::deque<std::string>& made) {
  int64_t count = 1;
  for (const int64_t dim : tensor.dims) count *= dim;
  std::vector<float> values(static_cast<size_t>(count));
  dequantize_row(tensor.type, tensor.data.data(), count, values.data());
  for (float& value : values) value += 1.0F;
  const auto bytes = std::as_bytes(std::span(values));
  return {TensorType::kF32, tensor.dims,
          keep({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, made)};
}

FormedTensor stacked(std::span<const FormedTensor> rows, std::deque<std::string>& made) {
  std::string bytes;
  for (const FormedTensor& row : rows) {
    if (row.type != rows[0].type || row.dims != rows[0].dims) {
      throw Error("has parts of different shapes or types");
    }
    bytes.append(reinterpret_cast<const char*>(row.data.data()), row.data.size());
  }
  std::vector<int64_t> dims = rows[0].dims;
  dims.push_back(std::ssize(rows));
  return {rows[0].type, dims, keep(std::move(bytes), made)};
}

FormedTensor aligned(const FormedTensor& tensor, std::deque<std::string>& made) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data.data());
  if (address % element_bytes(tensor.type) == 0) return tensor;
  return {tensor.type, tensor.dims,
          keep({reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size()}, made)};
}

}  // namespace assay
