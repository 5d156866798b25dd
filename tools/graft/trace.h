// A run's device times as a trace that chrome://tracing and ui.perfetto.dev open.
#pragma once

#include <string>

#include "runtime/exec/program.h"

namespace graft::cli {

/// Needs a program that ran with ProgramOptions::profile. Prints nothing; replaces the file atomically.
Status write_trace(const std::string& path, Program& program);

}  // namespace graft::cli
