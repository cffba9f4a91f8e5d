#!/bin/sh
# git bisect run ../gate/bisect.sh: whether this commit computes what parity/, beside this script, has
gate=$(dirname "$0")
command -v assay > /dev/null || exit 255  # git stops
make || exit 125  # git goes on with another commit
rm -f got.jsonl || exit 255  # an old log would be judged
ORCH_LOG_FILE=got.jsonl ASSAY_LOG_CHECKPOINTS=layers ORCH_LOG_VALUES=all ./engine > /dev/null || exit 125
assay compare "$gate/parity/baseline.jsonl" got.jsonl --policy "$gate/parity/policy.json" || code=$?
[ "${code:-0}" != 2 ] || exit 125  # not comparable, such as no log: git would take 2 for a wrong commit
exit "${code:-0}"
