"""What golden/lint.py checks of snapshots.json and fast_floors.json, which Assay's own engine measured."""

import re

from lint_json import Complaint, Node, parse

SNAPSHOTS, FAST_FLOORS = "snapshots.json", "fast_floors.json"  # what Assay's own engine measured
MATHS = ("exact", "fast")
SNAPSHOT = re.compile(r"[0-9a-f]{16}( -?\d[\d.e+-]*){5}")
MOST = 0.5  # no rounding of activations loses more of a row


def read_measured(folder, name, command):
    """What the engine measured, which is of this model."""
    path = folder / name
    if not path.is_file():
        raise Complaint(f"{name}: is missing; assay golden record --{command} {folder.name}")
    measured = Node(parse(path.read_text(encoding="utf-8")), name)
    if measured["model"].value != folder.name:
        measured["model"].fail(f"is {measured['model'].value!r}, the folder is {folder.name!r}")
    return measured


def check_cases(entries, wanted, key):
    """Checks that the entries are the expected ones, {key(entry): sha256 of its model file}, each once."""
    found = [key(entry) for entry in entries]
    for what in sorted(set(found) ^ set(wanted)):
        raise Complaint(f"{' '.join(what)} is {'missing' if what in wanted else 'of no golden'}")
    if len(found) != len(set(found)):
        raise Complaint("has a case twice")
    for entry, what in zip(entries, found):
        if entry["sha256"].value != wanted[what]:
            entry["sha256"].fail("is that of another model file: measure it again")


def check_snapshots(folder, prompts):
    measured = read_measured(folder, SNAPSHOTS, "snapshots")
    entries = measured["snapshots"].items()
    wanted = {(type_name, math, prompt): sha for (type_name, prompt), sha in prompts.items() for math in MATHS}
    check_cases(entries, wanted, lambda entry: tuple(entry[name].value for name in ("type", "math", "prompt")))
    for entry in entries:
        if len(entry["values"].items()) != len(measured["checkpoints"].items()):
            entry["values"].fail("has not one for each checkpoint")
        for value in entry["values"].items():
            if not SNAPSHOT.fullmatch(value.text()):
                value.fail("is not a hash, a norm and 4 sums")


def check_fast_floors(folder, manifest, prompts):
    elsewhere = {entry["type"].value for entry in manifest["files"].items() if "source" in entry}
    wanted = {(*key, "fast"): sha for key, sha in prompts.items() if key[0] != "F32"}
    for (type_name, prompt), sha in prompts.items():  # as has_library_floors() of assay/golden/fast_floors.h
        if type_name not in elsewhere and 32 <= len(manifest["prompts"][prompt]["tokens"].items()) <= 99:
            wanted[type_name, prompt, "library"] = sha
    if not wanted and not (folder / FAST_FLOORS).exists():
        return
    entries = read_measured(folder, FAST_FLOORS, "fast-floors")["prompts"].items()
    check_cases(
        entries,
        wanted,
        lambda entry: (entry["type"].value, entry["prompt"].value, entry["math"].text() if "math" in entry else "fast"),
    )
    held = {entry["type"].value: set(entry["floors_by_checkpoint"].value) for entry in manifest["files"].items()}
    for entry in entries:
        if set(entry["floors"].value) != held[entry["type"].value]:
            entry["floors"].fail("has other checkpoints than the manifest has floors of")
        for _, floor in entry["floors"].members():
            most, median = (item.number() for item in floor.items())
            if not median <= most <= MOST:
                floor.fail("is not [max, median] of a plausible rounding")


def check_measured(folder, manifest, complaints):
    prompts = {
        (entry["type"].value, log["prompt"].value): entry["sha256"].value
        for entry in manifest["files"].items()
        for log in entry["logs"].items()
    }
    for name, check in (
        (SNAPSHOTS, lambda: check_snapshots(folder, prompts)),
        (FAST_FLOORS, lambda: check_fast_floors(folder, manifest, prompts)),
    ):
        try:
            check()
        except (Complaint, ValueError) as complaint:
            complaints.append(f"{folder.name}/{name}: {complaint}")
