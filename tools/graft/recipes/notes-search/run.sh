#!/bin/sh
# Search over my notes: README.md says what comes out. DATA=FOLDER: where instruction-data.json is, if it is here already.
# MODEL=FOLDER: the language model's, if it is. GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
records=1000 epochs=3 notes=100
[ "${GRAFT_RECIPE_SMALL:-}" ] && records=240 epochs=2 notes=40

graft convert "${MODEL:-hf:raincandy-u/TinyStories-656K}" -o words.graft > report.txt
fetch instruction-data.json \
  https://github.com/rasbt/LLMs-from-scratch/raw/28c65cdfbc3338e2e040016eea4b7fdf556e4d57/ch07/01_main-chapter-code/instruction-data.json \
  7e09a9af353722ca15c18bc580f093f9c39d3178335a75177319cb1e1d163944

# A question and its answer are a query and the note that it should find. The last hundred are not trained on.
awk '
  function text() { sub(/^ *"[a-z]*": "/, ""); sub(/",? *$/, ""); return $0 }
  /^ *"instruction":/ { query = text() }
  /^ *"input":/ { if (text() != "") query = query " " $0 }
  /^ *"output":/ { print "{\"query\": \"" query "\", \"positive\": \"" text() "\"}" }' instruction-data.json > all.jsonl
head -n "$records" all.jsonl > train.jsonl
tail -n "$notes" all.jsonl > held.jsonl

graft train words.graft --config train.json --epochs "$epochs" -o search.graft

# The index: a vector for each note. search.sh compares a question with all of them.
sed 's/.*"positive": /{"text": /' held.jsonl > notes.jsonl
graft embed words.graft --adapter search.graft --file notes.jsonl --length 64 --on-long cut --normalize -o vectors.jsonl
sh search.sh "$(sed -n '1s/{"query": "\(.*\)", "positive".*/\1/p' held.jsonl)"
