#!/bin/sh
# On a Mac: builds graft.xcframework beside Package.swift, for macOS, iOS and the iOS simulator.
#   build_xcframework.sh ZSTD_SOURCE [FOLDER]     FOLDER: for what is built on the way (default: build/apple)
# Needs Xcode, and from Homebrew: cmake ninja flatbuffers glslang spirv-tools vulkan-headers xxhash zstd. ZSTD_SOURCE is a
# checkout of zstd, of which each platform gets a library of its own; zlib comes with the systems.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
[ $# -ge 1 ] || { echo "Usage: build_xcframework.sh ZSTD_SOURCE [FOLDER]" >&2; exit 1; }
[ "$(uname)" = Darwin ] || { echo "build_xcframework.sh: xcodebuild and libtool are on a Mac only." >&2; exit 1; }
[ -e "$1/lib/zstd.h" ] || { echo "build_xcframework.sh: \"$1\" is not zstd's source (it has no lib/zstd.h)." >&2; exit 1; }
zstd=$(cd "$1" && pwd)
build=${2:-$root/build/apple}
mkdir -p "$build/include"
build=$(cd "$build" && pwd)
brew=$(brew --prefix)
for program in cmake ninja flatc glslangValidator xcodebuild; do
  command -v "$program" > /dev/null || { echo "build_xcframework.sh: $program is missing." >&2; exit 1; }
done

# Headers that are the same on every platform, away from Homebrew's libraries, which are not.
for header in flatbuffers vulkan vk_video xxhash.h; do cp -RL "$brew/include/$header" "$build/include/"; done
cp "$zstd"/lib/*.h "$build/include/"
# The packer of kernels, which runs here.
c++ -O2 -std=c++20 "$root/shaders/pack_kernels.cpp" -I "$brew/include" -L "$brew/lib" -lzstd -o "$build/graft_pack_kernels"

# The options of trainers, from the C headers.
python3 "$root/tools/interface/generate.py" "$root/runtime/include/graft" "$build/interface"
cp "$build/interface/swift/TrainerOptions.swift" "$here/Sources/Graft/"

# What Swift sees: the C headers, and a module that links nothing, since the library is in the framework.
rm -rf "$build/headers"
mkdir -p "$build/headers/graft"
cp "$root"/runtime/include/graft/*.h "$build/headers/graft/"
cp "$here/Sources/CGraft/CGraft.h" "$build/headers/"
grep -v '^ *link ' "$here/Sources/CGraft/module.modulemap" > "$build/headers/module.modulemap"

# platform NAME SDK SYSTEM ARCHITECTURES FLAG_OF_THE_OLDEST_VERSION
frameworks=""
platform() {
  sdk=$(xcrun --sdk "$2" --show-sdk-path)
  arches=""
  for arch in $(echo "$4" | tr ';' ' '); do arches="$arches -arch $arch"; done
  make -C "$zstd/lib" clean > /dev/null
  make -C "$zstd/lib" -j4 CC="$(xcrun --sdk "$2" --find clang)" CFLAGS="-O2 -isysroot $sdk $arches $5" ZSTD_LEGACY_SUPPORT=0 libzstd.a
  mkdir -p "$build/$1"
  cp "$zstd/lib/libzstd.a" "$build/$1/"
  system=""
  [ -z "$3" ] || system="-DCMAKE_SYSTEM_NAME=$3"
  # shellcheck disable=SC2086  # $system is no word or one
  cmake -S "$root" -B "$build/$1/graft" -G Ninja $system -DCMAKE_OSX_SYSROOT="$sdk" -DCMAKE_OSX_ARCHITECTURES="$4" \
    -DCMAKE_BUILD_TYPE=MinSizeRel -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF -DGRAFT_SHARED=OFF -DGRAFT_PYTHON=OFF \
    -DGRAFT_JVM=OFF -DGRAFT_LLD=OFF -DGRAFT_PACK_KERNELS="$build/graft_pack_kernels" -DZSTD_LIBRARY="$build/$1/libzstd.a" \
    -DCMAKE_CXX_FLAGS="-isystem $build/include $5"
  cmake --build "$build/$1/graft" --target graft
  libtool -static -o "$build/$1/libgraft.a" "$build/$1/graft/runtime/libgraft.a" "$build/$1/libzstd.a"
  frameworks="$frameworks -library $build/$1/libgraft.a -headers $build/headers"
}
platform macos macosx "" "arm64;x86_64" -mmacosx-version-min=12.0
platform ios iphoneos iOS arm64 -miphoneos-version-min=15.0
platform simulator iphonesimulator iOS "arm64;x86_64" -mios-simulator-version-min=15.0

rm -rf "$here/graft.xcframework"
# shellcheck disable=SC2086  # words on purpose
xcodebuild -create-xcframework $frameworks -output "$here/graft.xcframework"
