"""`python -m generate [MODEL…|all]`: makes the goldens again. Run from golden/; see golden/README.md."""

import argparse
import time

from tqdm import tqdm
from transformers.utils import logging

from . import llamacpp_engine, small_goldens, small_models, smollm2, trained
from .families import FAMILIES, goldens
from .trained import goldens as trained_goldens


def main():
    specs = small_models.specs()
    families = {family.name: family for family in FAMILIES if family.golden}
    shapes = {shape.name: shape for shape in trained.SHAPES}
    names = [*specs, *families, *shapes, smollm2.NAME]
    parser = argparse.ArgumentParser(
        prog="python -m generate",
        description="Makes the goldens of Assay again. An interrupted run is resumed.",
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"all (the default), or any of: {', '.join(names)}")
    chosen = parser.parse_args().models or ["all"]
    unknown = sorted(set(chosen) - {"all", *names})
    if unknown:
        parser.error(f"no such model: {', '.join(unknown)}; there are: {', '.join(names)}")
    logging.set_verbosity_error()
    llamacpp_engine.quiet()
    for name in names if "all" in chosen else chosen:
        start = time.monotonic()
        if name == smollm2.NAME:
            smollm2.make()
        elif name in families:
            goldens.make(families[name])
        elif name in shapes:
            trained_goldens.make(shapes[name])
        else:
            small_goldens.make(specs[name])
        tqdm.write(f"{name}: done in {time.monotonic() - start:.0f} s")


if __name__ == "__main__":
    main()
