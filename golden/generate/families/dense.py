"""Families without experts."""

from .family import GROUPED, HEADS, SMALL, WHOLE, Family, rope, yarn

DENSE = (
    Family(
        "starcoder2", "Starcoder2Config", 101,
        SMALL | dict(
            num_key_value_heads=1, intermediate_size=128, norm_epsilon=0.046875, rope_parameters=rope(23456.0),
            use_bias=True, sliding_window=None, tie_word_embeddings=True
        ),
    ),
    Family(
        "starcoder", "GPTBigCodeConfig", 148,
        dict(
            n_embd=64, n_head=4, n_layer=2, n_inner=256, layer_norm_epsilon=0.046875, multi_query=True,
            activation_function="gelu_pytorch_tanh", tie_word_embeddings=True
        ),
    ),
    # Llama's layer with halves turned, under EXAONE's name in files.
    Family(
        "exaone", "SeedOssConfig", 150,
        GROUPED | dict(
            head_dim=16, intermediate_size=96, rms_norm_eps=0.046875, attention_bias=False, attention_out_bias=False,
            rope_parameters=rope(23456.0) | {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64
            }, tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
        published="ExaoneForCausalLM",
    ),
    Family(
        "xverse", "LlamaConfig", 151,
        GROUPED | dict(
            intermediate_size=96, rms_norm_eps=0.046875, rope_parameters=rope(23456.0), tie_word_embeddings=False
        ),
        published="XverseForCausalLM",
    ),
    Family(
        "hunyuan-dense", "HunYuanDenseV1Config", 152,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, rope_parameters=rope(23456.0), attention_bias=False,
            tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
    ),
    # Of heads whose number is no power of 2.
    Family(
        "mpt", "MptConfig", 263,
        dict(d_model=48, n_heads=6, n_layers=2, max_seq_len=640, layer_norm_epsilon=1e-5, tie_word_embeddings=True),
        {"wte": 0.5},
        published="MPTForCausalLM",
    ),
    Family(
        "gptneox", "GPTNeoXConfig", 102,
        SMALL | dict(
            intermediate_size=96, layer_norm_eps=0.046875, rope_parameters=rope(10000.0, partial_rotary_factor=0.5),
            use_parallel_residual=True, hidden_act="gelu", tie_word_embeddings=False
        ),
    ),
    Family(
        "gptneox-sequential", "GPTNeoXConfig", 103,
        SMALL | dict(
            intermediate_size=96, layer_norm_eps=0.0390625, rope_parameters=rope(10000.0, partial_rotary_factor=0.25),
            use_parallel_residual=False, hidden_act="gelu_fast", tie_word_embeddings=False
        ),
        golden=False,
    ),
    Family(
        "phi2", "PhiConfig", 104,
        dict(
            hidden_size=32, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=128,
            layer_norm_eps=0.046875, hidden_act="gelu_new", rope_parameters=rope(10000.0, partial_rotary_factor=0.5),
            tie_word_embeddings=False
        ),
    ),
    Family(
        "stablelm", "StableLmConfig", 105,
        SMALL | dict(
            num_key_value_heads=1, intermediate_size=96, layer_norm_eps=0.046875, use_qkv_bias=True,
            rope_parameters=rope(10000.0, partial_rotary_factor=0.25), tie_word_embeddings=False
        ),
        {"k_proj.bias": 4.0},
    ),
    Family(
        "stablelm-parallel", "StableLmConfig", 106,
        GROUPED | dict(
            intermediate_size=96, layer_norm_eps=0.0390625, use_qkv_bias=False, use_parallel_residual=True,
            qk_layernorm=True, rope_parameters=rope(10000.0, partial_rotary_factor=0.5), tie_word_embeddings=False
        ),
    ),
    Family(
        "command-r", "CohereConfig", 107,
        dict(
            hidden_size=96, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2, intermediate_size=96,
            layer_norm_eps=0.046875, logit_scale=0.171875, rope_parameters=rope(34567.0), tie_word_embeddings=True
        ),
        golden=False,
    ),
    Family(
        "nemotron", "NemotronConfig", 108,
        WHOLE | dict(
            intermediate_size=128, norm_eps=0.046875, hidden_act="relu2",
            rope_parameters=rope(23456.0, partial_rotary_factor=0.5), tie_word_embeddings=False
        ),
        {"q_proj": 0.5, "embed_tokens": 3.0},
    ),
    Family(
        "falcon", "FalconConfig", 109,
        dict(
            hidden_size=32, num_attention_heads=2, num_hidden_layers=2, multi_query=True, num_kv_heads=1,
            new_decoder_architecture=False, parallel_attn=True, bias=False, alibi=False, layer_norm_epsilon=0.046875,
            rope_parameters=rope(10000.0), tie_word_embeddings=True
        ),
    ),
    Family(
        "falcon-40b", "FalconConfig", 110,
        dict(
            hidden_size=32, num_attention_heads=4, num_kv_heads=2, num_hidden_layers=2, new_decoder_architecture=True,
            bias=False, alibi=False, layer_norm_epsilon=0.0390625, rope_parameters=rope(10000.0),
            tie_word_embeddings=False
        ),
    ),
    Family(
        "smollm3", "SmolLM3Config", 111,
        dict(
            hidden_size=64, num_attention_heads=4, num_key_value_heads=1, num_hidden_layers=5, intermediate_size=32,
            rms_norm_eps=0.046875, no_rope_layers=[1, 1, 1, 0, 1], use_sliding_window=False,
            rope_parameters=rope(1234567.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 3.0},
    ),
    Family(
        "llama-linear", "LlamaConfig", 112,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875,
            rope_parameters={"rope_type": "linear", "factor": 2.5, "rope_theta": 23456.0}, tie_word_embeddings=False
        ),
        golden=False,
    ),
    Family(
        "llama-yarn", "LlamaConfig", 113,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, rope_parameters=yarn(16.0, 345.0, 512),
            tie_word_embeddings=False
        ),
        {"embed_tokens": 2.0},
        golden=False,
    ),
    Family(
        "llama-llama3", "LlamaConfig", 114,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, attention_bias=True,
            rope_parameters=rope(23456.0) | {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64
            }, tie_word_embeddings=True
        ),
        golden=False,
    ),
    Family(
        "qwen2-yarn", "Qwen2Config", 115,
        dict(
            hidden_size=96, num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=2, intermediate_size=64,
            rms_norm_eps=0.046875, use_sliding_window=False,
            rope_parameters=yarn(4.0, 123456.0, 128, beta_fast=4.0, beta_slow=0.5, attention_factor=1.3125),
            tie_word_embeddings=True
        ),
        {"embed_tokens": 2.0},
        proof=dict(rope_parameters=yarn(4.0, 123456.0, 128)),
    ),
    Family(
        "gemma2", "Gemma2Config", 116,
        HEADS | dict(
            num_hidden_layers=3, intermediate_size=64, rms_norm_eps=0.046875, query_pre_attn_scalar=24,
            sliding_window=8, attn_logit_softcapping=2.5, final_logit_softcapping=3.5,
            hidden_activation="gelu_pytorch_tanh",
            layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=rope(10000.0),
            tie_word_embeddings=True
        ),
    ),
    Family(
        "gemma3", "Gemma3TextConfig", 117,
        HEADS | dict(
            num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=6, head_dim=16, intermediate_size=32,
            rms_norm_eps=0.046875, query_pre_attn_scalar=16, sliding_window=8, hidden_activation="gelu_pytorch_tanh",
            layer_types=["sliding_attention"] * 5 + ["full_attention"],
            rope_parameters={
                "sliding_attention": rope(3456.0),
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 234567.0}
            },
            tie_word_embeddings=True
        ),
    ),
    Family(
        "gemma4", "Gemma4TextConfig", 212,
        GROUPED | dict(
            hidden_size=32, num_hidden_layers=3, head_dim=16, global_head_dim=32, num_global_key_value_heads=1,
            attention_k_eq_v=True, intermediate_size=64, rms_norm_eps=0.046875, sliding_window=8,
            hidden_activation="gelu_pytorch_tanh",
            layer_types=["full_attention", "sliding_attention", "full_attention"],
            rope_parameters={
                "sliding_attention": rope(3456.0),
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 345.0}
            }, final_logit_softcapping=3.5, hidden_size_per_layer_input=0, tie_word_embeddings=True
        ),
        {"layer_scalar": 2.0},
    ),
    Family(
        "gemma4-ple", "Gemma4TextConfig", 261,
        GROUPED | dict(
            hidden_size=16, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=4, head_dim=8,
            global_head_dim=16, intermediate_size=16, use_double_wide_mlp=True, num_kv_shared_layers=1,
            hidden_size_per_layer_input=16, vocab_size_per_layer_input=320,
            rms_norm_eps=0.046875, sliding_window=8, hidden_activation="gelu_pytorch_tanh",
            layer_types=[f"{kind}_attention" for kind in ("full", "sliding", "full", "full")],
            rope_parameters={
                "sliding_attention": rope(3456.0),
                "full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.5, "rope_theta": 345.0}
            }, final_logit_softcapping=3.5, tie_word_embeddings=True
        ),
        {"layer_scalar": 2.0, "embed_tokens_per_layer": 0.7, "per_layer_model_projection": 0.5},
    ),
    Family(
        "gemma3n", "Gemma3nTextConfig", 264,
        GROUPED | dict(
            hidden_size=16, num_attention_heads=2, num_key_value_heads=1, num_hidden_layers=3, head_dim=8,
            intermediate_size=[32] * 3, num_kv_shared_layers=1, hidden_size_per_layer_input=8,
            vocab_size_per_layer_input=320, laurel_rank=8, altup_num_inputs=4, altup_active_idx=0, altup_coef_clip=120.0,
            altup_correct_scale=True, activation_sparsity_pattern=[0.75, 0.75, 0.0],
            rms_norm_eps=0.046875, sliding_window=8, hidden_activation="gelu_pytorch_tanh",
            layer_types=[f"{kind}_attention" for kind in ("sliding", "full", "full")],
            rope_parameters={"sliding_attention": rope(3456.0), "full_attention": rope(345.0)},
            final_logit_softcapping=3.5, tie_word_embeddings=True
        ),
        {"embed_tokens_per_layer": 0.7, "per_layer_model_projection": 0.5},
        proof=dict(hidden_size_per_layer_input=256, laurel_rank=64, num_kv_shared_layers=0),
    ),
    Family(
        "exaone4", "Exaone4Config", 1181,
        WHOLE | dict(
            num_hidden_layers=5, intermediate_size=32, rms_norm_eps=0.046875, sliding_window=8,
            sliding_window_pattern=4, layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
            rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 4.0},
        proof=dict(num_hidden_layers=64, layer_types=(["sliding_attention"] * 3 + ["full_attention"]) * 16),
    ),
    Family(
        "gemma", "GemmaConfig", 127,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, hidden_activation="gelu_pytorch_tanh",
            rope_parameters=rope(10000.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
        golden=False,
    ),
    Family(
        "cohere2", "Cohere2Config", 128,
        WHOLE | dict(
            num_hidden_layers=5, intermediate_size=32, layer_norm_eps=0.046875, logit_scale=0.171875,
            sliding_window=8, layer_types=["sliding_attention"] * 3 + ["full_attention", "sliding_attention"],
            rope_parameters=rope(34567.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 2.0},
    ),
    Family(
        "command-r-plus", "CohereConfig", 129,
        GROUPED | dict(
            intermediate_size=96, layer_norm_eps=0.0390625, logit_scale=0.328125, use_qk_norm=True,
            rope_parameters=rope(34567.0), tie_word_embeddings=True
        ),
        proof=dict(num_hidden_layers=64),
    ),
    Family(
        "qwen3", "Qwen3Config", 131,
        SMALL | dict(
            num_key_value_heads=2, head_dim=32, intermediate_size=256, rms_norm_eps=0.046875, use_sliding_window=False,
            rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
        types=("F32", "Q4_K_M"),
    ),
    Family(
        "olmo2", "Olmo2Config", 132,
        GROUPED | dict(
            intermediate_size=256, rms_norm_eps=0.0390625, rope_parameters=rope(34567.0), tie_word_embeddings=False
        ),
        types=("F32", "Q4_K_M"),
    ),
    Family(
        "granite", "GraniteConfig", 133,
        GROUPED | dict(
            intermediate_size=256, rms_norm_eps=0.046875, embedding_multiplier=3.0, attention_multiplier=0.203125,
            residual_multiplier=0.609375, logits_scaling=2.5, rope_parameters=rope(12345.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
        types=("F32", "Q4_K_M"),
    ),
    Family(
        "apertus", "ApertusConfig", 157,
        GROUPED | dict(
            intermediate_size=128, rms_norm_eps=0.046875, hidden_act="xielu", attention_bias=False,
            rope_parameters=rope(23456.0) | {
                "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64
            }, tie_word_embeddings=False
        ),
        {"act_fn.alpha": 3.0},
    ),
    # Granite's network, under MiniCPM's name in files.
    Family(
        "minicpm", "GraniteConfig", 156,
        GROUPED | dict(
            intermediate_size=96, rms_norm_eps=0.046875, embedding_multiplier=3.25, attention_multiplier=0.25,
            residual_multiplier=0.609375, logits_scaling=2.5, rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
        published="MiniCPMForCausalLM",
    ),
    Family(
        "olmo3", "Olmo3Config", 141,
        GROUPED | dict(
            num_hidden_layers=3, intermediate_size=64, rms_norm_eps=0.0390625, sliding_window=8,
            layer_types=["sliding_attention", "full_attention", "sliding_attention"],
            rope_parameters={"sliding_attention": rope(12345.0), "full_attention": yarn(8.0, 12345.0, 64)},
            tie_word_embeddings=False
        ),
    ),
    Family(
        "glm4", "Glm4Config", 134,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, rope_parameters=rope(23456.0, partial_rotary_factor=0.5),
            attention_bias=True, tie_word_embeddings=False
        ),
    ),
    Family(
        "seed_oss", "SeedOssConfig", 135,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, rope_parameters=rope(23456.0), attention_bias=True,
            attention_out_bias=False, mlp_bias=False, tie_word_embeddings=False
        ),
    ),
    Family(
        "arcee", "ArceeConfig", 136,
        WHOLE | dict(
            intermediate_size=128, rms_norm_eps=0.046875, hidden_act="relu2", rope_parameters=yarn(16.0, 345.0, 512),
            attention_bias=False, mlp_bias=False, tie_word_embeddings=False
        ),
        {"embed_tokens": 2.0},
    ),
    Family(
        "ernie4_5", "Ernie4_5Config", 137,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, use_bias=False, rope_parameters=rope(23456.0),
            tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
    ),
    Family(
        "mistral3", "Ministral3Config", 155,
        HEADS | dict(
            intermediate_size=96, rms_norm_eps=0.046875, sliding_window=None, rope_parameters=yarn(
                16.0, 345.0, 16, beta_fast=0.5, beta_slow=0.125, mscale=1.0, mscale_all_dim=0.75,
                llama_4_scaling_beta=0.375
            ), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.25},
    ),
    Family(
        "lfm2", "Lfm2Config", 142,
        GROUPED | dict(
            num_hidden_layers=4, intermediate_size=96, block_multiple_of=32, block_ffn_dim_multiplier=1.25,
            conv_L_cache=4, norm_eps=0.046875, layer_types=["conv", "full_attention", "conv", "conv"],
            rope_parameters=rope(23456.0), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.5, "conv.conv": 4.0},
    ),
    Family(
        "nemotron_h", "NemotronHConfig", 215,
        GROUPED | dict(
            hidden_size=32, layers_block_type=["linear_attention", "mlp", "full_attention", "linear_attention"], head_dim=12,
            intermediate_size=96, layer_norm_epsilon=0.046875, mamba_num_heads=4, mamba_head_dim=16, n_groups=2,
            ssm_state_size=16, conv_kernel=3, chunk_size=8, time_step_min=1e-6, tie_word_embeddings=False
        ),
    ),
    Family(
        "falcon-h1", "FalconH1Config", 241,
        GROUPED | dict(
            hidden_size=32, head_dim=12, intermediate_size=80, rms_norm_eps=0.046875, mamba_d_ssm=64, mamba_n_heads=4,
            mamba_d_head=16, mamba_d_state=16, mamba_n_groups=2, mamba_d_conv=3, mamba_chunk_size=8,
            embedding_multiplier=2.375, lm_head_multiplier=0.8125, attention_in_multiplier=1.1875,
            attention_out_multiplier=0.9375, key_multiplier=0.65625, ssm_in_multiplier=1.3125,
            ssm_out_multiplier=0.71875, ssm_multipliers=[0.84375, 1.15625, 0.78125, 1.40625, 0.59375],
            mlp_multipliers=[0.90625, 1.28125], rope_parameters=rope(345678.0), tie_word_embeddings=False
        ),
        {"dt_bias": 4.0},
    ),
    Family(
        "falcon-h1-normed", "FalconH1Config", 242,
        GROUPED | dict(
            intermediate_size=80, rms_norm_eps=0.046875, mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=16,
            mamba_n_groups=2, mamba_d_conv=3, mamba_chunk_size=8, mamba_rms_norm=True, mamba_norm_before_gate=False,
            embedding_multiplier=2.375, key_multiplier=0.65625, rope_parameters=rope(345678.0), tie_word_embeddings=False
        ),
        {"dt_bias": 4.0},
        golden=False,
    ),
    Family(
        "mamba2", "Mamba2Config", 226,
        dict(
            hidden_size=32, num_hidden_layers=3, num_heads=4, head_dim=16, state_size=16, n_groups=2, expand=2,
            conv_kernel=3, chunk_size=8, layer_norm_epsilon=0.046875, tie_word_embeddings=False
        ),
        {"embed_tokens": 0.5},
    ),
    Family(
        "qwen35", "Qwen3_5TextConfig", 156,
        GROUPED | dict(
            num_hidden_layers=3, head_dim=32, intermediate_size=96, rms_norm_eps=0.046875, linear_conv_kernel_dim=3,
            linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2, linear_num_value_heads=4,
            layer_types=["linear_attention", "full_attention", "linear_attention"],
            rope_parameters=rope(23456.0, partial_rotary_factor=0.5, mrope_section=[3, 3, 2]), tie_word_embeddings=True
        ),
        {"embed_tokens": 0.5, "conv1d": 6.0, "dt_bias": 4.0},
        proof=dict(rms_norm_eps=1e-6),
    ),
)
