#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// Latent attention of two heads in each layer: 4 + 2 wide keys, 3 wide values, latent vectors of 5
// and 4.
inline void become_latent(TinyModel& model, const std::string& architecture, uint32_t n_layers) {
  model.become(architecture);
  model.ints.erase(architecture + ".attention.head_count_kv");
  const std::map<std::string, uint32_t> keys = {
      {"block_count", n_layers},         {"attention.q_lora_rank", 4},
      {"attention.kv_lora_rank", 5},     {"attention.key_length_mla", 6},
      {"attention.value_length_mla", 3}, {"rope.dimension_count", 2}};
  for (const auto& [key, value] : keys) model.ints[architecture + "." + key] = value;
  for (const char* part : {"q", "k", "v"}) {
    model.tensors.erase(std::string("blk.0.attn_") + part + ".weight");
  }
  for (uint32_t i = 0; i < n_layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    model.tensors[layer + "attn_norm.weight"] = {{8}};
    model.tensors[layer + "attn_q_a.weight"] = {{8, 4}};
    model.tensors[layer + "attn_q_a_norm.weight"] = {{4}};
    model.tensors[layer + "attn_q_b.weight"] = {{4, 12}};
    model.tensors[layer + "attn_kv_a_mqa.weight"] = {{8, 7}};
    model.tensors[layer + "attn_kv_a_norm.weight"] = {{5}};
    model.tensors[layer + "attn_k_b.weight"] = {{4, 5, 2}};
    model.tensors[layer + "attn_v_b.weight"] = {{5, 3, 2}};
    model.tensors[layer + "attn_output.weight"] = {{6, 8}};
    model.tensors[layer + "ffn_norm.weight"] = {{8}};
  }
}

}  // namespace assay::testing_support
