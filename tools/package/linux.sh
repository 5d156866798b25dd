#!/bin/sh
# Builds graft for any Linux with glibc 2.31 or later: linux.sh ARCH FOLDER, with ARCH amd64 or arm64. FOLDER/build is then
# the build folder. Needs clang-19, lld-19, g++-12 (for arm64 g++-12-aarch64-linux-gnu), dpkg-dev, python3-onnx and the packages
# of tools/dev/install.sh. The C++ library, zstd, zlib, the classes of ONNX, protobuf and the libraries for images are linked
# statically. Debian's libzstd.a, libz.a and libprotobuf.a are not position-independent, so these are built from its sources.
# The kernels are compiled by the glslang of a newer Debian, which knows cooperative matrices and bfloat16.
# Left out: libgraft_gloo, which needs Gloo and OpenSSL as shared libraries; and libsndfile, whose licence asks for the same.
set -eu
[ $# -eq 2 ] || { sed -n '2,8s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$here/debian.sh"
arch=$1
mkdir -p "$2"
build=$(cd "$2" && pwd)
case $arch in
  amd64) triple=x86_64-linux-gnu gcc=/usr/lib/gcc/x86_64-linux-gnu/12 ;;
  arm64) triple=aarch64-linux-gnu gcc=/usr/lib/gcc-cross/aarch64-linux-gnu/12 ;;
  *) echo "linux.sh: $arch is neither amd64 nor arm64." >&2; exit 2 ;;
esac
for program in clang-19 clang++-19 ld.lld-19 cmake ninja flatc protoc apt-get dpkg-deb dpkg-source "$triple-ar"; do
  command -v "$program" > /dev/null || { echo "linux.sh: $program is missing." >&2; exit 1; }
done
[ -e "$gcc/libstdc++.a" ] || { echo "linux.sh: $gcc/libstdc++.a is missing (Debian: g++-12)." >&2; exit 1; }

# A newer glslang, which runs here.
tools=$build/tools
if [ ! -e "$tools/done" ]; then
  unpack_debian forky amd64 "$tools" glslang-tools
  run_unpacked "$tools/glslangValidator" "$tools"
  touch "$tools/done"
fi
sh "$here/sysroot.sh" "$arch" "$build/sysroot"
sysroot=$build/sysroot/root

. "$root/tools/cross/common.sh"
copy_headers
mkdir -p "$build/prefix/lib" "$build/prefix/share/cmake"
for header in CLI nlohmann; do cp -rp "/usr/include/$header" "$build/prefix/include/"; done
for config in CLI11 nlohmann_json; do cp -rp "/usr/share/cmake/$config" "$build/prefix/share/cmake/"; done
if [ ! -e "$build/prefix/include/httplib.h" ]; then  # Debian's package has parts of it in a shared library
  fetch_source cpp-httplib "$build/httplib"
  cp "$build/httplib/httplib.h" "$build/prefix/include/"
