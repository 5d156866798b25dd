// What make_plan knows between its passes. Internal to runtime/plan.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/plan/arena.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/storage.h"

namespace graft {

/// What an op asked for.
struct Emission {
  std::vector<DispatchDesc> dispatches;
  std::vector<std::uint64_t> scratch;  ///< bytes of each
};

struct Draft {
  const Graph& graph;
  const gpu::Caps& caps;
  const Residents& residents;

  std::vector<std::uint64_t> bytes;  ///< per value, on the device
  std::vector<std::uint32_t> roots;  ///< per value: alias_roots()
  std::vector<Emission> emissions;   ///< per node of the graph
  std::vector<NodeId> order;
  Storages storages;                   ///< of values; the blocks of scratch follow those of values
  std::vector<std::uint32_t> scratch;  ///< per position: index of the first block of its scratch
  std::vector<std::uint64_t> live;     ///< bytes alive per time (see Storages)
  ArenaLayout arena;
};

/// Asks every live node's op for its dispatches and checks them against the op's contract and the device's limits.
Status emit_nodes(Draft& draft, const std::vector<NodeId>& nodes);

/// Nodes, kernels and dispatches of the plan, and the ports' copies around them.
Status add_steps(const Draft& draft, Plan& plan);

/// Inputs and outputs with their staging; before add_steps.
Status add_ports(const Draft& draft, Plan& plan);

/// Values, saved values and bytes by class; after add_steps.
void add_report(const Draft& draft, Plan& plan);

/// Sets Step::barrier_before where a step reads or overwrites what an earlier one since the last barrier wrote, or
/// writes what such a one read. For a given order no smaller number of barriers will do.
void add_barriers(Plan& plan);

}  // namespace graft
