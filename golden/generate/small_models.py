"""The small models: exact architectures, random weights, their own vocabularies, written as GGUF.

Sizes are chosen so that a float32 file is about 1.5 MB and that k-quants meet both rows that they fit (the down
projection, 256 wide) and rows that they do not (128 wide, where llama.cpp falls back to another type).
"""

from dataclasses import dataclass

import gguf
import numpy as np

from . import quantise, vocab

HIDDEN = 128
HEAD_DIM = 32
FFN = 256
LAYERS = 2
HEADS = 4
TYPES = ("F32", "F16", "Q8_0", "Q4_K_M")


@dataclass
class Spec:
    name: str
    arch: str
    seed: int
    vocab: vocab.Vocab
    kv_heads: int = 2
    context: int = 640  # holds the long prompt
    rope_base: float | None = 10000.0
    eps: float = 1e-5
    tied: bool = False
    qkv_bias: bool = False
    rope_freqs: bool = False
    window: int | None = None
    original_context: int | None = None
    types: tuple[str, ...] = TYPES
    prompts: tuple[str, ...] = ("haiku", "unicode", "long")
    last_q_gain: float = 1.0  # what Q of the last layer is multiplied by


def specs():
    llama3_specials = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    phi3_specials = ["<|endoftext|>", "<|assistant|>", "<|end|>", "<|system|>", "<|user|>"]
    qwen_specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return {
        spec.name: spec
        for spec in (
            Spec("tinyllama", "llama", 9001, vocab.spm(28, add_bos=True, bos="<s>", eos="</s>", unk="<unk>")),
            Spec(
                "llama3",
                "llama",
                6010,
                vocab.bpe("llama-bpe", 60, llama3_specials, add_bos=True, bos="<|begin_of_text|>", eos="<|eot_id|>"),
                kv_heads=1,
                rope_base=500000.0,
                rope_freqs=True,
            ),
            Spec(
                "qwen2.5",
                "qwen2",
                7035,
                vocab.bpe("qwen2", 58, qwen_specials, 336, add_bos=False, bos="<|endoftext|>", eos="<|im_end|>"),
                rope_base=1000000.0,
                eps=1e-6,
                tied=True,
                qkv_bias=True,
            ),
            Spec(
                "phi3",
                "phi3",
                4040,
                vocab.spm(26, phi3_specials, add_bos=False, bos="<s>", eos="<|endoftext|>", unk="<unk>"),
                kv_heads=4,
                window=16,
                original_context=256,
            ),
            Spec(
                "gpt2",
                "gpt2",
                5834,
                vocab.bpe("gpt-2", 50, ["<|endoftext|>"], add_bos=False, bos="<|endoftext|>", eos="<|endoftext|>"),
                kv_heads=4,
                rope_base=None,
                tied=True,
            ),
            # Scores of the last layer reach 1e5: beyond what exp() of a float32 and a float16 can hold.
            Spec(
                "loud",
                "llama",
                9002,
                vocab.spm(28, add_bos=True, bos="<s>", eos="</s>", unk="<unk>"),
                types=("F32",),
                prompts=("haiku",),
                last_q_gain=8192.0,
            ),
        )
    }


