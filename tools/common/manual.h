// Completion scripts for shells, and pages for man, written from what the commands declare.
#pragma once

#include <span>
#include <string>

#include "tools/common/program.h"

namespace graft::cli {

/// A script that completes the commands, their flags and file names. `shell`: "bash", "zsh" or "fish".
/// invalid_argument: another shell.
Result<std::string> completion_script(const std::string& shell, std::span<const Command> commands);

/// A page of section 1 in man's own format (groff's man macros): of one command, or of the program for an empty name.
/// not_found: there is no such command.
Result<std::string> manual_page(const std::string& command, std::span<const Command> commands);

}  // namespace graft::cli
