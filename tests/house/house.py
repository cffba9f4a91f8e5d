"""Holds the sources to what HACKING.md and docs/dependencies.md say of them: house.py ROOT

What would break: something that somebody has to install and nobody listed with its licence; an include against the
direction of the data; Python modules that import each other; a folder that the map does not have; a dead link; a file
that grew a second subject; inputs of fuzzers that outgrow the repository; a file that goes online and that SECURITY.md does not list.
"""

import ast
import os
import re
import subprocess
import sys
import tomllib
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import headers
import names

LONGEST = 500  # lines of a source file
SOURCES = {".h", ".cc", ".cu", ".c", ".py", ".sh", ".js", ".css"}
# A header that others copy, and what is generated from model/.
ONE_FILE_ON_PURPOSE = {"tap/assay_tap.h", "python/assay_tap/networks.py"}
HERE = "tests/house/"
CORPUS = "tests/fuzz/corpus/"
LARGEST_CORPUS = 2_000_000  # bytes, as git has them
LOCKED = {
    "golden/generate/requirements.txt": "golden/generate/requirements_locked.txt",
    "scripts/lint_requirements.in": "scripts/lint_requirements.txt",
}
NETWORK = re.compile(
    r"\b(urllib|http\.client|requests\.(get|post|put|request|Session)|httpx|aiohttp|socket\(|create_connection|open_connection"
    r"|getaddrinfo|libcurl|curl|wget|ssh|scp|rsync|sftp|pip3?[\s\"',]+(install|download|wheel)|pipx|pip-compile|apt-get"
    r"|debootstrap|git[\s\"',]+(clone|pull|fetch|push|submodule|lfs)|npm|cargo|huggingface_hub|hf_hub_download"
    r"|snapshot_download|from_pretrained\(|additional_dependencies|FetchContent|ExternalProject)"
)
# Who names a word of the above and goes nowhere: in what it says, on this machine, or against a server of its own.
OFFLINE = {
    "assay/convert/parquet.py": {"pip install"},
    "assay/dump/dump.py": {"pip install"},
    "assay/fleet/packages.py": {"pip install"},
    "bench/against_llamacpp.py": {"pip install"},
    "engines/openvino/adapter.py": {"from_pretrained"},
    "engines/transformers/adapter.py": {"from_pretrained"},
    "examples/duckdb_runs/runs.py": {"pip install"},
    "golden/generate/conform/reference.py": {"from_pretrained"},
    "scripts/fuzz.sh": {"apt-get"},
    "scripts/sanitize.sh": {"apt-get"},
    "tests/fetch/CMakeLists.txt": {"huggingface_hub"},
    "tests/fetch/fetch_test.py": {"huggingface_hub"},
    "tests/support/warm_python.py": {"socket"},
    "tests/workflows/run_job.py": {"git clone"},
    "tests/workflows/run_example.py": {"git clone"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
NEED = re.compile(r'^\s*need "?\$?([\w.+-]+)"?(?: ([a-z][\w.+-]*))?|apt-get install ([a-z][\w.+-]*)', re.M)
REQUIREMENT = re.compile(r"\s*#.*|[\w.-]+(\[[\w,-]+\])?(==[\w.]+)?( ; .*)?( \\)?| +--hash=sha256:[0-9a-f]{64}( \\)?")
REQUIREMENTS = re.compile(r"requirements.*\.(txt|in)$")
PLACE = re.compile(r"(^|[\s=])(/|[a-z]+://)")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def tracked(root):
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.split("\0") if name and (root / name).exists()]


def mapped(root):
    """The folders of HACKING.md's map, in its order, and its description of each."""
    return dict(re.findall(r"^\| `([a-z_/]+)/` \|(.*)", (root / "HACKING.md").read_text(), re.M))


def folder(path, folders):
    """The folder of the map that a path is in, the innermost."""
    return max((name for name in folders if f"{path}".startswith(f"{name}/")), key=len, default=None)


def included(path, name, files):
    """The path of what a file includes, from the root; `name` may be relative to the file."""
    beside = os.path.normpath(path.parent / name)
    return beside if name.startswith(".") or Path(beside) in files else os.path.normpath(name)


def wrong_includes(root, files, folders):
    folders, known = list(folders), set(files)
    product = folders[: folders.index("assay/cli") + 1]
    for path in files:
        here = folder(path, product)
        if here is None or path.suffix not in {".h", ".cc", ".cu", ".c", ".cpp"}:
            continue
        for name in INCLUDE.findall((root / path).read_text()):
            there = folder(included(path, name, known), folders)
            if there is not None and (there not in product or product.index(there) > product.index(here)):
                yield f"{path} includes {name}, but {there}/ stands below {here}/ in the map of HACKING.md"


def imported(tree):
    """The names of modules that a Python file imports, also within its functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from [node.module.split(".")[0]] if node.module else (name.name for name in node.names)


def import_cycles(root, files):
    """Python files of one folder that import each other in a circle."""
    graph = {}
    for path in (path for path in files if path.suffix == ".py"):
        names = imported(ast.parse((root / path).read_text()))
        graph[path] = [beside for name in names if (beside := path.with_name(f"{name}.py")) in files]
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        yield f"{' <- '.join(map(str, error.args[1]))}: these import each other; move what both need to a third file"


def unmapped(files, folders):
    """Folders without a row; and those of sources that the row of the folder around them does not name, but for tests/,
    which mirrors the others."""
    tops = {Path(*path.parts[: 2 if path.parts[0] == "assay" else 1]) for path in files if len(path.parts) > 2}
    for name in sorted(map(str, tops | {Path(path.parts[0]) for path in files if len(path.parts) == 2})):
        if name not in folders and not name.startswith(".") and name not in {"docs", "assay"}:
            yield f"{name}/ is not in the map of HACKING.md"
    for inner in sorted({path.parent for path in files if path.suffix in SOURCES}):
        around = folder(inner, folders)
        if around not in {None, "tests"} and f"`{inner.relative_to(around)}/`" not in folders[around]:
            yield f"{inner}/ is not named in the row of {around}/ in the map of HACKING.md"
    for name in folders:
        if not any(f"{path}".startswith(f"{name}/") for path in files):
            yield f"HACKING.md's map has {name}/, which is not there"


def long_files(root, files):
    for path in files:
        if path.suffix in SOURCES and f"{path}" not in ONE_FILE_ON_PURPOSE:
            lines = (root / path).read_bytes().count(b"\n")
            if lines > LONGEST:
                yield f"{path} has {lines} lines, over {LONGEST}: look for the second subject in it"


def dead_links(root, files):
    for path in files:
        if path.suffix == ".md":
            for target in LINK.findall((root / path).read_text()):
                if "://" not in target and not (root / path.parent / target).exists():
                    yield f"{path} links to {target}, which is not there"


def array(script, name):
    return re.search(rf"^{name}=\(([^)]*)\)", script, re.M).group(1).split()


def package(requirement):
    """PEP 503: case and the kind of separator do not tell packages apart."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>\[ ;]", requirement)[0]).lower()


