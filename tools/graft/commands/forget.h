// graft checkpoint forget.
#pragma once

#include <functional>
#include <memory>

#include "tools/common/command.h"

namespace graft::cli {

/// `chosen` gets what the command does, if it is the one that was given.
void add_forget(CLI::App& command, std::shared_ptr<std::function<Status()>> chosen);

}  // namespace graft::cli
