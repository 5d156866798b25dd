#!/bin/sh
# A defect detector from 40 pictures: README.md says what comes out. PICTURES=FOLDER: your own, in train/good, train/scratched,
# test/good and test/scratched. GRAFT_RECIPE_SMALL=1: fewer epochs and test pictures, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
epochs=60 tested=100
[ "${GRAFT_RECIPE_SMALL:-}" ] && epochs=40 tested=30

# picture SEED SCRATCHED: a brushed surface of 32 x 32 gray pixels as a BMP file, as escapes of printf. A scratch is a thin line
# that is darker or brighter than the surface.
picture() {
  awk -v seed="$1" -v scratched="$2" '
    function draw() { seed = seed * 16807 % 2147483647; return seed / 2147483647 }
    function byte(n) { return sprintf("\\%03o", n) }
    function word(n) { return byte(n % 256) byte(int(n / 256) % 256) byte(int(n / 65536)) byte(0) }
    BEGIN {
      seed = seed * 7919 + 1; for (i = 0; i < 20; i++) draw()
      out = "BM" word(2102) word(0) word(1078) word(40) word(32) word(32) byte(1) byte(0) byte(8) byte(0)
      out = out word(0) word(1024) word(0) word(0) word(256) word(0)
      for (i = 0; i < 256; i++) out = out byte(i) byte(i) byte(i) byte(0)
      base = 90 + 60 * draw(); slope = 2 * (draw() - 0.5)
      x0 = 6 + 20 * draw(); y0 = 6 + 20 * draw(); angle = 3.14159 * draw(); half = 5 + 6 * draw()
      depth = (draw() < 0.5 ? -1 : 1) * (35 + 30 * draw())
      for (y = 0; y < 32; y++) {
        brushed = 14 * (draw() - 0.5)
        for (x = 0; x < 32; x++) {
          level = base + slope * x + brushed + 16 * (draw() - 0.5)
          along = (x - x0) * cos(angle) + (y - y0) * sin(angle); off = (y - y0) * cos(angle) - (x - x0) * sin(angle)
          if (scratched && along * along < half * half && off * off < 0.8) level += depth
          out = out byte(level < 0 ? 0 : level > 255 ? 255 : int(level))
        }
      }
      print out
    }'
}
# pictures PART COUNT SEED: of both kinds.
pictures() {
  mkdir -p "pictures/$1/good" "pictures/$1/scratched"
  i=0
  while [ "$i" -lt "$2" ]; do
    printf "$(picture $(($3 + 2 * i)) 0)" > "pictures/$1/good/$i.bmp"
    printf "$(picture $(($3 + 2 * i + 1)) 1)" > "pictures/$1/scratched/$i.bmp"
    i=$((i + 1))
  done
}
if [ ! "${PICTURES:-}" ]; then
  PICTURES=pictures
  pictures train 20 1
  pictures test "$tested" 1001
fi

graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o lenet.graft > report.txt
graft resize lenet.graft --classes 2 --replace --class-names good,scratched -o untrained.graft

# Forty pictures become many: mirrored, and moved by up to four pixels. Turned ones would get black corners, which no picture has.
graft train untrained.graft --config train.json --data "folder:$PICTURES/train?crop=28&mean=0.45&std=0.2&flip=both&random_crop=0" \
  --epochs "$epochs" -o detector.graft
graft eval detector.graft --data "folder:$PICTURES/test?crop=28&mean=0.45&std=0.2" --metric auroc,recall --confusion confusion.svg
