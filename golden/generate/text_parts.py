"""`python -m generate.text_parts`: what transformers says of models of text and something else, for engine/hf/.

Of each: the kind that its text_config has where it does not say, whether keys of the text may stand outside of it, whether
the embedding is the output matrix, whether a text_config may say so, too, and how names of tensors begin that are not the
text's.
"""

import inspect
import json

import torch
import transformers
from transformers import CONFIG_MAPPING
from transformers.core_model_loading import revert_weight_conversion
from transformers.models.auto import modeling_auto

from .class_defaults import ROOT

WRITTEN = ROOT / "engine/hf/text_parts.json"
# Those whose text is computed as that kind computes it alone (tests/generate/text_parts_test.py).
KINDS = [
    *("audioflamingo3", "deepseek_vl", "deepseek_vl_hybrid", "exaone4_5", "gemma3", "gemma4", "glm46v", "glm4v", "glm4v_moe", "glmasr"),
    *("got_ocr2", "granite_speech", "hyperclovax_vision_v2", "idefics2", "idefics3", "internvl", "janus", "lfm2_vl", "lighton_ocr"),
    *("llama4", "llava", "llava_next", "llava_next_video", "llava_onevision", "minicpmv4_6", "minicpmv4_7", "mistral3"),
    *("musicflamingo", "ovis2", "qwen2_audio", "qwen2_5_vl", "qwen2_vl", "qwen3_5", "qwen3_5_moe"),
    *("qwen3_asr", "qwen3_vl", "qwen3_vl_moe", "smolvlm", "video_llama_3", "video_llava", "vipllava", "voxtral"),
]
# Whose class needs the package timm for its images: by its published files.
UNMADE = {"gemma3n": ["audio_tower.", "embed_audio.", "embed_vision.", "vision_tower."]}
# What scales or caps logits, which the class of a whole may do or not as that of its text alone does.
OF_LOGITS = ("final_logit_softcapping", "logits_scaling", "logit_scale")
# Names of the network of text, as modules and files have them. An output matrix is the whole model's.
OF_TEXT = ("language_model.", "text_model.", "lm_head.")
PROBE = 24
SMALL = {
    **{key: 32 for key in ("hidden_size", "d_model", "embed_dim", "projection_dim")},
    **{key: 48 for key in ("intermediate_size", "encoder_ffn_dim")},
    **{key: 1 for key in ("num_hidden_layers", "depth", "encoder_layers", "num_layers")},
    **{key: 2 for key in ("num_attention_heads", "num_heads", "encoder_attention_heads", "num_key_value_heads", "mlp_ratio")},
    "out_hidden_size": 64,
}


def model_class(kind):
    """The class that has logits."""
    tables = [getattr(modeling_auto, name) for name in dir(modeling_auto) if name.endswith("_MAPPING_NAMES")]
    names = [name for table in tables for name in [table.get(kind, "")] if isinstance(name, str)]
    return getattr(transformers, next(name for name in names if name.endswith("ForConditionalGeneration")))


def shrunk(stated):
    """A network that only has to be there, small."""
    small = {key: SMALL[key] for key in stated.keys() & SMALL.keys() if isinstance(stated[key], int)}
    return stated | small | {key: shrunk(value) for key, value in stated.items() if isinstance(value, dict)}


def small_config(kind, text):
    """A config of this kind: the config `text`, and the other networks small."""
    config_class = CONFIG_MAPPING[kind]
    usual = config_class().to_dict()
    rest = {key: shrunk(usual.get(key) or made().to_dict()) for key, made in config_class.sub_configs.items() if key != "text_config"}
    return config_class.from_dict(usual | rest | {"text_config": text})


def first_part(name):
    return name.split(".")[0] + "." if "." in name else name


def others(kind, config):
    """What names of other networks' tensors begin with, up to their first dot, in published files and in modules."""
    if kind in UNMADE:
        return UNMADE[kind]
    with torch.device("meta"):
        model = model_class(kind)(config)
    state = model.state_dict()
    names = {name.removeprefix("model.") for name in [*state, *revert_weight_conversion(model, dict(state))]}
    text = {name for name in names if name.startswith(OF_TEXT)}
    own = {first_part(name.split(".", 1)[1].removeprefix("model.")) for name in text}  # in older files without the prefix
    return sorted({first_part(name) for name in names - text} - own)


def ties(config):
    return getattr(config, "tie_word_embeddings", False)


def scales_logits(kind):
    source = inspect.getsource(model_class(kind).forward)
    return any(name in source for name in OF_LOGITS)


def part(kind):
    config_class = CONFIG_MAPPING[kind]
    usual = config_class()
    text_type = usual.text_config.model_type
    config = small_config(kind, CONFIG_MAPPING[text_type](num_hidden_layers=1).to_dict())
    try:
        flat = config_class.from_dict({"model_type": kind, "hidden_size": PROBE}).text_config.hidden_size == PROBE
    except Exception:  # not every class takes a size that does not fit the others
        flat = False
    tied_text = small_config(kind, config.text_config.to_dict() | {"tie_word_embeddings": True})
    untied_text = small_config(kind, config.text_config.to_dict() | {"tie_word_embeddings": False})
    return {
        **{"text": text_type, "flat": flat, "tied": ties(usual), "tied_by_text": ties(tied_text) and not ties(untied_text)},
        "scales_logits": scales_logits(kind),
        "others": others(kind, config),
    }


def text():
    return "{\n" + ",\n".join(f"{json.dumps(kind)}: {json.dumps(part(kind))}" for kind in sorted([*KINDS, *UNMADE])) + "\n}\n"


if __name__ == "__main__":
    WRITTEN.write_text(text())
    print(f"{WRITTEN.name}: {len(KINDS) + len(UNMADE)} kinds of models, transformers {transformers.__version__}")
