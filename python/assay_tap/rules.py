"""Ready rules for transformers' models, for every checkpoint that Assay names: they follow from networks.py.

The output of a norm or linear module is its checkpoint. What no module computes is the input of the first module that
reads it, the result of the function that rotates q and k, or the sum of two others. `embedding` is what enters the
first layer, so it includes learned positions; logits are the model's own, after scales and caps. q and k are in the row
order of a GGUF file: for `llama` the two numbers that rotate together are neighbours, where transformers holds them
half a head apart.
"""

import re
from dataclasses import dataclass, replace

from .any_model import rules_for_any
from .layers import layer_of
from .network_of import network_of
from .rule import Rule, first, model_logits
from .streams import OF_SEVERAL_MODULES, stream_rule

# The functions that compute these, for several tokens and for one; and attention that shows what it attended to.
CONVOLUTION = ("causal_conv1d_fn", "causal_conv1d_update")
SCAN = "mamba2_chunk_scan"  # of several tokens; what computes one may be given the gate as well
STATE = ("state_size", "mamba_d_state")  # how long a state of Mamba is, of each channel
DELTA_RULE = ("torch_chunk_gated_delta_rule", "torch_recurrent_gated_delta_rule")
ATTENTION = "eager_attention_forward"
OF_ALL_LAYERS = ("ple_embedding", "ple_proj", "ple_proj_norm", "ple_input")
HEAD_NORMS = ("q_norm", "k_norm", "v_norm", "q_rope_norm", "k_rope_norm")


