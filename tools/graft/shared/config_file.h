// Flags in a JSON file: {"lr": 0.001, "loss": "ce", "no-shuffle": true, "group": ["*.bias:lr=0.1"]}.
#pragma once

#include <string>
#include <vector>

#include "tools/common/command.h"

namespace graft::cli {

/// The arguments of a command with those of the file that --config names in front of them, in so far as neither they
/// nor flags that exclude them are given. Errors name a key that is no flag of the command. `arguments` begin behind
/// the command's name.
Result<std::vector<std::string>> with_config(const CLI::App& command, const std::vector<std::string>& arguments);

/// The arguments that the text of such a file stands for.
Result<std::vector<std::string>> arguments_of(const CLI::App& command, const std::string& config);

/// What a command was given, as such a file.
std::string config_text(const CLI::App& command);

}  // namespace graft::cli
