#!/bin/sh
# Everything that is to be measured on a GPU machine, in three quarters of an hour, the figures first: what the device
# reaches; kernels and training steps beside PyTorch (eager and compiled) in the same run, f32 beside f32, f16 and bf16
# beside the same, and f32 rounded to f16 for matrix units beside TF32; where a step's time goes; then the tests on that GPU.
#   sh tests/bench/gpu.sh BUILD PYTHON OUT [short] [PART ...]
# BUILD is a build folder of graft (release, a glslang that knows cooperative matrices: configuring says so), PYTHON an
# interpreter with PyTorch (of CUDA) and NumPy, OUT a folder for the results: summary.txt of everything, tests.txt,
# device.json, ops.json, ops-rounded.json, compare-kernels.json, compare-steps-rounded.json and their like,
# resnet18-profile.txt, resnet18-trace.json, and for each part a .log of what it said.
# PART: device, ops, kernels, kernels-rounded, steps, steps-rounded, profile, tests; without any, all in this order, and
# each goes on where one before it failed. Parts may be run one by one into one OUT: none takes much over ten minutes,
# and each says how long it took. The summary is of what OUT holds.
# GRAFT_BENCH_DEVICE is a part of the device's name (NVIDIA), GRAFT_BENCH_TEST_SECONDS ends each of the three runs of tests (600),
# GRAFT_BENCH_LIMIT what PyTorch may take in each part (400), GRAFT_BENCH_COMPARE are further flags of compare.py (--eager).
# "short" runs a little of each part, on any device: whether the script works, not what is fast.
set -eu
[ $# -ge 3 ] || { sed -n '2,17s/^# //p' "$0"; exit 2; }
build=$1
python=$2
out=$3
shift 3
here=$(dirname "$0")
graft=$build/tools/graft/graft
device=${GRAFT_BENCH_DEVICE:-NVIDIA}
# Of the tests what runs on a device; the first to fail would be kernels.
tests='^(ops|train|unit|conformance)/' ; oracle='^torch/' ; rounded='^ops/(matmul|conv|attention|lora|linear_cross_entropy|rounded)'
filter='' ; repeat=7 ; images=64 ; batch=32 ; steps=20 ; profiled=5 ; compared="--large --limit ${GRAFT_BENCH_LIMIT:-400} ${GRAFT_BENCH_COMPARE:-}"
kernels='^(matmul|conv|add|gelu|attention)' ; networks='^(lenet|resnet18|135M)'
if [ "${1:-}" = short ]; then
  shift
  tests='^ops/(softmax|norm)' ; oracle='^torch/kinds' ; rounded='^ops/rounded' ; filter=256x256x256 ; repeat=1
  images=4 ; batch=2 ; steps=3 ; profiled=2 ; compared='--ops 256x256x256 --repeat 1'
  kernels='^matmul.NN.256' ; networks='^lenet$'
fi
parts=${*:-device ops kernels kernels-rounded steps steps-rounded profile tests}
for part in $parts; do
  case $part in
    device | ops | kernels | kernels-rounded | steps | steps-rounded | profile | tests) ;;
    *) echo "There is no part \"$part\"." >&2; exit 2 ;;
  esac
done
mkdir -p "$out"
"$graft" devices >"$out/devices.txt"
grep -q "$device" "$out/devices.txt" || { echo "There is no device \"$device\" here: see $out/devices.txt." >&2; exit 1; }

run_ops() {
  "$graft" bench ops --device "$device" --json --filter "$filter" --repeat $repeat >"$out/ops.json"
  "$graft" bench ops --device "$device" --json --filter "$filter" --repeat $repeat --caps flexible >"$out/ops-rounded.json"
}

# run_compare PATTERN NAME [FLAG]: the cases of PyTorch that the pattern finds, beside graft.
run_compare() {
  # shellcheck disable=SC2086  # several flags
  "$python" "$here/compare.py" "$graft" --device "$device" --torch "$python" --no-ggml --only "$1" $compared ${3:-} \
    --json >"$out/compare-$2.json"
}

# What a step spends its time on, the optimizer's bandwidth among it.
run_profile() {
  "$graft" convert --example resnet18 -o "$out/resnet18.onnx"
  "$graft" convert "$out/resnet18.onnx" -o "$out/resnet18.graft"
  "$python" "$here/torch_rivals.py" --images resnet18 $images "$out"
  "$graft" train "$out/resnet18.graft" --device "$device" --data "npy:$out/x.npy,$out/y.npy" --batch $batch \
    --steps $steps --quiet --profile "$out/resnet18-trace.json" --profile-steps $profiled >"$out/resnet18-profile.txt"
}

# A failed test is a result. Any message of the validation layers fails a test; without the layers there are none,
# which the summary says.
# run_ctest NAME PATTERN
run_ctest() {
  GRAFT_TEST_DEVICE=$device timeout "${GRAFT_BENCH_TEST_SECONDS:-600}" ctest --test-dir "$build" -j "$(nproc)" -R "$2" \
    -E '@swiftshader' --timeout 300 --output-on-failure >"$out/$1.txt" 2>&1 || true
}
run_tests() {
  run_ctest tests "$tests"
  GRAFT_TEST_CAPS=rounded run_ctest tests-rounded "$rounded"
  run_ctest tests-torch "$oracle"
}

run_part() {
  case $1 in
    device) "$graft" bench device --device "$device" --json >"$out/device.json" ;;
    ops) run_ops ;;
    kernels) run_compare "$kernels" kernels ;;
    kernels-rounded) run_compare "$kernels" kernels-rounded --rounded ;;
    steps) run_compare "$networks" steps ;;
    steps-rounded) run_compare "$networks" steps-rounded --rounded ;;
    profile) run_profile ;;
    tests) run_tests ;;
  esac
}

failed=''
for part in $parts; do
  begin=$(date +%s)
  set +e
  (set -e; run_part "$part") 2>"$out/$part.log"
  code=$?
  set -e
  [ $code -eq 0 ] || { failed="$failed $part" ; tail -n 5 "$out/$part.log" >&2; }
  echo "$part: $(($(date +%s) - begin)) s$([ $code -eq 0 ] || echo ", failed with $code: see $out/$part.log")" |
    tee -a "$out/times.txt" >&2
done

layers=$(find /usr/share/vulkan /etc/vulkan -name VkLayer_khronos_validation.json 2>/dev/null | head -n 1 || true)
{
  cat "$out/devices.txt"
  echo "Validation layers: ${layers:-none}"
  for log in tests tests-rounded tests-torch; do
    [ -f "$out/$log.txt" ] || { echo "$log: not run"; continue; }
    echo "$log: $(grep -E 'tests passed|No tests were found' "$out/$log.txt" || echo 'cut short')," \
      "$(grep -cE '^ *[0-9]+/[0-9]+ .* Passed ' "$out/$log.txt" || true) passed"
    grep -E '^[[:space:]]+[0-9]+ - |^ *[0-9]+/[0-9]+ .*\*\*\*' "$out/$log.txt" || true
    echo "$log: $(grep -c 'Validation layer: ' "$out/$log.txt" || true) validation messages"
  done
  [ ! -f "$out/resnet18-profile.txt" ] || cat "$out/resnet18-profile.txt"
  "$python" "$here/gpu_summary.py" "$out"
} | tee "$out/summary.txt"
[ -z "$failed" ] || { echo "Failed:$failed" >&2; exit 1; }
