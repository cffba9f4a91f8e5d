#!/usr/bin/env bash
# Runs each small golden model and says how it stands against its golden, as the step summary of a
# GitHub job or, elsewhere, on standard output. Needs build/release. Reports go to
# build/golden-reports/. Exits 1 if any has diverged, 2 if no model was there to run.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

assay=build/release/bin/assay
[ -x "$assay" ] || { echo "golden_summary.sh: no $assay; run scripts/test.sh first" >&2; exit 2; }
out=build/golden-reports
mkdir -p "$out"
summary=${GITHUB_STEP_SUMMARY:-$out/summary.md}
[ -n "${GITHUB_STEP_SUMMARY:-}" ] || : >"$summary"
failed=0
ran=0
for manifest in golden/*/manifest.json; do
  folder=$(dirname "$manifest")
  model=$(basename "$folder")
  for gguf in "$folder"/*.gguf; do
    [ -e "$gguf" ] || continue
    ran=$((ran + 1))
    type=$(basename "$gguf" .gguf)
    type=${type#"$model"-}
    golden=$folder/$type.jsonl
    got=$out/$model-$type.jsonl
    "$assay" run "$gguf" --follow "$golden" --log "$got" --checkpoints layers --values 10 --sketch \
      >/dev/null 2>"$out/$model-$type.txt" || { cat "$out/$model-$type.txt" >&2; failed=1; continue; }
    # A model in parity gets one line, any other its report.
    if "$assay" compare "$golden" "$got" --policy "$manifest" --format github >"$out/$model-$type.md"; then
      echo "- $model $type: in parity with $golden" >>"$summary"
    else
      cat "$out/$model-$type.md" >>"$summary"
      failed=1
    fi
  done
done
[ -n "${GITHUB_STEP_SUMMARY:-}" ] || cat "$summary"
[ "$ran" -gt 0 ] || { echo "golden_summary.sh: no golden/MODEL/*.gguf; restore them with git checkout golden" >&2; exit 2; }
exit "$failed"
