#!/bin/sh
# A keyboard that learns at night: README.md says what comes out. DATA=FOLDER: where input.txt is, if it is here already.
# MODEL=FOLDER: the language model's, if it is. GRAFT_RECIPE_SMALL=1: less text, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
lines=1500 held=800
[ "${GRAFT_RECIPE_SMALL:-}" ] && lines=200 held=100

graft convert "${MODEL:-hf:raincandy-u/TinyStories-656K}" -o words.graft > report.txt
fetch input.txt https://github.com/karpathy/char-rnn/raw/6f9487a6fe5b420b7ca9afb0d7c078e37c1d1b4e/data/tinyshakespeare/input.txt \
  86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed
sed -n "20001,$((20000 + held))p" input.txt > held.txt
rm -f keyboard.graft

for night in 1 2 3; do
  # All that was typed until now: the days before too, or they would be forgotten.
  head -n $((night * lines)) input.txt > typed.txt
  start="--lora r=8,alpha=16"
  [ -f keyboard.graft ] && start="--adapter keyboard.graft --against keyboard.graft"
  # The gate lets a night's adapter replace the one in use only if it predicts held-out text no worse. Eight hours at most.
  graft train words.graft $start --config train.json --seed "$night" --in-place -o keyboard.graft > "night$night.txt" 2>&1 ||
    grep -o "The gate refused.*" "night$night.txt"
  echo "Night $night:"
  grep -E "held-out|^The gate holds" "night$night.txt"
done

graft generate words.graft --prompt "I will " --max-tokens 8 --temperature 0
graft generate words.graft --adapter keyboard.graft --prompt "I will " --max-tokens 8 --temperature 0
