#!/bin/sh
# parity.sh [renew]: compares what ./engine computes with parity/baseline.jsonl
set -e
log() {
  file=$1; shift; rm -f "$file"  # a log of an earlier run would pass for an engine that no longer logs
  ORCH_LOG_FILE=$file ASSAY_LOG_CHECKPOINTS=layers ORCH_LOG_VALUES=all ./engine "$@" > /dev/null
}
if [ "$1" = renew ]; then
  mkdir -p parity && log parity/new.jsonl
  log parity/other.jsonl --kv f16  # as right, but computed otherwise: other batches, threads or precision
  assay floors parity/new.jsonl parity/other.jsonl -o parity/new.json
  mv parity/new.jsonl parity/baseline.jsonl && mv parity/new.json parity/policy.json  # both, or neither
else
  log got.jsonl
  assay compare parity/baseline.jsonl got.jsonl --policy parity/policy.json --format github
fi
