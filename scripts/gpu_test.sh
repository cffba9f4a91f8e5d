#!/usr/bin/env bash
# Builds with CUDA and runs the tests labelled gpu, as many at a time as there are GPUs:
# scripts/gpu_test.sh [ctest arguments]. The machine needs a driver and nvcc. Here a test that finds no
# GPU fails; elsewhere it skips.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

for tool in nvidia-smi nvcc; do
  command -v "$tool" >/dev/null || { echo "gpu_test.sh: no $tool here; install the CUDA driver and toolkit" >&2; exit 2; }
done
nvidia-smi --query-gpu=index,name,driver_version,clocks.sm,clocks.mem --format=csv
count=$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)

cmake --preset cuda
cmake --build --preset cuda

# One slot a GPU: ctest hands each test that asks for one (RESOURCE_GROUPS gpus:1) its own.
resources=build/cuda/gpus.json
{
  printf '{"version": {"major": 1, "minor": 0}, "local": [{"gpus": ['
  for ((i = 0; i < count; i++)); do
    [ "$i" -eq 0 ] || printf ', '
    printf '{"id": "%d", "slots": 1}' "$i"
  done
  printf ']}]}\n'
} >"$resources"

export ASSAY_REQUIRE_GPU=1
export CUDA_DEVICE_ORDER=PCI_BUS_ID  # that of nvidia-smi, so that each id above is one GPU
ctest --preset cuda -L gpu -j "$count" --resource-spec-file "$PWD/$resources" "$@"
