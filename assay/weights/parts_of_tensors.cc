#include "assay/weights/latent_parts.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

constexpr std::string_view kWhole = "attn_kv_b.weight";
constexpr std::string_view kKeys = "attn_k_b.weight";
constexpr std::string_view kValues = "attn_v_b.weight";

std::string with_ending(std::string_view name, std::string_view ending, std::string_view other) {
  return std::string(name.substr(0, name.size() - ending.size())) + std::string(other);
}

bool has_blocks(TensorType type) {
  return tensor_type_info(type).block_elements > 1;
}

// Rows of each head.
struct Rows {
  int64_t n_heads = 0;
  int64_t of_keys = 0;
  int64_t of_values = 0;
};

std::optional<Rows> rows_of(const Gguf& file, const GgufTensor& whole) {
  const auto number = [&](std::string_view key, int64_t fallback) {
    return file.get_int(fmt::format("{}.{}", file.get_string("general.architecture"), key),
                        fallback);
  };
  Rows rows;
  rows.n_heads = number(hyperparameter::kHeadCount, 0);
  rows.of_values =
      number(hyperparameter::kLatentValueLength, number(hyperparameter::kValueLength, 0));
  if (rows.n_heads <= 0 || rows.of_values <= 0 || whole.rows() % rows.n_heads != 0) {
    return std::nullopt;
  }
  rows.of_keys = whole.rows() / rows.n_heads - rows.of_values;
  return rows.of_keys > 0 ? std::optional(rows) : std::nullopt;
}

GgufTensor made_tensor(const GgufTensor& like, TensorType type, std::vector<int64_t> dims,
                       std::vector<std::byte> bytes, std::deque<std::vector<std::byte>>& made) {
  return {like.name, type, std::move(dims), made.emplace_back(std::move(bytes))};
}

// The rows of each head from `first` on.
GgufTensor rows_of_heads(const GgufTensor& whole, const Rows& heads, int64_t first, int64_t count,
                         std::deque<std::vector<std::byte>>& made) {
  const size_t stride = row_bytes(whole.type, whole.columns());
  const size_t size = static_cast<size_t>(count) * stride;
  std::vector<std::byte> bytes(static_cast<size_t>(heads.n_heads) * size);
  for (int64_t head = 0; head < heads.n_heads; ++head) {
    const int64_t row = head * (heads.of_keys + heads.of_values) + first;
    std::memcpy(bytes.data() + static_cast<size_t>(head) * size,
                whole.data.data() + static_cast<size_t>(row) * stride, size);
  }
  return made_tensor(whole, whole.type, {whole.columns(), count, heads.n_heads}, std::move(bytes),
                     made);
}

// The matrix of each head transposed; as floats where its type has blocks.
GgufTensor turned(const GgufTensor& tensor, std::deque<std::vector<std::byte>>& made) {
  const bool is_kept = !has_blocks(tensor.type);
  const TensorType type = is_kept ? tensor.type : TensorType::kF32;
  const size_t size = row_bytes(type, 1);
  const auto columns = static_cast<size_t>(tensor.dims[0]);
  const auto rows = static_cast<size_t>(tensor.dims[1]);
  const auto n_heads = static_cast<size_t>(tensor.dims[2]);
  const size_t stride = row_bytes(tensor.type, tensor.columns());
  std::vector<std::byte> bytes(n_heads * rows * columns * size);
  std::vector<std::byte> row(columns * size);
  for (size_t at = 0; at < n_heads * rows; ++at) {
    const std::byte* from = tensor.data.data() + at * stride;
    if (is_kept) {
      std::memcpy(row.data(), from, stride);
    } else {
      dequantize_row(tensor.type, from, tensor.columns(), reinterpret_cast<float*>(row.data()));
    }
    std::byte* to = bytes.data() + (at / rows * rows * columns + at % rows) * size;
    for (size_t i = 0; i < columns; ++i) {
      std::memcpy(to + i * rows * size, row.data() + i * size, size);
    }
  }
  return made_tensor(tensor, type, {tensor.dims[1], tensor.dims[0], tensor.dims[2]},
                     std::move(bytes), made);
}

}  // namespace

std::string whole_of(std::string_view part) {
  for (const std::string_view ending : {kKeys, kValues}) {
    if (part.ends_with(ending)) return with_ending(part, ending, kWhole);
  }
  return {};
}

bool is_in_parts(const Gguf& file, std::string_view name) {
  if (!name.ends_with(kWhole) || file.find_tensor(name) != nullptr) return false;
  return file.find_tensor(with_ending(name, kWhole, kKeys)) != nullptr &&
         file.find_tensor(with_ending(name, kWhole, kValues)) != nullptr;
}

std::optional<LatentPart> latent_part(const Gguf& file, const GgufTensor& whole,
                                      const GgufTensor& part) {
  const std::optional<Rows> rows = rows_of(file, whole);
  if (!rows) return std::nullopt;
  const bool is_keys = part.name.ends_with(kKeys);
  LatentPart result;
  result.part = part;
  result.of_whole = rows_of_heads(whole, *rows, is_keys ? 0 : rows->of_keys,
                                  is_keys ? rows->of_keys : rows->of_values, result.made);
  result.of_whole.name = part.name;
  if (!is_keys) return result;
  // Blocks cannot be turned, so that the other of the two is.
  const std::vector<int64_t> dims = {rows->of_keys, whole.columns(), rows->n_heads};
  if (has_blocks(whole.type) && !has_blocks(part.type) && part.dims == dims) {
    result.part = turned(part, result.made);
  } else {
    result.both_rounded = has_blocks(whole.type) && has_blocks(part.type);
    result.of_whole = turned(result.of_whole, result.made);
  }
  return result;
}

}  // namespace assay
