#!/bin/sh
# The commands of tools/package/Dockerfile, in a clean Debian 12: dockerfile_test.sh FOLDER, with FOLDER filled by
# tools/package/release.sh. Exit status 77: it cannot.
set -eu
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/chroot.sh"
ls "$1"/graft-*-linux-x86_64.tar.gz > /dev/null 2>&1 || { echo "Skipped: $1 has no tarball: tools/package/release.sh makes it."; exit 77; }
clean_debian bookworm
python3 -B "$here/dockerfile_test.py" "$1" "$clean" | tee "$clean.log"
grep -q "digits.onnx: 8 tensors" "$clean.log" || { rm "$clean.log"; echo "The demo exported no network." >&2; exit 1; }
rm "$clean.log"
