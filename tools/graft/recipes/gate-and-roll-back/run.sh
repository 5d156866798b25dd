#!/bin/sh
# Gate and roll back: README.md says what comes out. GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
count=4000
[ "${GRAFT_RECIPE_SMALL:-}" ] && count=1600

# The model in use. Its state is tagged.
rm -rf states
graft convert --example lenet -o lenet.onnx
graft convert lenet.onnx -o lenet.graft
graft train lenet.graft --config train.json --data "digits:?count=$count" --checkpoint states -o live.graft
last=$(graft checkpoint list states | awk '$1 + 0 > 0 { last = $1 } END { print last }')
graft checkpoint tag states "$last" live
cp live.graft released.graft

# An update that helps. The gate compares it with the model in use, and then replaces that.
gate="--eval digits:?split=test&count=1000 --gate accuracy>=0.9 --against live.graft --gate-margin 0.002"
graft train live.graft --config train.json --data "digits:?count=$count&seed=5" --lr 5e-4 $gate --in-place -o live.graft

# An update that ruins the model. The gate refuses it, and the model in use stays.
cp live.graft before.graft
if graft train live.graft --config train.json --data 'digits:?count=200&seed=6' --lr 1 $gate --in-place -o live.graft; then
  echo "The gate let a ruined model pass." >&2
  exit 1
fi
cmp live.graft before.graft
echo "The model in use is as it was; live.rejected.graft holds the refused one, live.graft.gate.json the reason."

# Roll back to the tagged state, whatever was deployed since.
graft checkpoint restore states live --model lenet.graft --in-place -o live.graft
cmp live.graft released.graft
echo "live.graft is the released model again, to the byte."