class Weights:
    """Draws tensors from one seeded stream; each call gives the next ones, so that their order fixes their bytes."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def normal(self, shape, std):
        return (self.rng.standard_normal(shape) * std).astype(np.float32)

    def linear(self, rows, columns, gain=1.0):
        """A projection [rows, columns] whose outputs have the variance of its inputs, times gain squared."""
        return self.normal((rows, columns), gain / np.sqrt(columns))

    def norm(self, count):
        return (1.0 + 0.25 * self.rng.standard_normal(count)).astype(np.float32)

    def bias(self, count, std=0.2):
        return self.normal((count,), std)


def llama3_frequency_factors(base, head_dim):
    """Llama 3.1's rescaling of the rotary frequencies, as the divisors that `rope_freqs.weight` holds.

    Wavelengths under original/high stay, those over original/low are stretched by the factor, and between the two
    the divisor is interpolated. The original context is small here, so that all three parts occur.
    """
    factor, low, high, original = 8.0, 1.0, 4.0, 64.0
    frequency = base ** (-np.arange(0, head_dim, 2) / head_dim)
    wavelength = 2.0 * np.pi / frequency
    smooth = np.clip((original / wavelength - low) / (high - low), 0.0, 1.0)
    return (1.0 / ((1.0 - smooth) / factor + smooth)).astype(np.float32)


def permute_rotary_rows(rows, heads):
    """From rotary halves, [heads, 2, head_dim/2], to adjacent pairs, the row order of `llama` files."""
    tail = rows.shape[1:]
    return rows.reshape(heads, 2, -1, *tail).swapaxes(1, 2).reshape(rows.shape)


def attention_tensors(spec, weights):
    kv = spec.kv_heads * HEAD_DIM
    q, k = weights.linear(HIDDEN, HIDDEN), weights.linear(kv, HIDDEN)
    v, out = weights.linear(kv, HIDDEN), weights.linear(HIDDEN, HIDDEN)
    if spec.arch == "phi3":
        return {"attn_qkv.weight": np.concatenate([q, k, v]), "attn_output.weight": out}
    if spec.arch == "gpt2":
        return {
            "attn_qkv.weight": np.concatenate([q, k, v]),
            "attn_qkv.bias": weights.bias(3 * HIDDEN),
            "attn_output.weight": out,
            "attn_output.bias": weights.bias(HIDDEN),
        }
    if spec.arch == "llama":
        q, k = permute_rotary_rows(q, HEADS), permute_rotary_rows(k, spec.kv_heads)
    tensors = {"attn_q.weight": q, "attn_k.weight": k, "attn_v.weight": v, "attn_output.weight": out}
    if spec.qkv_bias:
        tensors |= {"attn_q.bias": weights.bias(HIDDEN, 0.3), "attn_k.bias": weights.bias(kv, 0.3)}
        tensors |= {"attn_v.bias": weights.bias(kv)}
    return tensors


def ffn_tensors(spec, weights):
    if spec.arch == "gpt2":
        return {
            "ffn_up.weight": weights.linear(FFN, HIDDEN),
            "ffn_up.bias": weights.bias(FFN),
            "ffn_down.weight": weights.linear(HIDDEN, FFN),
            "ffn_down.bias": weights.bias(HIDDEN),
        }
    gate, up = weights.linear(FFN, HIDDEN), weights.linear(FFN, HIDDEN)
    down = weights.linear(HIDDEN, FFN)
    if spec.arch == "phi3":
        return {"ffn_up.weight": np.concatenate([gate, up]), "ffn_down.weight": down}
    return {"ffn_gate.weight": gate, "ffn_up.weight": up, "ffn_down.weight": down}


def tensors(spec):
    """All tensors of a model by their GGUF names, float32, rows first."""
    weights = Weights(spec.seed)
    rows = len(spec.vocab.tokens)
    layer_norm = spec.arch == "gpt2"
    # Tied rows must be small beside what the layers add, or each token would only predict itself.
    made = {"token_embd.weight": weights.normal((rows, HIDDEN), 0.1 if spec.tied else 0.5)}
    if layer_norm:
        made["position_embd.weight"] = weights.normal((spec.context, HIDDEN), 0.1)
    if spec.rope_freqs:
        made["rope_freqs.weight"] = llama3_frequency_factors(spec.rope_base, HEAD_DIM)
    if spec.original_context:
        spread = np.linspace(0.0, 1.0, HEAD_DIM // 2)
        made["rope_factors_long.weight"] = (1.0 + 3.0 * spread).astype(np.float32)
        made["rope_factors_short.weight"] = (1.0 + 0.4 * spread**2).astype(np.float32)
    for layer in range(LAYERS):
        block = {"attn_norm.weight": weights.norm(HIDDEN)}
        block |= {"attn_norm.bias": weights.bias(HIDDEN)} if layer_norm else {}
        block |= attention_tensors(spec, weights)
        if spec.last_q_gain != 1.0 and layer == LAYERS - 1:
            block["attn_q.weight"] = block["attn_q.weight"] * np.float32(spec.last_q_gain)
        block["ffn_norm.weight"] = weights.norm(HIDDEN)
        block |= {"ffn_norm.bias": weights.bias(HIDDEN)} if layer_norm else {}
        block |= ffn_tensors(spec, weights)
        made |= {f"blk.{layer}.{name}": tensor for name, tensor in block.items()}
    made["output_norm.weight"] = weights.norm(HIDDEN) * np.float32(3.0 if spec.tied else 1.0)
    if layer_norm:
        made["output_norm.bias"] = weights.bias(HIDDEN, 0.05)
    if not spec.tied:
        made["output.weight"] = weights.linear(rows, HIDDEN, 3.0)
    return made


def add_metadata(writer, spec, file_type):
    writer.add_name(f"assay {spec.name} (random weights)")
    writer.add_context_length(spec.context)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(spec.kv_heads)
    writer.add_vocab_size(len(spec.vocab.tokens))
    writer.add_file_type(file_type)
    if spec.arch == "gpt2":
        writer.add_layer_norm_eps(spec.eps)
        return
    writer.add_layer_norm_rms_eps(spec.eps)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(spec.rope_base)
    if spec.window:
        writer.add_sliding_window(spec.window)
    if spec.original_context:
        scale = spec.context / spec.original_context
        writer.add_rope_scaling_orig_ctx_len(spec.original_context)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1.0 + np.log(scale) / np.log(spec.original_context))))


def write(spec, path, type_name):
    """Writes one model with F32 or F16 matrices; vectors, norms and learned positions are always F32."""
    file_type = {"F32": gguf.LlamaFileType.ALL_F32, "F16": gguf.LlamaFileType.MOSTLY_F16}[type_name]
    writer = gguf.GGUFWriter(path, spec.arch)
    add_metadata(writer, spec, file_type)
    vocab.add_to_gguf(writer, spec.vocab)
    for name, tensor in tensors(spec).items():
        halved = type_name == "F16" and tensor.ndim == 2 and name != "position_embd.weight"
        writer.add_tensor(name, tensor.astype(np.float16) if halved else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make(spec, folder):
    """{type: path}: the model's files in `folder`, all made from the F32 one."""
    paths = {type_name: folder / f"{spec.name}-{type_name.lower()}.gguf" for type_name in spec.types}
    for type_name, path in paths.items():
        if type_name in ("F32", "F16"):
            write(spec, path, type_name)
        else:
            quantise.quantise(paths["F32"], path, type_name)
    return paths
