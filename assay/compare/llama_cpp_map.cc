#include <string_view>

#include "assay/compare/name_map.h"

// The map of llama.cpp's tensors, by the names that an evaluation callback sees (ggml_get_name), of
// each architecture that Assay runs. llama_cpp_test.py holds it to what llama.cpp computes.
//
// A name goes by several tensors of a layer: a projection has one before and after its bias, its
// split into heads and its rotation. And a checkpoint goes by several names: by another one where a
// file has a bias, experts, or a second norm. So `take` counts the records of all names that a
// checkpoint has, in the order in which llama.cpp computes them:
// - Where queries, keys and values are clipped, what goes by their names has been, but for the
//   first record of olmo. Those of dbrx are parts of one product, which has its own name. Files of
//   mpt may clip or not, so that q, k and v of one that does cannot be compared by these names.
// - Where llama.cpp loads no biases of Q and K they are counted from the front: it does not rotate
//   all layers of smollm3, cohere2 and exaone4. Where it may normalise heads under the same name
//   (stablelm, command-r), the second is both biased and split. phi3 and phimoe scale Q once more,
//   and llama4 that of layers without rotation, so that its rotated Q has no place of its own.
// - falcon computes the norm of the attention first, whether or not that is the only one.
// - Of deepseek2, Q and K are whole heads only where the layer has `kv`; without it they are
//   multiplied by parts of its matrix. A query of low rank has four records, another two. The
//   heads of deepseek32 that choose positions are mixed behind their rotation, under the same name;
//   the positions are those of all keys of a block, in the order of their scores.
// - A shared expert has the names of a feed-forward without experts, and follows the others. What
//   is called its output has been multiplied by its gate in qwen2moe alone.
// - A router's biased product is called its probabilities where its softmax comes later (gpt-oss).
// - gemma4 has the scale of each expert in the experts' results, not in their weights; mimo2 the
//   scale of what attention gives in the product of it.
// - gemma3n adds 1 to the coefficients of its correction, and has all residual streams in tensors
//   whose tokens are not the last axis; the last layer's output has no number.
// - lfm2 and lfm2moe give their norm before the feed-forward the name of the feed-forward, llama4
//   the attention's output that of the norm, where a layer has experts.
// phi2, phi3, gptneox, falcon, command-r, cohere2, cohere2moe, lfm2 and lfm2moe have no name for
// the sum after the attention.
namespace assay {
namespace {

constexpr std::string_view kLlamaCppMap = R"json({"groups": {
 "shared_experts": ["bailingmoe", "bailingmoe2", "granitemoe", "cohere2moe", "granitehybrid", "deepseek2", "deepseek32", "glm-dsa", "glm4moe", "dots1", "mistral4", "afmoe", "hy_v3", "hunyuan-moe", "exaone-moe", "ernie4_5-moe"],
 "qwen_experts": ["qwen2moe", "qwen35moe", "qwen3next"],
 "own_queries": ["afmoe", "bloom", "dbrx", "deepseek2", "deepseek32", "falcon-h1", "gemma3n", "gemma4", "glm-dsa", "gpt2", "hy_v3", "jais2", "lfm2", "lfm2moe", "llama4", "minicpm3", "mistral4", "mpt", "olmo", "starcoder"],
 "delta_rule": ["qwen35", "qwen35moe", "qwen3next"]},
"rules": [
{"regex": "(?:inp_)?embd", "to": "embedding", "arch": ["!afmoe", "!bloom", "!gpt2", "!starcoder", "!gemma", "!gemma2", "!gemma3", "!gemma3n", "!gemma4", "!minicpm3"]},
{"name": "inp_scaled", "to": "embedding", "arch": ["gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "minicpm3"]},
{"name": "inpL", "to": "embedding", "arch": ["gpt2", "starcoder"]},
{"name": "inp_norm-0", "to": "embedding", "arch": ["bloom"]},
{"name": "result_norm", "to": "final_norm"},
{"name": "result_output", "to": "logits"},

{"name": "attn_norm-{N}", "to": "layer_{N}_attn_norm", "arch": ["!falcon"]},
{"regex": "attn_norm(?:_2)?-([0-9]+)", "to": "layer_{N}_attn_norm", "take": 0, "arch": ["falcon"]},
{"regex": "attn_norm(?:_2)?-([0-9]+)", "to": "layer_{N}_ffn_norm", "take": 1, "optional": true, "arch": ["falcon"]},

{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": -2, "arch": ["!own_queries", "!delta_rule", "!phi3", "!stablelm", "!command-r", "!phimoe"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": -1, "arch": ["!own_queries", "!phi3", "!exaone4", "!exaone-moe", "!smollm3", "!granitehybrid", "!nemotron_h", "!nemotron_h_moe", "!mamba", "!jamba", "!cohere2", "!cohere2moe", "!granite_swa", "!apertus", "!phimoe"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": -2, "arch": ["!own_queries", "!hunyuan-moe", "!stablelm", "!command-r"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k_rope", "take": -1, "arch": ["!own_queries", "!hunyuan-moe", "!exaone4", "!exaone-moe", "!smollm3", "!granitehybrid", "!nemotron_h", "!nemotron_h_moe", "!mamba", "!jamba", "!cohere2", "!cohere2moe", "!granite_swa", "!apertus"]},
{"name": "Vcur-{N}", "to": "layer_{N}_v", "take": -1, "arch": ["!deepseek2", "!deepseek32", "!dbrx", "!glm-dsa", "!mistral4", "!minicpm3", "!gemma4", "!olmo"]},
{"name": "Qcur_normed-{N}", "to": "layer_{N}_q_norm", "arch": ["!exaone4", "!exaone-moe", "!llama4"]},
{"name": "Kcur_normed-{N}", "to": "layer_{N}_k_norm", "arch": ["!exaone4", "!exaone-moe", "!llama4"]},
{"name": "Qcur_pos-{N}", "to": "layer_{N}_q_rope", "arch": ["apertus", "gemma3n", "gemma4"]},
{"name": "Kcur_pos-{N}", "to": "layer_{N}_k_rope", "arch": ["apertus", "gemma3n", "gemma4"]},
{"name": "Qcur_norm-{N}", "to": "layer_{N}_q_rope_norm", "arch": ["hunyuan-dense", "hunyuan-moe"]},
{"name": "Kcur_norm-{N}", "to": "layer_{N}_k_rope_norm", "arch": ["hunyuan-dense", "hunyuan-moe"]},
{"name": "Qcur_normed-{N}", "to": "layer_{N}_q_rope_norm", "arch": ["llama4"]},
{"name": "Kcur_normed-{N}", "to": "layer_{N}_k_rope_norm", "arch": ["llama4"]},

{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": -1, "arch": ["gpt2", "starcoder", "gemma3n", "gemma4", "lfm2", "lfm2moe", "mpt", "bloom", "afmoe", "hy_v3", "jais2"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": -1, "arch": ["hunyuan-moe", "gpt2", "starcoder", "gemma3n", "lfm2", "lfm2moe", "mpt", "bloom", "afmoe", "hy_v3", "jais2"]},
{"regex": "[KV]cur-([0-9]+)", "to": "layer_{N}_k", "take": 0, "arch": ["gemma4"]},
{"regex": "[KV]cur-([0-9]+)", "to": "layer_{N}_v", "take": 1, "optional": true, "arch": ["gemma4"]},
{"name": "Vcur_normed-{N}", "to": "layer_{N}_v_norm", "arch": ["gemma3n", "gemma4"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": 0, "arch": ["phi3"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": 1, "arch": ["phi3"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": 2, "arch": ["phimoe"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": 3, "arch": ["phimoe"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": 2, "optional": true, "arch": ["smollm3", "cohere2", "cohere2moe", "granite_swa", "granitehybrid"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k_rope", "take": 2, "optional": true, "arch": ["smollm3", "cohere2", "cohere2moe", "granite_swa", "granitehybrid", "llama4"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": 1, "arch": ["stablelm", "command-r", "llama4"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": 1, "arch": ["stablelm", "command-r", "llama4"]},
{"regex": "Qcur(?:_normed)?-([0-9]+)", "to": "layer_{N}_q_norm", "take": 2, "arch": ["exaone4", "exaone-moe"]},
{"regex": "Kcur(?:_normed)?-([0-9]+)", "to": "layer_{N}_k_norm", "take": 2, "arch": ["exaone4", "exaone-moe"]},
{"regex": "Qcur(?:_normed)?-([0-9]+)", "to": "layer_{N}_q_rope", "take": 3, "optional": true, "arch": ["exaone4", "exaone-moe"]},
{"regex": "Kcur(?:_normed)?-([0-9]+)", "to": "layer_{N}_k_rope", "take": 3, "optional": true, "arch": ["exaone4", "exaone-moe"]},

{"name": "wqkv-{N}", "to": "layer_{N}_q", "part": "q", "arch": ["dbrx"]},
{"name": "wqkv-{N}", "to": "layer_{N}_k", "part": "k", "arch": ["dbrx"]},
{"name": "wqkv-{N}", "to": "layer_{N}_v", "part": "v", "arch": ["dbrx"]},
{"name": "wqkv_clamped-{N}", "to": "layer_{N}_q_clip", "part": "q", "arch": ["dbrx"]},
{"name": "wqkv_clamped-{N}", "to": "layer_{N}_k_clip", "part": "k", "arch": ["dbrx"]},
{"name": "wqkv_clamped-{N}", "to": "layer_{N}_v_clip", "part": "v", "arch": ["dbrx"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q_rope", "take": -1, "arch": ["dbrx", "olmo"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k_rope", "take": -1, "arch": ["dbrx", "olmo"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": 0, "arch": ["olmo"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": 0, "arch": ["olmo"]},
{"name": "Vcur-{N}", "to": "layer_{N}_v", "take": 0, "arch": ["olmo"]},
{"name": "Qcur_clamped-{N}", "to": "layer_{N}_q_clip", "arch": ["olmo"]},
{"name": "Kcur_clamped-{N}", "to": "layer_{N}_k_clip", "arch": ["olmo"]},
{"name": "Vcur_clamped-{N}", "to": "layer_{N}_v_clip", "arch": ["olmo"]},
{"name": "attn_out_norm-{N}", "to": "layer_{N}_ffn_norm", "arch": ["dbrx"]},

{"name": "model.embed_tokens", "to": "embedding", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.operator_norm-([0-9]+)", "to": "layer_{N}_attn_norm", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.self_attn\\.q_layernorm-([0-9]+)", "to": "layer_{N}_q_norm", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.self_attn\\.k_layernorm-([0-9]+)", "to": "layer_{N}_k_norm", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.conv\\.in_proj-([0-9]+)", "to": "layer_{N}_conv_b", "part": "1/3", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.conv\\.in_proj-([0-9]+)", "to": "layer_{N}_conv_c", "part": "2/3", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.conv\\.in_proj-([0-9]+)", "to": "layer_{N}_conv_x", "part": "3/3", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.conv\\.conv-([0-9]+)", "to": null, "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.(?:self_attn|conv)\\.out_proj-([0-9]+)", "to": "layer_{N}_attn_out", "arch": ["lfm2", "lfm2moe"]},
{"regex": "model\\.layers\\.\\{\\}\\.ffn_out-([0-9]+)", "to": "layer_{N}_ffn_norm", "arch": ["lfm2", "lfm2moe"]},

{"name": "inp_embd_scaled", "to": "embedding", "arch": ["afmoe"]},
{"name": "attn_gate_proj-{N}", "to": "layer_{N}_attn_gate", "arch": ["afmoe"]},
{"name": "Qcur_rope-{N}", "to": "layer_{N}_q_rope", "arch": ["afmoe", "jais2"]},
{"name": "Kcur_rope-{N}", "to": "layer_{N}_k_rope", "arch": ["afmoe", "jais2"]},
{"name": "attn_out-{N}", "to": "layer_{N}_attn", "arch": ["afmoe"]},
{"name": "attn_gate_sig-{N}", "to": null, "arch": ["afmoe"]},
{"name": "attn_o_proj-{N}", "to": "layer_{N}_attn_out", "arch": ["afmoe"]},
{"name": "ffn_dense_out-{N}", "to": "layer_{N}_ffn_out", "take": -1, "arch": ["hy_v3"]},
{"name": "ffn_shared_out-{N}", "to": "layer_{N}_shared_out", "arch": ["hy_v3"]},

{"name": "model.input_embed", "to": "embedding", "arch": ["qwen35", "qwen35moe"]},
{"name": "model.embed_tokens", "to": "embedding", "arch": ["qwen3next"]},
{"name": "linear_attn_qkv_mixed-{N}", "to": "layer_{N}_linear_qkv", "arch": ["delta_rule"]},
{"name": "z-{N}", "to": "layer_{N}_linear_z", "arch": ["delta_rule"]},
{"name": "alpha-{N}", "to": "layer_{N}_linear_a", "arch": ["qwen35", "qwen35moe"]},
{"name": "beta-{N}", "to": "layer_{N}_linear_b", "arch": ["qwen35", "qwen35moe"]},
{"name": "linear_attn_mixed_ba-{N}", "to": "layer_{N}_linear_ba", "arch": ["qwen3next"]},
{"name": "a-{N}", "to": "layer_{N}_linear_a", "arch": ["qwen3next"]},
{"name": "b-{N}", "to": "layer_{N}_linear_b", "arch": ["qwen3next"]},
{"name": "conv_output_silu-{N}", "to": "layer_{N}_linear_conv", "arch": ["delta_rule"]},
{"regex": "(?:a_softplus|attn_output)-([0-9]+)", "to": "layer_{N}_delta", "take": 1, "optional": true, "arch": ["delta_rule"]},
{"name": "final_output-{N}", "to": "layer_{N}_delta_norm", "arch": ["delta_rule"]},
{"regex": "(?:attn_output|linear_attn_out)-([0-9]+)", "to": "layer_{N}_attn_out", "take": -1, "arch": ["delta_rule"]},
{"name": "Qcur_full-{N}", "to": "layer_{N}_q_and_gate", "arch": ["delta_rule"]},
{"name": "Qcur_reshaped-{N}", "to": "layer_{N}_q", "arch": ["qwen35", "qwen35moe"]},
{"name": "Qcur_view-{N}", "to": "layer_{N}_q", "arch": ["qwen3next"]},
{"name": "gate_reshaped-{N}", "to": "layer_{N}_attn_gate", "arch": ["qwen35", "qwen35moe"]},
{"regex": "(?:Qcur_view|gate)-([0-9]+)", "to": "layer_{N}_attn_gate", "take": 1, "optional": true, "arch": ["qwen3next"]},
{"name": "attn_pregate-{N}", "to": "layer_{N}_attn", "arch": ["delta_rule"]},
{"name": "attn_gated-{N}", "to": "layer_{N}_gated_attn", "arch": ["delta_rule", "afmoe"]},
{"name": "attn_residual-{N}", "to": "layer_{N}_attn_residual", "arch": ["delta_rule"]},
{"name": "attn_post_norm-{N}", "to": "layer_{N}_ffn_norm", "arch": ["delta_rule"]},

{"name": "mamba2_y_add_d-{N}", "to": "layer_{N}_ssm", "arch": ["granitehybrid", "nemotron_h", "nemotron_h_moe", "mamba2", "falcon-h1"]},
{"name": "mamba_out-{N}", "to": "layer_{N}_attn_out", "arch": ["granitehybrid", "nemotron_h", "nemotron_h_moe", "mamba2"]},
{"name": "nemotron_h_block_out-{N}", "to": "layer_{N}_output", "arch": ["nemotron_h", "nemotron_h_moe"]},
{"name": "l_out-{N}", "to": "layer_{N}_ffn_out", "arch": ["nemotron_h", "nemotron_h_moe"]},
{"name": "Qcur-{N}", "to": "layer_{N}_q", "take": -1, "arch": ["falcon-h1"]},
{"name": "Kcur-{N}", "to": "layer_{N}_k", "take": -1, "arch": ["falcon-h1"]},
{"name": "Qcur-post-rope-{N}", "to": "layer_{N}_q_rope", "arch": ["falcon-h1"]},
{"name": "Kcur-post-rope-{N}", "to": "layer_{N}_k_rope", "arch": ["falcon-h1"]},
{"name": "ssm_out-{N}", "to": "layer_{N}_ssm_out", "arch": ["falcon-h1"]},
{"name": "layer_out-{N}", "to": "layer_{N}_mixer_out", "arch": ["falcon-h1"]},
{"regex": "(Vcur-post-rope|ssm_in)-([0-9]+)", "to": null, "arch": ["falcon-h1"]},
{"name": "ffn_moe_up-{N}", "to": "layer_{N}_ffn_up", "arch": ["nemotron_h_moe"]},
{"name": "ffn_moe_relu_sqr-{N}", "to": "layer_{N}_ffn_act", "arch": ["nemotron_h_moe"]},
{"name": "ffn_moe_out-{N}", "to": "layer_{N}_routed_out", "arch": ["nemotron_h_moe"]},
{"name": "ffn_up-{N}", "to": "layer_{N}_shared_up", "arch": ["nemotron_h_moe"]},
{"name": "ffn_sqr(relu)-{N}", "to": "layer_{N}_shared_act", "arch": ["nemotron_h_moe"]},
{"name": "ffn_shexp-{N}", "to": "layer_{N}_shared_out", "arch": ["nemotron_h_moe"]},

{"name": "q-{N}", "to": "layer_{N}_q_a", "take": -4, "optional": true, "arch": ["deepseek2", "mistral4", "minicpm3"]},
{"name": "q-{N}", "to": "layer_{N}_q_a_norm", "take": -3, "optional": true, "arch": ["deepseek2", "mistral4", "minicpm3"]},
{"name": "q-{N}", "to": "layer_{N}_q", "take": -1, "arch": ["deepseek2", "deepseek32", "glm-dsa", "mistral4", "minicpm3"]},
{"name": "kv_cmpr_pe-{N}", "to": "layer_{N}_kv_a", "arch": ["deepseek2", "deepseek32", "glm-dsa", "mistral4"]},
{"name": "kv_cmpr-{N}", "to": "layer_{N}_kv_a_norm", "take": -1, "arch": ["deepseek2", "deepseek32", "glm-dsa", "mistral4"]},
{"name": "qr-{N}", "to": "layer_{N}_q_a", "take": 0, "arch": ["deepseek32", "glm-dsa"]},
{"name": "qr-{N}", "to": "layer_{N}_q_a_norm", "take": -1, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_q-{N}", "to": "layer_{N}_index_q", "take": 0, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_q-{N}", "to": "layer_{N}_index_q_rope", "take": 1, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_k-{N}", "to": "layer_{N}_index_k", "take": 0, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_k-{N}", "to": "layer_{N}_index_k_norm", "take": 1, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_k-{N}", "to": "layer_{N}_index_k_rope", "take": 2, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"name": "indexer_weights-{N}", "to": "layer_{N}_index_weights", "take": 0, "optional": true, "arch": ["deepseek32", "glm-dsa"]},
{"regex": "(indexer_score|top_k)-([0-9]+)", "to": null, "arch": ["deepseek32", "glm-dsa"]},
{"name": "kv-{N}", "to": "layer_{N}_kv_b", "arch": ["deepseek2", "mistral4", "minicpm3"]},
{"name": "Vcur_cont-{N}", "to": "layer_{N}_v", "arch": ["deepseek2", "mistral4"]},
{"regex": "(?:Qcur|kv)-([0-9]+)", "to": "layer_{N}_q_rope", "take": -2, "optional": true, "arch": ["deepseek2", "mistral4"]},
{"regex": "(?:kv|Kcur)-([0-9]+)", "to": "layer_{N}_k_rope", "take": 1, "optional": true, "arch": ["deepseek2", "mistral4"]},
{"name": "q_states-{N}", "to": "layer_{N}_q_rope", "arch": ["minicpm3"]},
{"name": "kv_pe_compresseed-{N}", "to": "layer_{N}_kv_a", "arch": ["minicpm3"]},
{"name": "kv_compressed-{N}", "to": "layer_{N}_kv_a_norm", "take": -1, "arch": ["minicpm3"]},
{"name": "v_states-{N}", "to": "layer_{N}_v", "take": -1, "arch": ["minicpm3"]},
{"name": "k_states-{N}", "to": "layer_{N}_k_rope", "arch": ["minicpm3"]},
{"regex": "(k_nope|k_pe|hidden_scaled|hidden_scaled_ffn|lmhead_scaling)(-[0-9]+)?", "to": null, "arch": ["minicpm3"]},

{"name": "kqv_out-{N}", "to": "layer_{N}_attn", "take": -1, "arch": ["!delta_rule", "!afmoe", "!mimo2"]},
{"name": "attn_out-{N}", "to": "layer_{N}_attn_out", "arch": ["!delta_rule", "!afmoe", "!mimo2", "!gemma4"]},
{"name": "attn_out-{N}", "to": "layer_{N}_attn_residual", "arch": ["gemma4"]},
{"regex": "attn_out(?:_scaled)?-([0-9]+)", "to": "layer_{N}_attn_out", "take": -1, "arch": ["mimo2"]},
{"name": "kqv_out-{N}", "to": null, "arch": ["mimo2"]},
{"name": "attn_post_norm-{N}", "to": "layer_{N}_post_attn_norm", "arch": ["!delta_rule", "!gpt-oss", "!seed_oss"]},
{"name": "post_attn_norm-{N}", "to": "layer_{N}_post_attn_norm", "arch": ["glm4"]},
{"name": "attn_post_norm-{N}", "to": "layer_{N}_ffn_norm", "arch": ["gpt-oss", "seed_oss"]},
{"name": "post_attn_norm-{N}", "to": "layer_{N}_ffn_norm", "arch": ["glm4moe"]},
{"regex": "(?:ffn_inp|sa_out)-([0-9]+)", "to": "layer_{N}_attn_residual", "arch": ["!jamba"]},
{"name": "ffn_inp-{N}", "to": "layer_{N}_attn_out", "arch": ["jamba"]},
{"name": "ffn_norm-{N}", "to": "layer_{N}_ffn_norm", "arch": ["!falcon", "!llama4"]},
{"name": "ffn_norm-{N}", "to": null, "arch": ["llama4"]},
{"name": "ffn_norm_1-{N}", "to": "layer_{N}_ffn_norm", "arch": ["gemma4"]},
{"name": "ffn_norm_2-{N}", "to": "layer_{N}_expert_norm", "arch": ["gemma4"]},

{"regex": "ffn_moe_logits(?:_biased)?-([0-9]+)", "to": "layer_{N}_router", "take": -1, "arch": ["!gpt-oss"]},
{"name": "ffn_moe_probs-{N}", "to": "layer_{N}_router", "arch": ["gpt-oss"]},
{"name": "ffn_moe_topk-{N}", "to": "layer_{N}_experts"},
{"regex": "ffn_moe_weights(?:_softmax|_norm|_scaled)?-([0-9]+)", "to": "layer_{N}_expert_weights", "take": -1, "arch": ["!gemma4"]},
{"regex": "ffn_(?:moe_)?gate(?:_b|_biased)?-([0-9]+)", "to": "layer_{N}_ffn_gate", "take": -1, "arch": ["!shared_experts", "!qwen_experts", "!granite_swa", "!gemma4", "!llama4"]},
{"regex": "ffn_(?:moe_)?up(?:_b|_biased)?-([0-9]+)", "to": "layer_{N}_ffn_up", "take": -1, "arch": ["!shared_experts", "!qwen_experts", "!nemotron_h_moe", "!phi3", "!chatglm", "!glm4", "!granite_swa", "!gemma4", "!llama4"]},
{"name": "ffn_up-{N}", "to": "layer_{N}_ffn_gate", "take": -1, "part": "1/2", "arch": ["phi3", "chatglm", "glm4"]},
{"name": "ffn_up-{N}", "to": "layer_{N}_ffn_up", "take": -1, "part": "2/2", "arch": ["phi3", "chatglm", "glm4"]},
{"regex": "ffn_(?:moe_)?(?:swiglu|swiglu_oai|geglu|gelu|xielu|sqr\\(relu\\)|gate_par)-([0-9]+)", "to": "layer_{N}_ffn_act", "take": -1, "arch": ["!shared_experts", "!qwen_experts", "!nemotron_h_moe", "!granite_swa", "!gemma4", "!llama4"]},
{"name": "attn_sub_norm-{N}", "to": "layer_{N}_attn_sub_norm", "arch": ["bitnet"]},
{"name": "ffn_sub_norm-{N}", "to": "layer_{N}_ffn_sub_norm", "arch": ["bitnet"]},
{"name": "ffn_sub_out-{N}", "to": null, "arch": ["bitnet"]},
{"regex": "ffn_moe_down(?:_biased)?-([0-9]+)", "to": "layer_{N}_expert_out", "take": -1, "arch": ["!gemma4"]},
{"regex": "ffn_(?:moe_)?geglu-([0-9]+)", "to": "layer_{N}_ffn_act", "take": 0, "arch": ["gemma4"]},
{"regex": "ffn_(?:moe_)?geglu-([0-9]+)", "to": "layer_{N}_shared_act", "take": 1, "optional": true, "arch": ["gemma4"]},
{"name": "ffn_mlp-{N}", "to": "layer_{N}_shared_norm", "arch": ["gemma4"]},
{"name": "ffn_mlp-{N}", "to": "layer_{N}_shared_out", "arch": ["hunyuan-moe"]},
{"name": "ffn_moe_out-{N}", "to": "layer_{N}_routed_out", "arch": ["gemma4"]},
{"name": "ffn_moe-{N}", "to": "layer_{N}_routed_norm", "arch": ["gemma4"]},
{"regex": "(?:ffn_out|ffn_moe_combined)-([0-9]+)", "to": "layer_{N}_ffn_out", "take": -1, "arch": ["gemma4"]},
{"regex": "ffn_moe_(?:weights.*|down.*|gate_up)-([0-9]+)", "to": null, "arch": ["gemma4"]},
{"regex": "ffn_(?:moe_)?out-([0-9]+)", "to": "layer_{N}_ffn_out", "take": 0, "arch": ["!shared_experts", "!qwen_experts", "!nemotron", "!nemotron_h", "!nemotron_h_moe", "!apertus", "!gemma4", "!granite_swa", "!llama4"]},
{"name": "ffn_down-{N}", "to": "layer_{N}_ffn_out", "arch": ["apertus", "bitnet"]},

{"name": "ffn_moe_weighted-{N}", "to": "layer_{N}_expert_in", "arch": ["llama4"]},
{"name": "ffn_moe_out-{N}", "to": "layer_{N}_routed_out", "arch": ["llama4"]},
{"name": "ffn_moe_shexp-{N}", "to": "layer_{N}_shared_out", "arch": ["llama4"]},
{"regex": "ffn_(?:out|moe_out_merged)-([0-9]+)", "to": "layer_{N}_ffn_out", "take": -1, "arch": ["llama4"]},

{"regex": "ffn_(?:moe_)?gate-([0-9]+)", "to": "layer_{N}_ffn_gate", "take": 0, "arch": ["shared_experts", "qwen_experts", "granite_swa", "gemma4", "llama4"]},
{"regex": "ffn_(?:moe_)?up-([0-9]+)", "to": "layer_{N}_ffn_up", "take": 0, "arch": ["shared_experts", "qwen_experts", "granite_swa", "gemma4", "llama4"]},
{"regex": "ffn_(?:moe_)?swiglu-([0-9]+)", "to": "layer_{N}_ffn_act", "take": 0, "arch": ["shared_experts", "qwen_experts", "granite_swa", "llama4"]},
{"regex": "ffn_(?:moe_)?out-([0-9]+)", "to": "layer_{N}_routed_out", "take": -2, "optional": true, "arch": ["shared_experts", "qwen_experts", "granite_swa"]},
{"regex": "ffn_(?:moe_)?gate-([0-9]+)", "to": "layer_{N}_shared_gate", "take": 1, "optional": true, "arch": ["shared_experts", "qwen_experts", "gemma4", "llama4"]},
{"regex": "ffn_(?:moe_)?up-([0-9]+)", "to": "layer_{N}_shared_up", "take": 1, "optional": true, "arch": ["shared_experts", "qwen_experts", "gemma4", "llama4"]},
{"regex": "ffn_(?:moe_)?up-([0-9]+)", "to": "layer_{N}_shared_gate", "take": 1, "part": "1/2", "optional": true, "arch": ["granite_swa"]},
{"regex": "ffn_(?:moe_)?up-([0-9]+)", "to": "layer_{N}_shared_up", "take": 1, "part": "2/2", "optional": true, "arch": ["granite_swa"]},
{"regex": "ffn_(?:moe_)?swiglu-([0-9]+)", "to": "layer_{N}_shared_act", "take": 1, "optional": true, "arch": ["shared_experts", "qwen_experts", "granite_swa", "llama4"]},
{"regex": "ffn_shexp(?:_out)?-([0-9]+)", "to": "layer_{N}_shared_out", "arch": ["shared_experts", "granite_swa"]},
{"name": "ffn_shexp-{N}", "to": "layer_{N}_shared_out", "arch": ["qwen_experts"]},
{"name": "ffn_shexp_gate_inp-{N}", "to": "layer_{N}_shared_score", "arch": ["qwen2moe"]},
{"name": "ffn_shexp_gate-{N}", "to": "layer_{N}_shared_weight", "arch": ["qwen2moe"]},
{"name": "ffn_shexp_out-{N}", "to": "layer_{N}_shared_scaled", "arch": ["qwen2moe"]},
{"name": "shared_expert_gate-{N}", "to": "layer_{N}_shared_score", "arch": ["qwen35moe", "qwen3next"]},
{"name": "shared_expert_gate_sigmoid-{N}", "to": "layer_{N}_shared_weight", "arch": ["qwen35moe", "qwen3next"]},
{"name": "ffn_shexp_gated-{N}", "to": "layer_{N}_shared_scaled", "arch": ["qwen35moe", "qwen3next"]},
{"regex": "ffn_(?:moe_)?out-([0-9]+)", "to": "layer_{N}_ffn_out", "take": -1, "arch": ["shared_experts", "qwen_experts", "granite_swa"]},

{"regex": "(?:ffn_post_norm|post_mlp_norm)-([0-9]+)", "to": "layer_{N}_post_ffn_norm"},
{"name": "pe_in-{N}", "to": "layer_{N}_ffn_residual", "arch": ["gemma4"]},
{"name": "per_layer_embd_out-{N}", "to": "layer_{N}_ple_norm", "arch": ["gemma4"]},
{"name": "per_layer_proj", "to": null, "arch": ["gemma3n", "gemma4"]},
{"name": "modalities-{N}", "to": "layer_{N}_altup_modes", "take": 0, "arch": ["gemma3n"]},
{"name": "modalities-{N}", "to": "layer_{N}_correct_modes", "take": -1, "arch": ["gemma3n"]},
{"name": "all_coefs-{N}", "to": "layer_{N}_altup_coefs", "take": 0, "arch": ["gemma3n"]},
{"name": "active_prediction-{N}", "to": "layer_{N}_active", "arch": ["gemma3n"]},
{"name": "laurel_out-{N}", "to": "layer_{N}_laurel_out", "arch": ["gemma3n"]},
{"name": "attn_gated-{N}", "to": "layer_{N}_attn_residual", "arch": ["gemma3n"]},
{"name": "attn_laurel-{N}", "to": "layer_{N}_attn_laurel", "arch": ["gemma3n"]},
{"name": "attn_ffw_laurel_gated-{N}", "to": "layer_{N}_ffn_residual", "arch": ["gemma3n"]},
{"name": "first_prediction_scaled-{N}", "to": "layer_{N}_ple_act", "arch": ["gemma3n"]},
{"name": "first_prediction_out-{N}", "to": "layer_{N}_ple_norm", "arch": ["gemma3n"]},
{"regex": "(predictions|innovation|corrected|first_prediction_gated|l_out|altup_unembd|unembd_merged)(-[0-9]+)?", "to": null, "arch": ["gemma3n"]},
{"name": "l_out-{N}", "to": "layer_{N}_output", "arch": ["!nemotron_h", "!nemotron_h_moe", "!gemma3n"]},

{"regex": "(?s:.*) \\((view|reshaped|permuted|cont|transposed|copy of .*)\\)", "to": null},
{"regex": "(conv_output_raw|[qkv]_conv(_predelta)?|a_softplus|gate|gate_sigmoid|beta_sigmoid|state_predelta)(-[0-9]+)?", "to": null, "arch": ["delta_rule"]},
{"regex": "(norm|norm_w|kq|kq_.*|kqv|kqv_m.*|wqkv|wqkv_b|wqkv_clamped|bqkv|[QKV]cur.*|q_nope.*|[qk]_pe|k_nope_view|kv_cmpr_reshape)(-[0-9]+)?", "to": null},
{"regex": "ffn_(up|up_b|down|silu|gelu|relu|out|post_norm)(-[0-9]+)?", "to": null},
{"regex": "ffn_moe_(logits|probs.*|argsort|group_topk|weights_sum.*|weighted)(-[0-9]+)?", "to": null},
{"regex": "(embd|pos_embd|inpL|inp_.*|result_output_no_bias|h_nextn|cache_[kv]_l[0-9]+.*|node_[0-9]+|leaf_[0-9]+)", "to": null}
]})json";

}  // namespace

std::string_view llama_cpp_map() {
  return kLlamaCppMap;
}

}  // namespace assay
