"""Small models of transformers, for tests of the taps."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden"))

try:
    import torch
    import transformers

    from generate.causal_lm import AutoModelForCausalLM
except ImportError:
    torch = None

TINY = dict(vocab_size=50, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, head_dim=8)
TINY |= dict(num_key_value_heads=2, pad_token_id=None, bos_token_id=None, eos_token_id=None)
OWN_NAMES = dict.fromkeys(("gpt2", "gpt_bigcode"), dict(n_inner=48, n_positions=64))
ROUTED_LATENT = ("axk1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4")
LATENT = ("youtu", "minicpm3", *ROUTED_LATENT)
INDEXED = ("deepseek_v32", "glm_moe_dsa")  # latent, too
ROUTED = ("glm4_moe", "glm4v_moe_text", "dots1", "solar_open", *ROUTED_LATENT, *INDEXED)
EXPERTS = ("mixtral", "qwen3_moe", "olmoe", "granitemoe", "gpt_oss", "minimax_m2", "ernie4_5_moe", "qwen2_moe")
EXPERTS += ("qwen3_vl_moe_text", "flex_olmo", "mimo_v2_flash", "cohere2_moe", "granitemoeshared", "granitemoe_swa")
EXPERTS += ("mellum", "afmoe", "hy_v3", "lfm2_moe", "qwen3_5_moe_text", "qwen3_next", "granitemoehybrid", *ROUTED)
OWN_NAMES |= {kind: dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2) for kind in EXPERTS}
SIZES = dict(n_routed_experts=4, n_group=1, topk_group=1, first_k_dense_replace=0, moe_intermediate_size=16)
OWN_NAMES |= {kind: SIZES | dict(num_experts_per_tok=2, n_shared_experts=1) for kind in ROUTED}
OWN_NAMES["ernie4_5_moe"] = dict(moe_num_experts=4, moe_k=2, moe_num_shared_experts=1, moe_layer_start_index=0)
OWN_NAMES["ernie4_5_moe"] |= dict(moe_intermediate_size=16)
OWN_NAMES["lfm2_moe"] |= dict(moe_intermediate_size=16, num_dense_layers=0, layer_types=["conv", "conv"])
OWN_NAMES["glm4_moe_lite"] |= dict(mlp_layer_types=["sparse"] * 2)
OWN_NAMES["afmoe"] |= dict(moe_intermediate_size=16, num_shared_experts=1, num_dense_layers=0, mup_enabled=True)
OWN_NAMES["afmoe"] |= dict(attn_implementation="eager")  # whose result no module gives, nor reads
OWN_NAMES["hy_v3"] |= dict(moe_intermediate_size=16, num_shared_experts=1, mlp_layer_types=["sparse"] * 2)
OWN_NAMES["mimo_v2_flash"] = dict(n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, v_head_dim=6)
OWN_NAMES["mimo_v2_flash"] |= dict(mlp_layer_types=["sparse"] * 2, layer_types=["full_attention", "sliding_attention"])
OWN_NAMES["cohere2_moe"] |= dict(num_shared_experts=1, expert_selection_fn="sigmoid")
OWN_NAMES["granitemoeshared"] |= dict(shared_intermediate_size=24)
OWN_NAMES["granitemoe_swa"] |= dict(shared_intermediate_size=24)
OWN_NAMES["mellum"] |= dict(moe_intermediate_size=16)
PLAIN_ROTATION = dict(rope_type="yarn", rope_theta=10000.0, factor=1.0, llama_4_scaling_beta=0.0)
OWN_NAMES["mistral4"] |= dict(rope_parameters=PLAIN_ROTATION | dict(original_max_position_embeddings=64))
OWN_NAMES["qwen2_moe"] |= dict(moe_intermediate_size=16, shared_expert_intermediate_size=24)
OWN_NAMES["qwen3_5_text"] = dict(linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=8)
OWN_NAMES["qwen3_5_text"] |= dict(linear_value_head_dim=6, layer_types=["linear_attention"] * 2)
OWN_NAMES["qwen3_5_moe_text"] |= OWN_NAMES["qwen2_moe"] | OWN_NAMES["qwen3_5_text"]
OWN_NAMES["gemma3n_text"] = dict(hidden_size_per_layer_input=6, vocab_size_per_layer_input=50, laurel_rank=4)
OWN_NAMES["gemma3n_text"] |= dict(num_kv_shared_layers=0, altup_num_inputs=3, activation_sparsity_pattern=[0.9, 0.9])
OWN_NAMES["gemma3n_text"] |= dict(layer_types=["sliding_attention", "full_attention"])
OWN_NAMES["gemma4_text"] = dict(global_head_dim=16, hidden_size_per_layer_input=0)
OWN_NAMES["gemma4_text"] |= dict(layer_types=["sliding_attention", "full_attention"])
OWN_NAMES["qwen3_next"] = OWN_NAMES["qwen3_5_moe_text"]
OWN_NAMES["granitemoehybrid"] |= dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2)
OWN_NAMES["granitemoehybrid"] |= dict(layer_types=["linear_attention"] * 2, shared_intermediate_size=24, mamba_chunk_size=4)
OWN_NAMES["bamba"] = dict(mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2, mamba_chunk_size=4)
OWN_NAMES["nemotron_h"] = dict(mamba_num_heads=4, mamba_head_dim=16, ssm_state_size=8, n_groups=2, chunk_size=4)
OWN_NAMES["nemotron_h"] |= dict(layers_block_type=["linear_attention"] * 2)
OWN_NAMES["falcon_h1"] = dict(mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=2)
OWN_NAMES["falcon_h1"] |= dict(mamba_chunk_size=4, key_multiplier=0.6, attention_out_multiplier=0.9, ssm_out_multiplier=1.2)
OWN_NAMES["falcon_h1"] |= dict(mlp_multipliers=[0.7, 1.4], ssm_multipliers=[0.9, 1.2, 0.8, 1.3, 0.7])
OWN_NAMES["exaone_moe"] = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, first_k_dense_replace=0)
OWN_NAMES["hunyuan_v1_moe"] = dict(num_experts=4, moe_topk=2)
OWN_NAMES["llama4_text"] = dict(num_local_experts=4, num_experts_per_tok=2, intermediate_size_mlp=40)
OWN_NAMES["phimoe"] = dict(num_local_experts=4, lm_head_bias=True, attention_bias=True)
OWN_NAMES["cwm"] = dict(bos_token_id=1)
OWN_NAMES["gptj"] = dict(n_inner=48, n_positions=64, rotary_dim=4)
OWN_NAMES["opt"] = dict(ffn_dim=48, max_position_embeddings=64, word_embed_proj_dim=32)
OWN_NAMES["dbrx"] = dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=64)
OWN_NAMES["dbrx"] |= dict(attn_config=dict(kv_n_heads=2, clip_qkv=0.75, rope_theta=10000.0))
OWN_NAMES["dbrx"] |= dict(ffn_config=dict(ffn_hidden_size=16, moe_num_experts=4, moe_top_k=2))
OWN_NAMES["mpt"] = dict(d_model=32, n_heads=4, n_layers=2, max_seq_len=64)
OWN_NAMES |= {kind: dict(state_size=8, time_step_rank=3, intermediate_size=64) for kind in ("mamba", "falcon_mamba")}
OWN_NAMES["jamba"] = dict(num_experts=1, num_experts_per_tok=1, mamba_d_state=8, mamba_dt_rank=3)
OWN_NAMES["jamba"] |= dict(attn_layer_period=8, attn_layer_offset=4)
OWN_NAMES["mamba2"] = dict(num_heads=4, head_dim=16, state_size=8, n_groups=2, chunk_size=4)
ROTATION = dict(rope_type="default", rope_theta=10000.0, mrope_section=[1, 1, 2])  # of positions in images
OF_IMAGES = ("qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text")
OWN_NAMES |= {kind: dict(rope_parameters=ROTATION) for kind in OF_IMAGES}
OF_GLM = dict(rope_parameters=ROTATION | dict(partial_rotary_factor=0.5, mrope_section=[1, 0, 1]))
OWN_NAMES |= {kind: OWN_NAMES.get(kind, {}) | OF_GLM for kind in ("glm4v_text", "glm4v_moe_text")}
OWN_NAMES["qwen3_vl_moe_text"] |= dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
SIZES = dict(q_lora_rank=20, kv_lora_rank=16, qk_nope_head_dim=12, qk_rope_head_dim=8, v_head_dim=10)
OWN_NAMES |= {kind: OWN_NAMES.get(kind, {}) | SIZES | dict(num_key_value_heads=4) for kind in (*LATENT, *INDEXED)}
INDEX = dict(index_topk=3, index_n_heads=3, index_head_dim=12)
OWN_NAMES |= {kind: OWN_NAMES[kind] | INDEX | dict(mlp_layer_types=["sparse"] * 2) for kind in INDEXED}
SCALES = dict(embedding_multiplier=3.0, attention_multiplier=0.2, residual_multiplier=0.6, logits_scaling=2.5)
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]
HAS_OWN_HEAD_DIM = ("bloom", "dbrx", "glm4v_text", "qwen2_vl_text", "qwen2_5_vl_text", "falcon", "gptj", "mistral4", "minicpm3", "mpt", "opt", "persimmon", "phimoe", "gpt_neox", "gpt2", "gpt_bigcode", "phi", "stablelm")  # hidden_size / heads


def model_of(kind, **settings):
    """A small model of transformers, by model_type, with weights that make every part of it matter."""
    given = TINY | OWN_NAMES.get(kind, {}) | (SCALES if kind == "granite" else {}) | settings
    if kind in HAS_OWN_HEAD_DIM:
        del given["head_dim"]
    torch.manual_seed(1)
    config = transformers.CONFIG_MAPPING[kind](**given)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model
