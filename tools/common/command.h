// How subcommands are registered and how they end.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "tools/common/status.h"

namespace graft::cli {

/// A subcommand's action, set while arguments are declared and run after all of them were read.
using Action = std::function<Status()>;

/// What the process exits with after an action that returned ok: 0, or 128 + N where signal N ended a run early.
inline int exit_status = 0;

/// Declares the subcommand and gives back what to run. The options struct lives in the action.
using Register = Action (*)(CLI::App& app);

}  // namespace graft::cli
