#!/bin/sh
# From nothing but an installed `graft` to a trained and exported network; prints how long it took. first_training.sh DEMO,
# with DEMO the script that a package has. Runs in the current folder, on a system without a compiler and without the source.
set -eu
for program in cc gcc g++ clang; do
  if command -v "$program" > /dev/null; then echo "There is a compiler here: $program." >&2; exit 1; fi
done
start=$(date +%s)
graft --version
sh "$1" demo
echo "From the unpacked package to a trained and exported network: $(($(date +%s) - start)) s."
graft eval demo/digits.graft --data 'digits:?split=test&count=1000' --json > result.json
accuracy=$(sed -n 's/.*"accuracy": *\([0-9.]*\).*/\1/p' result.json | head -n 1)
case $accuracy in
  0.9[5-9]* | 1 | 1.0*) ;;
  *) echo "The accuracy after training is ${accuracy:-missing}, not 0.95 or more." >&2; exit 1 ;;
esac
test -s demo/digits.onnx
if cmp -s demo/lenet.onnx demo/digits.onnx; then echo "The exported network is the untrained one." >&2; exit 1; fi
