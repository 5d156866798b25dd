#!/bin/sh
# Packs a folder so that the same content gives the same bytes: archive.sh FOLDER OUT.tar.gz. Files are sorted, belong to
# root, and have the time SOURCE_DATE_EPOCH (seconds since 1970; default: the last commit's). Needs GNU tar.
set -eu
[ $# -eq 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$(dirname "$0")" log -1 --format=%ct)}
tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$epoch" --mode='u+rw,go+r-w,a+X' --format=gnu \
  -C "$(dirname "$1")" -cf - "$(basename "$1")" | gzip -9n > "$2.part"
mv "$2.part" "$2"
