#!/usr/bin/env bash
# The main job on a real model: install, build, fetch SmolLM2-135M, let it write, log every layer of
# every token, and hold the log to the golden that transformers recorded in float64.
set -euo pipefail
cd "$(dirname "$0")/.."

prompt="GPU haiku with word fifty-one: "
log=build/demo/smollm2.jsonl

scripts/setup.sh program

echo "==> building (build/program)"
cmake --preset program
cmake --build --preset program
assay=build/program/bin/assay

echo "==> SmolLM2-135M-Instruct Q4_1"
model=$(scripts/fetch.sh smollm2 | tail -n 1)

mkdir -p "$(dirname "$log")"
echo "==> $assay run $model --prompt '$prompt' -n 16 --log $log --checkpoints layers --sketch"
"$assay" run "$model" --prompt "$prompt" -n 16 --log "$log" --checkpoints layers --sketch

echo "==> $assay compare golden/smollm2/q4_1.jsonl $log"
"$assay" compare golden/smollm2/q4_1.jsonl "$log"
