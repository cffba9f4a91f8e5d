#!/usr/bin/env bash
# Does a fresh Debian 12 have all that the README's two commands need?
#   scripts/cleanroom.sh [-o FILE] [--only N,N...] [FOLDER]
# Makes roots with debootstrap in FOLDER (default /var/tmp/assay-cleanroom; 6 GB), with nothing of this
# machine in them but the sources of packages (apt's and pip's settings, added certificates) and a clone of
# HEAD, and runs demo.sh and test.sh there: as root, again without a network, as a user who may not install,
# without Python. No root has nvcc. Writes what it saw as a table (default
# docs/cleanroom.md). --only runs these rows of the table again, with HEAD, in the roots that are there.
# Needs root and debootstrap. Exit status: 0 if each part was as expected, else 1.
set -euo pipefail
cd "$(dirname "$0")/.."

report=docs/cleanroom.md
if [ "${1:-}" = -o ]; then report=${2:?-o needs a file}; shift 2; fi
only=
if [ "${1:-}" = --only ]; then only=,${2:?--only needs numbers},; shift 2; fi
folder=${1:-/var/tmp/assay-cleanroom}
[ "$(id -u)" -eq 0 ] || { echo "cleanroom.sh: needs root, for debootstrap and chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "cleanroom.sh: needs debootstrap: apt-get install debootstrap" >&2; exit 2; }
mkdir -p "$folder/logs" "$folder/rows"
[ -n "$only" ] || rm -f "$folder/rows"/* "$folder"/*.megabytes
number=0
failures=0

clone() { # ROOM: HEAD into the room's /root/assay, or HEAD in place of what is there
  local to=$folder/$1/root/assay
  chmod 755 "$folder/$1/root"  # tester runs there, too
  [ -d "$to" ] || git clone -q --no-hardlinks . "$to"
  git -c safe.directory='*' -C "$to" fetch -q "$PWD" HEAD
  # chown has touched every file: without this each is written, and compiled, again.
  git -c safe.directory='*' -C "$to" update-index -q --refresh || true
  git -c safe.directory='*' -C "$to" reset -q --hard FETCH_HEAD
  chroot "$folder/$1" chown -R root:root /root/assay
}

room() { # NAME: a fresh root with a clone of HEAD in /root/assay, and with a user, tester
  local root=$folder/$1
  if [ -z "$only" ] || [ ! -d "$root/root/assay" ]; then
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
  fi
  clone "$1"
}

# enter ROOM USER NETWORK(yes|no) COMMAND: runs it in the clone, which is the user's from then on
enter() {
  local root=$folder/$1 home=/root unshared=(--mount --pid --fork)
  [ "$2" = root ] || home=/home/$2
  [ "$3" = yes ] || unshared+=(--net)
  chroot "$root" chown -R "$2:$2" /root/assay
  # shellcheck disable=SC2016 # expands inside
  ROOT=$root TEST_USER=$2 TEST_HOME=$home COMMAND=$4 NETWORK=$3 unshare "${unshared[@]}" bash -c '
    [ "$NETWORK" = yes ] || ip link set lo up
    mount -t proc proc "$ROOT/proc"; mount --rbind /sys "$ROOT/sys"; mount --rbind /dev "$ROOT/dev"
    exec chroot "$ROOT" env -i HOME="$TEST_HOME" USER="$TEST_USER" PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt COMMAND="$COMMAND" \
      su "$TEST_USER" -m -s /bin/bash -c "cd /root/assay && eval \"\$COMMAND\""' </dev/null
}

# check WHAT EXPECTED(0|2) ROOM USER NETWORK COMMAND: the next row of the table
check() {
  local what=$1 expected=$2 started=$SECONDS status=0 said verdict log row commit
  number=$((number + 1))
  row=$folder/rows/$(printf %02d $number)
  if [ -n "$only" ] && [[ $only != *,$number,* ]]; then
    [ -e "$row" ] || echo "| $number | $what | not run | | | |" >"$row"
    return 0
  fi
  log=$folder/logs/${what//[^a-zA-Z0-9]/-}.txt
  shift 2
  echo "==> $what"
  enter "$@" >"$log" 2>&1 || status=$?
  said=$(grep -aE 'tests passed|tests failed|IN PARITY|DIVERGED' "$log" | tail -n 1) || true
  [ -n "$said" ] || said=$(tail -n 1 "$log")
  verdict="as expected"
  if [ "$status" -ne "$expected" ]; then
    verdict="not as expected ($expected)"
    failures=$((failures + 1))
  fi
  # The message for a missing tool must be one line of ours.
  if [ "$expected" -eq 2 ] && [ "$(grep -cE '^[a-z]+\.sh: ' "$log")" -ne 1 ]; then
    verdict="$verdict, not in one line"
    failures=$((failures + 1))
  fi
  said=${said//|/\\|}
  commit=$(git -c safe.directory='*' -C "$folder/$1/root/assay" rev-parse --short HEAD)
  echo "| $number | $what | $status, $verdict | $((SECONDS - started)) s | $commit | \`${said:0:200}\` |" | tee "$row"
}

grown() { # NAME: how much room root holds beyond the fresh root, in MB, into NAME.megabytes, if a row just ran
  [[ -n $only && $only != *,$number,* ]] ||
    echo $(($(du -sm --one-file-system "$folder/root" | cut -f1) - $(du -sm "$folder/base.tar" | cut -f1))) \
      >"$folder/$1.megabytes"
}

[ ! -e "$folder/root/usr/bin/python3.away" ] || mv "$folder/root/usr/bin/python3.away" "$folder/root/usr/bin/python3"
room root
check "demo.sh as root, nothing installed" 0 root root yes "scripts/demo.sh"
grown demo
check "test.sh as root" 0 root root yes "scripts/test.sh"
grown test
check "demo.sh again, no network" 0 root root no "scripts/demo.sh"
check "test.sh again, no network" 0 root root no "scripts/test.sh"
check "demo.sh as a user, in the tree that root has built" 0 root tester yes "scripts/demo.sh"
check "test.sh as a user, in the tree that root has built" 0 root tester yes "scripts/test.sh"
room bare
check "demo.sh as a user who may not install packages" 2 bare tester yes "scripts/demo.sh"
check "demo.sh without a network, nothing installed" 2 bare root no "scripts/demo.sh"
python=$folder/root/usr/bin/python3
[ ! -e "$python" ] || mv "$python" "$python.away"
check "build without Python" 0 root tester no \
  "cmake --preset release --fresh -B build/without_python -DASSAY_BUILD_TESTS=OFF >/dev/null &&
    cmake --build build/without_python --target assay_cli"
check "test.sh without Python" 2 root tester no "scripts/test.sh"
check "demo.sh without Python" 2 root tester no "scripts/demo.sh"
[ ! -e "$python.away" ] || mv "$python.away" "$python"

{
  echo "# The clean room"
  echo
  echo "Written by \`scripts/cleanroom.sh\`: fresh roots of Debian 12 (debootstrap, minbase), a clone of this repository,"
  echo "$(nproc) cores, $(date +%Y-%m-%d). No root has nvcc or a GPU. Exit status, time, commit, and"
  echo "the line that reports the result."
  echo
  echo "| | what | exit status | time | commit | message |"
  echo "|---|---|---|---|---|---|"
  cat "$folder/rows"/*
  echo
  echo "Disk beyond the fresh root, for packages, models and the build:"
  for what in demo test; do
    if [ -e "$folder/$what.megabytes" ]; then echo "- after $what.sh: $(cat "$folder/$what.megabytes") MB"; fi
  done
} >"$report"
echo "==> $report"
[ "$failures" -eq 0 ]
