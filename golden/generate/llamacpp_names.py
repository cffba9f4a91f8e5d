"""llama.cpp's names for the nodes of its graph, and the checkpoints that they are.

A name ends in its layer, as in `Qcur-3`, and several nodes share it: `Qcur` is the projection, the sum with its bias,
the same by heads, and what is rotated, so that a node is identified by its op too. All rows are in the order of the
model file, since llama.cpp computes in that order.
"""

from dataclasses import dataclass

BY_HEADS = ("RESHAPE", "VIEW")  # q, k or v after its bias, before rotation


@dataclass(frozen=True)
class Node:
    """Which node a checkpoint is: by its name, without layer, or by the weights that it reads; and by its op."""

    name: str | None = None
    ops: tuple[str, ...] = ()
    reads: str | None = None  # `blk.N.` and this is one of its sources
    source_of: str | None = None  # not the node, but the unnamed first source of one with this name
    parts: tuple[str, ...] = ()  # checkpoints that its last axis holds in equal parts, one after the other

    def matches(self, tensor, name, layer):
        if self.reads is not None and not self.reads_weights(tensor, layer):
            return False
        wanted = self.source_of or self.name
        if wanted is not None and wanted != name:
            return False
        if self.source_of is not None and not tensor.source(0).name.startswith("node_"):
            return False
        return not self.ops or tensor.op in self.ops

    def reads_weights(self, tensor, layer):
        sources = (tensor.source(0), tensor.source(1))
        return any(source and source.name == f"blk.{layer}.{self.reads}" for source in sources)


COMMON_LAYER = {
    "attn_norm": Node("attn_norm"),
    "q": Node("Qcur", BY_HEADS),
    "k": Node("Kcur", BY_HEADS),
    "v": Node("Vcur", BY_HEADS),
    "q_rope": Node("Qcur", ("ROPE",)),
    "k_rope": Node("Kcur", ("ROPE",)),
    "attn": Node("kqv_out"),
    "attn_out": Node(reads="attn_output.weight"),
    "attn_residual": Node("ffn_inp"),
    "ffn_norm": Node("ffn_norm"),
    "ffn_gate": Node("ffn_gate"),
    "ffn_up": Node("ffn_up"),
    "ffn_act": Node("ffn_swiglu"),
    "ffn_out": Node("ffn_out"),
    "output": Node("l_out"),
}
COMMON_TOP = {"embedding": Node("embd"), "final_norm": Node("result_norm"), "logits": Node("result_output")}

FUSED_GATE = {"ffn_up": Node("ffn_up", parts=("ffn_gate", "ffn_up")), "attn_residual": Node(source_of="norm")}
QK_NORMS = {"q_norm": Node("Qcur_normed", ("MUL",)), "k_norm": Node("Kcur_normed", ("MUL",))}
OLMO2_LAYER = QK_NORMS | {
    "q": Node("Qcur", ("MUL_MAT",)),
    "k": Node("Kcur", ("MUL_MAT",)),
    "v": Node("Vcur", ("MUL_MAT",)),
    "post_attn_norm": Node("attn_post_norm"),
    "post_ffn_norm": Node("ffn_post_norm"),
}
APERTUS_LAYER = {
    "q_rope": Node("Qcur_pos"),
    "k_rope": Node("Kcur_pos"),
    "v": Node("Vcur_pos"),
    "ffn_act": Node("ffn_xielu"),
    "ffn_out": Node("ffn_down"),
}
GPT2_LAYER = {
    "attn_out": Node(reads="attn_output.bias"),
    "ffn_up": Node("ffn_up_b"),
    "ffn_act": Node("ffn_gelu"),
}


def without(table, *names):
    return {name: node for name, node in table.items() if name not in names}


PLAIN = without(COMMON_LAYER, "ffn_gate") | {"ffn_act": Node("ffn_gelu")}
RELU_SQUARED = PLAIN | {"ffn_act": Node("ffn_sqr(relu)"), "ffn_out": Node(reads="ffn_down.weight")}
PLAIN_BIASED = PLAIN | {"attn_out": Node(reads="attn_output.bias"), "ffn_up": Node("ffn_up_b")}
PLAIN_BIASED |= {"ffn_out": Node(reads="ffn_down.bias")}
# Parallel layers add three terms in an order of their own.
PARALLEL = without(COMMON_LAYER, "attn_residual", "ffn_norm")
GEMMA = COMMON_LAYER | {"attn_residual": Node("sa_out"), "ffn_act": Node("ffn_geglu")}
POST_NORMS = {"post_attn_norm": Node("attn_post_norm"), "post_ffn_norm": Node(reads="post_ffw_norm.weight")}
GEMMA4_LAYER = {
    "q": Node("Qcur"),
    "q_rope": Node("Qcur_pos"),
    "k_rope": Node("Kcur_pos"),
    "v_norm": Node("Vcur_normed"),
    "attn_residual": Node("attn_out"),
}
MINICPM3_LAYER = {
    "q_a": Node("q", ("MUL_MAT",)),
    "q": Node("q", BY_HEADS),
    "q_rope": Node("q_states"),
    "kv_a": Node("kv_pe_compresseed"),
    "kv_b": Node("kv"),
    "v": Node("v_states", ("CONT",)),
    "k_rope": Node("k_states"),
}
GLM4_NORMS = {"attn_residual": Node("ffn_inp"), "post_attn_norm": Node("post_attn_norm")}
GLM4_NORMS |= {"post_ffn_norm": Node("post_mlp_norm"), "ffn_out": Node("ffn_out")}

