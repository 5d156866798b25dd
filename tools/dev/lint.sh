#!/bin/sh
# clang-format and clang-tidy over the sources that are given, or over all (half an hour of one core), each file by itself.
# Packages: clang-format, clang-tidy.
set -eu
cd "$(dirname "$0")/../.."
cmake --preset dev -B build/lint -DGRAFT_UNITY=OFF >/dev/null
cmake --build build/lint --target graft_schema >/dev/null
[ $# -gt 0 ] || set -- $(git ls-files '*.cpp' '*.h' '*.hpp')
printf '%s\n' "$@" | xargs clang-format --dry-run -Werror
# Headers are checked through the files that include them.
printf '%s\n' "$@" | grep '\.cpp$' |
  xargs -P "$(nproc)" -n 1 clang-tidy -p build/lint --quiet 2>/dev/null
