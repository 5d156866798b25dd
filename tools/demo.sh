#!/bin/sh
# Installs what is missing, builds the command line, and runs the demo (tools/package/demo.sh). Everything that the demo makes
# lies in build/demo.
set -eu
cd "$(dirname "$0")/.."
sh tools/dev/install.sh
cmake --preset cli
cmake --build --preset cli
export PATH="$PWD/build/cli/tools/graft:$PATH"
sh tools/package/demo.sh build/demo