def required(root, path):
    """What a requirements file asks for: package, version."""
    for line in (root / path).read_text().splitlines():
        if re.match(r"\w", line):
            yield package(line), line.partition("==")[2].split(" ")[0]


def needed(script):
    """What a script asks to be installed: `need PROGRAM [PACKAGE]` or a message with the command."""
    for program, name, said in NEED.findall(script):
        default = re.search(rf"\b{re.escape(program)}=\$\{{\w+:-([\w.+-]+)\}}", script) if program else None
        yield default[1].replace("++", "") if default else said or name or program


def dependencies(root, files):
    setup = (root / "scripts/setup.sh").read_text()
    yield from (("scripts/setup.sh", name) for name in array(setup, "packages") + array(setup, "test_packages"))
    for path in files:
        if REQUIREMENTS.search(path.name):
            yield from ((path, name) for name, _ in required(root, path))
        elif path.suffix == ".sh":
            yield from ((path, name) for name in needed((root / path).read_text()))
    project = tomllib.loads((root / "python/pyproject.toml").read_text())
    extra = [name for names in project["project"]["optional-dependencies"].values() for name in names]
    for name in project["build-system"]["requires"] + project["project"]["dependencies"] + extra:
        yield "python/pyproject.toml", package(name)


def impure(root, files):
    """A requirements file says what, not from where: pip-compile writes down its machine's own options."""
    for path in files:
        if REQUIREMENTS.search(path.name):
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if line and (not REQUIREMENT.fullmatch(line) or PLACE.search(line)):
                    yield f"{path}:{number} is neither a package with its version, a hash nor a comment: {line}"


def unlocked(root):
    """What is asked for by version stands with that version among what is held to its hash."""
    for path, locked in LOCKED.items():
        have = dict(required(root, locked))
        for name, version in required(root, path):
            if name not in have or version not in {"", have[name]}:
                yield f"{path} has {name} {version}, {locked} has {have.get(name, 'none')}: make it again"


def unlisted(root, files):
    page = (root / "docs/dependencies.md").read_text()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    listed = {package(name) for row in rows if all(row) for name in re.findall(r"`([^`]+)`", row[0])}
    for path, name in sorted({(f"{path}", name) for path, name in dependencies(root, files)}):
        if package(name) not in listed:
            yield f"{path} asks for {name}, which has no row with a licence in docs/dependencies.md"


def online(root):
    """The first cells of the table "What goes online" in SECURITY.md."""
    section = (root / "SECURITY.md").read_text().partition("## What goes online")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`[^|]*)\|", section, re.M)
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def strays_to_network(root, files):
    listed = online(root)
    silent = listed | set(OFFLINE)
    for path in files:
        # What a requirements file may say impure() knows; the rest are words, goldens and inputs of fuzzers.
        if path.suffix in {".md", ".jsonl", ".gguf"} or REQUIREMENTS.search(path.name):
            continue
        if f"{path}".startswith((CORPUS, HERE)):
            continue
        text = (root / path).read_text(errors="replace")
        words = {re.sub(r"[^\w-]+", " ", match[0]).strip() for match in NETWORK.finditer(text)}
        if words:
            silent.discard(f"{path}")
        for word in sorted(words - OFFLINE.get(f"{path}", set()) if f"{path}" not in listed else ()):
            yield f"{path} speaks of {word}: SECURITY.md lists what goes online"
    for name in sorted(silent):
        where = "SECURITY.md" if name in listed else "house.py"
        yield f"{name} no longer uses the network, but {where} says that it does"


def large_corpus(root, files):
    size = sum((root / path).stat().st_size for path in files if f"{path}".startswith(CORPUS))
    if size > LARGEST_CORPUS:
        yield f"{CORPUS} has {size} bytes, over {LARGEST_CORPUS}: scripts/fuzz.sh --minimise"


def main():
    root = Path(sys.argv[1]).resolve()
    files = tracked(root)
    folders = mapped(root)
    found = [*wrong_includes(root, files, folders), *unmapped(files, folders), *long_files(root, files)]
    found += [*dead_links(root, files), *unlisted(root, files), *unlocked(root), *impure(root, files)]
    found += [*strays_to_network(root, files), *large_corpus(root, files), *import_cycles(root, files)]
    found += [*names.clashes(root, files), *headers.missing(root, files)]
    passed = f"{len(files)} files: includes, headers, imports, map, links, lengths, names, dependencies, network and corpus are as stated"
    print("\n".join(found) or passed)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
