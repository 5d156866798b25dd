// The workbench: what graft's own engineers measure devices, kernels and models with. It looks inside of graft, and is
// all that the command line sees of that.
#pragma once

#include "tools/common/command.h"

namespace graft::cli {

/// graft bench
Action add_bench(CLI::App& app);

}  // namespace graft::cli
