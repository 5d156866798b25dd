#!/bin/sh
# Everything that is to be measured on a GPU machine, in one go: all tests on that GPU, what the device reaches, kernels
# with f32 operands and with operands rounded to f16 for matrix units, training steps, each beside PyTorch (eager and
# compiled) in the same run.
#   sh tests/bench/gpu.sh BUILD PYTHON OUT
# BUILD is a build folder of graft (release, a glslang that knows cooperative matrices: configuring says so), PYTHON an
# interpreter with PyTorch and NumPy, OUT a folder for the results: tests.txt, device.json, ops.json, ops-rounded.json,
# compare.json and tables of the same, resnet18-profile.txt.
set -eu
[ $# = 3 ] || { sed -n '2,10s/^# //p' "$0"; exit 2; }
build=$1
python=$2
out=$3
here=$(dirname "$0")
graft=$build/tools/graft/graft
device=${GRAFT_BENCH_DEVICE:-NVIDIA}
mkdir -p "$out"
"$graft" devices | tee "$out/devices.txt"
# A failed test is a result: the figures are still wanted.
GRAFT_TEST_DEVICE=$device ctest --test-dir "$build" -j 4 --output-on-failure >"$out/tests.txt" 2>&1 || true
GRAFT_TEST_DEVICE=$device GRAFT_TEST_CAPS=rounded ctest --test-dir "$build" -j 4 --output-on-failure \
  -R '^ops/(matmul|conv|attention|lora|linear_cross_entropy|rounded)' >"$out/tests-rounded.txt" 2>&1 || true
tail -n 12 "$out/tests.txt" "$out/tests-rounded.txt"
"$graft" bench device --json >"$out/device.json"
"$graft" bench ops --json >"$out/ops.json"
"$graft" bench ops --json --caps rounded >"$out/ops-rounded.json"
# What a step spends its time on, the optimizer's bandwidth among it.
"$graft" convert --example resnet18 -o "$out/resnet18.graft"
"$python" "$here/torch_rivals.py" --images resnet18 64 "$out"
"$graft" train "$out/resnet18.graft" --data "npy:$out/x.npy,$out/y.npy" --batch 32 --epochs 1000 --steps 20 --quiet \
  --profile "$out/resnet18-trace.json" -o "$out/trained.graft" >"$out/resnet18-profile.txt"
# f32 beside f32 without TF32; then f16 and bf16 of PyTorch beside operands rounded to f16.
"$python" "$here/compare.py" "$graft" --torch "$python" --large --no-ggml --json >"$out/compare.json"
"$python" "$here/compare.py" "$graft" --torch "$python" --large --no-ggml --rounded --json >"$out/compare-rounded.json"
"$python" - "$out/compare.json" "$out/compare-rounded.json" <<'END'
import json
import sys
for path in sys.argv[1:]:
    print(path)
    for r in json.load(open(path))["rows"]:
        print(f'{r["what"]:50} {r["graft"]:12.1f} {r["unit"]:9} {r["other"]:12.1f} {r["times"]:6.2f}x  {r["beside"]}')
END
