#!/usr/bin/env bash
# Holds engines from outside to what they did when engines/verdicts.json was recorded: check.sh [options of conform]
#
# check.sh --record writes the file anew: after a new version of an engine, or a new feature of the suite. Its changes
# are then there to be read in git. Where anything is worse, the suite, an adapter or the judge has changed, as the
# engines' versions have not.
set -euo pipefail
case "${1:-}" in -h | --help) sed -n '2,/^[^#]/s/^# \?//p' "$0"; exit ;; esac
cd "$(dirname "$0")/.."

engines=(transformers transformers-bf16 mlx-lm ctranslate2 onnxruntime-genai mistral.rs)
known=engines/verdicts.json
assay=${ASSAY:-build/release/bin/assay}
[ -x "$assay" ] || { echo "check.sh: no $assay; run scripts/test.sh, or give another as ASSAY" >&2; exit 2; }
python3 engines/install.py "${engines[@]}"
if [ "${1:-}" = --record ]; then
  shift
  # Exit status 1 are deviations, which are known. A run that fails leaves the file as it is.
  "$assay" conform "${engines[@]}" --timeout 900 --format baseline -o "$known.new" "$@" || [ $? -eq 1 ]
  mv "$known.new" "$known"
  exit
fi
exec "$assay" conform "${engines[@]}" --timeout 900 --baseline "$known" "$@"
