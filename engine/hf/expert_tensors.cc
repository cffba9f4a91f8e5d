#include "engine/hf/expert_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <vector>

#include "base/error.h"

namespace assay {
namespace {

// Where a file has what a GGUF file calls `tensor`. A path with {} is that of each expert.
struct ExpertPath {
  HfExperts form;
  std::string_view tensor;
  std::string_view path;
};
constexpr ExpertPath kEach[] = {
    {HfExperts::kEach, "ffn_gate_exps", "mlp.experts.{}.gate_proj"},
    {HfExperts::kEach, "ffn_up_exps", "mlp.experts.{}.up_proj"},
    {HfExperts::kEach, "ffn_down_exps", "mlp.experts.{}.down_proj"},
    {HfExperts::kNumbered, "ffn_gate_exps", "block_sparse_moe.experts.{}.w1"},
    {HfExperts::kNumbered, "ffn_up_exps", "block_sparse_moe.experts.{}.w3"},
    {HfExperts::kNumbered, "ffn_down_exps", "block_sparse_moe.experts.{}.w2"},
    {HfExperts::kFeedForward, "ffn_gate_exps", "feed_forward.experts.{}.w1"},
    {HfExperts::kFeedForward, "ffn_up_exps", "feed_forward.experts.{}.w3"},
    {HfExperts::kFeedForward, "ffn_down_exps", "feed_forward.experts.{}.w2"},
    {HfExperts::kOfFeedForward, "ffn_gate_exps", "feed_forward.experts.{}.gate_proj"},
    {HfExperts::kOfFeedForward, "ffn_up_exps", "feed_forward.experts.{}.up_proj"},
    {HfExperts::kOfFeedForward, "ffn_down_exps", "feed_forward.experts.{}.down_proj"},
    {HfExperts::kMixer, "ffn_up_exps", "mixer.experts.{}.up_proj"},
    {HfExperts::kMixer, "ffn_down_exps", "mixer.experts.{}.down_proj"}};
constexpr ExpertPath kTogether[] = {
    {HfExperts::kOfLayer, "ffn_gate_exps", "experts.gate_up_proj"},
    {HfExperts::kOfLayer, "ffn_up_exps", "experts.gate_up_proj"},
    {HfExperts::kOfLayer, "ffn_down_exps", "experts.down_proj"},
    {HfExperts::kStacked, "ffn_gate_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kStacked, "ffn_up_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kStacked, "ffn_down_exps", "mlp.experts.down_proj"},
    {HfExperts::kInterleaved, "ffn_gate_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kInterleaved, "ffn_up_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kInterleaved, "ffn_down_exps", "mlp.experts.down_proj"},
    {HfExperts::kTransposed, "ffn_gate_exps", "feed_forward.experts.gate_up_proj"},
    {HfExperts::kTransposed, "ffn_up_exps", "feed_forward.experts.gate_up_proj"},
    {HfExperts::kTransposed, "ffn_down_exps", "feed_forward.experts.down_proj"},
    {HfExperts::kStackedEither, "ffn_gate_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kStackedEither, "ffn_up_exps", "mlp.experts.gate_up_proj"},
    {HfExperts::kStackedEither, "ffn_down_exps", "mlp.experts.down_proj"},
    {HfExperts::kOfBlock, "ffn_gate_exps", "block_sparse_moe.experts.gate_up_proj"},
    {HfExperts::kOfBlock, "ffn_up_exps", "block_sparse_moe.experts.gate_up_proj"},
    {HfExperts::kOfBlock, "ffn_down_exps", "block_sparse_moe.experts.down_proj"},
    {HfExperts::kTogether, "ffn_gate_exps", "block_sparse_moe.input_linear.weight"},
    {HfExperts::kTogether, "ffn_up_exps", "block_sparse_moe.input_linear.weight"},
    {HfExperts::kTogether, "ffn_down_exps", "block_sparse_moe.output_linear.weight"}};

constexpr ExpertPath kOfRows[] = {{HfExperts::kOfRows, "ffn_gate_exps", "ffn.experts.mlp.w1"},
                                  {HfExperts::kOfRows, "ffn_up_exps", "ffn.experts.mlp.v1"},
                                  {HfExperts::kOfRows, "ffn_down_exps", "ffn.experts.mlp.w2"}};

// A copy of those elements whose index source(expert, row, column) gives.
template <typename Source>
FormedTensor gathered(const FormedTensor& tensor, int64_t columns, int64_t rows, int64_t count,
                      const Source& source, std::deque<std::string>& made) {
  const size_t size = row_bytes(tensor.type, 1);
  std::string bytes(static_cast<size_t>(columns * rows * count) * size, '\0');
  char* to = bytes.data();
  for (int64_t expert = 0; expert < count; ++expert) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t column = 0; column < columns; ++column, to += size) {
        const int64_t from = source(expert, row, column);
        std::memcpy(to, &tensor.data[static_cast<size_t>(from) * size], size);
      }
    }
  }
  const std::string& kept = made.emplace_back(std::move(bytes));
  return {tensor.type, {columns, rows, count}, std::as_bytes(std::span(kept))};
}

// Whether a tensor has [inputs, outputs] of each expert. transformers turns those of Qwen3-VL that
// have not the shape of its own module.
bool is_transposed(const FormedTensor& tensor, const HfConfig& config, bool is_half) {
  const HfExperts form = config.model->experts;
  if (form == HfExperts::kStackedEither) {
    return tensor.dims[0] !=
           (is_half ? config.embedding_length : config.expert_feed_forward_length);
  }
  return form == HfExperts::kInterleaved || form == HfExperts::kTransposed;
}

