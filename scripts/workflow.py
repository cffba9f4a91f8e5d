#!/usr/bin/env python3
"""Runs a job of a GitHub workflow here, or checks the shell of all its steps.

scripts/workflow.py .github/workflows/ci.yml lint                  runs a job's `run` steps, in order
scripts/workflow.py .github/workflows/ci.yml test compiler=g++     with one choice of its matrix
scripts/workflow.py --lint .github/workflows/*.yml                 shellcheck on every step

Steps that use an action (checkout, cache, upload) are named and left out. A step that fails ends the job, but for the
steps that say `if: always()` or `if: failure()`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

KNOWN_ACTIONS = {"actions/checkout", "actions/cache", "actions/upload-artifact"}


def fail(message):
    print(f"workflow.py: {message}", file=sys.stderr)
    sys.exit(2)


def load(path):
    try:
        jobs = yaml.safe_load(Path(path).read_text())["jobs"]
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        fail(f"{path}: not a workflow: {error}")
    for name, job in jobs.items():
        for step in job["steps"]:
            action = step.get("uses", "").split("@")[0]
            if action and action not in KNOWN_ACTIONS:
                fail(f"{path}: job {name} uses {action}, which this program does not know how to leave out")
    return jobs


def title(step):
    return step.get("name") or step.get("uses") or step["run"].splitlines()[0]


def expand(text, values):
    """Puts values in the place of ${{ matrix.x }} and ${{ … }} expressions that are given; others are an error."""

    def replace(match):
        if match[1] not in values:
            fail(f"no value for ${{{{ {match[1]} }}}}; give it as NAME=VALUE")
        return values[match[1]]

    return re.sub(r"\$\{\{ *(.*?) *\}\}", replace, str(text))


def matrix_choices(job):
    return job.get("strategy", {}).get("matrix", {})


def run_job(path, name, choices):
    jobs = load(path)
    if name not in jobs:
        fail(f"{path}: no job {name}; there are: {', '.join(jobs)}")
    job = jobs[name]
    values = {f"matrix.{key}": str(options[0]) for key, options in matrix_choices(job).items()}
    for choice in choices:
        key, equals, value = choice.partition("=")
        if not equals:
            fail(f"{choice}: expected NAME=VALUE")
        values[f"matrix.{key}" if f"matrix.{key}" in values else key] = value
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        summary = Path(scratch, "summary.md")
        environment = dict(os.environ, CI="true", GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(summary))
        for source in (job.get("env", {}),):
            environment.update({key: expand(value, values) for key, value in source.items()})
        for step in job["steps"]:
            if "run" not in step:
                print(f"--- left out: {title(step)}", flush=True)
                continue
            condition = str(step.get("if", "success()"))
            if (failed and condition not in ("always()", "failure()")) or (not failed and condition == "failure()"):
                print(f"--- skipped: {title(step)}", flush=True)
                continue
            print(f"--- {title(step)}", flush=True)
            env = dict(environment, **{key: expand(value, values) for key, value in step.get("env", {}).items()})
            command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", expand(step["run"], values)]
            folder = expand(step.get("working-directory", "."), values)
            if not Path(folder).is_dir():
                fail(f"step '{title(step)}': no folder {folder}; make what a step left out would have made")
            failed |= subprocess.run(command, env=env, cwd=folder, stdin=subprocess.DEVNULL, check=False).returncode != 0
        if summary.exists():
            print(f"--- step summary, {summary.stat().st_size} bytes\n{summary.read_text()}")
    print(f"--- job {name}: {'failed' if failed else 'passed'}")
    return 1 if failed else 0


def lint(paths):
    wrong = 0
    for path in paths:
        for name, job in load(path).items():
            if "timeout-minutes" not in job:
                print(f"{path}: job {name} has no timeout-minutes")
                wrong = 1
            for step in job["steps"]:
                if "run" not in step:
                    continue
                script = "#!/bin/bash\n" + re.sub(r"\$\{\{.*?\}\}", "value", step["run"]) + "\n"
                checked = subprocess.run(["shellcheck", "-"], input=script, text=True, capture_output=True, check=False)
                if checked.returncode != 0:
                    print(f"{path}: job {name}, step '{title(step)}':\n{checked.stdout}")
                    wrong = 1
                for used in re.findall(r"(?:^|\s)((?:scripts|bench|golden)/[\w./-]+\.(?:sh|py))", step["run"]):
                    if not os.access(used, os.X_OK):
                        print(f"{path}: job {name}, step '{title(step)}': {used} is not there or cannot be run")
                        wrong = 1
    return wrong


def main():
    arguments = sys.argv[1:]
    if len(arguments) >= 2 and arguments[0] == "--lint":
        return lint(arguments[1:])
    if len(arguments) >= 2 and not arguments[0].startswith("-"):
        return run_job(arguments[0], arguments[1], arguments[2:])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
