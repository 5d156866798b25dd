#!/bin/sh
# Everything that is to be measured on a GPU machine, in one go: all tests on that GPU, what the device reaches, kernels
# with f32 operands and with operands rounded to f16 for matrix units, training steps, each beside PyTorch (eager and
# compiled) in the same run.
#   sh tests/bench/gpu.sh BUILD PYTHON OUT [short]
# BUILD is a build folder of graft (release, a glslang that knows cooperative matrices: configuring says so), PYTHON an
# interpreter with PyTorch and NumPy, OUT a folder for the results: summary.txt of everything, tests.txt, device.json,
# ops.json, ops-rounded.json, compare.json, resnet18-profile.txt, resnet18-trace.json and more.
# GRAFT_BENCH_DEVICE is a part of the device's name (NVIDIA). "short" runs a little of each part, on any device: whether
# the script works, not what is fast.
set -eu
[ $# = 3 ] || [ "$#-${4:-}" = 4-short ] || { sed -n '2,12s/^# //p' "$0"; exit 2; }
build=$1
python=$2
out=$3
here=$(dirname "$0")
graft=$build/tools/graft/graft
device=${GRAFT_BENCH_DEVICE:-NVIDIA}
tests=. ; rounded='^ops/(matmul|conv|attention|lora|linear_cross_entropy|rounded)' ; filter='' ; repeat=7
images=64 ; batch=32 ; steps=20 ; profiled=5 ; compared='--large'
if [ "${4:-}" = short ]; then
  tests='^ops/(softmax|norm)' ; rounded='^ops/rounded' ; filter=256x256x256 ; repeat=1
  images=4 ; batch=2 ; steps=3 ; profiled=2 ; compared='--only ^(matmul.NN.256x256x256|lenet)$ --ops 256x256x256 --repeat 1'
fi
mkdir -p "$out"
"$graft" devices >"$out/devices.txt"
grep -q "$device" "$out/devices.txt" || { echo "There is no device \"$device\" here: see $out/devices.txt." >&2; exit 1; }
# A failed test is a result: the figures are still wanted. Any message of the validation layers fails a test; without
# the layers there are none, which is said.
layers=$(find /usr/share/vulkan /etc/vulkan -name VkLayer_khronos_validation.json 2>/dev/null | head -n 1 || true)
GRAFT_TEST_DEVICE=$device ctest --test-dir "$build" -j 4 -R "$tests" --output-on-failure >"$out/tests.txt" 2>&1 || true
GRAFT_TEST_DEVICE=$device GRAFT_TEST_CAPS=rounded ctest --test-dir "$build" -j 4 --output-on-failure \
  -R "$rounded" >"$out/tests-rounded.txt" 2>&1 || true
"$graft" bench device --device "$device" --json >"$out/device.json"
"$graft" bench ops --device "$device" --json --filter "$filter" --repeat $repeat >"$out/ops.json"
"$graft" bench ops --device "$device" --json --filter "$filter" --repeat $repeat --caps rounded >"$out/ops-rounded.json"
# What a step spends its time on, the optimizer's bandwidth among it.
"$graft" convert --example resnet18 -o "$out/resnet18.onnx"
"$graft" convert "$out/resnet18.onnx" -o "$out/resnet18.graft"
"$python" "$here/torch_rivals.py" --images resnet18 $images "$out"
"$graft" train "$out/resnet18.graft" --device "$device" --data "npy:$out/x.npy,$out/y.npy" --batch $batch \
  --steps $steps --quiet --profile "$out/resnet18-trace.json" --profile-steps $profiled >"$out/resnet18-profile.txt"
# f32 beside f32 without TF32; then f16 and bf16 of PyTorch beside operands rounded to f16.
# shellcheck disable=SC2086  # several flags
"$python" "$here/compare.py" "$graft" --device "$device" --torch "$python" $compared --no-ggml --json \
  >"$out/compare.json"
# shellcheck disable=SC2086
"$python" "$here/compare.py" "$graft" --device "$device" --torch "$python" $compared --no-ggml --rounded --json \
  >"$out/compare-rounded.json"
{
  cat "$out/devices.txt"
  echo "Validation layers: ${layers:-none}"
  for log in tests tests-rounded; do
    echo "$log: $(grep -E 'tests passed|No tests were found' "$out/$log.txt" || echo 'did not run')"
    grep -E '^[[:space:]]+[0-9]+ - ' "$out/$log.txt" || true
    echo "$log: $(grep -c 'Validation layer: ' "$out/$log.txt" || true) validation messages"
  done
  cat "$out/resnet18-profile.txt"
  "$python" "$here/gpu_summary.py" "$out"
} | tee "$out/summary.txt"
