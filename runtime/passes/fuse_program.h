// Elementwise nodes as programs over values, which can be put one behind the other. Internal to fusion.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/core/graph.h"
#include "runtime/ops/fused_program.h"

namespace graft::passes {

/// A FusedProgram, and the values that it reads and gives.
struct ValueProgram {
  FusedProgram program;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
};

/// What a node does, where it is elementwise, of f32, and cheap to compile; nullopt for all others.
std::optional<ValueProgram> elementwise_program(const Graph& graph, const Node& node);

/// A node whose output 0 a program may begin with.
ValueProgram source_program(const Graph& graph, const Node& node);

/// `first`, and `second` behind it, which reads results of the first element by element. `kept`: which of these are
/// results all the same. `roots`: alias_roots(). nullopt where the second reads one in another way.
std::optional<ValueProgram> join_programs(const std::vector<std::uint32_t>& roots, const ValueProgram& first,
                                          const std::vector<bool>& kept, const ValueProgram& second);

}  // namespace graft::passes
