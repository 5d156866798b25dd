#!/bin/sh
# Debian packages on a clean system: deb_check.sh BUILD CHROOT, as root. BUILD is a build folder (its packages are made by
# cpack), CHROOT the folder of a Debian 12 with gcc, pkg-config, libzstd-dev, zlib1g-dev, libonnx1 and a Vulkan driver
# (debootstrap --include=gcc,libc6-dev,pkg-config,libzstd-dev,zlib1g-dev,libonnx1,mesa-vulkan-drivers,libvulkan1,python3-numpy
# bookworm CHROOT). Nothing of CHROOT changes: all happens in a copy of it, which is removed. Exit status 77: it cannot.
set -eu
[ $# -eq 2 ] || { sed -n '2,6s/^# //p' "$0" >&2; exit 2; }
root=$(cd "$(dirname "$0")/../.." && pwd)
build=$(cd "$1" && pwd)
[ "$(id -u)" = 0 ] || { echo "Skipped: a chroot needs root."; exit 77; }
[ -x "$2/usr/bin/dpkg" ] || { echo "Skipped: $2 is no Debian."; exit 77; }
packages="$build/packages"
rm -rf "$packages"
(cd "$build" && cpack -G DEB -B "$packages" > "$build/cpack.log") || { cat "$build/cpack.log" >&2; exit 1; }
ls "$packages"/*.deb

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp -a "$2/." "$copy/"
mkdir "$copy/graft"
cp "$packages"/*.deb "$root"/tests/package/embed.c "$copy/graft/"
# python3-graft is left out where the system has no numpy.
cat > "$copy/graft/check.sh" <<'INNER'
set -eu
cd /graft
if ! dpkg -s python3-numpy > /dev/null 2>&1; then rm -f python3-graft_*.deb; fi
dpkg -i ./*.deb
graft --version
graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o lenet.graft
cc -std=c99 embed.c $(pkg-config --cflags --libs graft) -o embed
status=0
./embed lenet.graft trained.graft kept || status=$?
if [ "$status" != 0 ] && [ "$status" != 77 ]; then exit "$status"; fi
[ "$status" = 0 ] || echo "There is no Vulkan device here: nothing was trained."
for package in libgraft0.1 libgraft-dev graft-tools; do test -s /usr/share/doc/$package/copyright; done
dpkg -P $(for package in ./*.deb; do dpkg-deb -f "$package" Package; done)
if find /usr -name '*graft*' | grep .; then echo "These stayed behind." >&2; exit 1; fi
INNER
chroot "$copy" /bin/sh /graft/check.sh
echo "The packages install, work and go."
