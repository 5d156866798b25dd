#!/bin/sh
# LoRA of SmolLM2 on an integrated GPU: README.md says what comes out. MODEL=FOLDER: another language model, or this one if it is
# here already. DATA=FOLDER: where instruction-data.json is, if it is. BUDGET=SIZE: device memory at most.
# GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
records=1000 length="--epochs 2"
[ "${GRAFT_RECIPE_SMALL:-}" ] && records=64 length="--steps 12"

fetch instruction-data.json \
  https://github.com/rasbt/LLMs-from-scratch/raw/28c65cdfbc3338e2e040016eea4b7fdf556e4d57/ch07/01_main-chapter-code/instruction-data.json \
  7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944

# The base model: frozen, in blocks of eight bits.
rm -rf run
graft convert "${MODEL:-hf:HuggingFaceTB/SmolLM2-135M}" -o base.graft --quantize q8_0 > report.txt

# What the budget costs, before anything runs.
graft plan base.graft --lora r=8 --bind batch=1,seq=256 --budget "${BUDGET:-256MiB}" > plan.txt
grep -E '^With|^Computing|^  total' plan.txt

graft train base.graft --config train.json --data "jsonl:instruction-data.json?count=$records" --budget "${BUDGET:-256MiB}" $length \
  --checkpoint run -o adapter.graft
graft generate base.graft --adapter adapter.graft --max-tokens 30 --temperature 0 --prompt \
  "Below is an instruction that describes a task. Write a response that appropriately completes the request.

### Instruction:
Name a fruit.

### Response:
"

# For other programs: a PEFT folder, and a file for llama.cpp.
graft export adapter.graft -o peft
graft export adapter.graft -o adapter.gguf
