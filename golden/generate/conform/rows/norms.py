"""Epsilons under each of their names, large enough to hear."""

from ..base_parts import EPSILON
from ..bases import config
from ..case import Row, ignored, misread

GROUP = "norms"


def epsilon(feature, title, model_type, key, **changes):
    return Row(
        feature, GROUP, title, config(model_type, **{key: EPSILON}, **changes), (key,),
        (
            ignored("eps", "takes 1e-5", {key: 1e-5}),
            misread("eps", "takes 1e-6", {key: 1e-6}),
        ),
        gain={"*embed*": 0.125, "*wte*": 0.125, "*wpe*": 0.125},  # so small that 1e-5 and 1e-6 differ
    )


NORMS = [
    epsilon("rms_norm_eps", "RMSNorm's epsilon", "llama", "rms_norm_eps"),
    epsilon("rms_norm_eps_after", "RMSNorm's epsilon after the sublayers", "olmo2", "rms_norm_eps"),
    epsilon("layer_norm_eps", "LayerNorm's epsilon, as layer_norm_eps", "gpt_neox", "layer_norm_eps"),
    epsilon("layer_norm_epsilon", "LayerNorm's epsilon, as layer_norm_epsilon", "gpt2", "layer_norm_epsilon"),
    epsilon("norm_eps", "LayerNorm's epsilon, as norm_eps", "nemotron", "norm_eps"),
    epsilon("norm_epsilon", "LayerNorm's epsilon, as norm_epsilon", "starcoder2", "norm_epsilon"),
    epsilon("layer_norm_eps_phi", "LayerNorm's epsilon of Phi-2", "phi", "layer_norm_eps"),
    epsilon("layer_norm_eps_stablelm", "LayerNorm's epsilon of StableLM", "stablelm", "layer_norm_eps"),
    epsilon("layer_norm_epsilon_falcon", "LayerNorm's epsilon of Falcon", "falcon", "layer_norm_epsilon"),
    epsilon("layer_norm_eps_without_bias", "LayerNorm without a bias", "cohere", "layer_norm_eps"),
]
