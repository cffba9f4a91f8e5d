#!/usr/bin/env bash
# Is the working tree slower, or less exact, than a revision? scripts/perf.sh [REV]
#
# Builds REV (HEAD, if none is named) and the working tree in folders of their own, measures their
# benchmarks in pairs (bench/gate.py), holds both to the goldens (bench/accuracy.py), and says what
# changed. Exit code: 0; 1 for a confirmed SLOW or a model that is refused; 2 if something could not
# be built or run, or, with all results, a benchmark seems slower but is not confirmed, has too
# few pairs to tell, or is gone. Results, with report.html: build/perf/.
#
#   ROUNDS=20   pairs of times of each benchmark
#   FILTER=…    regular expression of the benchmarks (default: one or two of each kernel, logs, models)
#   ALLOW_MISSING=…  globs of benchmarks that may be gone, with spaces between them
#   GOLDENS=…   models that are compared with their goldens, as bench/accuracy.py takes them (default: all)
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

rev=${1:-HEAD}
rounds=${ROUNDS:-20}
read -ra globs <<<"${ALLOW_MISSING:-}"
allowed=()
for glob in "${globs[@]}"; do allowed+=(--allow-missing "$glob"); done
filter=${FILTER:-'^(attention/f32/1/512|dequantize/Q4_K|rms_norm/1/|silu_mul/1/|rope/adjacent/1/|sketch|log_|matrix_vector/(F32|F16|Q8_0|Q4_K|Q6_K)/|matrix_matrix/(F16|Q4_K|Q4_K/fast)/2/|(prefill/.*/512|decode/.*/16)/)'}
commit=$(git rev-parse --verify --quiet "$rev^{commit}") || {
  echo "perf.sh: '$rev' is not a revision of this repository" >&2
  exit 2
}
out=$PWD/build/perf
mkdir -p "$out"
rm -f "$out/report.json" "$out/report.html"

tree=$out/tree
[ -e "$tree/.git" ] || { git worktree prune; git worktree add --force --detach "$tree" "$commit" >/dev/null; }
git -C "$tree" checkout --quiet --detach "$commit"

build() {  # SOURCES SIDE: builds its release and copies the programs to where they are run
  (cd "$1" && cmake --preset release >"$out/build.log" 2>&1 &&
    cmake --build --preset release --target assay_bench assay_cli >>"$out/build.log" 2>&1) || {
    tail -20 "$out/build.log" >&2
    echo "perf.sh: cannot build $1" >&2
    exit 2
  }
  cp "$1/build/release/bin/assay_bench" "$out/$2_bench"
  cp "$1/build/release/bin/assay" "$out/$2_assay"
}
echo "==> building $rev (${commit:0:12})"
build "$tree" base
echo "==> building the working tree"
build "$PWD" head

echo "==> measuring"
bench/gate.py "$out/base_bench" "$out/head_bench" --assay "$out/head_assay" --out "$out" --filter "$filter" --rounds "$rounds" "${allowed[@]}" ||
  [ -e "$out/head.json" ] || exit 2  # where there are results, the report judges them

echo "==> goldens"
goldens() {  # SIDE [--base]: both are judged by the same program and the same goldens
  bench/accuracy.py "$out/$1_assay" --judge "$out/head_assay" --out "$out/$1-accuracy" --models "${GOLDENS:-.}" "${@:2}" || exit 2
}
goldens base --base
goldens head

report() { "$out/head_assay" perf "$out/base.json" "$out/head.json" --accuracy "$out/base-accuracy" "$out/head-accuracy" "${allowed[@]}" "$@"; }
status=0
report || status=$?
[ "$status" -le 2 ] || exit 2
write() {  # has the same verdict, and says no second time that the pairs are too few
  report "$@" 2>"$out/report.log" || [ $? -eq "$status" ] || { cat "$out/report.log" >&2; exit 2; }
}
write --format json -o "$out/report.json"
write --format html -o "$out/report.html"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || write --format github
exit "$status"
