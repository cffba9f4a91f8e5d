#!/usr/bin/env bash
# run.sh of a folder that scripts/gpu_bundle.sh packed: tests and benchmarks on a GPU, in parts of under eight minutes,
# what tells most first. Each part has steps; a step that the part's time cuts off keeps what it has written. Results
# are in the folder results/: the output of each step, the benchmarks as JSON, and summary.txt, with a line for each
# step of all parts so far. Exit code 1: a step failed, or was cut off.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
results=$here/results
limit=${ASSAY_PART_SECONDS:-470}

usage() {
  echo "usage: run.sh tests | kernels | decode MODEL | prefill MODEL | sanitize TOOL (such as llama-3-8b, memcheck)" >&2
  exit 2
}
type_of() { # of a model's weights
  case $1 in
    gpt2-124m) echo F32 ;;
    tinyllama-1.1b | qwen2.5-0.5b | phi-3-mini-4k | llama-3-8b) echo Q4_K_M ;;
    *) usage ;;
  esac
}
case ${1-}:$# in
  tests:1 | kernels:1) part=$1 ;;
  decode:2 | prefill:2) part=$1-$2 type=$(type_of "$2") || exit 2 ;;
  sanitize:2)
    part=$1-$2
    case $2 in memcheck | racecheck | initcheck | synccheck) ;; *) usage ;; esac ;;
  *) usage ;;
esac

gpu=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) \
  || { echo "run.sh: no GPU or no driver here: nvidia-smi fails" >&2; exit 2; }
root=$(cat "$here/repository")
[ -d "$root/golden" ] || { echo "run.sh: no repository at $root; link it: ln -s \$PWD $root" >&2; exit 2; }
cd "$root" || exit 2
export LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ASSAY_REQUIRE_GPU=1
mkdir -p "$results"
rm -f "$results/$part".*
echo "$part on $gpu" >"$results/$part.summary"
status=0
n_steps=0

# What a step's output comes to: numbers of tests, or each benchmark with its time and counters; nothing if none ran.
digest() {
  awk '/^\[       OK \] /{passed++} /^\[  FAILED  \] .*\)$/{failed++; names = names "\n      " $4} /^\[  SKIPPED \] .*\)$/{skipped++}
    /^cuda/{line = sprintf("\n      %-52s %10s %s", $1, $2, $3)
      for (i = 4; i <= NF; i++) if ($i ~ /=/) line = line " " $i
      lines = lines line}
    /^========= ERROR SUMMARY/{lines = lines "\n      " $0}
    END {if (passed + failed + skipped) printf "%d passed, %d failed, %d skipped", passed, failed, skipped
      print names lines}' "$1"
}

step() { # WHAT COMMAND...
  local what=$1 left=$((limit - SECONDS)) begin=$SECONDS log result said
  shift
  n_steps=$((n_steps + 1))
  log=$results/$part.$n_steps.txt
  if [ "$left" -le 0 ]; then
    result="not begun: the time is over"
    status=1
    : >"$log"
  else
    timeout --kill-after=5 "$left" "$@" >"$log" 2>&1
    case $? in
      0) result=ok ;;
      124 | 137) result="cut off" status=1 ;;
      *) result="FAILED, see $log" status=1 ;;
    esac
  fi
  said=$(digest "$log")
  if [ -z "$said" ] && [ "$result" = ok ] && [ "$1" != "$here/bin/assay" ]; then
    result="NOTHING RAN" said=$(grep -m 1 '^assay_bench: no' "$log")
    status=1
  fi
  echo "  $what: $result, $((SECONDS - begin)) s${said:+: $said}" | tee -a "$results/$part.summary"
  cat "$results"/*.summary >"$results/summary.txt"
}
# Tests in several processes, at most 8, whose memory on the device a small one has, too: what the results are compared
# with is computed on the CPU, a thread a test. Where a test waits for the device after each op, in one: others would
# take turns with it on the device, a turn for each op.
shards() { # WHAT PROCESSES COMMAND...
  local what=$1 n=$(($2 < 8 ? $2 : 8))
  shift 2
  step "$what" xargs -P "$n" -a <(seq 0 $((n - 1))) -I{} env GTEST_TOTAL_SHARDS=$n GTEST_SHARD_INDEX={} "$@"
}
gtest() { # WHAT PROGRAM FILTER [PROCESSES]
  shards "$1" "${4:-$(nproc)}" "$here/bin/$2" --gtest_filter="$3"
}
bench() { # WHAT FILTER
  step "$1" "$here/bin/assay_bench" --benchmark_filter="$2" --benchmark_min_time=0.2 \
    --benchmark_out="$results/$part.$((n_steps + 1)).json" --benchmark_out_format=json
}

case $1 in
  tests)
    gtest "single ops have the CPU's bits" emulated_test 'Gpu/OpTest.*'
    gtest "products against cuBLAS" emulated_test 'Gpu/LibraryTest.*'
    gtest "fused ops have the CPU's bits" emulated_test 'Gpu/FusedTest.*:Gpu/RecordingTest.*'
    gtest "sessions have the CPU's bits" emulated_test 'Gpu/DeviceSession.*:Gpu/DeviceSteps.*'
    gtest "goldens at once" golden_test 'Gpu/*_at_once'
    gtest "goldens token by token" golden_test 'Gpu/*_token_by_token' 1
    gtest "goldens on other ways" golden_test 'Gpu/*:-*_at_once:*_token_by_token' ;;
  kernels)
    bench "matrix times vector" '^cuda/matrix_vector/(Q4_K|Q6_K|Q8_0|F16|F32)(/|$)'
    bench "cuBLAS" '^cuda/cublas/'
    bench "prompts" '^cuda/prompt/(Q4_K|Q6_K|Q8_0|F16|F32)(/|$)'
    bench "attention" '^cuda/(prompt_)?attention/'
    bench "fused" '^cuda/(activation|residual)/(Q4_K|Q6_K|Q8_0|F16|F32)(/|$)'
    bench "other types" '^cuda/(matrix_vector|prompt|activation|residual)/(BF16|Q4_[01]|Q5|Q[23]_K|IQ|TQ|MX|NV)' ;;
  decode | prefill)
    export ASSAY_BENCH_MODEL=$here/models/$2.gguf
    mkdir -p "$here/models"
    [ -f "$ASSAY_BENCH_MODEL" ] \
      || step "the model's file" "$here/bin/assay" synth "$2" --type "$type" -o "$ASSAY_BENCH_MODEL"
    bench "fast" "^cuda_$1/$2/[^/]*/fast/"
    [ "$1" = decode ] || bench "library" "^cuda_$1/$2/[^/]*/library/"
    bench "exact" "^cuda_$1/$2/[^/]*/exact/" ;;
  sanitize)
    command -v compute-sanitizer >/dev/null || { echo "run.sh: no compute-sanitizer here" >&2; exit 2; }
    # In one step: the sanitizer calls a process without a test, and so without a call to the device, an error.
    shards "single ops, fused ops, recordings" "$(nproc)" compute-sanitizer --tool "$2" --error-exitcode 1 \
      "$here/bin/emulated_test" --gtest_filter='Gpu/OpTest.*:Gpu/FusedTest.*:Gpu/RecordingTest.*' ;;
esac
echo "$part: $([ $status -eq 0 ] && echo "all steps passed" || echo "NOT all steps passed"); see $results/summary.txt"
exit $status
