#!/bin/sh
# Trains on arm64 under qemu-user with Debian's arm64 lavapipe, after aarch64.sh has built graft for it:
# aarch64_train.sh NATIVE [FOLDER] (default: build/aarch64). NATIVE is a build folder of this machine. A run that this
# machine brought to step 10 is resumed on arm64 and taken to step 20, and compared with this machine's own 20 steps.
# Needs debootstrap and qemu-user-static; a minute or two, and 520 MB in FOLDER/root, which stay.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
[ $# -ge 1 ] || { echo "usage: aarch64_train.sh NATIVE [FOLDER]" >&2; exit 2; }
native=$(cd "$1" && pwd)
build=$(cd "${2:-$root/build/aarch64}" && pwd)
for program in debootstrap qemu-aarch64-static aarch64-linux-gnu-gcc cc; do
  command -v "$program" > /dev/null || { echo "aarch64_train.sh: $program is missing." >&2; exit 1; }
done
for file in "$native/tools/graft/graft" "$native/runtime/libgraft.so" "$build/graft/runtime/libgraft.so"; do
  [ -e "$file" ] || { echo "aarch64_train.sh: $file is missing: build it first." >&2; exit 1; }
done

# The first stage of debootstrap fetches the packages; they are unpacked and not configured, which takes no root.
arm=$build/root
if [ ! -e "$arm/unpacked" ]; then
  debootstrap --foreign --arch=arm64 --variant=minbase --include=mesa-vulkan-drivers,libvulkan1 bookworm "$arm"
  for package in "$arm"/var/cache/apt/archives/*.deb; do dpkg -x "$package" "$arm"; done
  touch "$arm/unpacked"
fi

work=$build/train
rm -rf "$work"
mkdir -p "$work"
compile() {  # COMPILER LIBRARY_FOLDER OUT
  "$1" -std=c99 -I "$root/runtime/include" "$root/tests/package/data.c" -L "$2" -lgraft -Wl,-rpath,"$2" -o "$3"
}
compile cc "$native/runtime" "$work/here"
compile aarch64-linux-gnu-gcc "$build/graft/runtime" "$work/there"
"$native/tools/graft/graft" convert --example lenet -o "$work/lenet.onnx" > "$work/log"
"$native/tools/graft/graft" convert "$work/lenet.onnx" -o "$work/lenet.graft" >> "$work/log"
data='digits:?count=640'
"$work/here" "$work/lenet.graft" "$data" 20 "$work/whole" "$work/here.graft" >> "$work/log"
"$work/here" "$work/lenet.graft" "$data" 10 "$work/kept" "$work/half.graft" >> "$work/log"
# One thread of lavapipe: with more of them the emulator once stood still.
LP_NUM_THREADS=1 VK_ICD_FILENAMES=$arm/usr/share/vulkan/icd.d/lvp_icd.aarch64.json qemu-aarch64-static -L "$arm" \
  -E LD_LIBRARY_PATH="$arm/usr/lib/aarch64-linux-gnu:$arm/lib/aarch64-linux-gnu:$build/graft/runtime" \
  "$work/there" "$work/lenet.graft" "$data" 20 "$work/kept" "$work/there.graft" >> "$work/log"

# How far apart the two are, beside how far training went.
norm() {  # BASE NEW
  "$native/tools/graft/graft" delta make "$1" "$2" -o "$work/delta" | sed -n 's/.*, norm \([^,]*\),.*/\1/p'
}
apart=$(norm "$work/here.graft" "$work/there.graft")
far=$(norm "$work/lenet.graft" "$work/here.graft")
echo "Resumed on arm64 at step 10, at step 20 apart by $apart where training went $far."
# Sums round differently where the compiler orders them otherwise, some units in the last place of f32 for each step.
awk -v apart="$apart" -v far="$far" 'BEGIN { exit !(far > 0 && apart <= 1e-4 * far) }' ||
  { echo "aarch64_train.sh: that is more than a ten-thousandth." >&2; exit 1; }
