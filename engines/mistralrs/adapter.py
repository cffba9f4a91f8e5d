"""mistral.rs: log-probabilities of the token after each prefix of the prompt, one request for each."""

import json
from importlib.metadata import version

import numpy as np
from mistralrs import ChatCompletionRequest, ModelDType, Runner, Which

from protocol import Unsupported, main
from stub_tokenizer import text_of, vocabulary_size, with_tokenizer

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # the prompt as it is


def first_position(folder, count):
    """The first that a request of its own computes as the whole prompt does: LongRoPE has other factors for a prefix that
    is no longer than the original context, and Hunyuan's experts have room for so many tokens as the prompt is long."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if config["model_type"] == "hunyuan_v1_moe":
        return count - 1
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    original = config.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings")
    is_longrope = "long_factor" in scaling
    return int(original) if is_longrope and original and count > original else 0


def run(case):
    if case.surface != "alone":
        raise Unsupported("its Python binding gives log-probabilities of generated tokens only")
    size = vocabulary_size(case.folder())
    first = first_position(case.folder(), len(case.tokens))
    rows = np.full((len(case.tokens) - first, size), np.nan, dtype=np.float32)
    with with_tokenizer(case.folder(), always=True) as folder:
        template = folder / "prompt.jinja"
        template.write_text(TEMPLATE)
        settings = dict(prefix_cache_n=0, no_paged_attn=True, jinja_explicit=str(template))
        try:
            runner = Runner(Which.Plain(str(folder), dtype=ModelDType.F32), **settings)
        except ValueError as error:
            raise Unsupported(str(error).split("\n")[0]) from error  # further lines are a backtrace
        for i in range(first, len(case.tokens)):
            request = ChatCompletionRequest(
                text_of(case.tokens[: i + 1]), "default", logprobs=True, top_logprobs=size, max_tokens=1, temperature=0.0
            )
            answer = runner.send_chat_completion_request(request)
            for found in answer.choices[0].logprobs.content[0].top_logprobs:
                rows[i - first, found.token] = found.logprob
    return [("logprobs", range(first, len(case.tokens)), rows)]


main(run, "mistral.rs", version("mistralrs"))
