"""The residual stream: scales, and what is added to what."""

from ..base_parts import NO_CAP
from ..bases import config
from ..case import Row, ignored, misread
from .family_mistakes import ALTUP, NO_LAUREL, sparsity

GROUP = "residual stream and scales"


def scale(name, key, value, **more):
    return Row(
        key, GROUP, f"{key} of Granite", config("granite", **{key: value}), (key,),
        (
            ignored(name, "leaves it out", {key: 1.0}),
            misread(name, "takes its inverse", {key: 1 / value}),
        ),
        **more,
    )


def embedding_scale(feature, name, model_type, **changes):
    """sqrt(72) is 8.485: in bfloat16 it is 8.5, and some engines round it. What they do, the catalogue knows."""
    return Row(
        feature, GROUP, f"The scale of {name}'s embedding, a root that has to be rounded",
        config(model_type, hidden_size=72, **changes), ("hidden_size",),
    )


STREAM = [
    embedding_scale("embedding_scale", "Gemma", "gemma"),
    embedding_scale("embedding_scale_gemma2", "Gemma 2", "gemma2"),
    embedding_scale("embedding_scale_gemma3", "Gemma 3", "gemma3_text", rope_theta=1000000.0),
    scale("embedding_scale", "embedding_multiplier", 8.0),
    scale("residual_multiplier", "residual_multiplier", 0.25),
    scale("logit_scale", "logits_scaling", 8.0),
    Row(
        "logit_scale", GROUP, "logit_scale of Command R", config("cohere", logit_scale=0.25), ("logit_scale",),
        (
            ignored("logit_scale", "leaves it out", {"logit_scale": 1.0}),
            misread("logit_scale", "takes 0.0625", {"logit_scale": None}),
            misread("logit_scale", "takes its inverse", {"logit_scale": 4.0}),
        ),
    ),
    Row(
        "logit_scale_left_out", GROUP, "No logit_scale: that of the class, 0.0625",
        {key: value for key, value in config("cohere").items() if key != "logit_scale"}, (),
        (misread("logit_scale", "takes 1", {"logit_scale": 1.0}),),
    ),
    Row(
        "parallel_residual", GROUP, "Attention and feed-forward of the same input", config("gpt_neox"),
        ("use_parallel_residual",),
        (ignored("parallel_residual", "adds attention first", {"use_parallel_residual": False}),),
    ),
    Row(
        "sequential_residual", GROUP, "GPT-NeoX with the feed-forward after the attention",
        config("gpt_neox", use_parallel_residual=False), ("use_parallel_residual",),
        (ignored("parallel_residual", "gives both the same input", {"use_parallel_residual": True}),),
    ),
    Row(
        "parallel_residual_stablelm", GROUP, "StableLM with one norm and a parallel feed-forward",
        config("stablelm", use_parallel_residual=True), ("use_parallel_residual",),
    ),
    Row(
        "final_logit_softcapping", GROUP, "Soft cap of the logits", config("gemma2", final_logit_softcapping=2.0),
        ("final_logit_softcapping",),
        (
            ignored("logit_softcap", "leaves the soft cap out", {"final_logit_softcapping": NO_CAP}),
            misread("logit_softcap", "takes 30", {"final_logit_softcapping": 30.0}),
            misread("logit_softcap", "takes that of the scores", {"final_logit_softcapping": 50.0}),
        ),
    ),
    Row(
        "altup", GROUP, "Four residual streams, predicted and corrected in each layer (AltUp)", config("gemma3n_text"),
        ("altup_num_inputs",),
        (*ALTUP, sparsity("cuts the activations of the first ten layers off", 0.95, 0.95)),
    ),
    Row(
        "laurel_rank", GROUP, "A branch of low rank beside attention (LAuReL)", config("gemma3n_text", laurel_rank=24),
        ("laurel_rank",), (ignored(NO_LAUREL.name, NO_LAUREL.text, tensors=NO_LAUREL.tensors),),
    ),
]
