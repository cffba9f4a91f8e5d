#!/usr/bin/env bash
# Installs what Assay is built with, from the system's packages, where something is missing.
# Debian 12, Ubuntu 24.04, or newer (CMake 3.25). Called by demo.sh and test.sh; does nothing the second time.
# `setup.sh tests` installs what only tests use, too.
set -euo pipefail

packages=(
  ca-certificates
  cmake
  g++
  git
  libbenchmark-dev
  libboost-context-dev
  libcli11-dev
  libfmt-dev
  libgmock-dev
  libgtest-dev
  libpcre2-dev
  libssl-dev
  libzip-dev
  ninja-build
  pkg-config
  python3
  python3-pip
  python3-venv
  rapidjson-dev
)

test_packages=(
  chromium
  python3-numpy
  python3-yaml
  shellcheck
)

case "${1:-}" in
  "") ;;
  tests) packages+=("${test_packages[@]}") ;;
  *)
    echo "setup.sh: what is '$1'? usage: scripts/setup.sh [tests]" >&2
    exit 2
    ;;
esac

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' ||
    missing+=("$package")
done

if [ ${#missing[@]} -eq 0 ]; then
  echo "==> dependencies: all installed"
  exit 0
fi

if ! command -v apt-get >/dev/null; then
  echo "setup.sh: not a Debian or Ubuntu system; install the counterparts of: ${missing[*]}" >&2
  exit 2
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup.sh: missing packages and neither root nor sudo; as root run: apt-get install ${missing[*]}" >&2
    exit 2
  fi
  as_root=(sudo)
fi

echo "==> dependencies: installing ${missing[*]}"
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends \
  "${missing[@]}"
