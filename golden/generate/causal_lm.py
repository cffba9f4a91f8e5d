"""transformers' choice of a class by its config, with classes that its own list lacks.

In published files they are the text part of a model of images and text, which alone is listed.
"""

from transformers import AutoModelForCausalLM, GenerationMixin, Mistral4Config
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.models.glm4v import modeling_glm4v as glm4v
from transformers.models.glm4v_moe import modeling_glm4v_moe as glm4v_moe
from transformers.models.mistral4.modeling_mistral4 import Mistral4ForCausalLM
from transformers.models.qwen2_5_vl import modeling_qwen2_5_vl as qwen2_5_vl
from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2_vl
from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3_vl
from transformers.models.qwen3_vl_moe import modeling_qwen3_vl_moe as qwen3_vl_moe
import torch


def with_head(base, text, config):
    """A class of logits: the text's network, and a head that may be its embedding."""

    class TextForCausalLM(base, GenerationMixin):
        config_class = config
        base_model_prefix = "model"
        _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}

        def __init__(self, config):
            super().__init__(config)
            self.model = text(config)
            self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
            self.post_init()

        def forward(self, input_ids=None, **given):
            given.pop("labels", None)
            out = self.model(input_ids=input_ids, **given)
            return CausalLMOutputWithPast(logits=self.lm_head(out.last_hidden_state), past_key_values=out.past_key_values)

    AutoModelForCausalLM.register(config, TextForCausalLM, exist_ok=True)


AutoModelForCausalLM.register(Mistral4Config, Mistral4ForCausalLM, exist_ok=True)
with_head(glm4v.Glm4vPreTrainedModel, glm4v.Glm4vTextModel, glm4v.Glm4vTextConfig)
with_head(glm4v_moe.Glm4vMoePreTrainedModel, glm4v_moe.Glm4vMoeTextModel, glm4v_moe.Glm4vMoeTextConfig)
with_head(qwen2_vl.Qwen2VLPreTrainedModel, qwen2_vl.Qwen2VLTextModel, qwen2_vl.Qwen2VLTextConfig)
with_head(qwen2_5_vl.Qwen2_5_VLPreTrainedModel, qwen2_5_vl.Qwen2_5_VLTextModel, qwen2_5_vl.Qwen2_5_VLTextConfig)
with_head(qwen3_vl.Qwen3VLPreTrainedModel, qwen3_vl.Qwen3VLTextModel, qwen3_vl.Qwen3VLTextConfig)
with_head(qwen3_vl_moe.Qwen3VLMoePreTrainedModel, qwen3_vl_moe.Qwen3VLMoeTextModel, qwen3_vl_moe.Qwen3VLMoeTextConfig)

__all__ = ["AutoModelForCausalLM"]
