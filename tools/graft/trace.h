// A run's device times: as a trace that chrome://tracing and ui.perfetto.dev open, and as a table.
#pragma once

#include <string>
#include <vector>

#include "runtime/exec/program.h"

namespace graft::cli {

/// A node of a run with what it took.
struct NodeCostRow {
  const PlanNode* node = nullptr;  ///< null: a copy of inputs or outputs
  double seconds = 0;
};

/// Of programs that ran one after the other with ProgramOptions::profile, in order of execution.
Result<std::vector<NodeCostRow>> profile_of(const std::vector<Program*>& programs);

/// Times, FLOP/s, bytes per second and live bytes. Prints nothing; replaces the file atomically.
Status write_trace(const std::string& path, const std::vector<NodeCostRow>& rows);

/// The nodes that took the most time, and the node at which most memory was in use.
void print_consumers(const std::vector<NodeCostRow>& rows);

}  // namespace graft::cli
