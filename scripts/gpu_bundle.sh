#!/usr/bin/env bash
# Packs what runs the tests labelled gpu and the benchmarks, for a machine that has a GPU and its driver but not
# what Assay is built with: scripts/gpu_bundle.sh FOLDER [ARCHITECTURES, as CMAKE_CUDA_ARCHITECTURES; 90-real].
# There, in a copy of this repository: FOLDER/run.sh [RESULTS]. It tests, and writes the benchmarks as JSON to the
# folder RESULTS (FOLDER/results): each kernel's, and tokens a second of models of published sizes, which it makes.
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

cat >"$folder/run.sh" <<RUN
#!/usr/bin/env bash
# Written by scripts/gpu_bundle.sh. The programs look for the repository where it was when they were built.
set -uo pipefail
here=\$(cd "\$(dirname "\$0")" && pwd)
results=\${1:-\$here/results}
mkdir -p "\$results"
[ -d '$PWD/golden' ] || { echo "run.sh: no repository at $PWD; link it: ln -s \$PWD $PWD" >&2; exit 2; }
export LD_LIBRARY_PATH=\$here/lib ASSAY_REQUIRE_GPU=1
nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.mem --format=csv || { echo "run.sh: no GPU or no driver here" >&2; exit 2; }
status=0
for program in emulated_test golden_test; do
  "\$here/bin/\$program" --gtest_filter='Gpu/*' --gtest_brief=1 || status=1
done
for tool in memcheck racecheck initcheck synccheck; do
  command -v compute-sanitizer >/dev/null || { echo "run.sh: no compute-sanitizer here"; break; }
  echo "==> compute-sanitizer \$tool"
  compute-sanitizer --tool "\$tool" --error-exitcode 1 "\$here/bin/emulated_test" \\
    --gtest_filter='Gpu/OpTest.*:Gpu/FusedTest.*' --gtest_brief=1 || status=1
done
bench() { # NAME FILTER
  "\$here/bin/assay_bench" --benchmark_filter="\$2" --benchmark_out="\$results/\$1.json" --benchmark_out_format=json
}
bench kernels '^cuda/' || status=1
for model in tinyllama-1.1b:Q4_K_M qwen2.5-0.5b:Q4_K_M phi-3-mini-4k:Q4_K_M llama-3-8b:Q4_K_M gpt2-124m:F32; do
  name=\${model%:*}
  export ASSAY_BENCH_MODEL=\$results/\$name.gguf
  "\$here/bin/assay" synth "\$name" --type "\${model#*:}" -o "\$ASSAY_BENCH_MODEL" || status=1
  bench "\$name" "^cuda_(decode|prefill)/\$name/" || status=1
  rm -f "\$ASSAY_BENCH_MODEL"
done
exit \$status
RUN
chmod +x "$folder/run.sh"
du -sh "$folder"
