#!/usr/bin/env bash
# Checks that need no build: format, shell scripts, fixtures, workflows. Changes nothing.
# clang-tidy, which takes an hour, is scripts/sanitize.sh tidy.
set -uo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.." || exit 2

failed=0
step() {
  echo "==> $1"
  shift
  "$@" || failed=1
}

sources() { git ls-files '*.h' '*.cc' '*.cu' ':!*/testdata/*'; }

venv=.cache/lint
if [ ! -e "$venv/done" ] || [ scripts/lint_requirements.txt -nt "$venv/done" ]; then
  if python3 -m venv "$venv" && "$venv/bin/pip" install -q --require-hashes -r scripts/lint_requirements.txt; then
    touch "$venv/done"
  else
    echo "lint.sh: cannot install scripts/lint_requirements.txt; is python3-venv there, and a network?" >&2
    exit 2
  fi
fi
command -v shellcheck >/dev/null || { echo "lint.sh: no shellcheck; apt-get install shellcheck" >&2; exit 2; }

# shellcheck disable=SC2046
step "clang-format" "$venv/bin/clang-format" --dry-run -Werror $(sources)
# shellcheck disable=SC2046
step "shellcheck" shellcheck $(git ls-files '*.sh') .ci/run
step "workflows: schema" "$venv/bin/check-jsonschema" --builtin-schema vendor.github-workflows .github/workflows/*.yml
step "workflows: security" "$venv/bin/zizmor" --offline --quiet .github/workflows
step "workflows: shell of their steps" "$venv/bin/python" scripts/workflow.py --lint .github/workflows/*.yml examples/*.yml examples/*/*.yml
if command -v actionlint >/dev/null; then
  step "workflows: actionlint" actionlint
else
  echo "==> workflows: no actionlint here, left out"
fi
step "fixtures" golden/lint.py
exit "$failed"
