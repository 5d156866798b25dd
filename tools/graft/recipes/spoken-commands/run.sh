#!/bin/sh
# Spoken commands of a new speaker: README.md says what comes out. DATA=FOLDER: a copy of the data set, if it is here already.
# GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
epochs=6 takes=30
[ "${GRAFT_RECIPE_SMALL:-}" ] && epochs=4 takes=12

if [ ! "${DATA:-}" ]; then
  DATA=free-spoken-digit-dataset
  if [ ! -d "$DATA" ]; then
    git clone https://github.com/Jakobovski/free-spoken-digit-dataset "$DATA"
    git -C "$DATA" checkout -q 26eb9aaf76e8
  fi
fi

# list FILE FIRST LAST SPEAKER ...: a row for each recording of these takes, and its digit.
list() {
  file=$1 first=$2 last=$3
  shift 3
  for speaker; do
    for digit in 0 1 2 3 4 5 6 7 8 9; do
      take=$first
      while [ "$take" -le "$last" ]; do
        echo "${digit}_${speaker}_$take.wav,$digit"
        take=$((take + 1))
      done
    done
  done > "$file"
}
list known.csv 5 $((takes + 4)) george jackson
list new.csv 5 9 lucas
list known-test.csv 0 4 george jackson
list new-test.csv 0 4 lucas

# The recordings that are used, one after another.
list all.csv 0 34 george jackson lucas
sum=$(cut -d, -f1 all.csv | while read -r name; do cat "$DATA/recordings/$name"; done | { sha256sum 2> /dev/null || shasum -a 256; } | cut -d' ' -f1)
if [ "$sum" != b700eba0b4e0254adf6124e0396faf3246a12e7cbf06625e43eda5cf92f1c3fe ]; then
  echo "The recordings are not those that this recipe was measured with: their sha256 is $sum." >&2
  exit 1
fi

# 28 bands and 28 frames of sound are an image of the size that the example network takes.
spectra="length=3712&mel=28,window=256,hop=128&normalize=-8,4"
sound() { echo "wav:$DATA/recordings?list=$1&$spectra"; }

graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o untrained.graft
graft train untrained.graft --config train.json --data "$(sound known.csv)&shift=800" --epochs "$epochs" -o known.graft

echo "The new speaker before:"
graft eval known.graft --data "$(sound new-test.csv)"

# Fifty recordings of the new speaker, three times, and a hundred of the old ones, or those would be forgotten.
list old.csv 5 9 george jackson
cat new.csv new.csv new.csv old.csv > mixed.csv
graft train known.graft --config train.json --data "$(sound mixed.csv)&shift=800" --epochs 8 -o both.graft

echo "The new speaker after:"
graft eval both.graft --data "$(sound new-test.csv)"
echo "The two old speakers before and after:"
graft eval known.graft --data "$(sound known-test.csv)"
graft eval both.graft --data "$(sound known-test.csv)"
