"""Bugs of rotations and positions."""

import math
from contextlib import contextmanager

import torch

from .bug import Bug, each_module, family_of, replaced, rotation


def interleaved(_right, q, k, cos, sin, *_, **__):
    """Neighbours are pairs, where the halves of a head are."""

    def turned(x):
        c, s = (part[..., : x.shape[-1] // 2].unsqueeze(1) for part in (cos, sin))
        even, odd = x[..., ::2], x[..., 1::2]
        return torch.stack((even * c - odd * s, odd * c + even * s), dim=-1).flatten(-2)

    return turned(q), turned(k)


def not_rotated(_right, q, k, *_, **__):
    return q, k


def with_frequencies(change):
    """change(frequencies, module) of every rotary module."""

    def wrong(right, module, *args, **kwargs):
        names = [name for name, _ in module.named_buffers() if name.endswith("inv_freq") and "original" not in name]
        kept = {name: getattr(module, name) for name in names}
        for name, values in kept.items():
            setattr(module, name, change(values, module))
        made = right(*args, **kwargs)
        for name, values in kept.items():
            setattr(module, name, values)
        return made

    return each_module("RotaryEmbedding", wrong)


def with_factor(factor):
    def wrong(right, module, *args, **kwargs):
        kept, module.attention_scaling = module.attention_scaling, factor
        made = right(*args, **kwargs)
        module.attention_scaling = kept
        return made

    return each_module("RotaryEmbedding", wrong)


def at_positions(change):
    def wrong(right, _module, x, position_ids, *args, **kwargs):
        return right(x, change(position_ids), *args, **kwargs)

    return each_module("RotaryEmbedding", wrong)


def plain(theta, **more):
    return {"rope_type": "default", "rope_theta": theta, **more}


def in_bfloat16(_right, module, _x, position_ids):
    """Positions, frequencies, angles, cosines and sines."""
    angles = position_ids[..., None].bfloat16() * module.inv_freq.bfloat16()
    both = torch.cat((angles, angles), dim=-1)
    return both.cos().float(), both.sin().float()


def inverted(values, module):
    """Of frequencies f = plain / factor: plain * factor."""
    return plain_frequencies(module) ** 2 / values


def plain_frequencies(module):
    theta, head_dim = module.config.rope_parameters["rope_theta"], module.config.head_dim
    return theta ** -(torch.arange(0, head_dim, 2).float() / head_dim)


@contextmanager
def rotated_everywhere(model):
    for layer in model.model.layers:
        layer.self_attn.is_sliding = True  # what EXAONE 4 asks before it rotates; the masks are the model's
    yield


def of_decoded(change):
    """change(position) for tokens that are evaluated one by one."""
    return at_positions(lambda ids: change(ids) if ids.shape[-1] == 1 else ids)


def turned_by_head(_right, q, k, cos, sin, *_, **__):
    """The number of the head is taken for the position."""

    def turned(x):
        c, s = (part[0, : x.shape[1], None, :] for part in (cos, sin))
        first, second = x.chunk(2, dim=-1)
        return x * c + torch.cat((-second, first), dim=-1) * s

    return turned(q), turned(k)


def into_pairs(rows, heads):
    """llama.cpp's converter: the rows of a head's two halves become neighbours."""
    return rows.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def into_halves(rows, heads):
    return rows.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def reordered(change):
    """change(rows, name) of the matrices of q and k, whose file has neighbours for pairs."""

    def edit(state):
        for name, values in state.items():
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                values.copy_(change(values, name))

    return edit


def heads_of(name):
    return 4 if "q_proj" in name else 2


def learned_positions_from(first):
    @contextmanager
    def patch(model):
        with replaced(model.transformer.wpe, "forward", lambda right: lambda ids: right(ids + first)):
            yield

    return patch


BUGS = (
    Bug(
        "rope-pairs", "rotation", "jmaczan/tiny-vllm#4 jzhang38/TinyLlama#24 vllm-project/vllm-ascend#12820 "
        "ggml-org/llama.cpp#13260",
        "rotated neighbours where the halves of a head are pairs", "qwen3",
        ops="rope_pairing", at="q_rope", logits="rope_pairing", patch=rotation(interleaved),
    ),
    Bug(
        "partial-rotary-ignored", "rotation",
        "ml-explore/mlx-lm#1698 InternLM/lmdeploy#3861 vllm-project/vllm#43770 huggingface/transformers#48242",
        "rotated whole heads where half of each is to be", "glm4",
        ops="rope_dimensions", at="q_rope", logits="rope_dimensions",
        config=dict(rope_parameters=plain(23456.0, partial_rotary_factor=1.0)),
    ),
    Bug(
        "partial-rotary-twice", "rotation", "vllm-project/vllm#30384",
        "applied the partial factor twice: a quarter of each head was rotated for half", "minimax-m2",
        ops="rope_dimensions", at="q_rope", logits="rope_dimensions",
        config=dict(rope_parameters=plain(23456.0, partial_rotary_factor=0.25), rotary_dim=6),
    ),
    Bug(
        "rotary-dim-halved-by-each-layer", "rotation", "vllm-project/vllm#16904",
        "halved the rotary size of a module that all layers share once per layer, down to nothing", "glm4",
        ops="rope_missing", at="q_rope", logits="rope_missing", patch=rotation(not_rotated),
    ),
    Bug(
        "rope-theta-default", "rotation",
        "lyogavin/airllm#369 ml-explore/mlx-examples#112 ollama/ollama#2379",
        "took the default base of 10000 for the model's", "qwen3",
        ops="rope_base", at="q_rope", logits="rope_base", config=dict(rope_parameters=plain(10000.0)),
    ),
    Bug(
        "one-base-for-all-layers", "rotation", "huggingface/candle#2891",
        "rotated layers with a window with the base of the others", "gemma3",
        ops="rope_base", at="q_rope", logits="rope_base",
        config=dict(rope_parameters=dict(
            sliding_attention=plain(234567.0),
            full_attention={"rope_type": "linear", "factor": 8.0, "rope_theta": 234567.0},
        )),
    ),
    Bug(
        "linear-scaling-ignored", "rotation",
        "Blaizzy/mlx-vlm#1709 lablup/mlxcel#1340 ollama/ollama#13452 ggml-org/llama.cpp#2772",
        "left out the linear scaling of layers without a window", "gemma3",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        config=dict(rope_parameters=dict(sliding_attention=plain(3456.0), full_attention=plain(234567.0))),
    ),
    Bug(
        "llama3-scaling-ignored", "rotation", "floneum/kalosm#340 jmaczan/tiny-vllm#1",
        "left out the three-band scaling of Llama 3", "exaone",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        config=dict(rope_parameters=plain(23456.0)), prompt="long",
    ),
    Bug(
        "yarn-factor-1", "rotation", "turboderp-org/exllamav3#259 guoqingbao/xinfer#329",
        "took 1 for YaRN's attention factor", "arcee",
        ops="rope_attention_factor", at="q_rope", logits="rope_attention_factor", patch=with_factor(1.0),
    ),
    Bug(
        "yarn-factor-of-file-ignored", "rotation", "ml-explore/mlx-lm#1507",
        "computed YaRN's attention factor where the config states another", "qwen2-yarn",
        ops="rope_attention_factor", at="q_rope", logits="rope_attention_factor",
        patch=with_factor(0.1 * math.log(4.0) + 1.0),
    ),
    Bug(
        "yarn-as-positions", "rotation", "rasbt/LLMs-from-scratch#940",
        "divided positions by YaRN's factor and left the frequencies as they are", "arcee",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        config=dict(rope_parameters={"rope_type": "linear", "factor": 16.0, "rope_theta": 345.0}),
    ),
    Bug(
        "yarn-inverted", "rotation", "kekzl/imp#584",
        "multiplied the frequencies by the factors that divide them", "arcee",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        patch=with_frequencies(inverted),
    ),
    Bug(
        "long-factors-for-short", "rotation",
        "ggml-org/llama.cpp#24823 lablup/mlxcel#1358 trymirai/lalamo#326 unslothai/unsloth#10681",
        "took LongRoPE's factors for long sequences for a short one", "phimoe",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        config=dict(
            rope_parameters=family_of("phimoe").values["rope_parameters"] | {"short_factor": [1.5, 2.5, 4.0, 8.0]}
        ),
    ),
    Bug(
        "frequencies-not-inverted", "rotation", "microsoft/onnxruntime-genai#2228",
        "took theta^(2i/d) for the frequencies, not its reciprocal", "qwen3",
        ops="rope_scaling", at="q_rope", logits="rope_scaling",
        patch=with_frequencies(lambda _, module: 1.0 / plain_frequencies(module)),
    ),
    Bug(
        "nope-layers-rotated", "rotation",
        "airockchip/rknn-llm#501 timtoole02/Camelid#535",
        "rotated the layers that have no rotation", "smollm3",
        ops="rope_unwanted", at="attn", logits="rope_unwanted", config=dict(no_rope_layers=[1, 1, 1, 1, 1]),
    ),
    Bug(
        "global-layers-rotated", "rotation", "vllm-project/vllm#23918",
        "rotated the layers without a window, too", "exaone4",
        ops="rope_unwanted", at="attn", logits="rope_unwanted",
        patch=rotated_everywhere,
    ),
    Bug(
        "rope-in-bfloat16", "rotation", "huggingface/transformers#29285",
        "computed the table of cosines and sines in bfloat16", "qwen3",
        ops="rounding", at="q_rope", logits="rounding",
        patch=each_module("RotaryEmbedding", in_bfloat16), prompt="long",
    ),
    Bug(
        "rows-of-a-batch-share-positions", "rotation", "turboderp/exllama#101",
        "rotated a later row of a batch on from where the row before had ended", "qwen3",
        ops="rope_position", at="q_rope", logits=None,
        patch=at_positions(lambda ids: ids + ids.shape[-1]), logits_pass=True,
    ),
    Bug(
        "rotated-by-heads", "rotation", "mlfoundations/open_lm#4",
        "rotated over the heads in place of the positions", "xverse",
        ops="rope_position", at="q_rope", logits="rope_position", patch=rotation(turned_by_head),
    ),
    Bug(
        "nope-layers-inverted", "rotation", "onnxruntime/mobius#233",
        "rotated the layers that have no rotation, and no others", "smollm3",
        ops="rope_missing", at="attn", logits="rope_unwanted", config=dict(no_rope_layers=[0, 0, 0, 1, 0]),
    ),
    Bug(
        "pairs-made-twice", "rotation", "onnxruntime/mobius#396",
        "put the rows of q and k in the file's order once more where it was to undo it", "granite",
        ops="rope_pairing", at="q", logits="rope_pairing",
        weights=reordered(lambda rows, name: into_pairs(into_pairs(rows, heads_of(name)), heads_of(name))),
    ),
    Bug(
        "pairs-undone-with-query-heads", "rotation", "huggingface/transformers#31788",
        "undid the file's order of the rows of k with the number of query heads", "granite",
        ops="rope_pairing", at="k", logits="rope_pairing",
        weights=reordered(lambda rows, name: into_halves(into_pairs(rows, heads_of(name)), 4)),
    ),
    Bug(
        "decoded-at-0", "positions", "Blaizzy/mlx-vlm#1983 pytorch/executorch#2010",
        "rotated each token that was decoded as if it were the first", "qwen3",
        ops="rope_position", at="q_rope", logits="rope_position", patch=of_decoded(lambda ids: ids * 0), after=6,
    ),
    Bug(
        "offset-by-the-prompt-once-more", "positions", "skyzh/tiny-llm#46",
        "moved positions on by the length of the prompt behind the first token that was decoded", "qwen3",
        ops="rope_position", at="q_rope", logits="rope_position", patch=of_decoded(lambda ids: ids + 14 * (ids > 15)), after=6,
    ),
    Bug(
        "bos-twice", "positions",
        "sgl-project/sglang#888 vllm-project/vllm#27517 janhq/cortex.cpp#618 huggingface/open-r1#462 "
        "deepseek-ai/DeepSeek-R1#151",
        "put the first token before the prompt once more", "qwen3",
        ops=None, at="q_rope", logits=None, fed=lambda prompt: [prompt[0], *prompt], hint="check BOS",
    ),
    Bug(
        "padding-counted", "positions",
        "ndif-team/nnsight#673 TransformerLensOrg/TransformerLens#1609",
        "counted padding on the left in learned positions", "starcoder",
        ops="rope_position", at="embedding", logits="rope_position",
        patch=learned_positions_from(5),
    ),
)  # fmt: skip
