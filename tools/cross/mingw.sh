#!/bin/sh
# Builds graft for Windows on x86-64 with mingw-w64: mingw.sh [FOLDER] (default: build/mingw). Needs Debian's packages
# g++-mingw-w64-x86-64-posix and libz-mingw-w64-dev beside those of tools/dev/install.sh; zstd is built from Debian's source.
# FOLDER/graft/runtime then holds libgraft.dll and training.exe, a small program with it. Where wine is installed (wine64), the files' and
# the store's tests run under it. The command line tool is not among them: libonnx and protobuf are in no package for mingw.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/mingw}
case $build in /*) ;; *) build=$PWD/$build ;; esac
. "$root/tools/cross/common.sh"
for program in x86_64-w64-mingw32-g++-posix cmake ninja flatc; do
  command -v "$program" > /dev/null || { echo "mingw.sh: $program is missing." >&2; exit 1; }
done
build_packer
copy_headers
fetch_source libzstd "$build/zstd"
if [ ! -e "$build/prefix/lib/libzstd.a" ]; then
  make -C "$build/zstd/lib" -j2 CC=x86_64-w64-mingw32-gcc-posix AR=x86_64-w64-mingw32-ar TARGET_SYSTEM=Windows libzstd.a \
    ZSTD_LEGACY_SUPPORT=0
  mkdir -p "$build/prefix/lib"
  cp "$build/zstd/lib/libzstd.a" "$build/prefix/lib/"
  cp "$build"/zstd/lib/*.h "$build/prefix/include/"
fi
cmake -S "$root" -B "$build/graft" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/tools/cross/toolchain-mingw.cmake" \
  -DGRAFT_CROSS_PREFIX="$build/prefix" -DCMAKE_BUILD_TYPE=MinSizeRel -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF \
  -DGRAFT_PYTHON=OFF -DGRAFT_JVM=OFF -DGRAFT_LLD=OFF -DGRAFT_PACK_KERNELS="$build/graft_pack_kernels" \
  -DZSTD_LIBRARY="$build/prefix/lib/libzstd.a" -DCMAKE_CXX_FLAGS="-isystem $build/prefix/include -ffunction-sections -fdata-sections"
cmake --build "$build/graft" --target graft graft_shared graft_cross_test
x86_64-w64-mingw32-gcc-posix -std=c99 -Wall -Wextra -I "$root/runtime/include" "$root/tests/package/training.c" \
  -L "$build/graft/runtime" -lgraft -o "$build/graft/runtime/training.exe"
# Debian's package wine64 has the program beside its libraries.
wine=$(command -v wine64 || command -v wine || ls /usr/lib/wine/wine64 2> /dev/null || true)
if [ -n "$wine" ]; then
  (cd "$build/graft/tests/cross" && WINEDEBUG=-all WINEPREFIX="$build/wine" "$wine" ./graft_cross_test.exe)
else
  echo "mingw.sh: wine is not installed; nothing was run." >&2
fi
