#!/usr/bin/env bash
# The tests labelled quick, before a commit or a push: the goldens of every model on the CPU and the unit tests of logs
# and their comparison. Builds what changed. scripts/quick.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target quick_tests
ctest --preset release -L quick -j "$(nproc)" "$@"
