#!/bin/sh
# Compiles the Swift classes and their tests and runs these: run.sh SWIFTC LIBRARY_FOLDER DATA, with DATA filled by
# bindings_oracle. What is built goes beside DATA.
set -eu
[ $# -eq 3 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
swiftc=$1 library=$2 data=$(cd "$3" && pwd)
out=$data/swift-build
mkdir -p "$out"
flags="-swift-version 6 -warnings-as-errors -O -I $root/platform/apple/Sources/CGraft -I $out -L $library -L $out"
python3 "$root/tools/interface/generate.py" "$root/runtime/include/graft" "$out/interface"
# shellcheck disable=SC2086  # words on purpose
"$swiftc" $flags -Xcc -I"$root/runtime/include" -parse-as-library -emit-library -emit-module -module-name Graft \
  -emit-module-path "$out/Graft.swiftmodule" -o "$out/libGraftSwift.so" "$root"/platform/apple/Sources/Graft/*.swift "$out/interface/swift/TrainerOptions.swift"
# shellcheck disable=SC2086
"$swiftc" $flags -Xcc -I"$root/runtime/include" -module-name swift_binding -lGraftSwift -o "$out/swift_binding" "$here"/*.swift
LD_LIBRARY_PATH="$library:$out:${LD_LIBRARY_PATH:-}" exec "$out/swift_binding" "$data"
