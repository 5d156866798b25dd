#!/bin/sh
# The same files give the same archive, whatever their times, owners and order: archive_test.sh ARCHIVE_SH
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export SOURCE_DATE_EPOCH=1700000000
make() {  # FOLDER NAME...
  mkdir -p "$1/graft/bin" "$1/graft/lib"
  folder=$1
  shift
  for name in "$@"; do printf '%s\n' "$name" > "$folder/graft/$name"; done
  chmod 755 "$folder/graft/bin/graft"
  ln -s libgraft.so.1 "$folder/graft/lib/libgraft.so"
}
make "$work/one" bin/graft lib/libgraft.so.1 LICENSE
(umask 077 && make "$work/two" LICENSE lib/libgraft.so.1 bin/graft)
touch -d 2001-01-01 "$work/two/graft/LICENSE"
if [ "$(id -u)" = 0 ]; then chown 12:34 "$work/two/graft/LICENSE"; fi
sh "$1" "$work/one/graft" "$work/one.tar.gz"
sh "$1" "$work/two/graft" "$work/two.tar.gz"
cmp "$work/one.tar.gz" "$work/two.tar.gz"
tar -tvzf "$work/one.tar.gz" > "$work/list"
grep -q '^-rwxr-xr-x 0/0 .* 2023-11-14 .* graft/bin/graft$' "$work/list" || { cat "$work/list" >&2; exit 1; }
# Another content is another archive.
echo more >> "$work/two/graft/LICENSE"
sh "$1" "$work/two/graft" "$work/two.tar.gz"
if cmp -s "$work/one.tar.gz" "$work/two.tar.gz"; then echo "A changed file did not change the archive." >&2; exit 1; fi
echo "The same files give the same bytes."
