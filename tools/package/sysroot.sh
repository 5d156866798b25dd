#!/bin/sh
# Makes what a program for older Linux systems is built against: sysroot.sh ARCH FOLDER, with ARCH amd64 or arm64.
# FOLDER/root gets Debian 11's C library (glibc 2.31), FOLDER/lib what a newer libstdc++ wants besides, and FOLDER/libraries
# the static libraries for images, of Debian 12 with its security updates: their headers lie in FOLDER/libraries/include. Needs apt, dpkg and clang-19.
set -eu
[ $# -eq 2 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/debian.sh"
arch=$1
mkdir -p "$2"
folder=$(cd "$2" && pwd)
case $arch in
  amd64) triple=x86_64-linux-gnu ;;
  arm64) triple=aarch64-linux-gnu ;;
  *) echo "sysroot.sh: $arch is neither amd64 nor arm64." >&2; exit 2 ;;
esac
[ ! -e "$folder/done" ] || exit 0
unpack_debian bullseye "$arch" "$folder" libc6-dev libgcc-10-dev
unpack_debian bookworm+security "$arch" "$folder/libraries" libjpeg-dev libpng-dev libwebp-dev
# Headers of these libraries alone: those of Debian 12's C library must not be found.
include=$folder/libraries/root/usr/include
mkdir -p "$folder/libraries/include"
for header in webp libpng16; do cp -r "$include/$header" "$folder/libraries/include/"; done
cp "$include"/png*.h "$include"/j*.h "$include/$triple/jconfig.h" "$folder/libraries/include/"
# The unwinder of GCC 10: newer ones call functions that this glibc does not have. What the newer libstdc++ calls is added.
rm -rf "$folder/lib"
mkdir "$folder/lib"
for name in libgcc.a libgcc_eh.a; do ln -s "$folder/root/usr/lib/gcc/$triple/10/$name" "$folder/lib/$name"; done
clang-19 --target="$triple" --sysroot="$folder/root" -O2 -fPIC -fvisibility=hidden -c "$here/glibc_later.c" \
  -o "$folder/lib/glibc_later.o"
touch "$folder/done"
