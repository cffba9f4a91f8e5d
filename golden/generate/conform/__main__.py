import argparse
import json
import sys
import tempfile
from pathlib import Path

from assay_tap import LogWriter
from transformers.utils import logging

from . import loudness, metadata, quantised, reference, steadiness
from .case import case_text, merged, mistakes_of
from .draws import tokens
from .folder import write_folder
from .rows import ROWS, SEEDS

SUITE = Path(__file__).resolve().parents[3] / "conform" / "suite"
FIRST_TOKEN = 3  # what comes before has a meaning for some engines
LENGTH = 8
LENGTHS = {"rotary scaling": 10, "rotary base and dimensions": 10, "sliding windows": 10}  # where positions matter


def case_of(row):
    length = row.length or LENGTHS.get(row.group, LENGTH)
    seed = SEEDS.get(row.feature, 1)
    return {
        "feature": row.feature,
        "group": row.group,
        "title": row.title,
        "states": list(row.states),
        "config": row.config,
        **({"folder": row.folder} if row.folder else {}),
        "seed": seed,
        "tensors": reference.tensor_rows(row),
        "tokens": list(row.tokens) or tokens(seed, length, FIRST_TOKEN, row.config["vocab_size"]),
        "counterfactuals": [mistake.data() for mistake in mistakes_of(row)],
    }


def write_reference(path, case, rows):
    """A record for each token and checkpoint, token after token."""
    about = {"name": case["feature"], "arch": case["config"]["model_type"], "type": "F32"}
    with LogWriter(path, values=None, summary=False) as log:
        log.header(tokens=case["tokens"], model=about, engine=reference.ENGINE, backend="cpu", math="float64")
        for position in range(len(case["tokens"])):
            for name, values in rows.items():
                log.write(name, position, values[position], dtype="f32")  # as the values print


def elsewhere(case, mistake, expected):
    """What transformers computes of the mistake's config, if that is not what Assay does; for information."""
    with tempfile.TemporaryDirectory() as scratch:
        config = merged(case["config"], mistake["config"])
        folder = write_folder(Path(scratch) / "model", case, config, mistake.get("tensors"))
        try:
            got = reference.run(folder, case["tokens"])["logits"]
        except Exception as error:
            return f" (transformers: {str(error).splitlines()[0][:90]})"
    other = loudness.distance(got, expected)
    return "" if other <= loudness.AGREES else f" (transformers: {other:.1e} from that)"


def written(program, row, out, scratch):
    """Writes the reference of `row` under `out` and the model under `scratch`; returns case.json's data."""
    case = case_of(row)
    if quantised.is_quantised(case):
        folder = quantised.write_folder(program, scratch / row.feature, case)
    else:
        folder = write_folder(scratch / row.feature, case)
    seen = reference.run(folder, case["tokens"])
    (out / row.feature).mkdir(parents=True, exist_ok=True)
    write_reference(out / row.feature / "reference.jsonl", case, seen)
    return case


def gguf_of(program, case, folder, expected):
    """(the converter's keys, None), or (None, why a GGUF file cannot be made or says something else)."""
    path = folder / "model.gguf"
    if not path.exists():
        return None, (folder / "why.txt").read_text()
    try:
        error = loudness.worst(loudness.assay(program, path, case["tokens"], "layers"), expected)
    except RuntimeError as refused:
        return None, str(refused)
    keys = metadata.keys(path)
    return (keys, None) if error <= loudness.AGREES else (None, f"its logits are {error:.1e} from the reference")


def main():
    parser = argparse.ArgumentParser(prog="python -m generate.conform")
    parser.add_argument("names", nargs="*", help="features; all if none is named")
    parser.add_argument("--assay", required=True, help="the program, which computes what mistakes lead to")
    parser.add_argument("--check", action="store_true", help="write nothing, and compare with what is committed")
    parser.add_argument("--cross", action="store_true", help="compute mistakes by transformers, too")
    options = parser.parse_args()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    unknown = set(options.names) - {row.feature for row in ROWS}
    if unknown:
        parser.error(f"unknown features: {', '.join(sorted(unknown))}")
    rows = [row for row in ROWS if not options.names or row.feature in options.names]
    failed, cases = 0, {}
    with tempfile.TemporaryDirectory() as scratch:
        models = Path(scratch) / "models"
        out = Path(scratch) / "out" if options.check else SUITE
        for row in rows:
            try:
                cases[row.feature] = written(options.assay, row, out, models)
            except Exception as error:  # whatever transformers raises for a config
                print(f"{row.feature}: WRONG {type(error).__name__}: {error}", flush=True)
                failed += 1
        metadata.converted(models / name for name in cases)
        for row in rows:
            if row.feature not in cases:
                continue
            case, folder = cases[row.feature], models / row.feature
            expected = loudness.read_log(out / row.feature / "reference.jsonl")
            found, error, wrong = loudness.survey(options.assay, case, folder, expected)
            wrong += steadiness.wrong(folder, case["tokens"])
            wrong += reference.wrong_with_a_cache(folder, case["tokens"], expected["logits"])
            keys, why = gguf_of(options.assay, case, folder, expected)
            if quantised.is_quantised(case):
                wrong += quantised.wrong_blocks(folder)
            case |= {"gguf": keys | row.gguf} if keys is not None else {"files": ["hf"]}
            (out / row.feature / "case.json").write_text(case_text(case))
            print(f"{row.feature}: {error:.1e} from Assay" + ("" if keys else f"; no GGUF: {why.strip()[:200]}"))
            for far, mistake in found:
                note = ""
                if options.cross:
                    logits = loudness.mistaken_logits(options.assay, case, mistake)
                    note = elsewhere(case, mistake, logits)
                print(f"    {far:8.1e}  {mistake['verdict']}: {mistake['text']}{note}")
            if options.check:
                for name in ("case.json", "reference.jsonl"):
                    committed = SUITE / row.feature / name
                    if not committed.exists() or committed.read_bytes() != (out / row.feature / name).read_bytes():
                        wrong.append(f"{name} is not what is committed")
            for problem in wrong:
                print(f"  WRONG {problem}", flush=True)
            failed += bool(wrong)
    if not options.names:
        for folder in SUITE.iterdir():
            if folder.name not in {row.feature for row in ROWS}:
                print(f"WRONG {folder.name}: no row makes it")
                failed += 1
    print(f"{len(rows)} features, {failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
