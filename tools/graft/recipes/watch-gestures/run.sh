#!/bin/sh
# Gestures on a watch: README.md says what comes out. DATA=FOLDER: where the two files are, if they are here already.
set -eu
cd "$(dirname "$0")"
. ./common.sh

base=https://github.com/aeon-toolkit/aeon/raw/a101ddc8b35a/aeon/datasets/data/BasicMotions
fetch BasicMotions_TRAIN.ts "$base/BasicMotions_TRAIN.ts" 8dc43cc6306cb679c888c01e26f91772ac4441a916da43bac8b79734a538b9d6
fetch BasicMotions_TEST.ts "$base/BasicMotions_TEST.ts" 79213102bc6fca1a398ad98ce1185dff0208fa3d1465e687f48288946b0ff8dc

graft convert --example series -o series.onnx
graft convert series.onnx -o untrained.graft
graft train untrained.graft --config train.json -o gestures.graft
graft eval gestures.graft --data ts:BasicMotions_TEST.ts --confusion confusion.svg
