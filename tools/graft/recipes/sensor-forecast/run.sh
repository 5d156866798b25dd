#!/bin/sh
# A forecast of a sensor: README.md says what comes out. READINGS=FILE: your own, a number in each line, one for each hour.
# GRAFT_RECIPE_SMALL=1: less training, for a first look.
set -eu
cd "$(dirname "$0")"
. ./common.sh
epochs=30 hours=4000
[ "${GRAFT_RECIPE_SMALL:-}" ] && epochs=10 hours=2000

# A sensor that is not there: the temperature of a day, of a week, and weather that comes and goes.
if [ ! "${READINGS:-}" ]; then
  READINGS=readings.txt
  awk -v hours="$hours" 'function draw() { seed = seed * 16807 % 2147483647; return seed / 2147483647 - 0.5 } BEGIN {
    seed = 1
    for (hour = 0; hour < hours; hour++) {
      weather = 0.97 * weather + 1.5 * draw()
      printf "%.2f\n", 15 + 6 * sin(hour * 6.283185 / 24) + 2 * sin(hour * 6.283185 / 168) + weather + 0.5 * draw()
    }
  }' > "$READINGS"
fi

# Each row: 48 hours and the 12 hours after them. Numbers become about -1 to 1. The last fifth is for the test.
awk 'NR == FNR { count++; sum += $1; squares += $1 * $1; next }
  FNR == 1 {
    mean = sum / count; deviation = sqrt(squares / count - mean * mean)
    print deviation > "deviation.txt"
    for (i = 0; i < 60; i++) head = head (i ? "," : "") (i < 48 ? "p" i : "f" i - 48)
    print head > "train.csv"; print head > "test.csv"
  }
  { value[FNR] = sprintf("%.4f", ($1 - mean) / deviation) }
  FNR >= 60 {
    row = value[FNR - 59]
    for (i = 58; i >= 0; i--) row = row "," value[FNR - i]
    # Rows that reach into the test hours are for neither.
    if (FNR < 0.8 * count) print row > "train.csv"; else if (FNR >= 0.8 * count + 60) print row > "test.csv"
  }' "$READINGS" "$READINGS"

graft convert --example forecast -o forecast.onnx
graft convert forecast.onnx -o untrained.graft
graft train untrained.graft --config train.json --epochs "$epochs" -o forecast.graft

graft eval forecast.graft --data 'csv:test.csv?inputs=past:p0..p47&targets=label:f0..f11' --loss mse --metric mae --json > eval.json
awk -F, 'NR == FNR { deviation = $1; next }
  FNR > 1 { for (i = 1; i <= 12; i++) { n++; d = $(48 + i) - $(24 + i); day += d < 0 ? -d : d; d = $(48 + i) - $48; last += d < 0 ? -d : d } }
  END { printf "Mean error of \"as yesterday\": %.2f; of \"as now\": %.2f\n", day / n * deviation, last / n * deviation }' deviation.txt test.csv
awk 'NR == FNR { deviation = $1; next } /"mae"/ { gsub(/[^0-9.e-]/, "", $2); printf "Mean error of the network: %.2f\n", $2 * deviation }' deviation.txt eval.json