// The matrices of one kind out of a tensor [experts, rows, columns], or transposed.
FormedTensor matrices(const FormedTensor& tensor, const HfConfig& config, bool is_half,
                      int64_t part, std::deque<std::string>& made) {
  const int64_t count = tensor.dims[2];
  const int64_t first = tensor.dims[0];
  const int64_t second = tensor.dims[1];
  if (is_transposed(tensor, config, is_half)) {
    const int64_t rows = is_half ? first / 2 : first;
    const int64_t step = is_half && config.model->experts == HfExperts::kInterleaved ? 2 : 1;
    const int64_t begin = step == 2 ? part : part * rows;
    return gathered(
        tensor, second, rows, count,
        [&](int64_t expert, int64_t row, int64_t column) {
          return (expert * second + column) * first + begin + row * step;
        },
        made);
  }
  if (!is_half) return tensor;
  const int64_t half = second / 2;
  return gathered(
      tensor, first, half, count,
      [&](int64_t expert, int64_t row, int64_t column) {
        return (expert * second + part * half + row) * first + column;
      },
      made);
}

FormedTensor biases(const FormedTensor& tensor, bool interleaved, bool is_half, int64_t part,
                    std::deque<std::string>& made) {
  if (!is_half) return tensor;
  const int64_t width = tensor.dims[0];
  const int64_t half = width / 2;
  FormedTensor result = gathered(
      tensor, half, tensor.dims[1], 1,
      [&](int64_t, int64_t expert, int64_t i) {
        return expert * width + (interleaved ? 2 * i + part : part * half + i);
      },
      made);
  result.dims.pop_back();
  return result;
}

// The matrices of one kind out of a tensor [experts * inner, width]; the last are transposed.
FormedTensor matrices_of_rows(const FormedTensor& tensor, const HfConfig& config, bool is_last,
                              std::deque<std::string>& made) {
  const int64_t width = tensor.dims[0];
  const int64_t inner = tensor.dims[1] / config.n_experts;
  if (!is_last) return {tensor.type, {width, inner, config.n_experts}, tensor.data};
  return gathered(
      tensor, inner, width, config.n_experts,
      [&](int64_t expert, int64_t row, int64_t column) {
        return (expert * inner + column) * width + row;
      },
      made);
}

}  // namespace

std::string_view expert_path(HfExperts form, std::string_view tensor) {
  for (const std::span<const ExpertPath> paths :
       {std::span<const ExpertPath>(kEach), std::span<const ExpertPath>(kTogether),
        std::span<const ExpertPath>(kOfRows)}) {
    for (const ExpertPath& each : paths) {
      if (each.form == form && each.tensor == tensor) return each.path;
    }
  }
  return {};
}

std::optional<FormedTensor> expert_tensor(const HfConfig& config, const ExpertTensorName& wanted,
                                          const FindTensor& find, std::deque<std::string>& made) {
  const std::string_view tensor = wanted.tensor;
  const bool is_bias = wanted.suffix == ".bias";
  const auto fail = [&](const std::string& name, const std::string& what) {
    throw Error(fmt::format("tensor '{}' {}", name, what), std::string(wanted.folder));
  };
  for (const ExpertPath& each : kEach) {
    if (each.tensor != tensor) continue;
    std::vector<FormedTensor> experts;
    std::string name;
    for (int64_t i = 0; i < config.n_experts; ++i) {
      name = fmt::format("{}{}{}", wanted.layer, fmt::format(fmt::runtime(each.path), i),
                         wanted.suffix);
      const std::optional<FormedTensor> expert = find(name);
      if (!expert) break;
      if (!experts.empty() &&
          (expert->dims != experts[0].dims || expert->type != experts[0].type)) {
        fail(name, "is not like that of the first expert");
      }
      experts.push_back(*expert);
    }
    if (experts.empty()) continue;
    if (std::ssize(experts) < config.n_experts) fail(name, "is missing");
    return stacked(experts, made);
  }
  for (const ExpertPath& each : kOfRows) {
    if (each.tensor != tensor || is_bias) continue;
    const std::string name = fmt::format("{}{}", wanted.layer, each.path);
    const std::optional<FormedTensor> all = find(name);
    if (!all) continue;
    if (all->dims.size() != 2 || all->dims[1] % config.n_experts != 0) {
      fail(name, fmt::format("has the shape [{}], which is not that of all experts",
                             fmt::join(all->dims.rbegin(), all->dims.rend(), ", ")));
    }
    return matrices_of_rows(*all, config, tensor == "ffn_down_exps", made);
  }
  for (const ExpertPath& each : kTogether) {
    if (each.tensor != tensor) continue;
    const std::string name = fmt::format("{}{}{}", wanted.layer, each.path, is_bias ? "_bias" : "");
    const std::optional<FormedTensor> all = find(name);
    if (!all) continue;
    const bool is_half = tensor != "ffn_down_exps";
    const size_t dims = is_bias ? 2 : 3;
    if (all->dims.size() != dims || all->dims.back() != config.n_experts ||
        (is_half && all->dims[is_bias || is_transposed(*all, config, is_half) ? 0 : 1] % 2 != 0)) {
      fail(name, fmt::format("has the shape [{}], which is not that of all experts",
                             fmt::join(all->dims.rbegin(), all->dims.rend(), ", ")));
    }
    const int64_t part = tensor == "ffn_up_exps" ? 1 : 0;
    const bool interleaved = config.model->experts == HfExperts::kInterleaved;
    return is_bias ? biases(*all, interleaved, is_half, part, made)
                   : matrices(*all, config, is_half, part, made);
  }
  return std::nullopt;
}

}  // namespace assay