LAYERS = {
    "llama": COMMON_LAYER,
    "mistral3": COMMON_LAYER,
    "apertus": without(COMMON_LAYER, "ffn_gate") | QK_NORMS | APERTUS_LAYER,
    "qwen2": COMMON_LAYER,
    "qwen3": COMMON_LAYER | QK_NORMS,
    "granite": COMMON_LAYER,
    "granite_swa": without(COMMON_LAYER, "q_rope", "k_rope"),
    "olmo": COMMON_LAYER,
    "minicpm": COMMON_LAYER,
    "phi3": without(COMMON_LAYER, "ffn_gate") | FUSED_GATE,
    "olmo2": without(COMMON_LAYER, "attn_norm", "ffn_norm") | OLMO2_LAYER,
    "bloom": without(COMMON_LAYER, "q_rope", "k_rope", "ffn_gate") | GPT2_LAYER,
    "gpt2": without(COMMON_LAYER, "q_rope", "k_rope", "ffn_gate") | GPT2_LAYER,
    # Of those below only what all variants have.
    "starcoder2": PLAIN_BIASED,
    "phi2": without(PLAIN_BIASED, "attn_residual", "ffn_norm"),
    "gptneox": without(PLAIN_BIASED, "attn_residual"),
    "falcon": without(PLAIN, "attn_norm", "attn_residual", "ffn_norm"),
    "nemotron": RELU_SQUARED,
    "arcee": RELU_SQUARED,
    "jais2": PLAIN_BIASED | {"ffn_act": Node("ffn_sqr(relu)"), "q_rope": Node("Qcur_rope"), "k_rope": Node("Kcur_rope")},
    "minicpm3": without(COMMON_LAYER, "k") | MINICPM3_LAYER,
    "stablelm": without(COMMON_LAYER, "ffn_norm"),
    "command-r": PARALLEL,
    "cohere2": without(PARALLEL, "q_rope", "k_rope"),
    "smollm3": without(COMMON_LAYER, "q_rope", "k_rope"),
    "gemma": GEMMA,
    "gemma2": GEMMA | POST_NORMS,
    "gemma3": GEMMA | QK_NORMS | POST_NORMS,
    "gemma4": without(GEMMA, "k", "v") | QK_NORMS | POST_NORMS | GEMMA4_LAYER,  # k may have the name of v
    "ernie4_5": COMMON_LAYER,
    "exaone": COMMON_LAYER,
    "xverse": COMMON_LAYER,
    "hunyuan-dense": COMMON_LAYER | {"q_rope_norm": Node("Qcur_norm"), "k_rope_norm": Node("Kcur_norm")},
    "seed_oss": COMMON_LAYER | {"ffn_norm": Node("attn_post_norm")},
    "chatglm": without(COMMON_LAYER, "ffn_gate") | FUSED_GATE,
    "glm4": without(COMMON_LAYER, "ffn_gate") | FUSED_GATE | GLM4_NORMS,
}
GEMMA_TOP = COMMON_TOP | {"embedding": Node("inp_scaled")}
TOPS = {arch: COMMON_TOP for arch in LAYERS} | {"gpt2": COMMON_TOP | {"embedding": Node("inpL")}}
TOPS["bloom"] = COMMON_TOP | {"embedding": Node("inp_norm-0")}
TOPS |= {arch: GEMMA_TOP for arch in ("gemma", "gemma2", "gemma3", "gemma4", "minicpm3")}
ANY_LAYER, ANY_TOP = {"output": Node("l_out")}, {"logits": Node("result_output")}


class Namer:
    """Finds the checkpoints among the nodes of one pass, and reports the missing ones.

    Of an architecture without names here only layers and logits are found, if that is enough (any_arch).
    """

    def __init__(self, arch, layers, tokens, any_arch=False):
        if arch not in LAYERS and not any_arch:
            raise RuntimeError(f"no names for llama.cpp's graph of '{arch}'; there are {', '.join(LAYERS)}")
        self.layer_nodes, self.top_nodes = LAYERS.get(arch, ANY_LAYER), TOPS.get(arch, ANY_TOP)
        names = [part for name, node in self.layer_nodes.items() for part in node.parts or (name,)]
        self.left = {f"layer_{layer}_{name}" for layer in range(layers) for name in names} | set(self.top_nodes)
        self.tokens = tokens  # of the pass
        self.layer = 0  # of the last node that named one

    def missing(self):
        return sorted(self.left)

    def checkpoints(self, tensor):
        """(checkpoint, rows [tokens, n]) of one node: usually empty."""
        name, _, layer = tensor.name.rpartition("-")
        if layer.isdigit():
            self.layer = int(layer)
        else:
            name = tensor.name
        for checkpoint, node in self.top_nodes.items():
            if node.matches(tensor, name, None):
                yield from self.found([checkpoint], tensor)
        for checkpoint, node in self.layer_nodes.items():
            if node.matches(tensor, name, self.layer):
                picked = tensor.source(0) if node.source_of else tensor
                yield from self.found([f"layer_{self.layer}_{part}" for part in node.parts or (checkpoint,)], picked)

    def found(self, names, tensor):
        rows = tensor.values().reshape(self.tokens, -1)  # from [1, 1, tokens, n] or [1, tokens, heads, head_dim]
        width = rows.shape[1] // len(names)
        for part, name in enumerate(names):
            self.left.discard(name)
            yield name, rows[:, part * width : (part + 1) * width]
