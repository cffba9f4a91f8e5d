"""mistral.rs: log-probabilities of the token after each prefix of the prompt, one request for each."""

from importlib.metadata import version

import numpy as np
from mistralrs import ChatCompletionRequest, ModelDType, Runner, Which

from protocol import Unsupported, main
from stub_tokenizer import text_of, vocabulary_size, with_tokenizer

TEMPLATE = "{% for message in messages %}{{ message['content'] }}{% endfor %}"  # the prompt as it is


def run(case):
    if case.surface != "alone":
        raise Unsupported("its Python binding gives log-probabilities of generated tokens only")
    size = vocabulary_size(case.folder())
    rows = np.full((len(case.tokens), size), np.nan, dtype=np.float32)
    with with_tokenizer(case.folder(), always=True) as folder:
        template = folder / "prompt.jinja"
        template.write_text(TEMPLATE)
        settings = dict(prefix_cache_n=0, no_paged_attn=True, jinja_explicit=str(template))
        try:
            runner = Runner(Which.Plain(str(folder), dtype=ModelDType.F32), **settings)
        except ValueError as error:
            raise Unsupported(str(error).split("\n")[0]) from error  # further lines are a backtrace
        for i in range(len(case.tokens)):
            request = ChatCompletionRequest(
                text_of(case.tokens[: i + 1]), "default", logprobs=True, top_logprobs=size, max_tokens=1, temperature=0.0
            )
            answer = runner.send_chat_completion_request(request)
            for found in answer.choices[0].logprobs.content[0].top_logprobs:
                rows[i, found.token] = found.logprob
    return [("logprobs", range(len(case.tokens)), rows)]


main(run, "mistral.rs", version("mistralrs"))
