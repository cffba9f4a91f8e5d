#!/usr/bin/env bash
# Runs llama.cpp and Assay on the same file and the published prompt, compares, and writes the report:
#   golden/test_logging.sh tinyllama|llama3|qwen|qwen-fp16|phi3|gpt2 [FOLDER]
# 15 tokens, standard input closed, each run limited to TIME_LIMIT seconds (600). The checkpoint is fetched
# (golden/fetch.py); where that fails, a twin with random weights and the real vocabulary takes its place.
# Exit status: that of assay compare (0 parity, 1 diverged), 2 if something could not be run.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage="usage: golden/test_logging.sh tinyllama|llama3|qwen|qwen-fp16|phi3|gpt2 [FOLDER]"
[ $# -eq 1 ] || [ $# -eq 2 ] || { echo "$usage" >&2; exit 2; }
name=$1
out=$(mkdir -p "${2:-/tmp/assay_logging_$name}" && cd "${2:-/tmp/assay_logging_$name}" && pwd)
assay=${ASSAY:-$root/build/release/bin/assay}
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}
python=${ASSAY_PYTHON:-$root/.cache/venv/bin/python}
limit=${TIME_LIMIT:-600}
prompt="GPU haiku with word fifty-one: "
fail() { echo "test_logging.sh: $*" >&2; exit 2; }

[ -x "$assay" ] || fail "no $assay; build it (cmake --build --preset release) or set ASSAY"
"$python" -c 'import llama_cpp, gguf' 2>/dev/null ||
  fail "$python has no llama_cpp; make the venv of golden/README.md or set ASSAY_PYTHON"
twin=$("$python" - "$root/golden/published.json" "$name" <<'PY'
import json, sys
models = json.load(open(sys.argv[1]))["models"]
if sys.argv[2] not in models:
    sys.exit(f"test_logging.sh: no model '{sys.argv[2]}'; there are {', '.join(models)}")
print(*models[sys.argv[2]]["twin"])
PY
) || exit 2
read -r preset type vocabulary <<<"$twin"

if model=$("$python" "$root/golden/fetch.py" "$name" 2>"$out/fetch.txt" </dev/null); then
  model=${model##*$'\n'}
  echo "==> $name: $model"
else
  echo "==> $name: not fetched ($(tail -n 1 "$out/fetch.txt"))"
  vocab=$cache/vocab/ggml-vocab-$vocabulary.gguf
  [ -f "$vocab" ] || "$root/scripts/fetch.sh" vocabularies >/dev/null || fail "no vocabulary $vocab"
  model=$cache/published/$preset-$type-twin.gguf
  mkdir -p "${model%/*}"
  echo "==> a twin takes its place: random weights, shape of $preset, $type: $model"
  [ -f "$model" ] || "$assay" synth "$preset" --type "$type" --vocab "$vocab" -o "$model" >"$out/synth.txt" ||
    fail "could not make the twin"
fi

echo "==> Assay"
timeout "$limit" "$assay" run "$model" --prompt "$prompt" -n 15 --ignore-eos --checkpoints layers --sketch --values all \
  --team ASSAY --log "$out/assay.jsonl" --json </dev/null >"$out/assay.json" 2>"$out/assay.txt" ||
  fail "assay run failed or took over $limit s: $(tail -n 1 "$out/assay.txt")"
# llama.cpp is given Assay's tokens, so that both compute the same positions even where a choice is close.
tokens=$("$python" -c 'import json, sys; run = json.load(open(sys.argv[1])); print(*run["tokens"], *run["generated"][:-1], sep=",")' "$out/assay.json")
echo "==> llama.cpp"
(cd "$root/golden" && PYTHONPATH=$root/python timeout "$limit" "$python" -m generate.llamacpp "$model" --tokens "$tokens" \
  --checkpoints layers --sketch --values all --team LLAMA --log "$out/llamacpp.jsonl") </dev/null >"$out/llamacpp.txt" 2>&1 ||
  fail "llama.cpp failed or took over $limit s: $(tail -n 1 "$out/llamacpp.txt")"

echo "==> garbage"
for log in llamacpp assay; do
  "$assay" analyze "$out/$log.jsonl" --json >"$out/$log-analysis.json" || [ $? -eq 1 ] || fail "analyze failed"
  "$python" -c 'import json, sys; found = json.load(open(sys.argv[1])); print(sys.argv[2] + ":", found["garbage_tokens"], "of", found["tokens"], "tokens")' \
    "$out/$log-analysis.json" "$log"
done
echo "==> $out/report.json"
status=0
"$assay" compare "$out/llamacpp.jsonl" "$out/assay.jsonl" --format json -o "$out/report.json" || status=$?
[ "$status" -le 1 ] || exit "$status"
"$assay" compare "$out/llamacpp.jsonl" "$out/assay.jsonl" || true
exit "$status"
