"""What is trained: transformers configs of about 1.2 million weights, 4 layers of 128 (gpt2: 3), each with a vocabulary.

The width keeps an F16 file under 3 MB; down projections, 256 or 512 wide, meet the k-quants, the others fall back.
"""

from dataclasses import dataclass

VOCABULARY = 4096
CONTEXT = 640  # holds the long prompt
COMMON = dict(vocab_size=VOCABULARY, bos_token_id=None, eos_token_id=None, pad_token_id=None, tie_word_embeddings=True)
WIDE = COMMON | dict(
    hidden_size=128, intermediate_size=256, num_hidden_layers=4, num_attention_heads=4, max_position_embeddings=CONTEXT
)


@dataclass(frozen=True)
class Shape:
    name: str
    config: str  # a config class of transformers
    values: dict
    seed: int
    pre: str  # tokenizer.ggml.pre
    specials: tuple[str, ...] = ("<|endoftext|>",)  # BOS first, EOS last
    add_bos: bool = False  # as every window of the training then does


SHAPES = (
    Shape(
        "trained-llama", "LlamaConfig", WIDE | dict(num_key_value_heads=2, rms_norm_eps=1e-5), 2401, "llama-bpe",
        ("<|begin_of_text|>", "<|end_of_text|>"), add_bos=True,
    ),
    Shape(
        "trained-qwen2", "Qwen2Config",
        WIDE | dict(
            num_key_value_heads=2, rms_norm_eps=1e-6, use_sliding_window=False,
            rope_parameters={"rope_type": "default", "rope_theta": 1000000.0},
        ),
        2402, "qwen2", ("<|endoftext|>", "<|im_end|>"),
    ),
    Shape(
        "trained-phi3", "Phi3Config",
        WIDE | dict(
            num_key_value_heads=4, rms_norm_eps=1e-5, sliding_window=256, original_max_position_embeddings=CONTEXT
        ),
        2403, "gpt-2",
    ),
    Shape(
        "trained-gpt2", "GPT2Config",
        COMMON | dict(
            n_embd=128, n_inner=512, n_layer=3, n_head=4, n_positions=CONTEXT, activation_function="gelu_new",
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        ),
        2404, "gpt-2",
    ),
)
