"""`python -m generate [MODEL…|all]`: makes the goldens anew. Run from golden/; see golden/README.md."""

import argparse
import time

from transformers.utils import logging

from . import fixtures, llama_cpp_engine, small_models, smollm2


def main():
    specs = small_models.specs()
    names = [*specs, smollm2.NAME]
    parser = argparse.ArgumentParser(prog="python -m generate", description="Makes the goldens of Assay anew.")
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all (the default), or any of: {', '.join(names)}")
    chosen = parser.parse_args().models or ["all"]
    unknown = sorted(set(chosen) - {"all", *names})
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are: {', '.join(names)}")
    logging.set_verbosity_error()
    llama_cpp_engine.quiet()
    for number, name in enumerate(names if "all" in chosen else chosen, 1):
        start = time.monotonic()
        fixtures.say(f"[{number}/{len(names) if 'all' in chosen else len(chosen)}] {name}")
        if name == smollm2.NAME:
            smollm2.make()
        else:
            fixtures.make(specs[name])
        fixtures.say(f"{name}: done in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
