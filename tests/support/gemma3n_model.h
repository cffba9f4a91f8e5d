#pragma once

#include <limits>
#include <string>

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// Three layers of three residual streams: with a window, without, and with one again, which reads
// the keys and values of the first. The first and the last have a cutoff; each has an embedding of
// 6.
inline void become_gemma3n(TinyModel& model) {
  model.become("gemma3n");
  model.ints["gemma3n.block_count"] = 3;
  model.ints["gemma3n.attention.sliding_window"] = 5;
  model.int_lists["gemma3n.attention.sliding_window_pattern"] = {1, 0, 1};
  model.ints["gemma3n.attention.shared_kv_layers"] = 1;
  model.ints["gemma3n.embedding_length_per_layer_input"] = 6;
  model.ints["gemma3n.altup.num_inputs"] = 3;
  model.ints["gemma3n.altup.active_idx"] = 0;
  model.float_lists["gemma3n.activation_sparsity_scale"] = {
      0.5F, -std::numeric_limits<float>::infinity(), 0.25F};
  const auto first = model.tensors;
  for (const auto& [name, tensor] : first) {
    if (!name.starts_with("blk.0.")) continue;
    for (const char* layer : {"blk.1.", "blk.2."}) model.tensors[layer + name.substr(6)] = tensor;
  }
  for (const std::string layer : {"blk.0.", "blk.1.", "blk.2."}) {
    for (const char* norm : {"post_attention_norm", "post_ffw_norm", "altup_router_norm",
                             "laurel_post_norm", "post_norm", "altup_correct_scale"}) {
      model.tensors[layer + norm + ".weight"] = {{8}};
    }
    model.tensors[layer + "attn_q_norm.weight"] = {{4}};
    if (layer == "blk.2.") {
      model.tensors.erase(layer + "attn_k.weight");
      model.tensors.erase(layer + "attn_v.weight");
    } else {
      model.tensors[layer + "attn_k_norm.weight"] = {{4}};
    }
    model.tensors[layer + "altup_router.weight"] = {{8, 3}};
    model.tensors[layer + "altup_predict_coef.weight"] = {{3, 9}};
    model.tensors[layer + "altup_correct_coef.weight"] = {{3, 3}};
    model.tensors[layer + "laurel_l.weight"] = {{8, 2}};
    model.tensors[layer + "laurel_r.weight"] = {{2, 8}};
    model.tensors[layer + "inp_gate.weight"] = {{8, 6}};
    model.tensors[layer + "proj.weight"] = {{6, 8}};
  }
  model.tensors["altup_proj.weight"] = {{8, 8, 2}};
  model.tensors["altup_unembd_proj.weight"] = {{8, 8, 2}};
  model.tensors["per_layer_token_embd.weight"] = {{18, 5}};
  model.tensors["per_layer_model_proj.weight"] = {{8, 18}};
  model.tensors["per_layer_proj_norm.weight"] = {{6}};
}

}  // namespace assay::testing_support
