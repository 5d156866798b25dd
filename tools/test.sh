#!/bin/sh
# Installs what is missing, builds, and passes the tests. Arguments go to ctest (as in: sh tools/test.sh -L quick).
set -eu
cd "$(dirname "$0")/.."
sh tools/dev/install.sh --tests
cmake --preset dev
cmake --build --preset dev
ctest --preset dev "$@"
