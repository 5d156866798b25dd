#include <algorithm>

#include "platform/base/checked.h"
#include "runtime/core/op_def.h"
#include "runtime/ops/fused_program.h"
#include "runtime/plan/draft.h"

namespace graft {
namespace {

/// Whole value `v`, wherever it lives.
PlanBinding locate(const Draft& d, std::uint32_t v, Access access) {
  const std::uint32_t root = d.roots[v];
  const std::uint32_t storage = d.storages.of_value[root];
  if (storage != kNoStorage) return {Space::transient, access, v, d.arena.offsets[storage], d.bytes[v]};
  const Resident& resident = *d.residents.find(d.graph.values()[root].name);
  // In the ring it has a place only once all steps are known: add_refills().
  return {resident.streamed ? Space::stream : Space::resident, access, v, resident.offset, d.bytes[v]};
}

PlanBinding resolve(const Draft& d, std::uint32_t position, const Binding& binding) {
  const Slot& slot = binding.slot;
  PlanBinding out{Space::step_state, binding.access, kNoIndex, 0, 0};
  if (slot.kind == Slot::Kind::value) out = locate(d, slot.index, binding.access);
  if (slot.kind == Slot::Kind::scratch) {
    out.space = Space::transient;
    out.scratch_of = position;
    out.offset = d.arena.offsets[d.scratch[position] + slot.index];
  }
  out.offset += slot.offset;
  out.size = slot.size;
  return out;
}

std::uint32_t kernel_index(Plan& plan, const DispatchDesc& dispatch) {
  PlanKernel kernel{dispatch.kernel, dispatch.specialization, static_cast<std::uint32_t>(dispatch.bindings.size()),
                    static_cast<std::uint32_t>(dispatch.push.size()), dispatch.storage};
  const auto it = std::find(plan.kernels.begin(), plan.kernels.end(), kernel);
  if (it != plan.kernels.end()) return static_cast<std::uint32_t>(it - plan.kernels.begin());
  plan.kernels.push_back(std::move(kernel));
  return static_cast<std::uint32_t>(plan.kernels.size() - 1);
}

/// A binding that goes unused holds what another does: that is moved once.
std::uint64_t bytes_moved(const Step& step) {
  std::uint64_t bytes = 0;
  for (auto b = step.bindings.begin(); b != step.bindings.end(); ++b) {
    const bool again = std::any_of(step.bindings.begin(), b, [&](const PlanBinding& other) {
      return other.space == b->space && other.offset == b->offset && other.size == b->size &&
             other.access == b->access && other.value == b->value;
    });
    if (!again) bytes += b->access == Access::read_write ? 2 * b->size : b->size;
  }
  return bytes;
}

Step copy(StepKind kind, PlanBinding from, PlanBinding to) {
  Step step;
  step.kind = kind;
  step.bindings = {from, to};
  step.bytes = bytes_moved(step);
  return step;
}

std::vector<Step> uploads(const Draft& d, const Plan& plan) {
  std::vector<Step> steps;
  if (plan.uses_step_state) {
    const std::uint64_t bytes = plan.step_state_bytes();
    steps.push_back(copy(StepKind::upload, {Space::upload, Access::read, kNoIndex, 0, bytes},
                         {Space::step_state, Access::write, kNoIndex, 0, bytes}));
  }
  for (const PlanPort& port : plan.inputs) {
    if (!port.used || port.bytes == 0) continue;
    const PlanBinding to = locate(d, port.value, Access::write);
    steps.push_back(copy(StepKind::upload, {Space::upload, Access::read, kNoIndex, port.staging_offset, to.size}, to));
  }
  return steps;
}

void add_node(const Draft& d, Plan& plan, std::uint32_t position) {
  const NodeId id = d.order[position];
  const Node& node = d.graph.node(id);
  const Emission& emission = d.emissions[id.index];
  PlanNode info;
  info.node = id.index;
  info.name = node.name;
  info.op = op_label(node);
  info.parts = static_cast<std::uint32_t>(node.attrs.has(kFusedNodes) ? node.attrs.integer(kFusedNodes) : 1);
  info.backward = node.forward_of.valid();
  info.forward_of = node.forward_of.valid() ? node.forward_of.index : kNoIndex;
  const auto dispatches = static_cast<std::uint32_t>(emission.dispatches.size());
  info.recomputed = id.index >= d.joint_nodes;
  if (dispatches != 0) info.flops = node_flops(d.graph, node);
  for (const std::uint64_t bytes : emission.scratch) info.scratch_bytes += bytes;
  info.whole_scratch_bytes = info.scratch_bytes + emission.withheld;
  info.live_bytes = d.live[position + 1];
  for (const Choice& choice : emission.choices) {
    info.choices.push_back({choice.key, std::string(choice.variant->name), std::string(choice.why), choice.shape});
  }
  for (std::uint32_t i = 0; i < dispatches; ++i) {
    const DispatchDesc& dispatch = emission.dispatches[i];
    Step step;
    step.node = static_cast<std::uint32_t>(plan.nodes.size());
    step.kernel = kernel_index(plan, dispatch);
    step.groups = dispatch.groups;
    step.push = dispatch.push;
    for (const Binding& binding : dispatch.bindings) step.bindings.push_back(resolve(d, position, binding));
    step.flops = info.flops / dispatches + (i < info.flops % dispatches ? 1 : 0);
    step.bytes = bytes_moved(step);
    info.bytes += step.bytes;
    plan.steps.push_back(std::move(step));
  }
  plan.flops += info.flops;
  plan.nodes.push_back(std::move(info));
}

bool binds_step_state(const Draft& d) {
  for (const NodeId id : d.order) {
    for (const DispatchDesc& dispatch : d.emissions[id.index].dispatches) {
      for (const Binding& binding : dispatch.bindings) {
        if (binding.slot.kind == Slot::Kind::step_state) return true;
      }
    }
  }
  return false;
}

PlanPort make_port(const Draft& d, std::string name, ValueId v, std::uint64_t& staging, std::uint64_t alignment) {
  const Value& value = d.graph.value(v);
  PlanPort port{std::move(name), v.index, value.dtype, value.shape};
  port.bytes = storage_bytes(value.dtype, value.shape.elements());
  port.staging_offset = staging;
  staging += align_up(d.bytes[v.index], alignment);
  return port;
}

}  // namespace

std::uint64_t node_flops(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (def.emit == nullptr) return 0;
  if (def.flops != nullptr) return def.flops(graph, node);
  return node.outputs.empty() ? 0 : graph.value(node.outputs[0]).shape.elements();
}

Status add_ports(const Draft& draft, Plan& plan) {
  // Staging is copied from and to, never bound: a cache line's alignment is plenty.
  constexpr std::uint64_t kAlignment = 64;
  plan.uses_step_state = binds_step_state(draft) || !plan.tables.empty();
  plan.upload_bytes = align_up(plan.step_state_bytes(), kAlignment);
  for (const ValueId v : draft.graph.inputs()) {
    const bool used = draft.storages.of_value[v.index] != kNoStorage;
    std::uint64_t unused = 0;
    PlanPort port = make_port(draft, draft.graph.value(v).name, v, used ? plan.upload_bytes : unused, kAlignment);
    port.used = used;
    plan.inputs.push_back(std::move(port));
  }
  for (const Output& output : draft.graph.outputs()) {
    plan.outputs.push_back(make_port(draft, output.name, output.value, plan.readback_bytes, kAlignment));
  }
  // Where residents go through staging at all, it is behind them: inputs stay where they were put, and outputs can be
  // read, while residents are moved.
  const std::uint64_t transfer = draft.residents.transfer_bytes();
  for (std::uint64_t* bytes : {&plan.upload_bytes, &plan.readback_bytes}) {
    *bytes = draft.target.caps.unified_memory ? std::max(*bytes, transfer) : *bytes + transfer;
  }
  for (const std::uint64_t bytes : {plan.upload_bytes, plan.readback_bytes}) {
    if (bytes <= plan.segment_bytes) continue;
    return error(Code::out_of_memory, "The inputs or outputs of a run need ", bytes_text(bytes),
                 " of staging memory, but one allocation of this device holds ", bytes_text(plan.segment_bytes), ".");
  }
  return ok_status();
}

void add_dispatches(const Draft& draft, Plan& plan) {
  for (std::uint32_t p = 0; p < draft.order.size(); ++p) add_node(draft, plan, p);
}

void drop_unused_kernels(Plan& plan) {
  std::vector<std::uint32_t> number(plan.kernels.size(), kNoIndex);
  std::vector<PlanKernel> kernels;
  for (Step& step : plan.steps) {
    if (step.kernel == kNoIndex) continue;
    if (number[step.kernel] == kNoIndex) {
      number[step.kernel] = static_cast<std::uint32_t>(kernels.size());
      kernels.push_back(std::move(plan.kernels[step.kernel]));
    }
    step.kernel = number[step.kernel];
  }
  plan.kernels = std::move(kernels);
}

void count_steps(Plan& plan) {
  for (const Step& step : plan.steps) ++plan.nodes[step.node].steps;
  for (PlanNode& node : plan.nodes) {
    if (node.steps != 0) node.merged_into = kNoIndex;
  }
  for (PlanNode& node : plan.nodes) {
    while (node.merged_into != kNoIndex && plan.nodes[node.merged_into].merged_into != kNoIndex) {
      node.merged_into = plan.nodes[node.merged_into].merged_into;
    }
  }
}

void add_copies(const Draft& draft, Plan& plan) {
  std::vector<Step> steps = uploads(draft, plan);
  plan.steps.insert(plan.steps.begin(), std::move_iterator(steps.begin()), std::move_iterator(steps.end()));
  for (const PlanPort& port : plan.outputs) {
    if (port.bytes == 0) continue;
    const PlanBinding from = locate(draft, port.value, Access::read);
    plan.steps.push_back(
        copy(StepKind::readback, from, {Space::readback, Access::write, kNoIndex, port.staging_offset, from.size}));
  }
}

}  // namespace graft
