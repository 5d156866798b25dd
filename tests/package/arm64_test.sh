#!/bin/sh
# The released program for arm64, run by qemu: arm64_test.sh FOLDER, with FOLDER filled by tools/package/release.sh. It
# converts and plans as the program for x86-64 does. No driver runs there: nothing is trained. Exit status 77: it cannot.
set -eu
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
command -v qemu-aarch64-static > /dev/null || { echo "Skipped: qemu-user-static is not installed."; exit 77; }
[ -d /usr/aarch64-linux-gnu/lib ] || { echo "Skipped: libc6-arm64-cross is not installed."; exit 77; }
for name in arm64 x86_64; do
  ls "$1"/graft-*-linux-$name.tar.gz > /dev/null 2>&1 || { echo "Skipped: $1 has no tarball for $name: tools/package/release.sh makes it."; exit 77; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in arm64 x86_64; do tar -C "$work" -xzf "$1"/graft-*-linux-$name.tar.gz; done
cd "$work"
# use NAME PROGRAM...: what a program that runs so makes and says, in the folder NAME.
use() {
  folder=$1
  shift
  mkdir "$folder"
  (cd "$folder" && "$@" --version > version && "$@" convert --example lenet -o lenet.onnx > converted &&
    "$@" convert lenet.onnx -o lenet.graft >> converted && "$@" info lenet.graft > summary &&
    "$@" export lenet.graft -o again.onnx --source lenet.onnx > exported)
}
use x86_64 "$work"/graft-*-linux-x86_64/bin/graft
use arm64 qemu-aarch64-static -L /usr/aarch64-linux-gnu "$work"/graft-*-linux-arm64/bin/graft
diff -r x86_64 arm64
# The same pages and headers are in both.
for folder in share include; do diff -r "$work"/graft-*-linux-x86_64/$folder "$work"/graft-*-linux-arm64/$folder; done
readelf -h "$work"/graft-*-linux-arm64/lib/libgraft.so | grep -q 'Machine: *AArch64'
echo "The program for arm64 makes the same files as that for x86-64."