@dataclass(frozen=True)
class Heads:
    """How many heads q has, and how many elements a head of q, k and v."""

    count: int
    dim: int
    turned: int = 0  # of each head, the first, where not all are

    def split(self, tensor, by_kv_head):
        """q, k and v of the output [..., n] of one module: all of each, or one key-value head's after another's."""
        kv = (tensor.shape[-1] // self.dim - self.count) // 2
        if not by_kv_head:
            return tensor.split([self.count * self.dim, kv * self.dim, kv * self.dim], dim=-1)
        groups = tensor.reshape(*tensor.shape[:-1], kv, -1, self.dim)
        return [part.flatten(-3) for part in groups.split([self.count // kv, 1, 1], dim=-2)]

    def to_adjacent(self, rows):
        """[..., heads * dim]: from first half and second half of what turns of each head to neighbouring pairs."""
        turned = self.turned or self.dim
        heads = rows.unflatten(-1, (-1, self.dim))
        paired = heads.clone()
        paired[..., :turned] = heads[..., :turned].unflatten(-1, (2, turned // 2)).transpose(-1, -2).flatten(-2)
        return paired.flatten(-2)


def heads_of(config, index):
    """Of the layer of this number; "*" where all layers have the same."""
    count = getattr(config, "num_attention_heads", None) or 1  # of networks without attention: none is asked for
    own = config.per_layer_config[index] if has_own_heads(config) else config
    dim = getattr(own, "head_dim", None) or config.hidden_size // count
    share = (getattr(config, "rope_parameters", None) or {}).get("partial_rotary_factor") or 1.0
    return Heads(count, dim, int(share * dim))


def mamba_sizes(config):
    """Elements of all heads of Mamba-2 together, and how many heads there are."""
    heads = next(getattr(config, name) for name in ("mamba_n_heads", "mamba_num_heads", "num_heads") if hasattr(config, name))
    length = next(getattr(config, name) for name in ("mamba_d_head", "mamba_head_dim", "head_dim") if hasattr(config, name))
    return heads * length, heads


def has_own_heads(config):
    """Whether layers differ in sizes that the config has of each by itself."""
    return getattr(config, "is_heterogeneous", False)


def ascending(positions, most):
    """[sequences, tokens, n] of positions in any order, of which some may be later than the token's own, as
    [sequences * tokens, most]: in order, and -1 behind them.
    """
    own = positions.new_ones(positions.shape[1]).cumsum(0)[:, None] - 1
    rows = positions.new_full((*positions.shape[:2], most), 1 << 30)
    rows[..., : positions.shape[-1]] = positions.masked_fill(positions > own, 1 << 30)
    rows = rows.sort(dim=-1).values
    return rows.masked_fill(rows == 1 << 30, -1).flatten(0, 1)


def join_heads(tensor):
    """[sequences, heads, tokens, head_dim] as [sequences * tokens, heads * head_dim]."""
    return tensor.transpose(1, 2).flatten(2).flatten(0, 1)


class _Layer:
    """The rules of a layer, by checkpoint."""

    def __init__(self, network, config, modules, index):
        """modules: the paths of those that the layer has, within it. index: its number, or "*" for all."""
        self._modules = modules
        self._network, self._config, self._heads = network, config, heads_of(config, index)
        self._number = "{0}" if index == "*" else index
        self._index = index
        self._layer = f"{network['layers']}.{index}"
        self._entering = Rule(self._layer, "", of="input")
        self._ops = [op for op in network["layer"] if op[1] != "norm" or not op[4] or op[4] in modules]
        self._dropped = {op[0]: op[2] for op in network["layer"] if op not in self._ops}  # norms that are switched off
        self._rules = {}
        for out, kind, inputs, _, module in self._ops:
            if rule := self._rule(out, kind, inputs.split(), module):
                self._rules[out] = replace(rule, checkpoint=f"layer_{self._number}_{out}")

    def rules(self):
        return list(self._rules.values())

    def _rule(self, out, kind, inputs, module):
        if out in OF_SEVERAL_MODULES:
            return None
        if self._has("predictions"):
            width, norm = self._config.hidden_size, self._network["output_norm"]
            if rule := stream_rule(self._layer, out, self._has("streams_out"), norm, width):
                return rule
        if out == "output":
            return Rule(self._layer, "")
        if out in OF_ALL_LAYERS:
            return self._of_all_layers(out)
        if self._has("linear_qkv") and (rule := self._linear_attention(out, module)):
            return rule
        if self._has("ssm_xbc") and (rule := self._mamba(out, module)):
            return rule
        if kind == "heads" and inputs == ["q_and_gate"]:
            return self._half_of_heads(out)
        if kind == "attention" and self._has("gated_attn"):  # no module reads it
            attention = self._rules["attn_gate"].module.rpartition(".")[0]
            return Rule(attention, "", calls=ATTENTION, change=lambda result: first(result).flatten(2))
        if self._has("ssm_step") and out in ("ssm_step", "ssm"):  # whose function is given the gate as well
            return None
        if kind == "ssm" and self._has("ssm_gated"):  # no module reads it
            return Rule(f"{self._layer}.{self._block('linear_z')}", "", calls=SCAN, change=lambda result: first(result).flatten(2))
        if module and kind != "conv":  # otherwise a product with weights of some experts, within a larger module
            whole = Rule(
                f"{self._layer}.{module}", "", call=self._call(out, kind, module), change=self._change(out, kind, module)
            )
            return whole if module in self._modules else None
        if kind == "heads":
            return self._parts_of_heads(out, *inputs)
        if out in ("index_q_rope", "index_k_rope", "indexed"):
            return self._of_indexer(out, *inputs)
        if kind == "rope" and self._has("kv_b"):
            return self._rotated_end(out)
        if kind == "rope":
            return self._rotation(out, self._dropped.get(inputs[0], inputs[0]))
        readers = (op for op in self._ops if op[1] in ("norm", "linear") and op[4] in self._modules)
        once = (op for op in readers if op[0] != "correct_norm")  # the module has been called before
        reader = next((op[4] for op in once if out in op[2].split()), None)
        if reader:
            return Rule(f"{self._layer}.{reader}", "", of="input")
        if kind != "add":
            return None
        if out == "ffn_out":  # of routed and shared experts, which models compute in either order
            shared = self._network_module("shared_out")
            mixture = self._network_module(inputs[0]) or shared.rpartition(".")[0]  # beside it where no module mixes
            block = mixture.rpartition(".")[0]
            routed = Rule(f"{self._layer}.{block}", "")
            if shared.startswith(f"{block}."):
                return routed
            alone = f"{self._layer}.{shared.rpartition('.')[0]}"
            return Rule(alone, "", beside=routed, change=lambda value, other: first(value) + first(other))
        stream, branch = (self._entering if name == "output" else self._rules[name] for name in inputs)
        # One of them may be [sequences, tokens, n], and the other, of experts, [sequences * tokens, n].
        return replace(
            branch, beside=stream, change=lambda value, other: branch.parts(value)[0].flatten(0, -2) + other.flatten(0, -2)
        )

    def _outs(self, module):
        return [op[0] for op in self._ops if op[4] == module]

    def _call(self, out, kind, module):
        """Which of a module's calls it is, where norms of q and k are one module."""
        outs = self._outs(module)
        return outs.index(out) if kind == "norm" and len(outs) > 1 else None

    def _change(self, out, kind, module):
        """What makes the checkpoint of a module's output, if it is not that itself."""
        if out == "router" and "router_gives_scores" in self._network:
            return lambda value: value[1]
        outs = self._outs(module)
        by_heads = kind == "norm" and out in HEAD_NORMS
        reorder = out in ("q", "k", *HEAD_NORMS) and "halves_to_adjacent" in self._network
        if len(outs) == 1 and not by_heads and not reorder:
            return self._scaled(out, None)

        def change(value):
            rows = first(value)
            if outs == ["q", "k", "v"]:
                rows = self._heads.split(rows, "fused_by_kv_head" in self._network)[outs.index(out)]
            elif outs == ["ssm_dt_in", "ssm_b", "ssm_c"]:
                state = next(getattr(self._config, name) for name in STATE if hasattr(self._config, name))
                rows = rows.split([rows.shape[-1] - 2 * state, state, state], dim=-1)[outs.index(out)]
            elif len(outs) > 1 and kind != "norm":
                rows = rows.chunk(len(outs), dim=-1)[outs.index(out)]
            if by_heads:  # whether they are in a dimension of their own or not
                heads_first = "heads_first" in self._network
                rows = join_heads(rows) if heads_first else rows.flatten(0, 1).flatten(1)
            return self._heads.to_adjacent(rows) if reorder else rows

        return self._scaled(out, change)

    def _scaled(self, out, change):
        """`change`, and what the config says that the module's output is multiplied by."""
        tensor = next(op[3] for op in self._ops if op[0] == out)
        scales = [each for each in self._network.get("scales", ()) if each[0] == tensor and each[3] in ("", out)]
        if not scales:
            return change

        def scaled(value):
            rows = change(value) if change else first(value)
            factors = rows.new_ones(rows.shape[-1])
            for _, key, index, _, part in scales:
                stated = getattr(self._config, key)
                factors[self._part(rows.shape[-1], part)] *= stated if index < 0 else stated[index]
            return rows * factors

        return scaled

    def _part(self, width, number):
        """Of the values, B and C of Mamba-2, those of this number, counted from 1; 0: all."""
        if number == 0:
            return slice(None)
        inner, _ = mamba_sizes(self._config)
        borders = (0, inner, (inner + width) // 2, width)
        return slice(borders[number - 1], borders[number])

    def _half_of_heads(self, out):
        """The query, or the gate that follows it, of each head of a module that has both."""
        half, heads = int(out != "q"), self._heads.count
        rule = self._rules["q_and_gate"]
        return Rule(rule.module, "", change=lambda value: value.unflatten(-1, (heads, 2, -1))[..., half, :].flatten(-2))

    def _linear_attention(self, out, module):
        """What linear attention computes, with value heads in the order of a GGUF file. None for other ops.

        Queries, keys, values and their gate may be one module, which has those of each key head together, as a product
        of beta and alpha has.
        """
        keys, values = self._config.linear_num_key_heads, self._config.linear_num_value_heads
        block = f"{self._layer}.{self._network_module('linear_qkv').rpartition('.')[0]}"

        grouped = "grouped_value_heads" in self._network
        fused = self._network_module("linear_qkv") == self._network_module("linear_z")

        def in_order(rows):  # value heads that read key heads 0, 1, ..., 0, 1, ...; here in groups that read one
            if grouped:
                return rows
            return rows.unflatten(-1, (keys, values // keys, -1)).transpose(-3, -2).flatten(-3)

        def behind_keys(rows):
            size = 2 * keys * self._config.linear_key_head_dim
            joined = rows.clone()
            joined[..., size:] = in_order(rows[..., size:])
            return joined

        def of_key_heads(rows):  # [queries, keys, values, gates] of all, from those of each
            size, of_values = self._config.linear_key_head_dim, values // keys * self._config.linear_value_head_dim
            parts = rows.unflatten(-1, (keys, -1)).split([size, size, of_values, of_values], dim=-1)
            joined, at = rows.clone(), 0
            for part in parts:
                joined[..., at : at + keys * part.shape[-1]] = part.flatten(-2)
                at += keys * part.shape[-1]
            return joined

        if fused and out in ("linear_qkv", "linear_z"):
            gates = values * self._config.linear_value_head_dim
            part = slice(-gates) if out == "linear_qkv" else slice(-gates, None)
            return Rule(f"{self._layer}.{module}", "", change=lambda rows: of_key_heads(rows)[..., part])
        if self._has("linear_ba") and out in ("linear_a", "linear_b"):
            half = int(out == "linear_a")
            return replace(
                self._rules["linear_ba"], change=lambda rows: rows.unflatten(-1, (keys, 2, -1))[..., half, :].flatten(-2)
            )
        if out == "linear_qkv":
            return Rule(f"{self._layer}.{module}", "", change=behind_keys)
        if out in ("linear_z", "linear_a", "linear_b"):
            return Rule(f"{self._layer}.{module}", "", change=in_order)
        if out == "linear_conv":  # [sequences, channels, tokens], behind those that are kept of earlier calls
            return Rule(
                block, "", calls=CONVOLUTION, beside=self._rules["linear_qkv"],
                change=lambda result, qkv: behind_keys(result[..., -qkv.shape[-2]:].transpose(1, 2))
            )
        if out == "delta":
            return Rule(block, "", calls=DELTA_RULE, change=lambda result: in_order(first(result).flatten(2)))
        if out == "delta_norm":
            return Rule(f"{self._layer}.{self._network_module('attn_out')}", "", of="input", change=in_order)
        return None

    def _of_all_layers(self, out):
        """What modules in front of the layers compute for all of them: the layer's own part."""
        count, index = self._config.num_hidden_layers, self._index

        def part(value):  # of [..., layers * n]
            return value.unflatten(-1, (count, -1))[..., index, :]

        embedding = Rule(self._network["per_layer_token_embd"], "", change=part)
        normed = Rule(self._network["per_layer_proj_norm"], "", change=lambda value: value[..., index, :])
        if out == "ple_input":
            return replace(
                normed, beside=embedding, change=lambda value, other: (value[..., index, :] + other) * 0.5**0.5
            )
        product = Rule(self._network["per_layer_model_proj"], "", change=part)
        return {"ple_embedding": embedding, "ple_proj": product, "ple_proj_norm": normed}[out]

    def _mamba(self, out, module):
        """What Mamba-2 computes before its state space model. None for other ops."""
        inner, heads = mamba_sizes(self._config)
        if out in ("linear_z", "ssm_xbc", "ssm_dt"):  # all of one module

            def change(rows):
                parts = rows.split([inner, rows.shape[-1] - inner - heads, heads], dim=-1)
                return parts[("linear_z", "ssm_xbc", "ssm_dt").index(out)]

            return Rule(f"{self._layer}.{module}", "", change=self._scaled(out, change))
        if out == "linear_conv":  # [sequences, channels, tokens], behind those that are kept of earlier calls
            return Rule(
                f"{self._layer}.{self._block(out)}", "", calls=CONVOLUTION, beside=self._rules["ssm_xbc"],
                change=lambda result, rows: result[..., -rows.shape[-2]:].transpose(1, 2)
            )
        return None

    def _network_module(self, out):
        return next(op[4] for op in self._ops if op[0] == out)

    def _block(self, out):
        return self._network_module(out).rpartition(".")[0]

    def _has(self, out):
        return any(op[0] == out for op in self._ops)

    def _own(self, kv_b):
        """Of latent attention [..., tokens, n]: the own parts of keys [tokens, heads, dim], and the values."""
        heads = first(kv_b).flatten(0, -2).unflatten(-1, (self._heads.count, -1))
        return heads.split([self._config.qk_nope_head_dim, self._config.v_head_dim], dim=-1)

    @staticmethod
    def _with_end(own, end):
        """[tokens, heads * dim] of heads' own parts and an end [tokens, heads or 1, dim]."""
        size = own.shape[-1]
        heads = own.new_empty(*own.shape[:2], size + end.shape[-1])
        heads[..., :size], heads[..., size:] = own, end
        return heads.flatten(1)

    def _parts_of_heads(self, out, kv_b, kv_a=None):
        module = self._rules[kv_b].module
        if kv_a is None:
            return Rule(module, "", change=lambda value: self._own(value)[1].flatten(1))
        size = self._config.qk_rope_head_dim
        return Rule(
            module,
            "",
            change=lambda value, other: self._with_end(self._own(value)[0], first(other).flatten(0, -2)[:, None, -size:]),
            beside=self._rules[kv_a],
        )

    def _rotated_end(self, out):
        """Rotated q or k of latent attention, whose function is given the last part of each head alone."""
        size = self._config.qk_rope_head_dim
        attention = self._rules["kv_b"].module.rpartition(".")[0]
        calls = Rule(attention, "", calls=self._network["rotation"], change=lambda result: result)

        def turned(result):  # [sequences * tokens, heads, size]
            rows = result[out == "k_rope"].transpose(1, 2).flatten(0, 1)
            return replace(self._heads, dim=size).to_adjacent(rows) if "rotated_to_halves" in self._network else rows

        if out == "k_rope":  # transformers computes the other parts after the rotation
            return Rule(
                self._rules["kv_b"].module,
                "",
                change=lambda value, result: self._with_end(self._own(value)[0], turned(result)),
                beside=calls,
            )

        def change(result, plain):
            own = first(plain).reshape(len(turned(result)), self._heads.count, -1)[..., :-size]
            return self._with_end(own, turned(result))

        return replace(calls, change=change, beside=self._rules["q"])

    def _of_indexer(self, out, *inputs):
        """What the module computes that chooses the positions that attention sees."""
        if "index_q" not in self._rules:
            return None
        indexer = self._rules["index_q"].module.rpartition(".")[0]
        if out == "indexed":
            most = min(self._config.index_topk, self._config.max_position_embeddings)
            return Rule(indexer, "", change=lambda value: ascending(value, most))
        adjacent = self._network.get("index_adjacent", False)

        def change(result, plain):
            rows = result[out == "index_k_rope"].flatten(0, 1)
            size = rows.shape[-1]
            if adjacent:
                rows = rows.unflatten(-1, (2, -1)).transpose(-1, -2).flatten(-2)
            heads = first(plain).reshape(*rows.shape[:2], -1).clone()
            heads[..., :size] = rows
            return heads.flatten(1)

        rotation = self._network["rotation"] if adjacent else "apply_rotary_pos_emb"
        return Rule(indexer, "", calls=rotation, change=change, beside=self._rules[inputs[0]])

    def _rotation(self, out, of):
        """Rotated q or k. Where only a part of each head is given to the function, the rest stays as it was."""
        alone = "rotated_alone" in self._network

        def change(result, plain):
            rotated = result if alone else result[out == "k_rope"]
            size = rotated.shape[-1]
            if alone or "rotated_by_tokens" in self._network:
                rows = rotated.flatten(0, 1).flatten(1)
            else:
                kv = plain.shape[-1] // self._heads.dim
                if rotated.shape[1] > kv:  # Falcon repeats a head of k for each query that reads it
                    rotated = rotated[:, :: rotated.shape[1] // kv]
                rows = join_heads(rotated)
            if size < self._heads.dim:
                heads = plain.reshape(len(rows), -1, self._heads.dim).clone()
                heads[..., :size] = rows.reshape(len(rows), -1, size)
                rows = heads.flatten(1)
            return self._heads.to_adjacent(rows) if "halves_to_adjacent" in self._network else rows

        attention = next(op[4] for op in self._ops if op[0] == of).rpartition(".")[0]
        is_second = (out == "k_rope") != ("rotates_keys_first" in self._network)
        call = int(is_second) if alone else None
        return Rule(
            f"{self._layer}.{attention}", "", calls=self._network["rotation"], call=call, change=change, beside=self._rules[of]
        )


def _within_layers(network, named):
    """The paths, from a layer on, of modules or parameters of each layer: {index: paths}."""
    pattern = re.compile(rf"{re.escape(network['layers'])}\.(\d+)\.(.+)")
    layers = {}
    for name, _ in named:
        if match := pattern.fullmatch(name):
            layers.setdefault(int(match[1]), set()).add(match[2])
    return layers


def _describes(network, modules, parameters):
    """Whether these are of that network: each linear module is there, and no other has weights."""
    known = tuple(f"{op[4]}." for op in network["layer"] if op[4])
    linear = {op[4] for op in network["layer"] if op[1] == "linear" and op[4]}
    return linear <= modules | parameters and all(
        name.startswith(known) for name in parameters if name.endswith(".weight")
    )


def _as_rotated(network, config):
    """deepseek_v3 can be told to rotate halves of a head: by the usual function, and they stay in that order."""
    if "rotated_to_halves" not in network or getattr(config, "rope_interleave", True):
        return network
    rest = {name: value for name, value in network.items() if name != "rotated_to_halves"}
    return rest | {"rotation": "apply_rotary_pos_emb"}


def rules_for(model):
    """The rules for a model of transformers: of its network, network_of(), or those that fit any.

    Raises LogError if there are none.
    """
    network, config = network_of(model)
    if not network:
        return rules_for_any(model)
    network = _as_rotated(network, config)
    there = ((name, module) for name, module in model.named_modules() if type(module).__name__ != "Identity")
    modules = _within_layers(network, there)
    parameters = _within_layers(network, model.named_parameters())
    layers = {}
    for index, paths in modules.items():
        layers[index] = {**network, "layer": layer_of(network, config, paths, index)}
        if not _describes(layers[index], paths, parameters.get(index, set())):
            return rules_for_any(model)
    own_parts = any(op[0] in OF_ALL_LAYERS for layer in layers.values() for op in layer["layer"])
    alike = len({frozenset(paths) for paths in modules.values()}) == 1 and not has_own_heads(config)
    alike = alike and not own_parts
    rules = [
        rule
        for index, layer in (layers.items() if not alike else [("*", layers[0])])
        for rule in _Layer(layer, config, modules[0 if alike else index], index).rules()
    ]
    joined = any(op[0] == "streams" for op in layers[0]["layer"])  # of which the first is the embedding
    return [
        Rule(f"{network['layers']}.0", "embedding", of="input", change=(lambda streams: streams[0]) if joined else None),
        *rules,
        Rule(network["output_norm"], "final_norm", call=1 if "one_norm_module" in network else None),
        Rule("", "logits", change=model_logits),
    ]
