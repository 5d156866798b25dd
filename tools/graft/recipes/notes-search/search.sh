#!/bin/sh
# search.sh QUESTION: the three notes that are closest to it, by the vectors that run.sh made.
set -eu
cd "$(dirname "$0")"
echo "Question: $1"
graft embed words.graft --adapter search.graft --text "$1" --length 64 --on-long cut --normalize > question.jsonl
awk '
  FILENAME == "notes.jsonl" { note[FNR] = substr($0, 11, length($0) - 12); next }
  { n = split(substr($0, index($0, "\"embedding\":[") + 13), vector, ",") }
  FILENAME == "question.jsonl" { for (i = 1; i <= n; i++) question[i] = vector[i]; next }
  { score = 0; for (i = 1; i <= n; i++) score += vector[i] * question[i]; printf "%.3f %s\n", score, note[FNR] }
' notes.jsonl question.jsonl vectors.jsonl | sort -rn | head -n 3
