// The ready maps. Names of llama.cpp are those that an evaluation callback sees (ggml_get_name), of
// transformers those of the modules whose outputs are hooked. The former were read off a running
// llama.cpp, the latter are held to named_modules() of transformers 5.23 for each architecture.
// Rows and parts of the latter were held to its running modules too, over the weights of the small
// goldens (llama with 2 and with 1 head of keys, qwen2, phi3, gpt2): 138 records of each are those
// of assay run within 5.2e-7.
#include <string>
#include <vector>

#include "assay/compare/name_map.h"

namespace assay {
namespace {

// A rotated projection goes by one name before and after its rotation, and after each step before
// it (product, bias, reshape): the last is rotated, the one before it is not. phi3 scales the
// rotated Q once more; gpt2 does not rotate.
constexpr std::string_view kLlamaCpp = R"json({"rules": [
{"name": "embd", "to": "embedding", "arch": ["!gpt2"]},
{"name": "inp_embd", "to": "embedding", "arch": ["!gpt2"]},
{"name": "inpL", "to": "embedding", "arch": ["gpt2"]},
{"name": "attn_norm-{N}", "to": "layer_{N}_attn_norm"},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": -2, "arch": ["!phi3", "!gpt2"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": -1, "arch": ["!phi3", "!gpt2"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": 0, "arch": ["phi3"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": 1, "arch": ["phi3"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": -1, "arch": ["gpt2"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": -2, "arch": ["!gpt2"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k_rope", "take": -1, "arch": ["!gpt2"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": -1, "arch": ["gpt2"]},
{"name": "Vcur-{N}", "to": "layer_{N}_v", "take": -1},
{"name": "kqv_out-{N}", "to": "layer_{N}_attn", "take": -1},
{"name": "attn_out-{N}", "to": "layer_{N}_attn_out"},
{"name": "ffn_inp-{N}", "to": "layer_{N}_attn_residual"},
{"name": "ffn_norm-{N}", "to": "layer_{N}_ffn_norm"},
{"name": "ffn_gate-{N}", "to": "layer_{N}_ffn_gate"},
{"name": "ffn_up-{N}", "to": "layer_{N}_ffn_up", "take": -1, "arch": ["!phi3", "!gpt2"]},
{"name": "ffn_up-{N}", "to": "layer_{N}_ffn_gate", "take": -1, "part": "1/2", "arch": ["phi3"]},
{"name": "ffn_up-{N}", "to": "layer_{N}_ffn_up", "take": -1, "part": "2/2", "arch": ["phi3"]},
{"name": "ffn_up_b-{N}", "to": "layer_{N}_ffn_up", "arch": ["gpt2"]},
{"name": "ffn_swiglu-{N}", "to": "layer_{N}_ffn_act"},
{"name": "ffn_gate_par-{N}", "to": "layer_{N}_ffn_act"},
{"name": "ffn_gelu-{N}", "to": "layer_{N}_ffn_act", "arch": ["gpt2"]},
{"name": "ffn_out-{N}", "to": "layer_{N}_ffn_out", "take": -1},
{"name": "l_out-{N}", "to": "layer_{N}_output"},
{"name": "result_norm", "to": "final_norm"},
{"name": "result_output", "to": "logits"},
{"regex": "(?s:.*) \\((view|reshaped|permuted|cont|transposed|copy of .*)\\)", "to": null},
{"regex": "(norm|norm_w|kq|kq_scaled|kq_soft_max|kq_soft_max_ext|kqv|kqv_merged|wqkv|wqkv_b|bqkv|ffn_up|ffn_up_b|ffn_down|ffn_silu|ffn_gelu|ffn_out)(-[0-9]+)?", "to": null},
{"regex": "(embd|pos_embd|inpL|inp_.*|cache_[kv]_l[0-9]+.*|node_[0-9]+|leaf_[0-9]+)", "to": null}
]})json";

// The published logs name the checkpoints as Assay does, and one more.
constexpr std::string_view kPublished = R"json({"rules": [
{"name": "logits", "to": "logits"},
{"name": "embedding", "to": "embedding"},
{"name": "layer_{N}_output", "to": "layer_{N}_output"},
{"name": "layer_{N}_q", "to": "layer_{N}_q"},
{"name": "layer_{N}_k", "to": "layer_{N}_k"},
{"name": "layer_{N}_v", "to": "layer_{N}_v"},
{"name": "layer_{N}_attn_scores", "to": null}
]})json";

}  // namespace

const std::vector<ReadyMap>& ready_maps() {
  static const std::string transformers = transformers_map();
  static const std::vector<ReadyMap> maps = {
      {"llama.cpp", kLlamaCpp}, {"transformers", transformers, true}, {"published", kPublished}};
  return maps;
}

}  // namespace assay
