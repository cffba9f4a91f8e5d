#pragma once

#include <string>

#include "tests/support/latent_model.h"
#include "tests/support/tiny_model.h"

namespace assay::testing_support {

// Three layers of latent attention that sees two positions: two choose, the one between does not.
inline void become_glm_dsa(TinyModel& model) {
  become_latent(model, "glm-dsa", 3);
  model.ints["glm-dsa.attention.indexer.head_count"] = 3;
  model.ints["glm-dsa.attention.indexer.key_length"] = 4;
  model.ints["glm-dsa.attention.indexer.top_k"] = 2;
  for (const std::string layer : {"blk.0.", "blk.1.", "blk.2."}) {
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
