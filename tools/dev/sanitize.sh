#!/bin/sh
# The quick and middle tests under AddressSanitizer with UBSan, then those with threads under ThreadSanitizer:
#   sh tools/dev/sanitize.sh [asan|tsan]
# What drivers do inside themselves is told in tests/support/gpu_device.cpp, a line each. Exit status 1 where a test fails.
set -eu
cd "$(dirname "$0")/../.."
case ${1:-both} in asan | tsan | both) ;; *) echo "usage: $0 [asan|tsan]" >&2; exit 2 ;; esac

prepare() {  # PRESET TARGET ...
  preset=$1
  shift
  [ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" >/dev/null
  cmake --build "build/$preset" --target "$@" >"build/$preset/build.log" || { tail -40 "build/$preset/build.log"; exit 2; }
}

# All that is quick or middle. Leaks are looked for, but not in the command line tool and the scripts that start it (tests/scripts.cmake).
asan() {
  prepare asan all
  (cd build/asan && UBSAN_OPTIONS=print_stacktrace=1 ctest -L '^(quick|middle)$' -j2 --output-on-failure --timeout 900)
}

# Under ThreadSanitizer: the data sets' loader (data), a store that several threads use (checkpoint), training with both
# and the snapshot thread (train), workers (distribute), checksums in threads and the device's own threads (unit: models, sessions; c_api).
# Left out: what starts no thread of graft's (ops, text, conformance, fuzz, the store's simulated power cuts) and the scripts.
tsan() {
  prepare tsan data_test checkpoint_test distribute_test train_test unit_test c_api_test
  (cd build/tsan && TSAN_OPTIONS=second_deadlock_stack=1 ctest -j2 --output-on-failure --timeout 900 \
    -R '^data/|^distribute/|^checkpoint/(store|reader)$|^train/(matmul_precision|resume|trainer|trainer_run|checkpoint_faults)$|^unit/(model_file|exec_null|generator)$|^c_api/(training|async|cancel|data)$')
}

failed=0
for which in asan tsan; do
  [ "${1:-both}" = both ] || [ "$1" = $which ] || continue
  start=$(date +%s)
  $which || failed=1
  echo "$which: $(($(date +%s) - start)) s"
done
exit $failed
