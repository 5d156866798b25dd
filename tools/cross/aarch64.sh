#!/bin/sh
# Builds graft for Linux on arm64: aarch64.sh [FOLDER] (default: build/aarch64). Needs Debian's g++-aarch64-linux-gnu beside
# the packages of tools/dev/install.sh; zstd and zlib are built from Debian's sources. Where qemu-user-static is installed,
# the tests of files, the store and its codecs run under it (a second).
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/aarch64}
case $build in /*) ;; *) build=$PWD/$build ;; esac
. "$root/tools/cross/common.sh"
for program in aarch64-linux-gnu-g++ cmake ninja flatc; do
  command -v "$program" > /dev/null || { echo "aarch64.sh: $program is missing." >&2; exit 1; }
done
build_packer
copy_headers
fetch_source libzstd "$build/zstd"
fetch_source zlib "$build/zlib"
mkdir -p "$build/prefix/lib"
if [ ! -e "$build/prefix/lib/libzstd.a" ]; then
  make -C "$build/zstd/lib" -j2 CC="aarch64-linux-gnu-gcc -fPIC" AR=aarch64-linux-gnu-ar libzstd.a ZSTD_LEGACY_SUPPORT=0
  cp "$build/zstd/lib/libzstd.a" "$build/prefix/lib/"
  cp "$build"/zstd/lib/*.h "$build/prefix/include/"
fi
if [ ! -e "$build/prefix/lib/libz.a" ]; then
  (cd "$build/zlib" && CC="aarch64-linux-gnu-gcc -fPIC" AR=aarch64-linux-gnu-ar ./configure --static --prefix="$build/prefix" &&
    make -j2 libz.a && cp libz.a "$build/prefix/lib/" && cp zlib.h zconf.h "$build/prefix/include/")
fi
cmake -S "$root" -B "$build/graft" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/tools/cross/toolchain-aarch64.cmake" \
  -DGRAFT_CROSS_PREFIX="$build/prefix" -DCMAKE_BUILD_TYPE=MinSizeRel -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF \
  -DGRAFT_PYTHON=OFF -DGRAFT_JVM=OFF -DGRAFT_LLD=OFF -DGRAFT_PACK_KERNELS="$build/graft_pack_kernels" \
  -DZSTD_LIBRARY="$build/prefix/lib/libzstd.a" -DZLIB_LIBRARY="$build/prefix/lib/libz.a" -DZLIB_INCLUDE_DIR="$build/prefix/include" \
  -DCMAKE_CXX_FLAGS="-isystem $build/prefix/include -ffunction-sections -fdata-sections"
cmake --build "$build/graft" --target graft graft_shared graft_cross_test
aarch64-linux-gnu-gcc -std=c99 -Wall -Wextra -I "$root/runtime/include" "$root/tests/package/infer.c" \
  -L "$build/graft/runtime" -lgraft -o "$build/graft/runtime/infer"
if command -v qemu-aarch64-static > /dev/null; then
  qemu-aarch64-static -L /usr/aarch64-linux-gnu "$build/graft/tests/cross/graft_cross_test"
else
  echo "aarch64.sh: qemu-user-static is not installed; nothing was run." >&2
fi
