#!/usr/bin/env bash
# Installs what Assay is built with, from the system's packages, where something is missing.
# Debian 12, Ubuntu 24.04, or newer (CMake 3.25). Called by demo.sh and test.sh; does nothing the second time.
# `setup.sh program` installs what the program alone needs (the preset program), `setup.sh tests` what only tests
# use, too.
set -euo pipefail

packages=(
  ca-certificates
  cmake
  g++
  git
  libcli11-dev
  libfmt-dev
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

# What the preset release builds beside the program: tests, benchmarks, the emulated backend.
release_packages=(
  libbenchmark-dev
  libboost-context-dev
  libgmock-dev
  libgtest-dev
)

test_packages=(
  chromium
  clang
  locales
  python3-numpy
  python3-yaml
  shellcheck
)

case "${1:-}" in
  "" | tests) packages+=("${release_packages[@]}") ;;
  program) ;;
  *)
    echo "setup.sh: unknown argument '$1'; usage: scripts/setup.sh [program | tests]" >&2
    exit 2
    ;;
esac

missing_of() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || echo "$package"
  done
}

mapfile -t missing < <(missing_of "${packages[@]}")
wanted=()
[ "${1:-}" != tests ] || mapfile -t wanted < <(missing_of "${test_packages[@]}")

if [ ${#missing[@]} -eq 0 ] && [ ${#wanted[@]} -eq 0 ]; then
  for program in cmake ninja c++ python3; do
    command -v "$program" >/dev/null || { echo "setup.sh: no $program in PATH, though its package is installed" >&2; exit 2; }
  done
  echo "==> dependencies: all installed"
  exit 0
fi

cannot() { # REASON: an end where something is missing that Assay is built with
  [ ${#missing[@]} -gt 0 ] || { echo "==> $1; tests that need ${wanted[*]} will be skipped"; exit 0; }
  echo "setup.sh: $1: ${missing[*]}" >&2
  exit 2
}

command -v apt-get >/dev/null || cannot "this is not a Debian or Ubuntu system; install the counterparts"
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || cannot "missing packages and neither root nor sudo; as root run apt-get install"
  as_root=(sudo)
fi
install() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

echo "==> dependencies: installing ${missing[*]} ${wanted[*]}"
"${as_root[@]}" apt-get update -q || true  # a source that is gone may be one that is not needed
[ ${#missing[@]} -eq 0 ] || install "${missing[@]}" || cannot "apt-get could not install (is there a network?)"
# One by one: a browser is not everywhere to be had.
for package in "${wanted[@]}"; do
  install "$package" || echo "==> no $package; tests that need it will be skipped"
done
