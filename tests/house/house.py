"""Holds the sources to what HACKING.md and docs/dependencies.md say of them: house.py ROOT

What would break: a library that somebody has to install and nobody listed; an include against the direction of the
data; a folder that the map does not have; a link to a file that is gone; a file that grew a second subject; a source that
opens a network connection which SECURITY.md does not list.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

LONGEST = 500  # lines of a source file
SOURCES = {".h", ".cc", ".cu", ".c", ".py", ".sh", ".js", ".css"}
ONE_FILE_ON_PURPOSE = {"tap/assay_tap.h"}  # a header that others copy
NETWORK = re.compile(
    rb"\b(urllib|http\.client|requests\.|socket\(|create_connection|curl|wget|pip3? (install|download)|pip-compile|apt-get"
    rb"|debootstrap|git clone|huggingface_hub|FetchContent|ExternalProject|getaddrinfo|libcurl)"
)
# What SECURITY.md lists, and hints in words.
ONLINE = {
    "scripts/setup.sh", "scripts/fetch.sh", "scripts/fetch_smollm2.py", "scripts/fetch_vocabularies.py",
    "scripts/lint.sh", "scripts/lint_requirements.txt", "scripts/cleanroom.sh", "golden/fetch.py", "golden/generate/requirements.txt",
    "scripts/fuzz.sh", "scripts/sanitize.sh", "bench/against_llamacpp.py", "examples/duckdb_runs/runs.py", "assay/convert/parquet.py",
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.M)
REQUIREMENT = re.compile(r"\s*#.*|[\w.-]+(\[[\w,-]+\])?(==[\w.]+)?( ; .*)?( \\)?| +--hash=sha256:[0-9a-f]{64}( \\)?")
PLACE = re.compile(r"(^|[\s=])(/|[a-z]+://)")
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")


def tracked(root):
    names = subprocess.run(["git", "-C", root, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    return [Path(name) for name in names.split("\0") if name and (root / name).exists()]


def mapped(root):
    """The folders of HACKING.md's map, in its order."""
    return re.findall(r"^\| `([a-z_/]+)/` \|", (root / "HACKING.md").read_text(), re.M)


def folder(path, folders):
    """The folder of the map that a path is in, the innermost."""
    return max((name for name in folders if f"{path}".startswith(f"{name}/")), key=len, default=None)


def wrong_includes(root, files, folders):
    product = folders[: folders.index("assay/cli") + 1]
    for path in files:
        here = folder(path, product)
        if here is None or path.suffix not in {".h", ".cc", ".cu"}:
            continue
        for name in INCLUDE.findall((root / path).read_text()):
            there = folder(name, product)
            if there is not None and product.index(there) > product.index(here):
                yield f"{path} includes {name}, but {there}/ stands below {here}/ in the map of HACKING.md"


def unmapped(files, folders):
    for top in sorted({f"{path}".split("/")[0] for path in files if len(path.parts) > 1}):
        inner = {f"assay/{path.parts[1]}" for path in files if path.parts[0] == "assay" and len(path.parts) > 2}
        for name in sorted(inner) if top == "assay" else [top]:
            if name not in folders and not name.startswith(".") and name != "docs":
                yield f"{name}/ is not in the map of HACKING.md"
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
    return re.split(r"[=<>\[ ;]", requirement)[0]


def dependencies(root):
    setup = (root / "scripts/setup.sh").read_text()
    yield from (("scripts/setup.sh", name) for name in array(setup, "packages") + array(setup, "test_packages"))
    for path in ("golden/generate/requirements.txt", "scripts/lint_requirements.in"):
        for line in (root / path).read_text().splitlines():
            if line and not line.startswith("#"):
                yield path, package(line)
    project = tomllib.loads((root / "python/pyproject.toml").read_text())["project"]
    extra = [name for names in project["optional-dependencies"].values() for name in names]
    yield from (("python/pyproject.toml", package(name)) for name in project["dependencies"] + extra)


def impure(root, files):
    """A requirements file says what, not from where: pip-compile writes down its machine's own options."""
    for path in files:
        if re.search(r"requirements.*\.(txt|in)$", path.name):
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if line and (not REQUIREMENT.fullmatch(line) or PLACE.search(line)):
                    yield f"{path}:{number} is neither a package with its version, a hash nor a comment: {line}"


def unlisted(root):
    table = (root / "docs/dependencies.md").read_text()
    for path, name in dependencies(root):
        if f"`{name}`" not in table:
            yield f"{path} asks for {name}, which has no row in docs/dependencies.md"


def strays_to_network(root, files):
    for path in files:
        if path.suffix not in {".md", ".jsonl", ".yml"} and f"{path}" not in ONLINE and path.parts[0] != "tests":
            found = NETWORK.search((root / path).read_bytes())
            if found:
                yield f"{path} speaks of {found[0].decode()}: SECURITY.md lists what may use a network"


def main():
    root = Path(sys.argv[1]).resolve()
    files = tracked(root)
    folders = mapped(root)
    found = [*wrong_includes(root, files, folders), *unmapped(files, folders), *long_files(root, files)]
    found += [*dead_links(root, files), *unlisted(root), *impure(root, files), *strays_to_network(root, files)]
    print("\n".join(found) or f"{len(files)} files: includes, map, links, lengths, dependencies and network are as stated")
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
