#!/usr/bin/env bash
# Is the working tree slower than a revision? scripts/perf.sh [REV] [flags of assay_bench]
#
# Builds REV (HEAD, if none is named) and the working tree in folders of their own, runs their
# benchmarks by turns in fresh processes (base head, head base, …), and says what changed. What
# looks slower is measured a second time, alone, and counts only if it is slower again. Exit code:
# 0, 1 for a confirmed SLOW, 2 if something could not be built or run. Results: build/perf/.
#
#   ROUNDS=20         pairs of runs of each stage
#   FILTER=…          regular expression of the benchmarks (default: one or two of each kernel, logs)
set -euo pipefail
cd "$(dirname "$0")/.."

rev=${1:-HEAD}
[ $# -eq 0 ] || shift
rounds=${ROUNDS:-20}
filter=${FILTER:-'^(attention/f32/1/512|dequantize/Q4_K|rms_norm/1|silu_mul/1|rope/adjacent/1|sketch|log_|matrix_vector/(F32|F16|Q8_0|Q4_K|Q6_K)|matrix_matrix/(F16|Q4_K)/2)'}
commit=$(git rev-parse --verify --quiet "$rev^{commit}") || {
  echo "perf.sh: '$rev' is no revision of this repository" >&2
  exit 2
}
out=$PWD/build/perf
mkdir -p "$out"

tree=$out/tree
[ -e "$tree/.git" ] || { git worktree prune; git worktree add --force --detach "$tree" "$commit" >/dev/null; }
git -C "$tree" checkout --quiet --detach "$commit"

build() {  # SOURCES: builds its release and copies the benchmarks to where they are run
  (cd "$1" && cmake --preset release >"$out/build.log" 2>&1 &&
    cmake --build --preset release --target assay_bench assay_cli >>"$out/build.log" 2>&1) || {
    tail -20 "$out/build.log" >&2
    echo "perf.sh: cannot build $1" >&2
    exit 2
  }
  cp "$1/build/release/bin/assay_bench" "$2"
}
echo "==> building $rev (${commit:0:12})"
build "$tree" "$out/base_bench"
echo "==> building the working tree"
build "$PWD" "$out/head_bench"

measure() {  # STAGE FILTER ROUNDS
  local stage=$1 filter=$2 rounds=$3
  shift 3
  rm -f "$out/$stage".*.json
  for ((round = 1; round <= rounds; round++)); do
    printf '\r==> %s: round %d of %d ' "$stage" "$round" "$rounds" >&2
    local order="base head"
    [ $((round % 2)) -eq 1 ] || order="head base"
    for side in $order; do
      "$out/${side}_bench" --benchmark_filter="$filter" --benchmark_min_time=0.02 --benchmark_repetitions=3 \
        --benchmark_out="$out/$stage.$side.$(printf %04d "$round").json" --benchmark_out_format=json "$@" \
        >/dev/null 2>"$out/bench.log" || { cat "$out/bench.log" >&2; echo "perf.sh: $side failed" >&2; exit 2; }
    done
  done
  printf '\n' >&2
  for side in base head; do
    python3 bench/join.py "$out/$stage.$side.json" "$out/$stage.$side."[0-9]*.json
  done
}

verdict() {  # STAGE: 0 or 1; anything else ends the script
  local code=0
  build/release/bin/assay perf "$out/$1.base.json" "$out/$1.head.json" --format json -o "$out/$1.json" || code=$?
  [ "$code" -le 1 ] || exit 2
  return "$code"
}

final=first
if ! { measure first "$filter" "$rounds" "$@"; verdict first; }; then
  suspects=$(python3 bench/join.py --slow "$out/first.json")
  echo "==> measuring again what looks slower"
  measure second "$suspects" "$rounds" "$@"
  final=second
fi
code=0
verdict "$final" || code=$?
build/release/bin/assay perf "$out/first.base.json" "$out/first.head.json" || true
if [ "$final" = second ]; then
  echo "==> the second time:"
  build/release/bin/assay perf "$out/second.base.json" "$out/second.head.json" || true
fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then
  build/release/bin/assay perf "$out/$final.base.json" "$out/$final.head.json" --format github >>"$GITHUB_STEP_SUMMARY" || true
fi
exit "$code"
