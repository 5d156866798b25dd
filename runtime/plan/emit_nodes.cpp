#include <algorithm>
#include <numeric>

#include "platform/base/checked.h"
#include "runtime/core/features.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

bool writes(Access access) { return access != Access::read; }
bool reads(Access access) { return access != Access::write; }

/// An op may read its inputs and outputs, and write its outputs and the inputs that it mutates.
Status check_value_access(const Graph& graph, const Node& node, const Binding& binding) {
  const ValueId v{binding.slot.index};
  const std::uint32_t mutates = op_def(node.op).mutates;
  bool may_read = false;
  bool may_write = std::find(node.outputs.begin(), node.outputs.end(), v) != node.outputs.end();
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != v) continue;
    may_read = true;
    may_write = may_write || (i < 32 && (mutates >> i & 1) != 0);
  }
  if (reads(binding.access) && !may_read && !may_write) {
    return internal_error("It reads value number ", v.index, ", which is neither its input nor its output.");
  }
  if (writes(binding.access) && !may_write) {
    return internal_error("It writes value \"", graph.value(v).name,
                          "\", which is no output and not declared mutated.");
  }
  return ok_status();
}

Status check_binding(const Draft& d, const Node& node, const Emission& emission, const Binding& binding) {
  const Slot& slot = binding.slot;
  std::uint64_t total = sizeof(StepState);
  std::string what = "the step state";
  if (slot.kind == Slot::Kind::value) {
    if (slot.index >= d.bytes.size()) return internal_error("It binds value number ", slot.index, ", which is absent.");
    GRAFT_TRY(check_value_access(d.graph, node, binding));
    total = d.bytes[slot.index];
    what = cat("value \"", d.graph.values()[slot.index].name, "\"");
  } else if (slot.kind == Slot::Kind::scratch) {
    if (slot.index >= emission.scratch.size()) return internal_error("It binds scratch that it did not ask for.");
    total = emission.scratch[slot.index];
    what = "scratch memory";
  } else if (writes(binding.access)) {
    return internal_error("It writes the step state.");
  }
  if (!in_bounds(slot.offset, slot.size, total) || slot.size == 0 || slot.size % 4 != 0) {
    return internal_error("It binds bytes ", slot.offset, " to ", slot.offset, " + ", slot.size, " of ", what,
                          ", which has ", total, " bytes.");
  }
  const std::uint64_t alignment = std::max<std::uint64_t>(d.target.caps.storage_buffer_alignment, 4);
  if (slot.offset % alignment != 0) {
    return internal_error("It binds ", what, " from byte ", slot.offset, ", no multiple of the device's alignment of ",
                          alignment, ".");
  }
  if (slot.size > d.target.caps.max_storage_buffer_range) {
    return unsupported("It binds ", bytes_text(slot.size), " of ", what,
                       ", but a binding on this device holds at most ",
                       bytes_text(d.target.caps.max_storage_buffer_range), ". A smaller batch may fit.");
  }
  return ok_status();
}

Status check_dispatch(const Draft& d, const Node& node, const Emission& emission, const DispatchDesc& dispatch) {
  const gpu::Caps& caps = d.target.caps;
  if (is_avoided(d.target, dispatch.kernel)) {
    return no_other_kernel(caps, dispatch.kernel);
  }
  if (dispatch.push.size() > caps.max_push_constants) {
    return unsupported("Kernel ", shaders::kernel_info(dispatch.kernel).name, " takes ", dispatch.push.size(),
                       " bytes of push constants, but this device allows ", caps.max_push_constants, ".");
  }
  for (std::size_t axis = 0; axis < 3; ++axis) {
    if (dispatch.groups[axis] <= caps.max_workgroup_count[axis]) continue;
    return unsupported("Kernel ", shaders::kernel_info(dispatch.kernel).name, " needs ", dispatch.groups[axis],
                       " workgroups along axis ", axis, ", but this device allows ", caps.max_workgroup_count[axis],
                       ". A smaller batch may fit.");
  }
  for (const Binding& binding : dispatch.bindings) GRAFT_TRY(check_binding(d, node, emission, binding));
  return ok_status();
}

bool has_low_precision(const Graph& graph, const Node& node) {
  const auto stored_low = [&](ValueId v) { return v.valid() && graph.value(v).storage != DType::f32; };
  return std::any_of(node.inputs.begin(), node.inputs.end(), stored_low) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), stored_low);
}

