#!/usr/bin/env bash
# The tests labelled quick, before a commit or a push: the goldens of every model on the CPU and the unit tests of logs
# and their comparison. Builds what changed. scripts/quick.sh [ctest arguments]
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target quick_tests
ctest --preset release -L quick -j "$(nproc)" "$@"
