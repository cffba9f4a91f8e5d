#include "assay/weights/parts_of_tensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "kernels/reference/dequantize.h"
#include "model/hyperparameter_keys.h"

namespace assay {
namespace {

struct InTwo {
  std::string_view whole;
  std::string_view first;
  std::string_view second;
};

constexpr InTwo kLatent = {"attn_kv_b.weight", "attn_k_b.weight", "attn_v_b.weight"};
constexpr InTwo kExperts = {"ffn_gate_up_exps.weight", "ffn_gate_exps.weight",
                            "ffn_up_exps.weight"};
constexpr const InTwo* kAllInTwo[] = {&kLatent, &kExperts};

std::string with_ending(std::string_view name, std::string_view ending, std::string_view other) {
  return std::string(name.substr(0, name.size() - ending.size())) + std::string(other);
}

bool has_blocks(TensorType type) {
  return tensor_type_info(type).block_elements > 1;
}

// Rows of each head, or expert.
struct Rows {
  int64_t n_groups = 0;
  int64_t of_first = 0;
  int64_t of_second = 0;
};

std::optional<Rows> rows_of_experts(const GgufTensor& whole) {
  if (whole.dims.size() != 3 || whole.dims[1] % 2 != 0) return std::nullopt;
  return Rows{whole.dims[2], whole.dims[1] / 2, whole.dims[1] / 2};
}

std::optional<Rows> rows_of_heads(const Gguf& file, const GgufTensor& whole) {
  const auto number = [&](std::string_view key, int64_t fallback) {
    return file.get_int(fmt::format("{}.{}", file.get_string("general.architecture"), key),
                        fallback);
  };
  Rows rows;
  rows.n_groups = number(hyperparameter::kHeadCount, 0);
  rows.of_second =
      number(hyperparameter::kLatentValueLength, number(hyperparameter::kValueLength, 0));
  if (rows.n_groups <= 0 || rows.of_second <= 0 || whole.rows() % rows.n_groups != 0) {
    return std::nullopt;
  }
  rows.of_first = whole.rows() / rows.n_groups - rows.of_second;
  return rows.of_first > 0 ? std::optional(rows) : std::nullopt;
}

GgufTensor made_tensor(const GgufTensor& like, TensorType type, std::vector<int64_t> dims,
                       std::vector<std::byte> bytes, std::deque<std::vector<std::byte>>& made) {
  return {like.name, type, std::move(dims), made.emplace_back(std::move(bytes))};
}

// The rows of each group from `first` on.
GgufTensor rows_from(const GgufTensor& whole, const Rows& rows, int64_t first, int64_t count,
                     std::deque<std::vector<std::byte>>& made) {
  const size_t stride = row_bytes(whole.type, whole.columns());
  const size_t size = static_cast<size_t>(count) * stride;
  std::vector<std::byte> bytes(static_cast<size_t>(rows.n_groups) * size);
  for (int64_t group = 0; group < rows.n_groups; ++group) {
    const int64_t row = group * (rows.of_first + rows.of_second) + first;
    std::memcpy(bytes.data() + static_cast<size_t>(group) * size,
                whole.data.data() + static_cast<size_t>(row) * stride, size);
  }
  return made_tensor(whole, whole.type, {whole.columns(), count, rows.n_groups}, std::move(bytes),
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
  for (const InTwo* each : kAllInTwo) {
    for (const std::string_view ending : {each->first, each->second}) {
      if (part.ends_with(ending)) return with_ending(part, ending, each->whole);
    }
  }
  return {};
}

bool is_in_parts(const Gguf& file, std::string_view name) {
  return std::ranges::any_of(kAllInTwo, [&](const InTwo* each) {
    return name.ends_with(each->whole) && file.find_tensor(name) == nullptr &&
           file.find_tensor(with_ending(name, each->whole, each->first)) != nullptr &&
           file.find_tensor(with_ending(name, each->whole, each->second)) != nullptr;
  });
}

std::optional<PartOfTensor> part_of(const Gguf& file, const GgufTensor& whole,
                                    const GgufTensor& part) {
  const bool is_latent = whole.name.ends_with(kLatent.whole);
  const std::optional<Rows> rows = is_latent ? rows_of_heads(file, whole) : rows_of_experts(whole);
  if (!rows) return std::nullopt;
  const InTwo& names = is_latent ? kLatent : kExperts;
  const bool is_first = part.name.ends_with(names.first);
  PartOfTensor result;
  result.part = part;
  result.of_whole = rows_from(whole, *rows, is_first ? 0 : rows->of_first,
                              is_first ? rows->of_first : rows->of_second, result.made);
  result.of_whole.name = part.name;
  if (!is_latent || !is_first) return result;
  // Blocks cannot be turned, so that the other of the two is.
  const std::vector<int64_t> dims = {rows->of_first, whole.columns(), rows->n_groups};
  if (has_blocks(whole.type) && !has_blocks(part.type) && part.dims == dims) {
    result.part = turned(part, result.made);
  } else {
    result.both_rounded = has_blocks(whole.type) && has_blocks(part.type);
    result.of_whole = turned(result.of_whole, result.made);
  }
  return result;
}

}  // namespace assay
