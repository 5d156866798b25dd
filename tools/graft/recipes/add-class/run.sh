#!/bin/sh
# A class added later: README.md says what comes out. GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
first=6000 later=1500
[ "${GRAFT_RECIPE_SMALL:-}" ] && first=1800 later=800

# A network of nine classes: the digits 0 to 8.
graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o lenet.graft
graft resize lenet.graft --classes 9 --replace -o untrained.graft
graft train untrained.graft --config train.json --data "digits:?classes=9&count=$first" -o nine.graft

# The digit 9 comes later. Its row is new; the other rows have the bits that they had.
graft resize nine.graft --classes 10 -o ten.graft

# Samples of all classes: old ones too, or they would be forgotten. The convolutions stay as they are.
graft train ten.graft --config train.json --data "digits:?count=$later&seed=7" --freeze 'conv*' --in-place -o ten.graft

echo "The nine old classes before:"
graft eval nine.graft --data 'digits:?classes=9&split=test&count=900'
echo "The nine old classes after:"
graft eval ten.graft --data 'digits:?classes=9&split=test&count=900'
echo "All ten classes:"
graft eval ten.graft --data 'digits:?split=test&count=1000' --confusion confusion.svg
