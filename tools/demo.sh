#!/bin/sh
# Installs what is missing, builds, and does graft's main job with no file from outside: an ONNX network is written,
# converted, planned, fine-tuned on generated digits, evaluated and run. Everything it makes lies in build/demo.
set -eu
cd "$(dirname "$0")/.."
sh tools/dev/install.sh
cmake --preset cli
cmake --build --preset cli
export PATH="$PWD/build/cli/tools/graft:$PATH"
out=build/demo
rm -rf "$out"
mkdir -p "$out"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; "$@"; }

say graft devices
say graft convert --example lenet -o "$out/lenet.onnx"
say graft convert "$out/lenet.onnx" -o "$out/lenet.graft"
say graft info "$out/lenet.graft"
say graft plan "$out/lenet.graft" --mode train --bind batch=64 --svg "$out/memory.svg"
say graft eval "$out/lenet.graft" --data "digits:?split=test&count=1000"
say graft train "$out/lenet.graft" --data "digits:?count=6000" --eval "digits:?split=test&count=1000" \
  --batch 64 --epochs 1 --optimizer adamw --lr 2e-3 --seed 1 --metrics "$out/metrics.jsonl" --svg "$out/loss.svg" \
  -o "$out/digits.graft"
say graft eval "$out/digits.graft" --data "digits:?split=test&count=1000"
printf '\nPictures: %s (loss), %s (memory).\n' "$out/loss.svg" "$out/memory.svg"