fi
for curl in /usr/include/*/curl /usr/include/curl; do  # libcurl itself is loaded where it is
  [ ! -d "$curl" ] || cp -rp "$curl" "$build/prefix/include/"
done
# Nothing of this machine's folders stands in what is built. ccache may not make paths relative first, or they are not mapped.
export CCACHE_BASEDIR=
map="-ffile-prefix-map=$root=. -ffile-prefix-map=$build=build"
base="--target=$triple --sysroot=$sysroot"
libraries=$build/sysroot/libraries
lib=$libraries/root/usr/lib/$triple
cxx="$base --gcc-install-dir=$gcc -isystem $build/prefix/include -isystem $libraries/include $map"
link="-pthread -static-libstdc++ -static-libgcc -L$build/sysroot/lib $build/sysroot/lib/glibc_later.o -Wl,--build-id=sha1"
jobs=${GRAFT_JOBS:-$(nproc)}
if [ ! -e "$build/prefix/lib/libzstd.a" ]; then
  fetch_patched libzstd "$build/zstd"
  make -C "$build/zstd/lib" -j "$jobs" CC="clang-19 $base $map" CFLAGS="-O2 -fPIC" AR="$triple-ar" ZSTD_LEGACY_SUPPORT=0 libzstd.a
  cp "$build"/zstd/lib/*.h "$build/prefix/include/"
  cp "$build/zstd/lib/libzstd.a" "$build/prefix/lib/"
fi
if [ ! -e "$build/prefix/lib/libz.a" ]; then
  fetch_patched zlib "$build/zlib"
  (cd "$build/zlib" && CC="clang-19 $base $map" CFLAGS="-O2 -fPIC" AR="$triple-ar" ./configure --static && make -j "$jobs" libz.a)
  cp "$build/zlib/zlib.h" "$build/zlib/zconf.h" "$build/prefix/include/"
  cp "$build/zlib/libz.a" "$build/prefix/lib/"
fi
if [ ! -e "$build/prefix/lib/libprotobuf.a" ]; then
  fetch_patched protobuf "$build/protobuf"
  cmake -S "$build/protobuf" -B "$build/protobuf/graft" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$here/linux.cmake" -DGRAFT_TRIPLE="$triple" \
    -DGRAFT_SYSROOT="$sysroot" -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DCMAKE_CXX_FLAGS="$cxx -w" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -Dprotobuf_BUILD_TESTS=OFF -Dprotobuf_BUILD_PROTOC_BINARIES=OFF \
    -Dprotobuf_WITH_ZLIB=OFF -DCMAKE_EXE_LINKER_FLAGS="$link"
  cmake --build "$build/protobuf/graft" -j "$jobs" --target libprotobuf
  cp -r "$build/protobuf/src/google" "$build/prefix/include/"
  find "$build/prefix/include/google" -type f ! -name '*.h' ! -name '*.inc' -delete
  cp "$build/protobuf/graft/libprotobuf.a" "$build/prefix/lib/"
fi
# The classes of ONNX's schema: no package has them as a static library. This machine's protoc is Debian 12's, too.
if [ ! -e "$build/prefix/lib/libonnx_proto.a" ]; then
  mkdir -p "$build/onnx/onnx" "$build/prefix/include/onnx"
  cp /usr/lib/python3/dist-packages/onnx/onnx-ml.proto /usr/lib/python3/dist-packages/onnx/onnx-data.proto "$build/onnx/onnx/"
  cp /usr/include/onnx/onnx_pb.h /usr/include/onnx/onnx-data_pb.h "$build/prefix/include/onnx/"
  (cd "$build/onnx" && protoc --cpp_out=. onnx/onnx-ml.proto onnx/onnx-data.proto)
  for part in onnx-ml onnx-data; do
    cp "$build/onnx/onnx/$part.pb.h" "$build/prefix/include/onnx/"
    # shellcheck disable=SC2086  # words on purpose
    clang++-19 $cxx -std=c++17 -O2 -DNDEBUG -fPIC -w -c "$build/onnx/onnx/$part.pb.cc" -o "$build/onnx/$part.o"
  done
  "$triple-ar" rcsD "$build/prefix/lib/libonnx_proto.a" "$build/onnx/onnx-ml.o" "$build/onnx/onnx-data.o"
fi
if [ ! -e "$build/graft_pack_kernels" ]; then build_packer; fi

cmake -S "$root" -B "$build/build" -G Ninja -DCMAKE_TOOLCHAIN_FILE="$here/linux.cmake" -DGRAFT_TRIPLE="$triple" \
  -DGRAFT_SYSROOT="$sysroot" -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" \
  -DCMAKE_C_FLAGS="$base $map" -DCMAKE_CXX_FLAGS="$cxx" \
  -DCMAKE_EXE_LINKER_FLAGS="$link" -DCMAKE_SHARED_LINKER_FLAGS="$link" -DGRAFT_LLD="$(command -v ld.lld-19)" \
  -DGRAFT_BUILD_TESTS=OFF -DGRAFT_STATIC=OFF -DGRAFT_PYTHON=OFF -DGRAFT_JVM=OFF -DGRAFT_GLOO=OFF -DGRAFT_BENCH=OFF -DGRAFT_WERROR=ON \
  -DGLSLANG_VALIDATOR="$tools/glslangValidator" -DGRAFT_PACK_KERNELS="$build/graft_pack_kernels" \
  -DZSTD_LIBRARY="$build/prefix/lib/libzstd.a" -DZLIB_LIBRARY="$build/prefix/lib/libz.a" -DZLIB_INCLUDE_DIR="$build/prefix/include" \
  -DProtobuf_LIBRARY="$build/prefix/lib/libprotobuf.a" -DProtobuf_INCLUDE_DIR="$build/prefix/include" \
  -DProtobuf_PROTOC_EXECUTABLE="$(command -v protoc)" \
  -DONNX_PROTO_LIBRARY="$build/prefix/lib/libonnx_proto.a" -DONNX_INCLUDE_DIR="$build/prefix/include" \
  -DJPEG_LIBRARY="$lib/libjpeg.a" -DJPEG_INCLUDE_DIR="$libraries/include" -DPNG_LIBRARY="$lib/libpng16.a" \
  -DPNG_PNG_INCLUDE_DIR="$libraries/include" -DWEBP_LIBRARY="$lib/libwebp.a" -DWEBP_INCLUDE_DIR="$libraries/include" \
  -DSNDFILE_LIBRARY= -DCLI11_DIR="$build/prefix/share/cmake/CLI11" -Dnlohmann_json_DIR="$build/prefix/share/cmake/nlohmann_json" \
  -DGRAFT_HTTPLIB_INCLUDE_DIR="$build/prefix/include" -DGRAFT_HTTPLIB_LIBRARY= \
  -DGRAFT_CURL_INCLUDE_DIR="$build/prefix/include" -DGRAFT_LICENCES="$build/licences"
cmake --build "$build/build" -j "$jobs" --target graft_shared graft_convert_shared graft_cli
