#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/gguf.h"
#include "engine/model.h"
#include "tests/support/temporary_folder.h"

namespace assay::testing_support {

// A tensor for a safetensors file; its elements are 0, 1, 2, ... unless they are given.
struct HfTensor {
  std::vector<int64_t> shape;
  std::string dtype = "F32";
  std::vector<float> values = {};

  std::string bytes() const {
    size_t count = 1;
    for (const int64_t dim : shape) count *= static_cast<size_t>(dim);
    std::string out;
    for (size_t i = 0; i < count; ++i) {
      const auto bits =
          std::bit_cast<uint32_t>(i < values.size() ? values[i] : static_cast<float>(i));
      for (int byte = dtype == "F32" ? 0 : 2; byte < 4; ++byte) {
        out += static_cast<char>(bits >> (8 * byte) &
                                 255U);  // BF16: the upper half. Of F16 only the size is right
      }
    }
    return out;
  }
};

using HfTensors = std::map<std::string, HfTensor>;

inline std::string safetensors(const std::string& header, const std::string& data) {
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i) & 255U);
  return file + header + data;
}

inline std::string safetensors(const HfTensors& tensors) {
  std::string data;
  std::vector<std::string> entries = {R"("__metadata__":{"format":"pt"})"};
  for (const auto& [name, tensor] : tensors) {
    const size_t begin = data.size();
    data += tensor.bytes();
    entries.push_back(fmt::format(R"("{}":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                                  name, tensor.dtype, fmt::join(tensor.shape, ","), begin,
                                  data.size()));
  }
  std::string header = fmt::format("{{{}}}", fmt::join(entries, ","));
  while (header.size() % 8 != 0) header += ' ';
  return safetensors(header, data);
}

// Two heads of 4 that share a key-value head, one layer.
inline const std::string kHfShape =
    R"("vocab_size": 3, "hidden_size": 8, "intermediate_size": 6, "num_hidden_layers": 1,
       "num_attention_heads": 2, "num_key_value_heads": 1, "max_position_embeddings": 16)";
inline const std::string kHfRms = kHfShape + R"(, "rms_norm_eps": 0.5)";

inline std::string llama_config(const std::string& more = "", const std::string& type = "llama") {
  return fmt::format(R"({{"model_type": "{}", {}{}}})", type, kHfRms, more);
}

inline HfTensors llama() {
  const std::string layer = "model.layers.0.";
  return {{"model.embed_tokens.weight", {{3, 8}}},
          {"model.norm.weight", {{8}}},
          {layer + "input_layernorm.weight", {{8}}},
          {layer + "post_attention_layernorm.weight", {{8}}},
          {layer + "self_attn.q_proj.weight", {{8, 8}}},
          {layer + "self_attn.k_proj.weight", {{4, 8}}},
          {layer + "self_attn.v_proj.weight", {{4, 8}}},
          {layer + "self_attn.o_proj.weight", {{8, 8}}},
          {layer + "mlp.gate_proj.weight", {{6, 8}}},
          {layer + "mlp.up_proj.weight", {{6, 8}}},
          {layer + "mlp.down_proj.weight", {{8, 6}}}};
}

// The values of a tensor of F32.
inline std::vector<float> floats(const Gguf& gguf, const std::string& name) {
  const GgufTensor* tensor = gguf.find_tensor(name);
  if (tensor == nullptr) throw Error("no tensor " + name);
  EXPECT_EQ(tensor->type, TensorType::kF32) << name;
  std::vector<float> values(tensor->data.size() / sizeof(float));
  std::memcpy(values.data(), tensor->data.data(), tensor->data.size());
  return values;
}

// A test of a folder with a model.
class HfFolder : public TemporaryFolder {
 protected:
  void write(const std::string& config, const HfTensors& tensors) const {
    put("config.json", config);
    put("model.safetensors", safetensors(tensors));
  }
  Gguf open(const std::string& config, const HfTensors& tensors) const {
    write(config, tensors);
    return Gguf(folder_);
  }
  // The message; empty if the folder is a model.
  std::string refusal() const {
    try {
      const Model model(std::make_shared<Gguf>(folder_));
    } catch (const Error& error) {
      return error.what();
    }
    return {};
  }
  std::string refusal(const std::string& config, const HfTensors& tensors) const {
    write(config, tensors);
    return refusal();
  }
};

}  // namespace assay::testing_support
