#!/usr/bin/env bash
# Fuzzes the readers of hostile files and what has a naive double: scripts/fuzz.sh [OPTIONS] [TARGET...]
# Without a target all of tests/fuzz/. Each starts from its committed inputs, ends after so many executions
# or seconds, whichever comes first, and is recorded in tests/fuzz/results.json.
#   --runs N      executions of each target (20000000)
#   --seconds N   seconds of each target (1800)
#   --minimise    no fuzzing: what was found so far, reduced to the fewest inputs of the same coverage,
#                 replaces tests/fuzz/corpus/TARGET
# Exit code 1 where an input fails; it lies in build/fuzz/findings/. Make a test of it.
set -euo pipefail
cd "$(dirname "$0")/.."

runs=20000000
seconds=1800
minimise=
targets=()
while [ $# -gt 0 ]; do
  case "$1" in
    --runs) runs=${2:?--runs needs a number}; shift ;;
    --seconds) seconds=${2:?--seconds needs a number}; shift ;;
    --minimise) minimise=1 ;;
    -*) echo "fuzz.sh: what is '$1'? usage: scripts/fuzz.sh [--runs N] [--seconds N] [--minimise] [TARGET...]" >&2; exit 2 ;;
    *) targets+=("$1") ;;
  esac
  shift
done

command -v clang++ >/dev/null || { echo "fuzz.sh: no clang++; apt-get install clang" >&2; exit 2; }
if [ ${#targets[@]} -eq 0 ]; then
  mapfile -t targets < <(basename -s _fuzz.cc tests/fuzz/*_fuzz.cc)
fi
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/%/_fuzz}"

# Longer inputs of these are only slower.
declare -A longest=([dequantize]=700 [metrics]=1024)
found=build/fuzz/corpus
mkdir -p build/fuzz/findings build/fuzz/logs

record() { # TARGET LOG FINDINGS CPU_SECONDS
  flock build/fuzz/results.lock python3 - "$@" <<'PYTHON'
import json, pathlib, re, sys

target, log, findings, cpu_seconds = sys.argv[1:]
text = pathlib.Path(log).read_text(errors="replace")
path = pathlib.Path("tests/fuzz/results.json")
results = json.loads(path.read_text()) if path.exists() else {}
results[target] = {
    "executions": max(map(int, re.findall(r"^(?:stat::number_of_executed_units:\s*|#)(\d+)", text, re.M))),
    "seconds": int((re.findall(r"^Done \d+ runs in (\d+) second", text, re.M) or [0])[-1]),
    "cpu_seconds": round(float(cpu_seconds)),
    "edges": int(re.findall(r"\bcov: (\d+)", text)[-1]),
    "findings": int(findings),
}
path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
print("    " + json.dumps(results[target]))
PYTHON
}

failed=0
for target in "${targets[@]}"; do
  program=build/fuzz/bin/${target}_fuzz
  committed=tests/fuzz/corpus/$target
  mkdir -p "$found/$target" "$committed"
  if [ -n "$minimise" ]; then
    rm -rf "$found/$target.least"
    mkdir "$found/$target.least"
    "$program" -merge=1 "$found/$target.least" "$committed" "$found/$target" >"build/fuzz/logs/$target.merge" 2>&1
    rm -rf "$committed"
    mv "$found/$target.least" "$committed"
    echo "==> $target: $(find "$committed" -type f | wc -l) inputs, $(du -sb "$committed" | cut -f1) bytes"
    continue
  fi
  echo "==> $target: $runs executions or $seconds s"
  log=build/fuzz/logs/$target.log
  findings=0
  start=$(date +%s)
  TIMEFORMAT='cpu %U %S'
  { time "$program" -runs="$runs" -max_total_time="$seconds" -timeout=25 -rss_limit_mb=4096 \
    -max_len="${longest[$target]:-0}" -dict="tests/fuzz/dictionaries/$target.dict" -artifact_prefix="build/fuzz/findings/$target-" \
    -print_final_stats=1 "$found/$target" "$committed" >"$log" 2>&1; } 2>"$log.time" || findings=1
  if [ "$findings" -ne 0 ]; then
    failed=1
    echo "    fails; see $log" >&2
    echo "Done 0 runs in $(($(date +%s) - start)) second(s)" >>"$log"
  fi
  record "$target" "$log" "$findings" "$(awk '/^cpu/ { print $2 + $3 }' "$log.time")"
done
exit "$failed"
