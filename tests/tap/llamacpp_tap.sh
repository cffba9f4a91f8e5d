#!/usr/bin/env bash
# Builds examples/llamacpp_tap on an installed llama.cpp and holds its log against our engine's.
# usage: llamacpp_tap.sh ASSAY WORK_FOLDER. Exit code 77: no llama.cpp is installed. It is looked
# for in the environment's ASSAY_LLAMACPP (a prefix) and beside the Python package llama_cpp.
set -euo pipefail
assay=$1
work=$2
source_dir=$(cd "$(dirname "$0")/../.." && pwd)

prefix=${ASSAY_LLAMACPP:-}
for python in "${ASSAY_PYTHON:-}" python3 /usr/bin/python3; do
  if [ -n "$prefix" ] || [ -z "$python" ]; then continue; fi
  prefix=$("$python" -c 'import importlib.util as u, os
print(os.path.dirname(os.path.dirname(u.find_spec("llama_cpp").origin)))' 2>/dev/null || true)
done
if [ -z "$prefix" ] || [ ! -f "$prefix/include/llama.h" ]; then
  echo "skipped: no llama.cpp; install llama-cpp-python or name a prefix in ASSAY_LLAMACPP"
  exit 77
fi

rm -rf "$work"
cmake -S "$source_dir/examples/llamacpp_tap" -B "$work/build" -DCMAKE_PREFIX_PATH="$prefix" >/dev/null
cmake --build "$work/build" >/dev/null
model=$source_dir/golden/tinyllama/tinyllama-f32.gguf
prompt="GPU haiku with word fifty-one: "
env -u ORCH_LOG_TEAM ORCH_LOG_FILE="$work/llama.jsonl" ORCH_LOG_VALUES=all \
  ASSAY_LOG_CHECKPOINTS=ops "$work/build/llamacpp_tap" "$model" "$prompt" 8 >"$work/ids"
"$assay" run "$model" --prompt "$prompt" -n 8 --log "$work/ours.jsonl" --checkpoints ops \
  --values all --json >"$work/run.json"
"$assay" compare "$work/ours.jsonl" "$work/llama.jsonl"
# All of the layers' tensors that the example names, the embedding, and the logits of each token.
for name in embedding layer_0_q_rope layer_0_k_rope layer_0_attn layer_1_ffn_act layer_1_output \
  final_norm logits; do
  [ "$(grep -c "\"checkpoint\":\"$name\"" "$work/llama.jsonl")" -eq 33 ] ||
    { echo "not 33 records of $name"; exit 1; }
done
grep -q "\"generated\":\[$(cat "$work/ids")\]" "$work/run.json" ||
  { echo "other tokens: $(cat "$work/ids")"; exit 1; }
# Without the variable nothing is logged.
rm "$work/llama.jsonl"
env -u ORCH_LOG_FILE "$work/build/llamacpp_tap" "$model" "$prompt" 2 >/dev/null
[ ! -e "$work/llama.jsonl" ]
