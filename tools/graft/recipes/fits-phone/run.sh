#!/bin/sh
# Will it fit this phone? README.md says what comes out. Needs no GPU.
# MODEL=FILE: your .graft file, with LAYERS, patterns of all layers but the last. PHONE=NAME: a device of graft plan --caps,
# or a file of graft devices --json. BATCH=N: samples of a step.
set -eu
cd "$(dirname "$0")"
. ./common.sh
# What a budget needs, the first plan's memory, and the verdicts.
facts() { awk '/^With|^Computing|^A micro-batch|step takes about|^It fits|^graft: Training/ || /^  total/ && !totals++' "$1"; }
model=${MODEL:-resnet18.graft} layers=${LAYERS:-conv*,bn*,layer*} phone=${PHONE:-adreno-630} batch=${BATCH:-8}

if [ ! "${MODEL:-}" ]; then
  graft convert --example resnet18 -o resnet18.onnx
  graft convert resnet18.onnx -o resnet18.graft > report.txt
fi

echo "1. All layers, and whether the phone has the memory:"
graft plan "$model" --batch "$batch" --caps "$phone" --time --fits-device > all.txt
facts all.txt

echo "2. An app that may take 256 MiB:"
graft plan "$model" --batch "$batch" --caps "$phone" --budget 256MiB --html memory.html > budget.txt
facts budget.txt

echo "3. An app that may take 64 MiB. If nothing helps, graft says what would:"
graft plan "$model" --batch "$batch" --caps "$phone" --budget 64MiB > small.txt 2>&1 || true
facts small.txt

echo "4. The last layer alone, in the same 64 MiB:"
graft plan "$model" --batch "$batch" --caps "$phone" --budget 64MiB --freeze "$layers" --frozen-statistics > last.txt
facts last.txt
