"""Bugs of other engines, from public issues, made again in transformers: what `assay compare` says of each.

    real_bugs.py --assay build/release/bin/assay [NAME…]   fails where that is not what bugs/ and docs/causes.md say
    real_bugs.py --table                                   prints the tables of docs/causes.md

Needs torch and transformers as golden/generate/requirements.txt pins them; skips without.
"""

import argparse
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

SKIPPED = 77
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "causes.md"
BEGIN, END = "<!-- real_bugs.py --table -->\n", "<!-- end of the tables -->"


def issues_of(texts):
    """Each once."""
    return {issue for text in texts for issue in text.split()}


def shown(cause, hint):
    """A cause; or what is said without one."""
    return f"`{cause}`" if cause else hint or "-"


def table(bugs, looked_at):
    """The tables as docs/causes.md has them."""
    made = issues_of(bug.issues for bug in bugs)
    others = issues_of(issues for issues, _, _ in looked_at) - made
    failing = [bug for bug in bugs if not bug.passes]
    small = len(bugs) - len(failing)
    lines = [
        f"- {len(made) + len(others)} issues and pull requests looked at; {len(made)} of them are {len(bugs)} "
        "computations that one forward pass shows, all made again.",
        f"- {len(failing)} of {len(bugs)} fail with the built-in policy; the other {small} are smaller than its 1 %, "
        "and fail with the floors of a golden.",
        f"- {sum(bug.ops is not None for bug in bugs)} of {len(bugs)} are named from logs of ops, "
        f"{sum(bug.logits is not None for bug in bugs)} from the logits alone, both with `--model`.",
        "",
        "| what the engine did | issues | from ops | from logits |",
        "|---|---|---|---|",
    ]
    for bug in bugs:
        small = "; below 1 %" if bug.passes else ""
        of_logits = "the same logits" if bug.logits_pass else bug.hint
        named = f"{shown(bug.ops, bug.hint)} | {shown(bug.logits, of_logits)}"
        lines.append(f"| {bug.what}{small} | {bug.issues.replace(' ', ', ')} | {named} |")
    lines += ["", "| not made again | issues | why |", "|---|---|---|"]
    lines += [f"| {what} | {issues.replace(' ', ', ')} | {why} |" for issues, what, why in looked_at]
    return "\n".join(lines) + "\n"


def on_page():
    text = PAGE.read_text(encoding="utf-8")
    return text[text.index(BEGIN) + len(BEGIN) : text.index(END)]


def failures(bug, assay, folder, measure):
    """What is not as the bug says."""
    made = measure.logs(bug, folder)
    model = measure.model_file(bug.family)
    policy = model.with_name("manifest.json") if bug.passes else None
    found = []
    for kind, cause in (("ops", bug.ops), ("logits", bug.logits)):
        if bug.passes:
            code, _ = measure.compared(assay, *made[kind], model)
            if code != 0 and kind == "logits":
                found.append(f"{kind}: fails with the built-in policy")
        code, comparison = measure.compared(assay, *made[kind], model, policy)
        if code != 1 and not (kind == "logits" and bug.logits_pass):
            found.append(f"{kind}: passes")
        if kind == "ops" and code == 1:
            at = comparison["first_divergence"]["op"] or comparison["first_divergence"]["checkpoint"]
            if at != bug.at:
                found.append(f"{kind}: diverges first at {at}, not at {bug.at}")
        if bug.hint not in (comparison["cause_hint"] or ""):
            found.append(f"{kind}: says {comparison['cause_hint']!r}")
        named = [each["name"] for each in comparison["causes"]]
        if named != ([cause] if cause else []):
            sentences = "; ".join(each["sentence"] for each in comparison["causes"])
            found.append(f"{kind}: names {named}, not {cause}: {sentences}")
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--assay", type=Path)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if any(find_spec(name) is None for name in ("torch", "transformers")):
        print("torch or transformers is missing")
        return SKIPPED
    sys.path[:0] = [str(ROOT / "golden"), str(ROOT / "python"), str(Path(__file__).parent)]
    from bugs import BUGS, measure
    from bugs.looked_at import LOOKED_AT

    if options.table:
        print(table(BUGS, LOOKED_AT), end="")
        return 0
    wrong = 0
    if on_page() != table(BUGS, LOOKED_AT):
        print("docs/causes.md has other tables than real_bugs.py --table prints")
        wrong += 1
    for bug in BUGS:
        if options.names and bug.name not in options.names:
            continue
        with tempfile.TemporaryDirectory() as scratch:
            for failure in failures(bug, options.assay, Path(scratch), measure):
                print(f"{bug.name}: {failure}", flush=True)
                wrong += 1
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