/// The device's capabilities; where values are streamed a gather takes a large table piece by piece. Where operands are
/// kept in 16 bits, offsets that the op counts in f32 are halved: they must be twice as round.
gpu::Target target_for(const Draft& d, const Node& node) {
  gpu::Target target = d.target;
  gpu::Caps& caps = target.caps;
  if (kHasHalves && has_low_precision(d.graph, node)) caps.storage_buffer_alignment *= 2;
  std::uint64_t range = d.residents.streaming().range;
  if (range == 0 || node.op != Op::gather) return target;
  for (const ValueId v : {node.inputs[1], node.outputs[0]}) range = std::max(range, d.bytes[v.index]);
  caps.max_storage_buffer_range = std::min(caps.max_storage_buffer_range, range);
  return target;
}

Status emit_node(Draft& d, const Node& node, std::uint64_t workspace, Emission& emission) {
  const OpDef& def = op_def(node.op);
  if (def.emit == nullptr) {
    if (def.alias_input >= 0) return ok_status();
    return internal_error("Op ", def.name, " has no device code and is no view.");
  }
  const gpu::Target target = target_for(d, node);
  Emitter emitter(d.graph, node, target, workspace);
  GRAFT_TRY(def.emit(emitter));
  GRAFT_TRY(store_low_precision(d.graph, emitter.dispatches()));
  emission = {std::move(emitter.dispatches()), emitter.scratch_sizes(), std::move(emitter.choices()),
              emitter.withheld()};
  for (const std::uint64_t bytes : emission.scratch) {
    if (bytes <= d.residents.segment_bytes()) continue;
    return error(Code::out_of_memory, "It needs ", bytes_text(bytes),
                 " of scratch memory, but one allocation of this device holds ",
                 bytes_text(d.residents.segment_bytes()), ".");
  }
  for (const Choice& choice : emission.choices) {
    if (!choice.none_left) continue;
    return unsupported("Every variant for \"", choice.key, "\" failed its self-test on \"", d.target.caps.device_name,
                       "\" (driver ", d.target.caps.driver_info, ").");
  }
  // A dispatch of no workgroups does nothing: a tensor without elements.
  std::erase_if(emission.dispatches, [](const DispatchDesc& dispatch) {
    return dispatch.groups[0] == 0 || dispatch.groups[1] == 0 || dispatch.groups[2] == 0;
  });
  for (const DispatchDesc& dispatch : emission.dispatches) GRAFT_TRY(check_dispatch(d, node, emission, dispatch));
  return ok_status();
}

std::uint64_t scratch_of(const Emission& emission) {
  return std::accumulate(emission.scratch.begin(), emission.scratch.end(), std::uint64_t{0});
}

}  // namespace

Status emit_nodes(Draft& draft, const std::vector<NodeId>& nodes, std::uint64_t workspace) {
  draft.emissions.resize(draft.graph.nodes().size());
  for (const NodeId id : nodes) {
    const Node& node = draft.graph.node(id);
    GRAFT_TRY(emit_node(draft, node, workspace, draft.emissions[id.index])
                  .with_context(cat("While planning node \"", node.name, "\" (", op_def(node.op).name, ")")));
  }
  return ok_status();
}

Status tile_workspace(Draft& d, const PlanOptions& options, std::uint64_t limit) {
  if (!options.tile_workspace) return ok_status();
  bool changed = false;
  for (std::uint32_t p = 0; p < d.order.size(); ++p) {
    const NodeId id = d.order[p];
    const Emission& emission = d.emissions[id.index];
    const std::uint64_t scratch = scratch_of(emission);
    const std::uint64_t others = d.live[p + 1] - scratch;
    const std::uint64_t left = limit > others ? limit - others : 0;
    if (scratch + emission.withheld == 0 || (emission.withheld == 0 && scratch <= left)) continue;
    GRAFT_TRY(emit_nodes(d, {id}, left));
    // What an op asks for first may leave too little for what follows.
    if (scratch_of(emission) > left && left != 0) GRAFT_TRY(emit_nodes(d, {id}, 0));
    changed = changed || scratch_of(emission) != scratch;
  }
  if (changed) use_order(d, std::move(d.order), options.in_place);
  return ok_status();
}

}  // namespace graft
