#!/bin/sh
# graft's main job with no file from outside, where `graft` is on PATH: demo.sh FOLDER. An ONNX network is written, converted,
# planned, fine-tuned on generated digits, evaluated and exported. FOLDER is made anew.
set -eu
[ $# -eq 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
out=$1
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
say graft export "$out/digits.graft" -o "$out/digits.onnx" --source "$out/lenet.onnx"
printf '\nIn %s: digits.onnx (the trained network), loss.svg, memory.svg.\n' "$out"
