#!/usr/bin/env bash
# Fuzzes the readers of hostile files and what has a naive double: scripts/fuzz.sh [OPTIONS] [TARGET...]
# Without a target all of tests/fuzz/. Each starts from its committed inputs and from what it found here
# before, ends after so many executions or seconds of processor time, whichever comes first, and is added to
# tests/fuzz/results.json; delete that to start counting again.
#   --runs N      executions of each target (20000000)
#   --seconds N   processor seconds of each target (1800)
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
    -*) echo "fuzz.sh: unknown argument '$1'; usage: scripts/fuzz.sh [--runs N] [--seconds N] [--minimise] [TARGET...]" >&2; exit 2 ;;
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
export TMPDIR=$PWD/build/fuzz/tmp
mkdir -p build/fuzz/findings build/fuzz/logs "$TMPDIR"

record() { # TARGET LOG FINDINGS SECONDS
  flock build/fuzz/results.lock python3 - "$@" <<'PYTHON'
import json, pathlib, re, sys

target, log, findings, seconds = sys.argv[1:]
text = pathlib.Path(log).read_text(errors="replace")
path = pathlib.Path("tests/fuzz/results.json")
results = json.loads(path.read_text()) if path.exists() else {}
now = {
    "executions": max(map(int, re.findall(r"^(?:stat::number_of_executed_units:\s*|#)(\d+)", text, re.M))),
    "seconds": int(seconds),
    "findings": int(findings),
}
print("    " + json.dumps(now))
total = {key: value + results.get(target, {}).get(key, 0) for key, value in now.items()}
results[target] = total | {"edges": int(re.findall(r"\bcov: (\d+)", text)[-1])}
path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
PYTHON
}

minimised() { # TARGET
  local least=$found/$1.least
  rm -rf "$least"
  mkdir "$least"
  # Edges alone, not how often each was taken: a tenth of the inputs.
  build/fuzz/bin/"$1"_fuzz -merge=1 -use_counters=0 "$least" "tests/fuzz/corpus/$1" "$found/$1" >"build/fuzz/logs/$1.merge" 2>&1
  rm -rf "tests/fuzz/corpus/$1"
  mv "$least" "tests/fuzz/corpus/$1"
  echo "==> $1: $(find "tests/fuzz/corpus/$1" -type f | wc -l) inputs, $(du -sb "tests/fuzz/corpus/$1" | cut -f1) bytes"
}

fuzz() { # TARGET: whether no input failed
  local log=build/fuzz/logs/$1.log findings=0 used=0
  echo "==> $1: $runs executions or $seconds s"
  # A busy machine may keep one input waiting: -timeout counts that, too.
  build/fuzz/bin/"$1"_fuzz -runs="$runs" -timeout=120 -rss_limit_mb=4096 -max_len="${longest[$1]:-0}" \
    -dict="tests/fuzz/dictionaries/$1.dict" -artifact_prefix="build/fuzz/findings/$1-" -print_final_stats=1 \
    "$found/$1" "tests/fuzz/corpus/$1" >"$log" 2>&1 &
  local pid=$!
  while [ "$used" -lt "$seconds" ] && sleep 1 && [ -e "/proc/$pid/stat" ]; do
    used=$(awk -v tick="$(getconf CLK_TCK)" '{ print int(($14 + $15) / tick) }' "/proc/$pid/stat" 2>/dev/null || echo "$used")
  done
  kill -USR1 "$pid" 2>/dev/null || true # libFuzzer ends after the input at hand
  if ! wait "$pid"; then
    # What failed is written down as an input; without one the fuzzer was stopped from outside, and nothing counts.
    grep -q 'Test unit written to' "$log" || { echo "    ended before its time; see $log" >&2; return 1; }
    findings=1
  fi
  record "$1" "$log" "$findings" "$used"
  [ "$findings" -eq 0 ] || { echo "    fails; see $log" >&2; return 1; }
}

failed=0
for target in "${targets[@]}"; do
  mkdir -p "$found/$target" "tests/fuzz/corpus/$target"
  if [ -n "$minimise" ]; then
    minimised "$target"
  else
    fuzz "$target" || failed=1
  fi
done
exit "$failed"
