// What the programs graft and graft-bench have in common: the first word names a command, and the rest is its
// arguments.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/common/command.h"
#include "tools/common/help.h"

namespace graft::cli {

struct Command {
  const char* name;
  const char* summary;
  Register add;  ///< null: the program graft-NAME, next to this one, runs the command
  Help help = {};
};

/// May add to the arguments of a command, as --config does.
using Complete = Result<std::vector<std::string>> (*)(const CLI::App& command,
                                                      const std::vector<std::string>& arguments);

/// Runs the command that argv names. Results go to stdout, progress and logs to stderr. Returns the exit status: 0
/// done, 1 failed (one sentence on stderr), 2 bad usage, 128 + N if signal N ended a run early.
int run_program(int argc, char** argv, std::span<const Command> commands, Complete complete = nullptr);

}  // namespace graft::cli
