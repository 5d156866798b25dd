#!/bin/sh
# Makes everything that is released: release.sh VERSION OUT. VERSION must be the source's. In OUT then lie:
#   graft-VERSION-linux-{x86_64,arm64}.tar.gz  for any Linux with glibc 2.31 or later (linux.sh)
#   the same names with .spdx.json             the components of the build, their versions and licences (SPDX)
#   *.deb                                      for Debian on amd64, of the same build
#   graft-VERSION-*.whl                        for Python, of the same builds
#   graft-VERSION.aar                          for Android (platform/android); needs ANDROID_NDK (ZSTD_SOURCE: by default of the build)
#   SHA256SUMS                                 checksums
# Parts that cannot be made here are named at the end, with the reason. GRAFT_RELEASE_PARTS chooses among "amd64 arm64 deb
# wheel aar"; GRAFT_RELEASE_BUILD is the folder of the builds (default: build/release-VERSION). The same sources and packages
# give the same bytes; times come from SOURCE_DATE_EPOCH (default: the last commit's). What is needed: see linux.sh.
set -eu
[ $# -eq 2 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
version=$1
mkdir -p "$2"
out=$(cd "$2" && pwd)
source_version=$(sed -n 's/^project(graft VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")
[ "$version" = "$source_version" ] || { echo "release.sh: the source is version $source_version, not $version." >&2; exit 1; }
parts=${GRAFT_RELEASE_PARTS:-amd64 arm64 deb wheel aar}
builds=${GRAFT_RELEASE_BUILD:-$root/build/release-$version}
mkdir -p "$builds"
builds=$(cd "$builds" && pwd)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
left_out=""
has() { case " $parts " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
leave_out() { left_out="$left_out$1: $2
"; }

# build ARCH NAME: builds for ARCH and makes the tarball whose processor is called NAME.
build() {
  folder=$builds/$1
  sh "$here/linux.sh" "$1" "$folder"
  rm -rf "$folder/licences"
  python3 "$here/sbom.py" "$folder" "$version" "$folder/sbom.json" "$folder/licences"
  name=graft-$version-linux-$2
  stage=$folder/stage/$name
  rm -rf "$folder/stage"
  cmake --install "$folder/build" --prefix "$stage" --strip > "$folder/install.log"
  if [ ! -d "$stage/share/man" ]; then  # a program for another processor could not write its pages
    cp -r "$builds/amd64/stage/graft-$version-linux-x86_64/share/." "$stage/share/"
  fi
  rm -rf "$stage/share/doc"
  cp -r "$root/LICENSE" "$root/NOTICE" "$root/CHANGELOG.md" "$folder/licences" "$stage/"
  sh "$here/check_linux.sh" "$stage/bin/graft" "$stage"/lib/libgraft*.so.*.*.*
  sh "$here/archive.sh" "$stage" "$out/$name.tar.gz"
  cp "$folder/sbom.json" "$out/$name.spdx.json"
}

# wheel ARCH NAME
wheel() {
  if (cd "$root/platform/python/tools" && GRAFT_BUILD="$builds/$1/build" GRAFT_PLATFORM_TAG="manylinux_2_31_$2" python3 -B -c \
      'import sys, build_wheel; build_wheel.build_wheel(sys.argv[1])' "$out") > "$builds/wheel-$1.log" 2>&1; then :; else
    leave_out "wheel for $1" "$(tail -n 1 "$builds/wheel-$1.log")"
  fi
}

if has amd64; then
  build amd64 x86_64
fi
if has arm64; then
  if [ ! -e /usr/lib/gcc-cross/aarch64-linux-gnu/12/libstdc++.a ]; then
    leave_out "tarball for arm64" "g++-12-aarch64-linux-gnu is not installed"
  elif [ ! -d "$builds/amd64/stage" ]; then
    leave_out "tarball for arm64" "its manual pages come from the build for amd64, which is not there"
  else
    build arm64 arm64
  fi
fi

if has deb; then
  if ! command -v dpkg-shlibdeps > /dev/null; then
    leave_out "Debian packages" "dpkg-dev is not installed"
  elif [ ! -d "$builds/amd64/stage" ]; then
    leave_out "Debian packages" "they come from the build for amd64, which is not there"
  else
    rm -rf "$builds/amd64/packages"
    (cd "$builds/amd64/build" && cpack -G DEB -B "$builds/amd64/packages" > "$builds/amd64/cpack.log") ||
      { cat "$builds/amd64/cpack.log" >&2; exit 1; }
    cp "$builds"/amd64/packages/*.deb "$out/"
  fi
fi

if has wheel; then  # of what is built here, or if nothing is, of what was
  for pair in amd64:x86_64 arm64:aarch64; do
    if has "${pair%:*}" || { ! has amd64 && ! has arm64; }; then
      [ ! -d "$builds/${pair%:*}/stage" ] || wheel "${pair%:*}" "${pair#*:}"
    fi
  done
  [ -d "$builds/amd64/stage" ] || [ -d "$builds/arm64/stage" ] || leave_out wheel "there is no build for it"
fi

if has aar; then
  if [ -z "${ZSTD_SOURCE:-}" ] && [ -d "$builds/amd64/zstd/build/cmake" ]; then ZSTD_SOURCE=$builds/amd64/zstd; fi
  if [ -z "${ANDROID_NDK:-}" ]; then
    leave_out "AAR" "ANDROID_NDK, the folder of Android's NDK, is not set, and its native libraries need it"
  elif [ -z "${ZSTD_SOURCE:-}" ]; then
    leave_out "AAR" "ZSTD_SOURCE, the folder of zstd's source, is not set, and the build for amd64, which has one, is not there"
  else
    ANDROID_NDK=$ANDROID_NDK ZSTD_SOURCE=$ZSTD_SOURCE sh "$root/platform/android/build_ndk.sh" "$out/graft-$version.aar"
  fi
fi

(cd "$out" && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs -r -d '\n' sha256sum > SHA256SUMS.part &&
  mv SHA256SUMS.part SHA256SUMS)
cat "$out/SHA256SUMS"
[ -z "$left_out" ] || printf 'Left out:\n%s' "$left_out"
