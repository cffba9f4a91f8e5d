"""What llama.cpp's converter writes of a folder: a program of its own, as it needs the converter's `gguf`.

    ASSAY_LLAMA_CPP=SOURCE python -m generate.conform.metadata FOLDER…

writes FOLDER/model.gguf for each, or FOLDER/why.txt where the converter fails.
"""

import subprocess
import sys
from pathlib import Path

from ..families import convert

GOLDEN = Path(__file__).resolve().parents[2]


def converted(folders):
    """Calls the program."""
    done = subprocess.run(
        [sys.executable, "-m", __name__, *folders], cwd=GOLDEN, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-600:])


def keys(path):
    """{key: value} of the keys of its network, numbers as their 32 bits print."""
    import gguf
    import numpy as np

    def plain(value):
        if isinstance(value, list):  # of which null is -infinity, that JSON has no number for
            return [None if inner == float("-inf") else plain(inner) for inner in value]
        return float(str(np.float32(value))) if isinstance(value, float) else value

    fields = gguf.GGUFReader(path).fields
    others = ("GGUF.", "general.", "tokenizer.")
    return {name: plain(field.contents()) for name, field in fields.items() if not name.startswith(others)}


def main():
    for folder in map(Path, sys.argv[1:]):
        try:
            convert.main(folder, folder / "model.gguf", "none", "F32")
        except Exception as error:  # whatever the converter raises for a config that it does not know
            (folder / "model.gguf").unlink(missing_ok=True)
            (folder / "why.txt").write_text(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main()
