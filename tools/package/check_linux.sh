#!/bin/sh
# Checks that programs and shared libraries run on Linux with glibc 2.31 or later: check_linux.sh FILE...
# Of the C library, no symbol may be newer than 2.31, and nothing else may be needed but the loader. Needs binutils.
set -eu
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
failed=0
for file in "$@"; do
  dynamic=$(readelf --wide -d "$file") || exit 1
  needed=$(printf '%s\n' "$dynamic" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
  others=$(printf '%s\n' "$needed" | grep -vE '^(libc\.so\.6|libm\.so\.6|libpthread\.so\.0|libdl\.so\.2|ld-linux-x86-64\.so\.2|ld-linux-aarch64\.so\.1)$' || true)
  newest=$(readelf --wide --dyn-syms "$file" | grep -oE '@GLIBC_[0-9.]+' | sed 's/@GLIBC_//' | sort -Vu | tail -n 1)
  if [ -z "$newest" ]; then
    echo "$file names no symbol of glibc: it is no program or library for Linux with glibc." >&2
    failed=1
  elif [ "$(printf '%s\n2.31\n' "$newest" | sort -V | tail -n 1)" != 2.31 ]; then
    echo "$file needs glibc $newest; the limit is 2.31." >&2
    failed=1
  fi
  if [ -n "$others" ]; then
    echo "$file needs these libraries besides glibc: $(printf '%s' "$others" | tr '\n' ' ')." >&2
    failed=1
  fi
  echo "$file: glibc $newest; needs $(printf '%s' "$needed" | tr '\n' ' ')"
done
exit $failed
