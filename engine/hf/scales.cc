#include "engine/hf/scales.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "kernels/reference/dequantize.h"
#include "model/architecture.h"

namespace assay {
namespace {

double factor_of(const ConfigObject& object, const HfScale& scale) {
  if (scale.index < 0) return object.positive({scale.key}, 1.0);
  const rapidjson::Value* list = object.find(scale.key);
  if (list == nullptr) return 1.0;
  constexpr rapidjson::SizeType kMost = 16;
  const auto at = static_cast<rapidjson::SizeType>(scale.index);
  if (!list->IsArray() || list->Size() > kMost || at >= list->Size()) {
    object.refuse(scale.key, fmt::format("has no number {}", scale.index + 1));
  }
  return object.factors(scale.key, list->Size())[at];
}

// The parts of the product of Mamba-2, in the order of its rows.
struct Part {
  Checkpoint checkpoint;
  int number;  // HfScale::of_part
};
constexpr Part kParts[] = {{Checkpoint::kLinearZ, 0},
                           {Checkpoint::kSsmXbc, 1},
                           {Checkpoint::kSsmXbc, 2},
                           {Checkpoint::kSsmXbc, 3},
                           {Checkpoint::kSsmDt, 0}};

// In the order of kMultiplierKeys.
constexpr KeyNames kMultiplierNames[] = {{"embedding_multiplier"},
                                         {"attention_multiplier"},
                                         {"residual_multiplier"},
                                         {"logits_scaling", "logit_scale"}};

// As MiniCPM states them: of the depth, and of the width whose logits are as they are. Null does
// not scale.
void read_scales_of_size(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  const auto depth = std::sqrt(static_cast<double>(config.n_layers));
  const auto width = static_cast<double>(config.embedding_length);
  const double factors[] = {object.positive({"scale_emb"}), 0.0,
                            object.positive({"scale_depth"}, depth) / depth,
                            width / object.positive({"dim_model_base"}, width)};
  for (const Multiplier which :
       {Multiplier::kEmbedding, Multiplier::kResidual, Multiplier::kLogits}) {
    const auto i = static_cast<size_t>(which);
    keys.exact(kMultiplierKeys[i], factors[i]);
  }
}

int64_t rows_of(const Part& part, const DeltaShape& shape) {
  if (part.checkpoint == Checkpoint::kSsmDt) return shape.n_value_heads;
  return part.number > 1 ? shape.key_width() : shape.value_width();
}

}  // namespace

void read_scales(const ConfigObject& object, HfConfig& config) {
  const std::span<const HfScale> all = config.model->scales;
  const auto product = [&](std::string_view tensor, const auto& counts) {
    double factor = 1.0;
    for (const HfScale& scale : all) {
      if (scale.tensor == tensor && counts(scale)) factor *= factor_of(object, scale);
    }
    return factor;
  };
  const auto is_whole = [](const HfScale& scale) { return scale.part == Checkpoint::kOutput; };
  for (const HfScale& scale : all) {
    std::vector<HfRowsScale>& rows = config.scales[std::string(scale.tensor)];
    if (!rows.empty()) continue;
    const double whole = product(scale.tensor, is_whole);
    const bool has_parts = std::ranges::any_of(
        all, [&](const HfScale& each) { return each.tensor == scale.tensor && !is_whole(each); });
    if (!has_parts) {
      rows.push_back({0, whole});
      continue;
    }
    for (const Part& part : kParts) {
      const double own = product(scale.tensor, [&](const HfScale& each) {
        return each.part == part.checkpoint && each.of_part == part.number;
      });
      rows.push_back({rows_of(part, config.delta), whole * own});
    }
  }
}

void read_multipliers(const ConfigObject& object, const HfConfig& config, Keys& keys) {
  if (config.architecture->default_logits_width > 0) {
    return read_scales_of_size(object, config, keys);
  }
  const unsigned honoured = config.architecture->multipliers;
  if (honoured == bit(Multiplier::kAttention)) {  // gemma's
    const double scalar = object.positive({"query_pre_attn_scalar"});
    keys.exact(kMultiplierKeys[static_cast<size_t>(Multiplier::kAttention)],
               1.0 / std::sqrt(scalar));
    return;
  }
  if (object.find("query_pre_attn_scalar") != nullptr) {
    object.refuse("query_pre_attn_scalar", "does not belong to this model_type");
  }
  for (size_t i = 0; i < kMultiplierKeys.size(); ++i) {
    const KeyNames names = kMultiplierNames[i];
    if (is_scale(*config.model, *names.begin())) continue;
    const bool has = (honoured & bit(static_cast<Multiplier>(i))) != 0;
    if (has && config.architecture->embedding_root) {  // which another key switches off
      if (!object.flag("mup_enabled")) keys.real(kMultiplierKeys[i], 1.0);
      continue;
    }
    const bool is_root = static_cast<Multiplier>(i) == Multiplier::kAttention &&
                         object.find(object.present(names)) == nullptr;  // Bamba's
    if (has && is_root) continue;
    const double value = object.positive(names, 1.0);
    if (has) {
      keys.real(kMultiplierKeys[i], value);
    } else if (value != 1.0) {
      object.refuse(object.present(names), "does not belong to this model_type");
    }
  }
}

bool is_scale(const HfModel& model, std::string_view key) {
  return std::ranges::any_of(model.scales, [&](const HfScale& scale) { return scale.key == key; });
}

double row_scale(const HfConfig& config, std::string_view tensor, int64_t row) {
  const auto found = config.scales.find(tensor);
  if (found == config.scales.end()) return 1.0;
  for (const HfRowsScale& rows : found->second) {
    if (rows.count == 0 || row < rows.count) return rows.factor;
    row -= rows.count;
  }
  return 1.0;
}

FormedTensor scaled(const FormedTensor& tensor, const HfConfig& config, std::string_view name,
                    std::deque<std::string>& made) {
  const auto found = config.scales.find(name);
  const bool is_plain =
      found == config.scales.end() ||
      std::ranges::all_of(found->second, [](const auto& rows) { return rows.factor == 1.0; });
  if (is_plain) return tensor;
  const int64_t columns = tensor.dims[0];
  int64_t n_rows = 1;
  for (size_t i = 1; i < tensor.dims.size(); ++i) n_rows *= tensor.dims[i];
  std::string bytes(static_cast<size_t>(n_rows * columns) * sizeof(float), '\0');
  auto* values = reinterpret_cast<float*>(bytes.data());
  dequantize_row(tensor.type, tensor.data.data(), n_rows * columns, values);
  for (int64_t row = 0; row < n_rows; ++row) {
    const double factor = row_scale(config, name, row);
    for (int64_t i = 0; i < columns; ++i, ++values) {
      *values = static_cast<float>(static_cast<double>(*values) * factor);
    }
  }
  const std::string& kept = made.emplace_back(std::move(bytes));
  return {TensorType::kF32, tensor.dims, std::as_bytes(std::span(kept))};
}

bool splits_tied(const HfConfig& config) {
  return row_scale(config, "token_embd", 0) != row_scale(config, "output", 0);
}

}  // namespace assay
