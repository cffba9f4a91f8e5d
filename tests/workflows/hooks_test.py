#!/usr/bin/env python3
"""The hooks of .pre-commit-hooks.yaml and .pre-commit-config.yaml.

pre-commit gives a hook the changed files that still exist, and leaves out a hook that gets none. So one that judges a
whole folder has to run always: otherwise a commit that only deletes goldens passes unseen. Exit code 77: python3-yaml
is missing.
"""

import importlib.util
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = 77


def main():
    if importlib.util.find_spec("yaml") is None:
        print("python3-yaml is missing: scripts/setup.sh tests installs it")
        return SKIPPED
    import yaml

    hooks = list(yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()))
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        hooks += repository["hooks"]
    assert any("golden verify" in hook["entry"] for hook in hooks), hooks
    skipped = [
        hook["id"]
        for hook in hooks
        if not hook.get("pass_filenames", True) and (not hook.get("always_run") or "files" in hook)
    ]
    print("hooks that a deletion does not start:", *skipped or ["none"])
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
