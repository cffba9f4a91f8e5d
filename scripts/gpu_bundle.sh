#!/usr/bin/env bash
# Packs what runs the tests labelled gpu and the benchmarks, for a machine that has a GPU and its driver but not
# what Assay is built with: scripts/gpu_bundle.sh FOLDER [ARCHITECTURES, as CMAKE_CUDA_ARCHITECTURES; 90-real].
# There, in a copy of this repository: FOLDER/run.sh PART, which is scripts/gpu_run.sh: tests, benchmarks of the kernels
# and of models of published sizes, which it makes, and the sanitizer. Tests and benchmarks of cuBLAS skip unless
# libcublas and libcublasLt are there, or in FOLDER/lib (600 MB, not packed).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -lt 1 ] || [ $# -gt 2 ]; then
  echo "usage: scripts/gpu_bundle.sh FOLDER [ARCHITECTURES]" >&2
  exit 2
fi
folder=$1
build=build/gpu_bundle
programs=(emulated_test golden_test assay assay_bench)

cmake --preset cuda -B "$build" -D CMAKE_CUDA_ARCHITECTURES="${2:-90-real}" -D ASSAY_BUILD_TESTS=ON -D ASSAY_BUILD_BENCH=ON
cmake --build "$build" --target "${programs[@]}"

mkdir -p "$folder/bin" "$folder/lib"
for program in "${programs[@]}"; do
  strip -o "$folder/bin/$program" "$build/bin/$program"
  # All libraries but those of the C library, which belong to the machine.
  ldd "$build/bin/$program" | awk '$3 ~ /^\// {print $3}' \
    | grep -vE '/(libc|libm|libdl|librt|libpthread)\.so' | xargs -r cp -Lt "$folder/lib"
done

# The programs look for the repository where it was when they were built.
echo "$PWD" >"$folder/repository"
cp scripts/gpu_run.sh "$folder/run.sh"
du -sh "$folder"
