"""`python -m generate.class_defaults`: what transformers takes where a config.json lacks a key, for engine/hf/.

Sizes are of use for a text_config alone, which may state only those that differ: a config.json without them is broken.
"""

import dataclasses
import importlib.util
import inspect
import json
import re
from pathlib import Path

from transformers import CONFIG_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING
from transformers import __version__ as version

ROOT = Path(__file__).resolve().parents[2]
WRITTEN = ROOT / "engine/hf/class_defaults.json"
OF_VOCABULARY = {"eos_token_id"}  # which no class can know
SIZES = {
    "vocab_size",
    *("hidden_size", "n_embd", "d_model"),
    *("num_hidden_layers", "n_layer", "n_layers"),
    *("num_attention_heads", "n_head", "n_heads"),
    *("intermediate_size", "moe_intermediate_size"),
    *("num_local_experts", "num_experts", "moe_num_experts", "n_routed_experts"),
}
REQUIRED = SIZES | OF_VOCABULARY
# Of a rotation: the names that a class may have for each outside of rope_parameters, as older files state them.
OF_ROTATION = {"rope_theta": ("rope_theta", "rotary_emb_base"), "partial_rotary_factor": ("partial_rotary_factor", "rotary_pct")}
PROBE = 0.125


def model_types():
    """The kinds of models that Assay reads, from their one list."""
    return re.findall(r'\.model_type = "(\w+)"', (ROOT / "model/hf_names.cc").read_text())


def keys_read():
    """All strings of the reader's sources that could be keys of a config.json."""
    sources = (ROOT / "engine/hf").glob("*.cc")
    return {name for source in sources for name in re.findall(r'"([a-z]\w+)"', source.read_text())}


def share_read(config_class):
    """The share that the class of the rotation takes where the config's class has none; None: it reads none."""
    own = config_class.__module__.replace(".configuration_", ".modeling_")  # which some do without
    name = own if importlib.util.find_spec(own) else MODEL_FOR_CAUSAL_LM_MAPPING[config_class].__module__
    network = importlib.import_module(name)
    classes = inspect.getmembers(network, inspect.isclass)
    sources = [inspect.getsource(each) for name, each in classes if name.endswith("RotaryEmbedding")]
    found = next(filter(None, (re.search(r'"partial_rotary_factor", ([\d.]+)', source) for source in sources)), None)
    return found and float(found[1])


def rotation(config_class):
    """The defaults of a rotation, which classes put together when a config is made, under the keys of older files."""

    def parameters(**stated):
        both = config_class.from_dict(stated).to_dict().get("rope_parameters") or {}
        return both.get("full_attention", both), both.get("sliding_attention")

    whole, local = parameters()
    result = {}
    for key, names in OF_ROTATION.items():
        result |= {name: whole[key] for name in names if key in whole and parameters(**{name: PROBE})[0][key] == PROBE}
    if not result.keys() & set(OF_ROTATION["partial_rotary_factor"]) and (share := share_read(config_class)):
        result["partial_rotary_factor"] = whole.get("partial_rotary_factor", share)
    if local and "rope_theta" not in result:  # which is read of each kind of layers alone
        return result | {"rope_parameters": {"full_attention": whole, "sliding_attention": local}}
    if local:
        result["rope_local_base_freq"] = local["rope_theta"]
    if whole.get("rope_type", "default") != "default":
        outside = {key for key, names in OF_ROTATION.items() if result.keys() & set(names)}
        result["rope_parameters"] = {key: whole[key] for key in whole if key not in outside}
    return result


def row(model_type, keys):
    config_class = CONFIG_MAPPING[model_type]
    fields = {field.name: field.default for field in dataclasses.fields(config_class)}
    own = {key: fields[key] for key in config_class.__annotations__ if key in fields} | rotation(config_class)
    own = {key: own[key] for key in sorted(own) if own[key] not in (None, dataclasses.MISSING)}
    defaults = {key: value for key, value in own.items() if key in keys - REQUIRED}
    sizes = {key: value for key, value in own.items() if key in keys & SIZES and isinstance(value, int)}
    return {"defaults": defaults, "sizes": sizes}


def text():
    keys = keys_read()
    rows = [f"{json.dumps(name)}: {json.dumps(row(name, keys))}" for name in model_types()]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    WRITTEN.write_text(text())
    print(f"{WRITTEN.name}: {len(model_types())} kinds of models, transformers {version}")
