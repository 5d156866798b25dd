// graft-bench: the command "graft bench", which graft runs in its place.
#include "tools/bench/bench.h"
#include "tools/common/program.h"

namespace {

const graft::cli::Command kCommands[] = {
    {"bench", "Measure the device, kernels or a model: GFLOP/s, GB/s, tokens/s", graft::cli::add_bench},
};

}  // namespace

int main(int argc, char** argv) { return graft::cli::run_program(argc, argv, kCommands); }
