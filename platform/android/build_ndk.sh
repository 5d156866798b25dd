#!/bin/sh
# Builds the AAR with Android's NDK: build_ndk.sh OUT.aar [ABI ...] (default: arm64-v8a armeabi-v7a x86_64).
#   ANDROID_NDK   folder of the NDK, 27 or later
#   ZSTD_SOURCE   folder of zstd's source, 1.5 or later
# and the packages of tools/dev/install.sh and a JDK on this machine, whose shader compiler, flatc and headers are used.
set -eu
[ $# -ge 1 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
: "${ANDROID_NDK:?is the folder of the NDK}" "${ZSTD_SOURCE:?is the folder of zstd}"
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
shift
[ $# -gt 0 ] || set -- arm64-v8a armeabi-v7a x86_64
build="$root/build/android"
toolchain="$ANDROID_NDK/build/cmake/android.toolchain.cmake"
NDK_MAJOR=$(sed -n 's/^Pkg.Revision *= *\([0-9]*\).*/\1/p' "$ANDROID_NDK/source.properties")
export NDK_MAJOR
strip=$(echo "$ANDROID_NDK"/toolchains/llvm/prebuilt/*/bin/llvm-strip)

# What runs here: the packer of kernels, the classes.
cmake -S "$root" -B "$build/host" -G Ninja -DCMAKE_BUILD_TYPE=Release -DGRAFT_JVM=ON -DGRAFT_BUILD_TESTS=OFF -DGRAFT_BUILD_TOOLS=OFF
cmake --build "$build/host" --target graft_pack_kernels graft_jar

# Headers that are the same on every machine, away from those that are not.
mkdir -p "$build/include"
for header in flatbuffers xxhash.h vulkan vk_video; do cp -r "/usr/include/$header" "$build/include/"; done

packed=""
for abi in "$@"; do
  common="-G Ninja -DCMAKE_TOOLCHAIN_FILE=$toolchain -DANDROID_ABI=$abi -DANDROID_PLATFORM=android-26 -DANDROID_STL=c++_static"
  common="$common -DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON -DCMAKE_BUILD_TYPE=MinSizeRel"
  # shellcheck disable=SC2086  # words on purpose
  cmake -S "$ZSTD_SOURCE/build/cmake" -B "$build/$abi-zstd" $common -DZSTD_BUILD_PROGRAMS=OFF -DZSTD_BUILD_SHARED=OFF
  cmake --build "$build/$abi-zstd"
  # shellcheck disable=SC2086
  cmake -S "$root" -B "$build/$abi" $common -DGRAFT_BUILD_TESTS=OFF -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_JVM=ON \
    -DGRAFT_PACK_KERNELS="$build/host/graft_pack_kernels" -DZSTD_LIBRARY="$build/$abi-zstd/lib/libzstd.a" \
    -DCMAKE_CXX_FLAGS="-isystem $build/include -isystem $ZSTD_SOURCE/lib -ffunction-sections -fdata-sections" \
    -DCMAKE_SHARED_LINKER_FLAGS="-Wl,--gc-sections"
  cmake --build "$build/$abi" --target graft_jni
  mkdir -p "$build/$abi/stripped"
  for library in runtime/libgraft.so platform/android/libgraft_jni.so; do
    "$strip" -o "$build/$abi/stripped/$(basename $library)" "$build/$abi/$library"
  done
  packed="$packed $abi=$build/$abi/stripped"
done
# shellcheck disable=SC2086
sh "$here/package.sh" "$out" "$build/host/platform/android/graft.jar" $packed
