#!/bin/sh
# clang-format and clang-tidy over the sources that are given, or over all (half an hour of one core). Reads build/dev,
# which must have been built.
# Packages: clang-format, clang-tidy.
set -eu
cd "$(dirname "$0")/../.."
[ -f build/dev/compile_commands.json ] || { echo "Build first: cmake --preset dev && cmake --build --preset dev" >&2; exit 2; }
[ $# -gt 0 ] || set -- $(git ls-files '*.cpp' '*.h' '*.hpp')
printf '%s\n' "$@" | xargs clang-format --dry-run -Werror
# Headers are checked through the files that include them.
printf '%s\n' "$@" | grep '\.cpp$' |
  xargs -P "$(nproc)" -n 1 clang-tidy -p build/dev --quiet 2>/dev/null
