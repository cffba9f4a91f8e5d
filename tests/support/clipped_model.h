#pragma once

#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// DBRX of one layer and two experts, whose queries, keys and values are clipped.
inline void become_dbrx(TinyModel& model) {
  model.become("dbrx");
  model.ints["dbrx.expert_count"] = 2;
  model.ints["dbrx.expert_used_count"] = 1;
  model.floats["dbrx.attention.layer_norm_epsilon"] = 1e-5F;
  model.floats["dbrx.attention.clamp_kqv"] = 0.125F;
  auto& tensors = model.tensors;
  for (const char* name :
       {"attn_q", "attn_k", "attn_v", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down"}) {
    tensors.erase(std::string("blk.0.") + name + ".weight");
  }
  tensors["blk.0.attn_qkv.weight"] = {{8, 16}};
  tensors["blk.0.attn_output_norm.weight"] = {{8}};
  tensors["blk.0.ffn_gate_inp.weight"] = {{8, 2}};
  tensors["blk.0.ffn_gate_exps.weight"] = tensors["blk.0.ffn_up_exps.weight"] = {{8, 12, 2}};
  tensors["blk.0.ffn_down_exps.weight"] = {{12, 8, 2}};
}

}  // namespace assay::testing_support
