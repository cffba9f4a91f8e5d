#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// Three layers of latent attention that sees two positions: two choose, the one between does not.
inline void become_glm_dsa(TinyModel& model) {
  model.become("glm-dsa");
  model.ints.erase("glm-dsa.attention.head_count_kv");
  const std::map<std::string, uint32_t> keys = {{"block_count", 3},
                                                {"attention.q_lora_rank", 4},
                                                {"attention.kv_lora_rank", 5},
                                                {"attention.key_length_mla", 6},
                                                {"attention.value_length_mla", 3},
                                                {"rope.dimension_count", 2},
                                                {"attention.indexer.head_count", 3},
                                                {"attention.indexer.key_length", 4},
                                                {"attention.indexer.top_k", 2}};
  for (const auto& [key, value] : keys) model.ints["glm-dsa." + key] = value;
  for (const char* part : {"q", "k", "v"}) {
    model.tensors.erase(std::string("blk.0.attn_") + part + ".weight");
  }
  for (const std::string layer : {"blk.0.", "blk.1.", "blk.2."}) {
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
    model.tensors[layer + "ffn_gate.weight"] = {{8, 12}};
    model.tensors[layer + "ffn_up.weight"] = {{8, 12}};
    model.tensors[layer + "ffn_down.weight"] = {{12, 8}};
    if (layer == "blk.1.") continue;
    model.tensors[layer + "indexer.attn_q_b.weight"] = {{4, 12}};
    model.tensors[layer + "indexer.attn_k.weight"] = {{8, 4}};
    model.tensors[layer + "indexer.k_norm.weight"] = {{4}};
    model.tensors[layer + "indexer.k_norm.bias"] = {{4}};
    model.tensors[layer + "indexer.proj.weight"] = {{8, 3}};
  }
}

}  // namespace assay::testing_support
