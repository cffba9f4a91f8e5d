#include "assay/synth/type_mix.h"

#include <algorithm>
#include <charconv>
#include <string_view>

// The rule is llama.cpp's, src/llama-quant.cpp, in the version that
// golden/generate/requirements.txt pins; tests/data/synth/type_mix.txt is its output.

namespace assay {
namespace {

constexpr TensorType kQ3 = TensorType::kQ3_K;
constexpr TensorType kQ4 = TensorType::kQ4_K;
constexpr TensorType kQ5 = TensorType::kQ5_K;
constexpr TensorType kQ6 = TensorType::kQ6_K;

// "blk.7.attn_v.weight" is attn_v of layer 7; "output.weight" is output of no layer.
struct Part {
  std::string_view name;
  int64_t layer = 0;

  explicit Part(std::string_view tensor) : name(tensor.substr(0, tensor.rfind('.'))) {
    if (!name.starts_with("blk.")) return;
    const size_t dot = name.find('.', 4);
    std::from_chars(name.data() + 4, name.data() + dot, layer);
    name.remove_prefix(dot + 1);
  }
};

bool is_falcon(const ModelConfig& model) {
  return model.architecture->name == "falcon";
}

bool has_more_bits(int64_t layer, int64_t n_layers) {
  return layer < n_layers / 8 || layer >= 7 * n_layers / 8 || (layer - n_layers / 8) % 3 == 2;
}

// Of the layers before `end`, those whose attention, full or linear, has a tensor of values.
int64_t attention_layers(const ModelConfig& model, int64_t end) {
  return std::count_if(model.layers.begin(), model.layers.begin() + end,
                       [](const LayerConfig& layer) {
                         return find_spec(layer.ops, Checkpoint::kV) != nullptr ||
                                find_spec(layer.ops, Checkpoint::kDelta) != nullptr;
                       });
}

TensorType type_of_values(std::string_view mix, int64_t number, const ModelConfig& model,
                          TensorType base) {
  const int64_t layer = attention_layers(model, number);
  const int64_t n_layers = attention_layers(model, model.n_layers);
  const int64_t heads_per_kv = model.n_heads / model.heads(0).n_kv_heads;
  TensorType type = base;
  if (mix == "Q2_K") type = heads_per_kv >= 4 ? kQ4 : kQ3;
  if (mix == "Q3_K_M") type = layer < 2 ? kQ5 : kQ4;
  if (mix == "Q3_K_L") type = kQ5;
  if (mix == "Q4_K_S" && layer < 4) type = kQ5;
  if ((mix == "Q4_K_M" || mix == "Q5_K_M") && has_more_bits(layer, n_layers)) type = kQ6;
  // A model of 70 billion parameters: eight heads share these rows.
  const bool large = model.n_layers == 80 && heads_per_kv > 1;
  return large && (type == kQ3 || type == kQ4) ? kQ5 : type;
}

TensorType type_of_down(std::string_view mix, int64_t layer, int64_t n_layers, TensorType base) {
  if (mix == "Q2_K") return kQ3;
  if (mix == "Q3_K_M") return layer < n_layers / 16 ? kQ5 : kQ4;
  if (mix == "Q3_K_L") return kQ5;
  if (mix == "Q4_K_S") return layer < n_layers / 8 ? kQ5 : base;
  if (mix == "Q4_K_M" || mix == "Q5_K_M") return has_more_bits(layer, n_layers) ? kQ6 : base;
  return base;
}

// Falcon's, which gives fewer bits.
TensorType type_of_falcon_down(std::string_view mix, int64_t layer, int64_t n_layers,
                               TensorType base) {
  const bool more = has_more_bits(layer, n_layers);
  if (mix == "Q3_K_M") return layer < n_layers / 16 ? kQ5 : more ? kQ4 : kQ3;
  if (mix == "Q3_K_L") return kQ4;
  if (mix == "Q4_K_S") return base;
  if (mix == "Q4_K_M") return layer < n_layers / 16 ? kQ6 : more ? kQ5 : kQ4;
  return type_of_down(mix, layer, n_layers, base);
}

TensorType type_of_attention_output(std::string_view mix, bool falcon, bool eight_experts,
                                    TensorType base) {
  if (falcon) return mix == "Q3_K_L" ? kQ4 : base;
  if (eight_experts) {
    const bool raised =
        mix == "Q2_K" || mix == "Q3_K_S" || mix == "Q3_K_M" || mix == "Q4_K_S" || mix == "Q4_K_M";
    return raised ? kQ5 : base;
  }
  return mix == "Q2_K" ? kQ3 : mix == "Q3_K_M" ? kQ4 : mix == "Q3_K_L" ? kQ5 : base;
}

TensorType type_of_part(const Part& part, std::string_view mix, const SynthConfig& config,
                        TensorType base) {
  const ModelConfig& model = config.model;
  const bool eight_experts = model.routing.n_experts == 8;
  const bool values = part.name == "attn_v" || part.name == "attn_qkv" || part.name == "attn_kv_b";
  if (eight_experts && (values || part.name == "attn_k")) return TensorType::kQ8_0;
  if (values) return type_of_values(mix, part.layer, model, base);
  if (part.name.starts_with("ffn_down")) {
    return is_falcon(model) ? type_of_falcon_down(mix, part.layer, model.n_layers, base)
                            : type_of_down(mix, part.layer, model.n_layers, base);
  }
  if (part.name == "attn_output") {
    return type_of_attention_output(mix, is_falcon(model), eight_experts, base);
  }
  return base;
}

bool fits(TensorType type, int64_t columns) {
  return columns % tensor_type_info(type).block_elements == 0;
}

TensorType fitting(TensorType type, int64_t columns) {
  if (fits(type, columns)) return type;
  TensorType smaller = TensorType::kF16;
  if (type == TensorType::kQ2_K || type == kQ3) smaller = TensorType::kQ4_0;
  if (type == kQ4) smaller = TensorType::kQ5_0;
  if (type == kQ5) smaller = TensorType::kQ5_1;
  if (type == kQ6) smaller = TensorType::kQ8_0;
  return fits(smaller, columns) ? smaller : TensorType::kF16;
}

}  // namespace

void choose_types(const SynthConfig& config, const FileType& mix, bool pure,
                  std::vector<SynthTensor>& tensors) {
  const bool quantised = tensor_type_info(mix.base).block_elements > 1;
  for (SynthTensor& tensor : tensors) {
    const Part part(tensor.name);
    if (!tensor.is_matrix) continue;
    const bool is_table = part.name == "token_embd" || part.name == "per_layer_token_embd";
    const bool output = part.name == "output" || (config.hf.tied && is_table);
    TensorType type = mix.base;
    if (quantised && !pure) {
      if (mix.base == TensorType::kMXFP4) {
        type = tensor.dims.size() > 2 ? mix.base : TensorType::kQ8_0;  // experts, the others
      } else if (output) {
        const bool whole = fits(mix.base, tensor.columns());
        const bool eight = mix.base == TensorType::kQ8_0 || !whole || is_falcon(config.model);
        type = eight ? TensorType::kQ8_0 : kQ6;
      } else {
        type = type_of_part(part, mix.name, config, mix.base);
      }
    }
    tensor.type = fitting(type, tensor.columns());
  }
}

}  // namespace assay
