#!/usr/bin/env bash
# Fetches what does not belong into a repository: scripts/fetch.sh smollm2|smollm2-q4_k_m|vocabularies|packages
# into ${ASSAY_CACHE:-${XDG_CACHE_HOME:-~/.cache}/assay}. Prints the path on the last line; a second
# call finds the files and fetches nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${ASSAY_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/assay}

command -v python3 >/dev/null || { echo "fetch.sh: needs python3: apt-get install python3" >&2; exit 2; }
case "${1:-}" in
  smollm2) exec python3 scripts/fetch_smollm2.py "$cache/smollm2" ;;
  smollm2-q4_k_m)
    python=$(scripts/fetch.sh packages | tail -n 1)  # for its numpy
    scripts/fetch.sh smollm2 >/dev/null
    exec "$python" scripts/quantise_smollm2.py "$cache/smollm2"
    ;;
  packages) exec python3 scripts/fetch_packages.py "$cache/python" ;;
  vocabularies) exec python3 scripts/fetch_vocabularies.py "$cache/vocab" ;;
  *) echo "usage: scripts/fetch.sh smollm2|smollm2-q4_k_m|vocabularies|packages" >&2; exit 2 ;;
esac
