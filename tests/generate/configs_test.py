"""A Hugging Face folder's config.json means what it means to transformers. Needs torch; skips without.

    configs_test.py defaults                # the tables of engine/hf are what the classes say
    configs_test.py keys --assay ASSAY      # each key of each class changed, null and left out: the logits of both
"""

import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from importlib.util import find_spec
from pathlib import Path

MISSING = [name for name in ("torch", "transformers", "numpy") if find_spec(name) is None]
SKIPPED = 77
GONE = object()
TOKENS = [3, 17, 99, 4, 55, 120, 7, 7, 31, 64, 2, 90, 11, 76, 5, 101, 23, 88, 42, 19]
FAR = 2e-5  # both compute in float32; each alone is within 2e-6 of float64

if not MISSING:
    import numpy as np
    import torch
    from transformers import CONFIG_MAPPING
    from transformers.utils import logging

    sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden"))
    from generate import class_defaults, text_parts
    from generate.causal_lm import AutoModelForCausalLM

USUAL = {
    **{"vocab_size": 128, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 64, "pad_token_id": 0},
}
OF_HEADS = {
    **{"q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16},
    "num_key_value_heads": 4,
}
LATENT = OF_HEADS | {
    **{"n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1},
    **{"first_k_dense_replace": 1, "n_group": 4, "topk_group": 2},
}
INDEXER = {"index_topk": 4, "index_n_heads": 16, "index_head_dim": 16}  # so many that no two scores are 0
SIGMOID = {
    **{"n_routed_experts": 16, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "n_shared_experts": 1},
    **{"first_k_dense_replace": 1, "n_group": 4, "topk_group": 2},
}
CONV = {"layer_types": ["conv", "full_attention", "conv", "full_attention"]}
LINEAR = {
    **{"linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16, "head_dim": 16},
    **{"linear_value_head_dim": 8, "layer_types": ["linear_attention", "full_attention"] * 2},
    # With 1e-6, transformers' chunks in float32 are up to 1.8e-5 from float64, and Assay up to 4e-6.
    "rms_norm_eps": 0.01,
}
MAMBA = {
    **{"layer_types": ["linear_attention", "full_attention"] * 2, "mamba_n_heads": 4, "mamba_d_head": 32},
    **{"mamba_d_state": 8, "mamba_n_groups": 2, "mamba_chunk_size": 8, "shared_intermediate_size": 48},
}
SECTIONS = {"rope_type": "default", "rope_theta": 1000.0, "mrope_section": [2, 3, 3]}  # of positions in images
OF_TYPE = {
    "granitemoehybrid": MAMBA | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "nemotron_h": {
        **{"layers_block_type": ["linear_attention", "mlp", "full_attention", "moe"], "head_dim": 16},
        **{"mamba_num_heads": 4, "mamba_head_dim": 16, "n_groups": 2, "ssm_state_size": 8, "chunk_size": 8},
        **{"n_routed_experts": 4, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 48},
    },
    "falcon_h1": {
        **{"head_dim": 16, "mamba_d_ssm": 64, "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8},
        **{"mamba_n_groups": 2, "mamba_chunk_size": 8, "mamba_norm_before_gate": False, "embedding_multiplier": 1.5},
        **{"lm_head_multiplier": 0.75, "key_multiplier": 0.6, "attention_in_multiplier": 1.2, "ssm_in_multiplier": 0.8},
        **{"attention_out_multiplier": 0.9, "ssm_out_multiplier": 1.1, "mlp_multipliers": [0.7, 1.3]},
        **{"ssm_multipliers": [0.9, 1.1, 0.8, 1.2, 0.7]},
    },
    "bamba": {
        **{"attn_layer_indices": [1, 2], "mamba_n_heads": 4, "mamba_d_head": 32, "mamba_d_state": 8},
        **{"mamba_n_groups": 2, "mamba_chunk_size": 8},
    },
    "mamba": {"state_size": 8, "time_step_rank": 5},
    "falcon_mamba": {"state_size": 8, "time_step_rank": 5},
    "jamba": {
        **{"num_experts": 4, "mamba_d_state": 8, "mamba_dt_rank": 5, "attn_layer_period": 3, "attn_layer_offset": 1},
        **{"expert_layer_period": 2, "expert_layer_offset": 1},
    },
    "mamba2": {"num_heads": 4, "head_dim": 32, "state_size": 8, "n_groups": 2, "chunk_size": 8},
    "gpt2": {"vocab_size": 128, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64, "n_inner": 96},
    "gpt_bigcode": {"vocab_size": 128, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64, "n_inner": 96},
    "gptj": {
        **{"vocab_size": 128, "n_embd": 64, "n_layer": 4, "n_head": 4, "n_positions": 64, "n_inner": 96},
        "rotary_dim": 8,
    },
    "mixtral": {"num_local_experts": 4},
    "llama4_text": {
        **{"head_dim": 16, "intermediate_size": 32, "intermediate_size_mlp": 96, "num_local_experts": 4},
        **{"num_experts_per_tok": 2, "interleave_moe_layer_step": 2, "attention_chunk_size": 6, "floor_scale": 4},
        **{"attn_scale": 0.4, "rms_norm_eps": 0.01},
    },
    "phimoe": {
        **{"num_local_experts": 4, "router_jitter_noise": 0.2, "attention_bias": True, "lm_head_bias": True},
        "rope_parameters": {
            **{"rope_type": "longrope", "rope_theta": 1000.0, "original_max_position_embeddings": 32},
            **{"short_mscale": 1.2, "long_mscale": 1.2, "short_factor": [1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5]},
            "long_factor": [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0],
        },
    },
    "bloom": {"vocab_size": 128, "hidden_size": 96, "n_head": 6, "n_layer": 4},
    "opt": {"ffn_dim": 96, "word_embed_proj_dim": 64, "num_key_value_heads": 4},
    "dbrx": {
        **{"vocab_size": 128, "d_model": 64, "n_heads": 4, "n_layers": 4, "max_seq_len": 64},
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.75, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 96, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "mpt": {"vocab_size": 128, "d_model": 96, "n_heads": 6, "n_layers": 4, "max_seq_len": 64},
    "qwen3_moe": {"num_experts": 4, "moe_intermediate_size": 32, "num_experts_per_tok": 2, "head_dim": 16},
    "glm4v_text": {"rope_parameters": SECTIONS | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}},
    "glm4v_moe_text": SIGMOID
    | {"rope_parameters": SECTIONS | {"partial_rotary_factor": 0.5, "mrope_section": [1, 1, 2]}, "head_dim": 16},
    "qwen2_vl_text": {"rope_parameters": SECTIONS},
    "qwen2_5_vl_text": {"rope_parameters": SECTIONS},
    "qwen3_vl_text": {"rope_parameters": SECTIONS, "head_dim": 16},  # whose last pairs have no section in llama.cpp
    "qwen3_vl_moe_text": {
        **{"num_experts": 4, "moe_intermediate_size": 24, "num_experts_per_tok": 2, "head_dim": 16},
        "rope_parameters": SECTIONS,
    },
    "olmoe": {"num_experts": 4, "num_experts_per_tok": 2},
    "flex_olmo": {"num_experts": 4, "num_experts_per_tok": 2},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16, "num_experts": 4, "moe_topk": 2},
    "exaone_moe": {
        **{"num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "moe_intermediate_size": 32},
        **{"head_dim": 16, "first_k_dense_replace": 1, "sliding_window_pattern": 4},
    },
    "qwen2_moe": {
        **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
        **{"shared_expert_intermediate_size": 48},
    },
    "granitemoe": {"num_local_experts": 4, "num_experts_per_tok": 2},
    "granitemoeshared": {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 48},
    "granitemoe_swa": {"num_local_experts": 4, "num_experts_per_tok": 2, "shared_intermediate_size": 48},
    "mimo_v2_flash": {
        **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 24},
        **{"v_head_dim": 8, "layer_types": ["full_attention", "sliding_attention"] * 2},
    },
    "cohere2_moe": {
        **{"num_experts": 4, "num_shared_experts": 1, "head_dim": 16, "expert_selection_fn": "sigmoid"},
        **{"prefix_dense_intermediate_size": 48, "layer_types": ["full_attention", "sliding_attention"] * 2},
        "mlp_layer_types": ["dense"] + ["sparse"] * 3,
    },
    "gpt_oss": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "gpt_neox": {"num_key_value_heads": 4},
    "persimmon": {"num_key_value_heads": 4},
    "falcon": {"ffn_hidden_size": 256, "intermediate_size": 256, "new_decoder_architecture": True, "num_kv_heads": 2},
    "gemma3_text": {"num_hidden_layers": 7},
    "gemma3n_text": {
        **{"num_hidden_layers": 7, "head_dim": 16, "sliding_window": 8, "num_kv_shared_layers": 2, "laurel_rank": 8},
        **{"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 120, "rms_norm_eps": 0.01},
        **{"activation_sparsity_pattern": [0.95, 0.5] + [0.0] * 5, "altup_num_inputs": 3},
    },
    "gemma4_text": {
        **{"num_hidden_layers": 7, "head_dim": 16, "global_head_dim": 32, "num_global_key_value_heads": 1},
        **{"attention_k_eq_v": True, "hidden_size_per_layer_input": 0, "sliding_window": 8, "rms_norm_eps": 0.01},
    },
    "deepseek_v2": LATENT,
    "deepseek_v3": LATENT,
    "axk1": LATENT,
    "minimax_m2": {"num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16},
    "dots1": SIGMOID,
    "solar_open": SIGMOID | {"head_dim": 16},
    "glm4_moe_lite": LATENT,
    "deepseek_v32": LATENT | INDEXER,
    "glm_moe_dsa": LATENT | INDEXER,
    "youtu": OF_HEADS,
    "minicpm3": OF_HEADS
    | {
        **{"scale_emb": 3, "scale_depth": 1.1, "dim_model_base": 32},
        "rope_parameters": {
            **{"rope_type": "longrope", "rope_theta": 1000.0, "original_max_position_embeddings": 32},
            **{"short_factor": [1.0, 1.5, 2.0, 2.5], "long_factor": [2.0, 3.0, 4.0, 5.0]},
        },
    },
    "cwm": {"head_dim": 16},
    "internlm3": {"head_dim": 16},
    "iquestcoder": {"head_dim": 16},
    "helium": {"head_dim": 16},
    "mistral4": LATENT
    | {
        **{"n_group": 1, "topk_group": 1},
        "rope_parameters": {
            **{"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 5},
            **{"beta_fast": 0.5, "beta_slow": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4},
        },
    },
    "afmoe": {
        **{"num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "moe_intermediate_size": 32},
        **{"head_dim": 16, "sliding_window": 6, "mup_enabled": True},
    },
    "hy_v3": {
        **{"num_experts": 4, "num_experts_per_tok": 2, "num_shared_experts": 1, "moe_intermediate_size": 32},
        "head_dim": 16,
    },
    "mellum": {
        **{"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "head_dim": 16},
        **{"sliding_window": 6, "layer_types": ["sliding_attention", "full_attention"] * 2},
    },
    "ernie4_5_moe": {
        **{"moe_num_experts": 4, "moe_k": 2, "moe_num_shared_experts": 1, "moe_intermediate_size": 32},
        **{"moe_layer_start_index": 1, "moe_layer_interval": 1},
    },
    "glm": {"head_dim": 16},
    "glm4_moe": SIGMOID | {"use_qk_norm": True, "head_dim": 16},
    "ministral": {"head_dim": 16},
    "ministral3": {
        "head_dim": 16,
        "rope_parameters": {
            **{"rope_type": "yarn", "rope_theta": 1000.0, "factor": 8.0, "original_max_position_embeddings": 5},
            **{"beta_fast": 0.5, "beta_slow": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.4},
        },
    },
    "qwen3_5_text": LINEAR,
    "qwen3_5_moe_text": LINEAR | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "qwen3_next": LINEAR | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    "lfm2": CONV,
    "lfm2_moe": CONV | {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
}
# Sizes, which make another model, and what no layer computes with.
LEFT = {
    *("vocab_size", "hidden_size", "n_embd", "d_model", "model_type", "architectures", "dtype", "id2label", "label2id"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "problem_type", "return_dict", "chunk_size_feed_forward"),
    *("output_hidden_states", "output_attentions", "_name_or_path"),
    "time_step_min",  # of Nemotron-H transformers raises the steps of a prompt to it, and not those of a token alone
}
# Sizes within attn_config and ffn_config, and what transformers takes for 8 whatever MPT states.
LEFT_WITHIN = {"hidden_size", "ffn_hidden_size", "moe_num_experts", "alibi_bias_max"}
ACTIVATIONS = ["gelu", "gelu_new", "silu", "gelu_pytorch_tanh", "relu2", "relu", None]
OLDER = {"rope_parameters": GONE}
TOGETHER = [
    {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 2},
    {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": GONE, "layer_types": GONE},
    {"sliding_window": 5, "layer_types": GONE},
    {"sliding_window": None, "layer_types": GONE},
    {**OLDER, "rope_theta": 7000.0},
    {**OLDER, "rope_theta": 7000.0, "rope_scaling": {"type": "linear", "factor": 3.0}},
    {**OLDER, "rope_scaling": {"rope_type": "yarn", "factor": 3.0, "original_max_position_embeddings": 16}},
    {**OLDER, "partial_rotary_factor": 0.5},
    {**OLDER, "rotary_dim": 8},
    {**OLDER, "rotary_emb_base": 7000.0, "rotary_pct": 0.5},
    {"rope_parameters": {"rope_type": "default", "rope_theta": 7000.0}},
    {"rope_parameters": {"full_attention": {"rope_type": "default"}, "sliding_attention": {"rope_type": "default"}}},
    {"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 2.0, "rope_theta": 700.0}}},
    {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32},
    {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 128, "num_kv_shared_layers": 1},
    {"num_kv_shared_layers": 1, "use_double_wide_mlp": True, "attention_k_eq_v": False},
    {"hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 128, "enable_moe_block": True, "num_experts": 4,
     "top_k_experts": 2, "moe_intermediate_size": 32, "num_kv_shared_layers": 2, "layer_types": [
         "sliding_attention", "full_attention", "sliding_attention", "full_attention", "full_attention",
         "sliding_attention", "full_attention"
     ]},
    {"layer_rope_theta": [0, 700.0, 700.0, 0]},
    {"layer_rope_theta": [0, 700.0, 90.0, 0]},
    {"layer_rope_theta": [0.0] * 4},
    {"sliding_window_size": 3},
    {"expert_selection_fn": "softmax"},
    {"expert_selection_fn": "softmax", "norm_topk_prob": False},
    {"shared_expert_combination_strategy": "sum"},
    {"layer_types": GONE, "mlp_layer_types": GONE, "first_k_dense_replace": 1, "sliding_window_pattern": 2},
    {"layer_types": GONE, "mlp_layer_types": GONE, "first_k_dense_replace": 2, "prefix_dense_sliding_window_pattern": 2},
    {"prefix_dense_sliding_window_pattern": 2, "mlp_layer_types": ["dense", "dense", "sparse", "sparse"]},
    {"prefix_dense_intermediate_size": GONE},
    {"enable_moe_block": True, "num_experts": 4, "top_k_experts": 3, "moe_intermediate_size": GONE},
]


def rotations(stated):
    if not stated or "full_attention" in stated:
        return [None]
    original = {"factor": 4.0, "original_max_position_embeddings": 16}
    return [
        None,
        {**stated, "rope_theta": 5000.0},
        {**stated, "rope_type": "linear", "factor": 3.0},
        {**stated, "rope_type": "yarn", "factor": 4.0},
        {**stated, "rope_type": "yarn", **original, "mscale": 0.7, "mscale_all_dim": 1.1},
        {**stated, "rope_type": "llama3", **original, "low_freq_factor": 1.0, "high_freq_factor": 4.0},
        {**stated, "rope_type": "dynamic", "factor": 2.0},
        {**stated, "rope_type": "dynamic", "factor": 1.0, "alpha": 50.0},
        {**stated, "partial_rotary_factor": 0.75},
    ]


def alternatives(key, value):
    """Other values of one key."""
    if key == "rope_parameters":
        return rotations(value)
    if key == "layer_types":
        return [value[::-1], None] if value else []
    if key == "layers_block_type":  # in another order, and without experts
        return [value[::-1], ["mlp" if each == "moe" else each for each in value], None]
    if isinstance(value, str):
        return ACTIVATIONS if "activation" in key or key == "hidden_act" else []
    if isinstance(value, bool):
        return [not value, None]
    if isinstance(value, int):
        return [value * 2, max(1, value // 2), None]
    if isinstance(value, float):
        return [value * 1.5 + 0.1, None]
    if key.endswith("multipliers"):
        return [[2 * each for each in value], value[:1], None]
    return [2, True, 0.5] if value is None else []


def changes(config):
    for key, value in config.items():
        if key in LEFT:
            continue
        yield from ({key: other} for other in alternatives(key, value))
        if key not in class_defaults.REQUIRED:  # a class's own sizes are gigabytes
            yield {key: GONE}
    for part in ("attn_config", "ffn_config"):
        for key, value in config.get(part, {}).items():
            if key not in LEFT | LEFT_WITHIN:
                others = [*alternatives(key, value), GONE] + [2.5, 0.5] * (key == "clip_qkv")
                yield from ({part: merged_within(config[part], key, other)} for other in others)
    yield from TOGETHER


def merged_within(part, key, value):
    return {name: inner for name, inner in {**part, key: value}.items() if inner is not GONE}


def config_of(model_type):
    usual = {} if model_type in ("gpt2", "gpt_bigcode", "gptj", "bloom", "dbrx", "mpt") else USUAL
    config = CONFIG_MAPPING[model_type](**{**usual, **OF_TYPE.get(model_type, {})}).to_dict()
    config.pop("transformers_version", None)
    if config.get("sliding_window"):
        config["sliding_window"] = 5
    return json.loads(json.dumps(config))


def drawn(name, shape, is_gemma, generator):
    values = torch.randn(shape, generator=generator)
    if len(shape) > 1:
        return values * (0.5 if "embed" in name or "wte" in name else 0.7 / shape[-1] ** 0.5)
    return values * 0.2 + (0.0 if "bias" in name or is_gemma else 1.0)


def logits_of_transformers(config, folder):
    """Writes the folder, too, but for its config.json."""
    made = CONFIG_MAPPING[config["model_type"]].from_dict(json.loads(json.dumps(config)))
    made._experts_implementation = "eager"
    with torch.no_grad():
        model = AutoModelForCausalLM.from_config(made, dtype=torch.float32, attn_implementation="eager").eval()
        generator = torch.Generator().manual_seed(5)
        is_gemma = "gemma" in config["model_type"]
        for name, parameter in model.named_parameters():
            parameter.copy_(drawn(name, parameter.shape, is_gemma, generator))
        model.tie_weights()
        model.save_pretrained(folder)
        return model(torch.tensor([TOKENS])).logits[0].double().numpy()


def logits_of_assay(config, folder):
    """And why there are none."""
    (folder / "config.json").write_text(json.dumps(config))
    log = folder / "log.jsonl"
    tokens = ",".join(map(str, TOKENS))
    command = [ASSAY, "run", folder, "--tokens", tokens, "-n", "0", "--backend", "cpu", "--log", log]
    done = subprocess.run([*command, "--checkpoints", "logits", "--values", "all"], capture_output=True, text=True)
    if done.returncode != 0:
        return None, done.stderr
    records = [json.loads(line) for line in log.read_text().splitlines()]
    rows = [record["values"] for record in records if record.get("checkpoint") == "logits"]
    return np.array(rows, dtype=np.float64), ""


class Defaults(unittest.TestCase):
    def test_the_table_is_what_the_classes_say(self):
        """Breaks if a class of the pinned transformers has another default: python -m generate.class_defaults."""
        self.assertEqual(class_defaults.WRITTEN.read_text(), class_defaults.text())

    def test_the_table_of_texts_is_what_the_classes_say(self):
        """Breaks if a class of the pinned transformers changes: python -m generate.text_parts."""
        self.assertEqual(text_parts.WRITTEN.read_text(), text_parts.text())


class Keys(unittest.TestCase):
    def test_each_key_means_what_it_means_to_transformers(self):
        """Breaks if a key were left out, read in another place, or had another default: the logits would differ."""
        for model_type in class_defaults.model_types():
            with self.subTest(model_type), tempfile.TemporaryDirectory() as scratch:
                self.check(config_of(model_type), Path(scratch))

    def check(self, config, folder):
        agreed = 0
        for change in [{}, *changes(config)]:
            changed = {key: value for key, value in {**config, **change}.items() if value is not GONE}
            said = f"{config['model_type']} with {({key: 'left out' if value is GONE else value for key, value in change.items()})}"
            try:
                expected = logits_of_transformers(changed, folder)
            except Exception as error:  # transformers says no: there is nothing to compare with
                self.assertTrue(change, f"{said}: {error}")
                continue
            got, refusal = logits_of_assay(changed, folder)
            if got is None:  # what Assay does not compute
                self.assertTrue(change and refusal.count("\n") == 1, f"{said}: {refusal}")
                continue
            far = np.linalg.norm(got - expected) / np.linalg.norm(expected)
            self.assertTrue(far <= FAR or not np.isfinite(expected).all(), f"{said}: {far:.1e}")
            agreed += 1
        self.assertGreater(agreed, 40, config["model_type"])


def main():
    global ASSAY
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=["defaults", "keys"])
    parser.add_argument("--assay", help="the program; for keys")
    options, rest = parser.parse_known_args()
    if MISSING:
        print(f"skipped: no {', '.join(MISSING)} here; see golden/generate/requirements.txt")
        return SKIPPED
    ASSAY = options.assay
    torch.set_num_threads(1)  # its layers are too small to share
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    argv = [sys.argv[0], options.part.capitalize(), *rest]
    result = unittest.main(argv=argv, exit=False, verbosity=2).result
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
