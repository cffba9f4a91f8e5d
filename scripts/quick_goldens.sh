#!/usr/bin/env bash
# The golden tests of the small models on the CPU, for a hook before a push: builds what changed.
set -euo pipefail
cd "$(dirname "$0")/.."
cmake --preset release >/dev/null
cmake --build --preset release --target golden_test
ctest --preset release -L '^golden$' -LE slow -j "$(nproc)" --output-on-failure
