"""The order in which a network computes its checkpoints."""

import re

OPS = (
    "attn_norm q k v q_rope k_rope attn attn_out attn_residual ffn_norm ffn_gate ffn_up ffn_act ffn_out output"
).split()
LAST = ("final_norm", "logits")


def order(checkpoint):
    """A key to sort by: embedding, then layer by layer and op by op, then the end."""
    match = re.fullmatch(r"layer_(\d+)_(.+)", checkpoint)
    if match and match[2] in OPS:
        return (1, int(match[1]), OPS.index(match[2]))
    return (2, LAST.index(checkpoint), 0) if checkpoint in LAST else (0, 0, 0)
