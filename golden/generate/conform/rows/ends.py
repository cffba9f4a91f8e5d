"""Output matrix, vocabulary, how weights are stored, and prompts."""

from ..bases import config
from ..case import Row, ignored, misread

HEAD, FILES, PROMPTS = "head and vocabulary", "weights in files", "prompts"


def without(made, *keys):
    return {key: value for key, value in made.items() if key not in keys}


QUANTISED = (
    "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "MXFP4",
    "IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "NVFP4",
)  # fmt: skip


def quantised(kind):
    """All rows of matrices are one block of the k-quants, or several of the others."""
    return Row(
        f"weights_{kind.lower()}", FILES, f"Matrices in {kind} in the GGUF file, and what they stand for in the folder",
        config(
            "llama", hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=8
        ), dtypes={"*norm*": "F32", "*": kind}, length=4,
    )


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)  # tokenizer.ggml.token_type


def vocabulary():
    """96 pairs (text, type) with several of each type."""
    made = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    made += [(f"<0x{byte:02X}>", BYTE) for byte in (9, 10, 13, 32, 48, 65, 97, 126)]
    made += [(f"<name_{i}>", USER_DEFINED) for i in range(4)]
    made += [(f"<unused_{i}>", UNUSED) for i in range(4)]
    made += [(f"<control_{i}>", CONTROL) for i in range(4)]
    return made + [(f"\u2581w{i}", NORMAL) for i in range(96 - len(made))]


def token_types():
    """The vocabulary in both kinds of files, with flags that ask for tokens before and behind a text."""
    words = vocabulary()
    added = [(i, text, kind) for i, (text, kind) in enumerate(words) if kind in (UNKNOWN, CONTROL, USER_DEFINED)]
    named = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    plain = dict(single_word=False, lstrip=False, rstrip=False, normalized=False)
    return Row(
        "token_types", PROMPTS, "Tokens of all types in the vocabulary, and flags that ask for BOS and EOS",
        config("llama"), ("bos_token_id", "eos_token_id"), tokens=(44, 0, 3, 11, 15, 1, 19, 2),
        folder={
            "tokenizer.json": {
                "version": "1.0", "truncation": None, "padding": None,
                "added_tokens": [
                    dict(id=i, content=text, special=kind != USER_DEFINED, **plain) for i, text, kind in added
                ],
                "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
                "decoder": None,
                "model": {"type": "WordLevel", "vocab": {text: i for i, (text, _) in enumerate(words)}, "unk_token": "<unk>"},
            },
            "tokenizer_config.json": dict(
                tokenizer_class="PreTrainedTokenizerFast", add_bos_token=True, add_eos_token=True, **named
            ),
        },
        gguf={
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": [text for text, _ in words],
            "tokenizer.ggml.scores": [-0.5 - i for i in range(len(words))],
            "tokenizer.ggml.token_type": [kind for _, kind in words],
            "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_eos_token": True,
        },
    )  # fmt: skip


ENDS = [
    Row(
        "untied_head", HEAD, "An output matrix of its own", config("llama", tie_word_embeddings=False),
        ("tie_word_embeddings",),
        (ignored("tied_head", "takes the embedding", {"tie_word_embeddings": True}, {"lm_head.weight": None}),),
    ),
    Row(
        "tied_head", HEAD, "The embedding as the output matrix", config("llama", tie_word_embeddings=True),
        ("tie_word_embeddings",),
    ),
    Row(
        "tie_word_embeddings_left_out", HEAD, "No tie_word_embeddings: as the class has it, the embedding for Gemma",
        without(config("gemma"), "tie_word_embeddings"),
    ),
    Row(
        "tie_word_embeddings_left_out_llama", HEAD, "No tie_word_embeddings: as the class has it, none for Llama",
        without(config("llama"), "tie_word_embeddings"), (),
        (misread("tied_head", "takes the embedding", {"tie_word_embeddings": True}, {"lm_head.weight": None}),),
    ),
    Row(
        "head_bias", HEAD, "A bias of the output matrix", config("phi"), (),
        (ignored("bias_missing", "leaves it out", tensors={"lm_head.bias": 0.0}),),
    ),
    Row(
        "odd_vocabulary", HEAD, "A vocabulary that is no multiple of anything", config("llama", vocab_size=101),
        ("vocab_size",), tokens=(100, 3, 99, 50, 98, 64, 97, 32),
    ),
    Row(
        "padded_vocabulary", HEAD, "A vocabulary with rows of padding that no text has",
        config("qwen2", vocab_size=128), ("vocab_size",), tokens=(5, 17, 40, 62, 71, 8, 90, 33),
    ),
    Row(
        "bfloat16_weights", FILES, "Weights in bfloat16", config("llama", torch_dtype="bfloat16"),
        ("torch_dtype",), dtypes={"*": "BF16"},
    ),
    Row(
        "float16_weights", FILES, "Weights in float16", config("llama", torch_dtype="float16"),
        ("torch_dtype",), dtypes={"*": "F16"},
    ),
    Row(
        "names_with_transformer", FILES, "GPT-2's tensors under transformer., as transformers saves them",
        config("gpt2"), saved_names=True,
    ),
    Row(
        "no_added_bos", PROMPTS, "A prompt that does not begin with bos_token_id", config("llama"),
        ("bos_token_id",), tokens=(44, 9, 71, 30, 88, 52, 17, 63),
    ),
    Row(
        "eos_inside", PROMPTS, "eos_token_id and pad_token_id inside the prompt",
        config("llama", pad_token_id=0), ("eos_token_id", "pad_token_id"),
        tokens=(1, 44, 9, 2, 71, 0, 30, 88),
    ),
    Row(
        "single_token", PROMPTS, "A prompt of one token", config("llama"), tokens=(44,),
    ),
    Row(
        "repeated_token", PROMPTS, "One token again and again, which only positions tell apart",
        config("gpt2"), (), (
            misread("rope_position", "leaves the learned positions out", tensors={"*wpe.weight": 0.0}),
        ), tokens=(44,) * 8,
    ),
    Row(
        "forty_tokens", PROMPTS, "A prompt longer than a block of 32",
        config("llama", hidden_size=32, num_attention_heads=1, vocab_size=64, num_hidden_layers=1), (),
        (misread("attention_window", "attends to the last 32 tokens only", {
            "architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 32
        }),), length=40,
    ),
] + [token_types()] + [quantised(kind) for kind in QUANTISED]
