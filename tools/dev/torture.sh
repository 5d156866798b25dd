#!/bin/sh
# Kills, failing calls, full disks and damaged files at random, and what must hold after each (tests/torture/torture.py):
#   sh tools/dev/torture.sh MINUTES | --faults N [--seed N] [--only train|write|prune]
# Prints kills, faults and what was lost, which must be nothing: exit status 1 otherwise.
set -eu
cd "$(dirname "$0")/../.."
[ $# -gt 0 ] || { echo "usage: $0 MINUTES | --faults N [--seed N] [--only train|write|prune]" >&2; exit 2; }
[ -f build/dev/build.ninja ] || cmake --preset dev >/dev/null
cmake --build build/dev --target graft_cli failing_calls >build/dev/torture_build.log || { tail -40 build/dev/torture_build.log; exit 2; }
exec python3 -B tests/torture/torture.py build/dev/tools/graft/graft build/dev/tests/libfailing_calls.so "$@"
