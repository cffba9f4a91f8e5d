#pragma once

#include <cstdint>
#include <string>

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// Two layers: two key-value heads of 2 with a window, and one of 4, whose keys are the values, too,
// without.
inline void become_gemma4(TinyModel& model) {
  model.become("gemma4");
  model.ints["gemma4.block_count"] = 2;
  model.ints["gemma4.attention.sliding_window"] = 5;
  model.int_lists["gemma4.attention.sliding_window_pattern"] = {1, 0};
  model.ints.erase("gemma4.attention.head_count_kv");
  model.int_lists["gemma4.attention.head_count_kv"] = {2, 1};
  model.ints["gemma4.attention.key_length"] = 4;
  model.ints["gemma4.attention.value_length"] = 4;
  model.ints["gemma4.attention.key_length_swa"] = 2;
  model.ints["gemma4.attention.value_length_swa"] = 2;
  model.ints["gemma4.rope.dimension_count"] = 4;
  model.ints["gemma4.rope.dimension_count_swa"] = 2;
  const auto first = model.tensors;
  for (const auto& [name, tensor] : first) {
    if (name.starts_with("blk.0.")) model.tensors["blk.1." + name.substr(6)] = tensor;
  }
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    const uint32_t dim = layer == "blk.0." ? 2 : 4;
    for (const char* norm : {"post_attention_norm.weight", "post_ffw_norm.weight"}) {
      model.tensors[layer + norm] = {{8}};
    }
    for (const char* norm : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
      model.tensors[layer + norm] = {{dim}};
    }
    model.tensors[layer + "attn_q.weight"] = {{8, 2 * dim}};
    model.tensors[layer + "attn_k.weight"] = {{8, 4}};
    model.tensors[layer + "attn_v.weight"] = {{8, 4}};
    model.tensors[layer + "attn_output.weight"] = {{2 * dim, 8}};
    model.tensors[layer + "layer_output_scale.weight"] = {{1}};
  }
  model.tensors.erase("blk.1.attn_v.weight");
  model.fill["blk.1.layer_output_scale.weight"] = 0.5F;
}

}  // namespace assay::testing_support
