#!/usr/bin/env bash
# Does a fresh Debian 12 have all that the README's two commands need?  scripts/cleanroom.sh [-o FILE] [FOLDER]
# Makes roots with debootstrap in FOLDER (default /var/tmp/assay-cleanroom; 6 GB), with nothing of this
# machine in them but the sources of packages (apt's and pip's settings, added certificates) and a clone of
# HEAD, and runs demo.sh and test.sh there: as root, again without a network, as a user who may not install,
# without Python, without compiler packages. Writes what it saw as a table (default docs/cleanroom.md).
# Needs root and debootstrap. Exit status: 0 if each part was as expected, else 1.
set -euo pipefail
cd "$(dirname "$0")/.."

report=docs/cleanroom.md
if [ "${1:-}" = -o ]; then report=${2:?-o needs a file}; shift 2; fi
folder=${1:-/var/tmp/assay-cleanroom}
[ "$(id -u)" -eq 0 ] || { echo "cleanroom.sh: needs root, for debootstrap and chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "cleanroom.sh: needs debootstrap: apt-get install debootstrap" >&2; exit 2; }
mkdir -p "$folder/logs"
rows=$folder/rows.md
: >"$rows"
failures=0

room() { # NAME: a fresh root with a clone of HEAD in /home/tester/assay and in /root/assay
  local root=$folder/$1
  if mountpoint -q "$root/proc"; then
    echo "cleanroom.sh: $root is in use" >&2
    exit 2
  fi
  rm -rf --one-file-system "$root"
  [ -f "$folder/base.tar" ] || {
    echo "==> debootstrap"
    debootstrap --variant=minbase bookworm "$folder/base" >"$folder/logs/debootstrap.txt"
    tar -C "$folder/base" -cf "$folder/base.tar.part" .
    mv "$folder/base.tar.part" "$folder/base.tar"
    rm -rf --one-file-system "$folder/base"
  }
  mkdir -p "$root"
  tar -C "$root" -xf "$folder/base.tar"
  cp -f /etc/apt/apt.conf.d/99* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  [ ! -f /etc/pip.conf ] || cp -f /etc/pip.conf "$root/etc/"
  mkdir -p "$root/usr/local/share/ca-certificates"
  cp -f /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || true
  cp -f /etc/resolv.conf "$root/etc/resolv.conf"
  chroot "$root" useradd --create-home tester
  git clone -q --no-hardlinks . "$root/root/assay"
  git clone -q --no-hardlinks . "$root/home/tester/assay"
  chroot "$root" chown -R tester:tester /home/tester/assay
}

# enter ROOM USER NETWORK(yes|no) COMMAND: runs it in the user's clone
enter() {
  local root=$folder/$1 home=/root unshared=(--mount --pid --fork)
  [ "$2" = root ] || home=/home/$2
  [ "$3" = yes ] || unshared+=(--net)
  # shellcheck disable=SC2016 # expands inside
  ROOT=$root TEST_USER=$2 TEST_HOME=$home COMMAND=$4 unshare "${unshared[@]}" bash -c '
    mount -t proc proc "$ROOT/proc"; mount --rbind /sys "$ROOT/sys"; mount --rbind /dev "$ROOT/dev"
    exec chroot "$ROOT" env -i HOME="$TEST_HOME" USER="$TEST_USER" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt COMMAND="$COMMAND" \
      su "$TEST_USER" -m -s /bin/bash -c "cd \"\$HOME/assay\" && eval \"\$COMMAND\""' </dev/null
}

# check WHAT EXPECTED(0|2|any) ROOM USER NETWORK COMMAND
check() {
  local what=$1 expected=$2 started=$SECONDS status=0 said verdict log
  log=$folder/logs/${what//[^a-zA-Z0-9]/-}.txt
  shift 2
  echo "==> $what"
  enter "$@" >"$log" 2>&1 || status=$?
  said=$(grep -E 'tests passed|tests failed|IN PARITY|DIVERGED' "$log" | tail -n 1) || true
  [ -n "$said" ] || said=$(tail -n 1 "$log")
  verdict="as expected"
  if [ "$status" -ne "$expected" ]; then
    verdict="not as expected ($expected)"
    failures=$((failures + 1))
  fi
  said=${said//|/\\|}
  echo "| $what | $status, $verdict | $((SECONDS - started)) s | \`${said:0:200}\` |" | tee -a "$rows"
}

room root
check "demo.sh as root, nothing installed" 0 root root yes "scripts/demo.sh"
check "test.sh as root" 0 root root yes "scripts/test.sh"
check "demo.sh again, no network" 0 root root no "scripts/demo.sh"
check "test.sh again, no network" 0 root root no "scripts/test.sh"
disk=$(du -sm --one-file-system "$folder/root" | cut -f1)
base=$(du -sm "$folder/base.tar" | cut -f1)
check "demo.sh as a user, packages installed, no nvcc" 0 root tester yes "scripts/demo.sh"
check "test.sh as a user" 0 root tester yes "scripts/test.sh"
room bare
check "demo.sh as a user who may not install packages" 2 bare tester yes "scripts/demo.sh"
check "demo.sh without a network, nothing installed" 2 bare root no "scripts/demo.sh"
enter root root yes "mv /usr/bin/python3 /usr/bin/python3.away"
check "build without Python" 0 root tester no "cmake --preset release --fresh && cmake --build --preset release --target assay_cli"
check "demo.sh without Python" 2 root tester no "scripts/demo.sh"

{
  echo "# The clean room"
  echo
  echo "Written by \`scripts/cleanroom.sh\`: fresh roots of Debian 12 (debootstrap, minbase), a clone of"
  echo "$(git rev-parse --short HEAD), $(nproc) cores, $(date +%Y-%m-%d). Exit status, time, and the line that says it."
  echo
  echo "| what | exit status | time | it said |"
  echo "|---|---|---|---|"
  cat "$rows"
  echo
  echo "Disk after demo.sh and test.sh as root: $((disk - base)) MB more than the fresh root: packages, model, build."
} >"$report"
echo "==> $report"
[ "$failures" -eq 0 ]
