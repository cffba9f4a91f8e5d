#!/usr/bin/env bash
# Installs, builds and passes all tests but the slow ones: scripts/test.sh [ctest arguments]
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh tests

echo "==> building (build/release)"
cmake --preset release
cmake --build --preset release

# Tests that need something from outside skip by name where it cannot be had; with ASSAY_REQUIRE_MODELS=1 they fail. So
# those left are about a GPU, or about instructions that the processor lacks.
for what in vocabularies packages smollm2 smollm2-q4_k_m; do
  scripts/fetch.sh "$what" >/dev/null || echo "==> no $what (offline?): the tests that need it will not run"
done

echo "==> testing"
# Those labelled slow are for nights: ctest --preset release -L slow.
ctest --preset release -j "$(nproc)" -LE slow "$@"
