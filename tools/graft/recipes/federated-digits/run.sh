#!/bin/sh
# Federated digits: README.md says what comes out. GRAFT_RECIPE_SMALL=1: fewer clients and rounds, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
count=3000 clients=20 rounds=6
[ "${GRAFT_RECIPE_SMALL:-}" ] && count=600 clients=6 rounds=3

graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o lenet.graft

# Each client has digits that no other has, and some digits more often than others (dirichlet). Three of ten do not report.
graft simulate lenet.graft --data "digits:?count=$count" --eval 'digits:?split=test&count=500' \
  --clients "$clients" --rounds "$rounds" --drop 0.3 --split dirichlet=0.3 --local-epochs 3 --codec int8 \
  --batch 16 --optimizer sgd --lr 0.1 --seed 1 -o digits.graft

# One round by hand, as between real devices: only the delta leaves a device.
graft train digits.graft --data 'digits:?count=200&seed=7' --batch 16 --optimizer sgd --lr 0.05 --quiet -o mine.graft
graft delta make digits.graft mine.graft --samples 200 --codec int8 -o mine.delta
graft train digits.graft --data 'digits:?count=100&seed=8' --batch 16 --optimizer sgd --lr 0.05 --quiet -o theirs.graft
graft delta make digits.graft theirs.graft --samples 100 --codec int8 -o theirs.delta
graft delta average mine.delta theirs.delta -o round.delta
graft delta apply digits.graft round.delta -o next.graft
graft eval next.graft --data 'digits:?split=test&count=500'
