#!/bin/sh
# Fuzzes what reads files: sh tools/dev/fuzz.sh MINUTES [TARGET ...]
# Builds the preset fuzz, runs each target of tests/fuzz (or those named) for an equal share of MINUTES under ASan and
# UBSan, and prints what each did. Exit status 1 with findings, whose files are named. What a run learns stays in
# build/fuzz/learned/<target>, where the next one begins.
set -eu
cd "$(dirname "$0")/../.."
usage() { echo "usage: $0 MINUTES [TARGET ...]" >&2; exit 2; }
[ $# -ge 1 ] || usage
minutes=$1
shift
case $minutes in '' | *[!0-9]*) usage ;; esac
for program in clang++ ninja; do
  command -v $program >/dev/null || { echo "The fuzzers need $program: apt-get install clang libclang-rt-14-dev ninja-build." >&2; exit 2; }
done
[ -n "$(find "$(clang++ -print-resource-dir)" -name 'libclang_rt.fuzzer-*.a' -print -quit)" ] ||
  { echo "The fuzzers need libFuzzer: apt-get install libclang-rt-14-dev." >&2; exit 2; }

[ $# -gt 0 ] || set -- $(ls tests/fuzz/*_fuzz.cpp | sed 's,.*/,,; s,_fuzz\.cpp$,,')
for target; do
  [ -f "tests/fuzz/${target}_fuzz.cpp" ] || { echo "There is no target \"$target\" in tests/fuzz." >&2; exit 2; }
done
if [ -z "${GRAFT_FUZZ_NO_BUILD:-}" ]; then  # set where another run has just built them
  [ -f build/fuzz/build.ninja ] || cmake --preset fuzz >/dev/null
  cmake --build build/fuzz --target $(printf '%s_fuzz ' "$@") >build/fuzz/build.log || { tail -40 build/fuzz/build.log; exit 2; }
fi

# Bounds for one input of at most 64 KiB: a reader that takes more than 10 s (some hundred times what the slowest seed
# takes), 256 MB at once or 1 GB together is a finding.
limits="-max_len=65536 -timeout=10 -malloc_limit_mb=256 -rss_limit_mb=1024"
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1
bin=build/fuzz/tests/fuzz

share=$((minutes * 60 / $#))
[ $share -gt 0 ] || share=1
findings=build/fuzz/findings
mkdir -p "$findings"
all_runs=0 all_found=0 start=$(date +%s)
row="%-12s %12s %9s %8s %8s %7s %9s\n"
printf "$row" target executions per_second edges features corpus findings
for target; do
  learned=build/fuzz/learned/$target log=$findings/$target.log
  mkdir -p "$learned"
  runs=0 found=0 edges=0 features=0 corpus=0 begun=$(date +%s)
  # libFuzzer ends with its first finding: on, as long as there is time, but not after five of one target.
  while left=$((share - ($(date +%s) - begun))) && [ $left -gt 0 ] && [ $found -lt 5 ]; do
    if "$bin/${target}_fuzz" $limits -max_total_time=$left -print_final_stats=1 -artifact_prefix="$findings/$target-" \
      "$learned" "tests/fuzz/corpus/$target" >"$log" 2>&1; then ended=1; else
      ended=0 found=$((found + 1))
      sed -n '/ERROR: \|runtime error: \|SUMMARY: /p' "$log" | head -3
      sed -n 's/.*Test unit written to /finding: /p' "$log"
      grep -q 'Test unit written' "$log" || tail -5 "$log"
      cp "$log" "$findings/$target-$(date +%s).txt"
    fi
    more=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    # A crash leaves no statistics: the last line with a count says how far it came.
    [ -n "$more" ] || more=$(sed -n 's/^#\([0-9]*\).*/\1/p' "$log" | tail -1)
    runs=$((runs + ${more:-0}))
    state=$(grep -o 'cov: [0-9]* ft: [0-9]* corp: [0-9]*' "$log" | tail -1)
    [ -z "$state" ] || { edges=$(echo "$state" | cut -d' ' -f2) features=$(echo "$state" | cut -d' ' -f4) corpus=$(echo "$state" | cut -d' ' -f6); }
    [ $ended = 1 ] && break
  done
  spent=$(($(date +%s) - begun))
  printf "$row" "$target" $runs $((runs / (spent > 0 ? spent : 1))) $edges $features $corpus $found
  all_runs=$((all_runs + runs)) all_found=$((all_found + found))
done
spent=$(($(date +%s) - start))
# The second line of `times` is what all children took, as in 1m2.5s 0m3.1s.
times >"$findings/times"  # in this shell: another one has no children to count
cpu=$(awk 'NR == 2 { split($1 $2, t, "[ms]"); print int(t[1] * 60 + t[2] + t[3] * 60 + t[4]) }' "$findings/times")
echo "total: $# targets, $all_runs executions, $all_found findings in $spent s ($cpu s of processor time)"
[ $all_found = 0 ]
