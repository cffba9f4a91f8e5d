"""check_names.py LIST SCRIPTS PROGRAM...: each glob of tests that LIST lets skip is of SCRIPTS, names with spaces between
them, or of tests of the programs."""

import fnmatch
import subprocess
import sys


def names_in(program):
    listed = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    suite = ""
    for line in listed.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            yield suite + name
        elif name.endswith("."):
            suite = name


def main():
    path, scripts, *programs = sys.argv[1:]
    names = {name for program in programs for name in names_in(program)} | set(scripts.split())
    with open(path, encoding="utf-8") as file:
        entries = [line.split() for line in file if line.strip() and line[0] not in "#!"]
    problems = [f"{' '.join(entry)}: not REASONS and a glob of names" for entry in entries if len(entry) != 2]
    listed = [entry[-1] for entry in entries]
    problems += [f"{glob}: there is no such test" for glob in listed if not fnmatch.filter(names, glob)]
    problems += [f"{name}: listed twice" for name in sorted({name for name in listed if listed.count(name) > 1})]
    for problem in problems:
        print(f"{path}: {problem}")
    may_skip = {name for glob in listed for name in fnmatch.filter(names, glob)}
    print(f"{len(names)} tests, {len(may_skip)} of which may skip")
    sys.exit(1 if problems or not names or not listed else 0)


if __name__ == "__main__":
    main()
