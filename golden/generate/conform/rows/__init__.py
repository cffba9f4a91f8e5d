"""The rows of the suite, a module for each part of a network."""

from .attention import ATTENTION
from .ends import ENDS
from .families import FAMILIES
from .feedforward import FEEDFORWARD, MIX
from .latent import LATENT
from .long import LONG
from .norms import NORMS
from .recurrent import RECURRENT
from .rotation import ROTATION
from .scaling import SCALING
from .stream import STREAM
from .windows import WINDOWS

# Of rows in which seed 1 leaves a token no margin in its choice of experts, or a mistake too quiet (steadiness.py).
SEEDS = {
    "activation_sparsity_pattern": 3,
    "attn_layer_period": 3,
    "family_cohere2_moe": 3,
    "family_dbrx": 2,
    "family_deepseek_v3": 4,
    "family_deepseek_v32": 3,
    "family_exaone_moe": 7,
    "family_gemma3n_text": 8,
    "family_gemma4_text": 6,
    "family_gemma4_text_moe": 11,
    "family_glm4_moe": 3,
    "family_glm_moe_dsa": 3,
    "family_gpt_oss": 6,
    "family_granite_swa": 2,
    "family_jamba": 2,
    "family_llama4_text": 36,
    "family_mimo_v2_flash": 2,
    "family_phimoe": 38,
    "forty_tokens_deepseek_v3": 7,
    "indexed_positions": 3,
    "indexer_types": 3,
    "linear_num_value_heads_alike": 9,
    "mlp_only_layers": 4,
    "num_kv_shared_layers": 12,
    "seventy_tokens_qwen3_next": 7,
    "yarn_qwen3_moe": 5,
}
ROWS = (
    FAMILIES + ROTATION + SCALING + ATTENTION + WINDOWS + NORMS + FEEDFORWARD + MIX + LATENT + RECURRENT + STREAM + ENDS + LONG
)
