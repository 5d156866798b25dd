#!/bin/sh
# Packs an AAR: package.sh OUT.aar graft.jar ABI=FOLDER [ABI=FOLDER ...], where each folder holds libgraft.so and
# libgraft_jni.so of that ABI (arm64-v8a, armeabi-v7a, x86_64). build_ndk.sh makes both and calls this. Needs a JDK's jar.
# With prefab, so that an app's own C and C++ link libgraft by find_package(graft).
set -eu
[ $# -ge 3 ] || { echo "usage: package.sh OUT.aar graft.jar ABI=FOLDER ..." >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
include="$here/../../runtime/include/graft"
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
jar=$2
shift 2
number() { sed -n "s/#define GRAFT_VERSION_$1 \([0-9]*\)/\1/p" "$include/graft.h"; }
version="$(number MAJOR).$(number MINOR).$(number PATCH)"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/AndroidManifest.xml" "$work/"
cp "$here/consumer-rules.pro" "$work/proguard.txt"
cp "$jar" "$work/classes.jar"
: > "$work/R.txt" # no resources; the file must be there
meta="$work/META-INF/com/android/build/gradle"
mkdir -p "$meta"
printf 'aarFormatVersion=1.0\naarMetadataVersion=1.0\nminCompileSdk=26\n' > "$meta/aar-metadata.properties"

module="$work/prefab/modules/graft"
mkdir -p "$module/include/graft"
python3 "$here/../../tools/interface/generate.py" "$include" "$work/interface"
cp "$include"/*.h "$include"/*.hpp "$work"/interface/graft/*.hpp "$module/include/graft/"
printf '{"schema_version": 2, "name": "graft", "version": "%s", "dependencies": []}\n' "$version" > "$work/prefab/prefab.json"
printf '{"export_libraries": []}\n' > "$module/module.json"
for pair in "$@"; do
  abi=${pair%%=*}
  folder=${pair#*=}
  mkdir -p "$work/jni/$abi" "$module/libs/android.$abi"
  cp "$folder/libgraft.so" "$folder/libgraft_jni.so" "$work/jni/$abi/"
  cp "$folder/libgraft.so" "$module/libs/android.$abi/"
  # Only C crosses libgraft's border, so an app's own code may use any C++ library.
  printf '{"abi": "%s", "api": 26, "ndk": %s, "stl": "none", "static": false}\n' "$abi" "${NDK_MAJOR:-29}" \
    > "$module/libs/android.$abi/abi.json"
done
for notice in LICENSE NOTICE; do cp "$here/../../$notice" "$work/META-INF/"; done
rm -f "$out"
(cd "$work" && jar cMf "$out" AndroidManifest.xml classes.jar R.txt proguard.txt META-INF jni prefab)
echo "Wrote $out."
