// What make_plan knows between its passes. Internal to runtime/plan.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/arena.h"
#include "runtime/plan/plan.h"
#include "runtime/plan/storage.h"

namespace graft {

/// What an op asked for.
struct Emission {
  std::vector<DispatchDesc> dispatches;
  std::vector<std::uint64_t> scratch;  ///< bytes of each
  std::vector<Choice> choices;
  std::uint64_t withheld = 0;  ///< bytes of scratch that it made do without, see Emitter::workspace_left()
};

struct Draft {
  const Graph& graph;
  const gpu::Target& target;
  const Residents& residents;
  std::size_t joint_nodes;  ///< nodes of the graph from here on repeat others

  std::vector<std::uint64_t> bytes;  ///< per value, on the device
  std::vector<std::uint32_t> roots;  ///< per value: alias_roots()
  std::vector<Emission> emissions;   ///< per node of the graph
  std::vector<NodeId> order;
  Storages storages;                   ///< of values; the blocks of scratch follow those of values
  std::vector<std::uint32_t> scratch;  ///< per position: index of the first block of its scratch
  std::vector<std::uint64_t> live;     ///< bytes alive per time (see Storages)
  ArenaLayout arena;
};

/// FLOPs of one run of a node; views cost nothing.
std::uint64_t node_flops(const Graph& graph, const Node& node);

/// Storages and live bytes under this order; the blocks of scratch stand behind those of values.
void use_order(Draft& draft, std::vector<NodeId> order, bool in_place);

/// Order, storages and live bytes; of several orders the one with the least peak. Residents are checked.
Status arrange(Draft& draft, const PlanOptions& options, const std::vector<NodeId>& preferred = {},
               std::uint64_t workspace = kAnyWorkspace);

/// The largest sum of live bytes of what was arranged.
std::uint64_t peak(const Draft& draft);

/// The size of an arena that is not worth making smaller: little above the sum of live bytes.
std::uint64_t good_arena(const Draft& draft);

/// Offsets in the arena; layouts of at most `enough` bytes are as good as smaller ones.
void lay_out(Draft& draft, std::uint64_t enough);

/// The plan of what was arranged, once its arena is laid out.
Result<Plan> finish_plan(const Draft& draft, const PlanOptions& options);

/// Plans an arranged graph anew so that its arena is at most `limit`, by computing forward results again.
Result<Plan> plan_recomputing(const Draft& draft, const PlanOptions& options, std::uint64_t limit);

/// That even this plan is too large.
Status does_not_fit(const Plan& plan, const PlanOptions& options, std::uint64_t limit);

/// Asks every live node's op for its dispatches and checks them against the op's contract and the device's limits.
/// `workspace`: what the scratch memory of each should keep to.
Status emit_nodes(Draft& draft, const std::vector<NodeId>& nodes, std::uint64_t workspace = kAnyWorkspace);

/// Ops whose workspace would bring what is alive above `limit` make do with less where they can, to the same bits, and
/// those that made do with less than that take it back.
Status tile_workspace(Draft& draft, const PlanOptions& options, std::uint64_t limit);

/// The kernel that does in one dispatch, by a table, what a kernel does for many tensors.
struct TableKernel {
  shaders::KernelId id{};
  std::uint32_t moving = 0;  ///< bit k: binding k is another for each tensor; the others must be the same
};
std::optional<TableKernel> table_kernel(shaders::KernelId kernel);

/// Memory for streamed values and the refills that bring them; after add_copies.
Status add_refills(const Draft& draft, Plan& plan);

/// Lets nodes that only update residents wait for others of their kind, as long as the peak stays within `limit`.
void gather_updates(Draft& draft, const PlanOptions& options, std::uint64_t limit);

/// Whether the device has storage buffers enough for what a dispatch binds: one for each, or fewer that several share.
bool fits_buffers(const gpu::Caps& caps, std::uint64_t segment_bytes, const std::vector<PlanBinding>& bound,
                  std::size_t push_bytes);

/// Where dispatches bind more than the device has storage buffers, bindings that lie near each other share one: see
/// PlanKernel::shares. unsupported where that does not suffice. After add_refills.
Status share_buffers(const Draft& draft, Plan& plan);

/// Nodes, kernels and dispatches of the plan, in the order of the nodes.
void add_dispatches(const Draft& draft, Plan& plan);

/// Orders dispatches so that few barriers are needed, and merges those of many tensors: see PlanOptions::merge.
void merge_steps(const gpu::Target& target, Plan& plan);

/// Counts each node's dispatches; after merge_steps.
void count_steps(Plan& plan);

/// Leaves out kernels that no dispatch is of.
void drop_unused_kernels(Plan& plan);

/// Inputs and outputs with their staging; after merge_steps.
Status add_ports(const Draft& draft, Plan& plan);

/// The ports' copies around the dispatches.
void add_copies(const Draft& draft, Plan& plan);

/// Values, saved values and bytes by class; after add_copies.
void add_report(const Draft& draft, Plan& plan);

/// Sets Step::barrier_before where a step reads or overwrites what an earlier one since the last barrier wrote, or
/// writes what such a one read. For a given order no smaller number of barriers will do.
void add_barriers(Plan& plan);

}  // namespace graft
