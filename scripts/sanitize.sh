#!/usr/bin/env bash
# What the compiler's own checks and four tools find: scripts/sanitize.sh [WHAT...], all of them by default.
#   asan      all tests but the slow ones under AddressSanitizer and UndefinedBehaviorSanitizer
#   tsan      the thread pool, the logger and sessions of many threads under ThreadSanitizer
#   valgrind  the kernels and a session on the portable path under memcheck
#   warnings  each source with clang 22 (with libclang-rt-22-dev), the newest in Debian 12, or $CLANGXX, -Wall
#             -Wextra and more as errors. It does not take Debian's RapidJSON, of which a copy stands in without
#             an assignment that no compiler can make; and libstdc++ 12's stable_sort calls what it has itself
#             deprecated
#   cppcheck  each source, with the exceptions of scripts/cppcheck.txt
#   tidy      each source with clang-tidy, with the exceptions of .clang-tidy (scripts/tidy.py)
# Takes two hours on two cores. What ran and how much of it failed goes
# into tests/sanitizers.json; exit code 1 where anything did.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 2

[ $# -gt 0 ] || set -- asan tsan valgrind warnings cppcheck tidy
failed=0

need() { command -v "$1" >/dev/null || { echo "sanitize.sh: no $1; apt-get install ${2:-$1}" >&2; exit 2; }; }

build() { # PRESET [TARGET...]
  local preset=$1
  shift
  if ! { cmake --preset "$preset" >/dev/null && cmake --build --preset "$preset" ${1:+--target "$@"}; }; then
    echo "sanitize.sh: $preset does not build" >&2
    exit 1
  fi
}

record() { # WHAT RUN FAILED [SKIPPED]: how many of what it looks at
  python3 - "$@" <<'PYTHON'
import json, pathlib, subprocess, sys

what, run, failed, skipped = sys.argv[1:] + ["0"] * (5 - len(sys.argv))
path = pathlib.Path("tests/sanitizers.json")
results = json.loads(path.read_text()) if path.exists() else {}
commit = subprocess.run(("git", "rev-parse", "--short", "HEAD"), capture_output=True, text=True).stdout.strip()
results[what] = {"commit": commit, "run": int(run), "skipped": int(skipped), "failed": int(failed)}
path.write_text(json.dumps(results, indent=2, sort_keys=True) + "\n")
PYTHON
  echo "==> $1: $2 run, $3 failed, ${4:-0} skipped"
  [ "$3" -eq 0 ] && [ "$2" -gt 0 ] || failed=1
}

# The tests of googletest programs, by their own count; a program that ends before it, or runs none, has failed.
programs() { # WHAT LOG COMMAND... -- PROGRAM [FLAG]...
  local what=$1 run=0 bad=0 skipped=0 command=() program ended n s
  shift
  while [ "$1" != -- ]; do command+=("$1"); shift; done
  shift
  for program; do
    # shellcheck disable=SC2086 # a program and its filter
    "${command[@]}" $program >"build/$what.log" 2>&1 && ended=yes || ended=no
    n=$(sed -n 's/^\[==========\] \([0-9]*\) test.* ran\..*/\1/p' "build/$what.log" | tail -1)
    s=$(sed -n 's/^\[  SKIPPED \] \([0-9]*\) test.* listed below.*/\1/p' "build/$what.log" | tail -1)
    run=$((run + ${n:-0} - ${s:-0}))
    skipped=$((skipped + ${s:-0}))
    if [ "$ended" = no ] || [ "${n:-0}" -eq 0 ]; then
      bad=$((bad + 1))
      tail -40 "build/$what.log"
    fi
  done
  record "$what" "$run" "$bad" "$skipped"
}

run_asan() {
  build asan
  ctest --preset asan -LE slow --timeout 3600 -j "$(nproc)" >build/asan.log 2>&1 || tail -40 build/asan.log
  local all skipped
  all=$(sed -n 's/.* tests failed out of \([0-9]*\)$/\1/p' build/asan.log)
  skipped=$(grep -c '(Skipped)$' build/asan.log)
  record asan $((${all:-0} - skipped)) "$(sed -n 's/.*, \([0-9]*\) tests failed out of .*/\1/p' build/asan.log)" "$skipped"
}

run_tsan() {
  build tsan base_test log_test tap_test engine_test record_test
  programs tsan -- build/tsan/bin/{base_test,log_test,tap_test,engine_test,record_test}
}

run_valgrind() {
  need valgrind
  build release kernels_test engine_test
  # valgrind offers AVX2 at most: the portable path is held to that, and to the naive reference.
  programs valgrind valgrind --error-exitcode=9 --leak-check=full --errors-for-leak-kinds=definite -q -- \
    build/release/bin/kernels_test "build/release/bin/engine_test --gtest_filter=*EveryInstructionSet*"
}

# Objects only count: nothing is run.
run_warnings() {
  local clang=${CLANGXX:-clang++-22} copy=build/clang/include/rapidjson
  need "$clang" "${clang/++/}"
  echo "==> warnings: $("$clang" --version | head -1)"
  if [ ! -d "$copy" ]; then
    mkdir -p "$copy"
    cp -r /usr/include/rapidjson/. "$copy"
    sed -i '/GenericStringRef& operator=(const GenericStringRef& rhs) {/d' "$copy/document.h"
  fi
  cmake -G Ninja -S . -B build/clang -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE=Debug -DASSAY_CUDA=OFF \
    -DCMAKE_CXX_FLAGS="-isystem $PWD/${copy%/rapidjson} -Wno-deprecated-declarations" \
    -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null || exit 1
  cmake --build build/clang -- -k 0 >build/warnings.log 2>&1
  grep -E 'error:|warning:' build/warnings.log | sort -u
  record warnings "$(grep -c '"file":' build/clang/compile_commands.json)" "$(grep -cE '^FAILED:|warning:' build/warnings.log)"
}

run_cppcheck() {
  need cppcheck
  mkdir -p build/cppcheck
  local sources
  mapfile -t sources < <(git ls-files '*.cc' ':!*/testdata/*')
  cppcheck --enable=warning,performance,portability --std=c++20 --language=c++ -I . --inline-suppr -j "$(nproc)" \
    --library=googletest --suppressions-list=scripts/cppcheck.txt --cppcheck-build-dir=build/cppcheck --quiet \
    --template='{file}:{line}: {severity} {id}: {message}' "${sources[@]}" >build/cppcheck.log 2>&1
  cat build/cppcheck.log
  record cppcheck "${#sources[@]}" "$(grep -c ': ' build/cppcheck.log)"
}

run_tidy() {
  need clang-tidy
  cmake --preset dev >/dev/null || exit 1
  scripts/tidy.py >build/tidy.log || exit 1
  sed '$d' build/tidy.log
  # shellcheck disable=SC2046 # two counts
  record tidy $(tail -1 build/tidy.log)
}

for what; do
  case "$what" in
    asan) run_asan ;;
    tsan) run_tsan ;;
    valgrind) run_valgrind ;;
    warnings) run_warnings ;;
    cppcheck) run_cppcheck ;;
    tidy) run_tidy ;;
    *) echo "sanitize.sh: unknown check '$what'; give asan, tsan, valgrind, warnings, cppcheck or tidy" >&2; exit 2 ;;
  esac
done
exit "$failed"
