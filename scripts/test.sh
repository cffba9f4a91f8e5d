#!/usr/bin/env bash
# Installs, builds and passes all tests but the slow ones: scripts/test.sh [ctest arguments]
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

scripts/setup.sh tests

# Tests that need something from outside skip by name where it cannot be had; with ASSAY_REQUIRE_MODELS=1 they fail. So
# those left are about a GPU, or about instructions that the processor lacks. It comes while the compiler works.
fetch() {
  local what
  for what in packages vocabularies smollm2 smollm2-q4_k_m; do
    scripts/fetch.sh "$what" >/dev/null || echo "==> no $what (offline?): the tests that need it will not run"
  done
}
set -m  # a process group of its own
fetch &
fetching=$!
set +m
trap 'kill -- "-$fetching" 2>/dev/null || true' EXIT

# Without a device, what is compiled for one is only counted (tests/cuda_budgets): one architecture takes half the time.
if ! command -v nvidia-smi >/dev/null; then
  export CUDAARCHS="${CUDAARCHS:-90-real}"
fi

echo "==> building (build/release)"
cmake --preset release
cmake --build --preset release

echo "==> waiting for what tests fetch"
wait "$fetching"

echo "==> testing"
# Those labelled slow are for nights: ctest --preset release -L slow.
ctest --preset release -j "$(nproc)" -LE slow "$@"
