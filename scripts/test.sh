#!/usr/bin/env bash
# Installs, builds and passes all tests but the slow ones: scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh tests

echo "==> building (build/release)"
cmake --preset release
cmake --build --preset release

# Tests that need files from outside are skipped by name where these cannot be fetched.
scripts/fetch.sh vocabularies || echo "==> offline: the tokenizer vector tests will be skipped"
scripts/fetch.sh smollm2 || echo "==> offline: the tests on real SmolLM2 will be skipped"

echo "==> testing"
# Those labelled slow are for nights: ctest --preset release -L slow.
ctest --preset release -j "$(nproc)" -LE slow "$@"
