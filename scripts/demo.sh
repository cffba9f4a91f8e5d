#!/usr/bin/env bash
# The main job on a real model: install, build, fetch SmolLM2-135M, let it write, log every layer of
# every token, and hold the log to the golden that transformers recorded in float64.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

prompt="GPU haiku with word fifty-one: "
log=build/demo/smollm2.jsonl

scripts/setup.sh program

mkdir -p "$(dirname "$log")"
fetched=build/demo/fetched
set -m  # a process group of its own
scripts/fetch.sh smollm2 >"$fetched" 2>&1 &  # while the compiler works
fetching=$!
set +m
trap 'kill -- "-$fetching" 2>/dev/null || true' EXIT

echo "==> building (build/program)"
cmake --preset program
cmake --build --preset program
assay=build/program/bin/assay

echo "==> SmolLM2-135M-Instruct Q4_1"
wait "$fetching" || {
  code=$?
  cat "$fetched" >&2
  exit "$code"
}
model=$(tail -n 1 "$fetched")
echo "==> $assay run $model --prompt '$prompt' -n 16 --log $log --checkpoints layers --sketch"
"$assay" run "$model" --prompt "$prompt" -n 16 --log "$log" --checkpoints layers --sketch

echo "==> $assay compare golden/smollm2/q4_1.jsonl $log"
"$assay" compare golden/smollm2/q4_1.jsonl "$log"
