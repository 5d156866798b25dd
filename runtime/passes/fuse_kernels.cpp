#include "runtime/passes/fuse_kernels.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/fused_elementwise/add_norm.h"
#include "runtime/ops/fused_elementwise/epilogue.h"
#include "shaders/fused_elementwise/fused_elementwise_push.h"
#include "shaders/kernels.gen.h"

namespace graft::passes {
namespace {

using shaders::KernelId;

bool is_resident(const Value& value) { return value.kind != ValueKind::temporary && value.kind != ValueKind::input; }

/// Whether all values of a kind fit one buffer, with as much again for what the plan adds to them.
bool fit_one_buffer(const Graph& graph, const gpu::Caps& caps, bool residents) {
  std::uint64_t bytes = 0;
  for (const Value& value : graph.values()) {
    if (is_resident(value) == residents) bytes += device_bytes(value);
  }
  return bytes <= std::min(caps.max_storage_buffer_range, caps.max_allocation) / 2;
}

/// Kernels that add the bias to the whole sum.
constexpr KernelId kAddBiasLast[] = {
    KernelId::matmul__f32, KernelId::matmul__f32_shuffle, KernelId::matmul__f32_apart, KernelId::matmul_split_sum__f32,
    KernelId::conv__f32,   KernelId::conv__f32_shuffle,   KernelId::conv__f32_apart};

}  // namespace

struct FuseKernels::Bound {
  std::set<std::pair<Slot::Kind, std::uint32_t>> places = {};
  std::size_t bindings = 0;
  std::size_t push_bytes = 0;

  void add(const std::vector<ValueId>& values) {
    for (const ValueId v : values) places.insert({Slot::Kind::value, v.index});
  }
  void add(const DispatchDesc& dispatch) {
    for (const Binding& b : dispatch.bindings) places.insert({b.slot.kind, b.slot.index});
    bindings += dispatch.bindings.size();
    push_bytes += dispatch.push.size();
  }
};

FuseKernels::FuseKernels(const Graph& graph, const gpu::Target& target)
    : graph_(graph),
      target_(target),
      in_kernels_(choose(Family::epilogue, target, {}).variant->kernel == 0),
      near_(fit_one_buffer(graph, target.caps, false) && fit_one_buffer(graph, target.caps, true)) {}

/// One for each binding, or for each place: bindings of one place share a buffer. So do places that lie near each
/// other, where push constants are left to tell them apart (share_buffers(), in the plan).
bool FuseKernels::has_buffers(const Bound& bound) const {
  const std::size_t buffers = target_.caps.max_storage_buffers_per_stage;
  if (bound.bindings <= buffers || bound.places.size() <= buffers) return true;
  bool arena = false, residents = false;
  std::size_t alone = 0;
  for (const auto& [kind, index] : bound.places) {
    if (kind == Slot::Kind::step_state) {
      ++alone;
    } else {
      (kind == Slot::Kind::value && is_resident(graph_.values()[index]) ? residents : arena) = true;
    }
  }
  const std::size_t words =
      (target_.caps.max_push_constants - std::min<std::size_t>(target_.caps.max_push_constants, bound.push_bytes)) / 4;
  return near_ && alone + (arena ? 1 : 0) + (residents ? 1 : 0) <= buffers && bound.places.size() - buffers <= words;
}

bool FuseKernels::runs(const ValueProgram& program) const {
  if (!fits_kernel(program.program) || is_avoided(target_, KernelId::fused_elementwise__f32)) return false;
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    // An operand that is repeated is bound whole.
    const bool whole = program.program.is_whole(i);
    if (!whole && program.program.operands[i].mod > max_bound_elements(target_.caps)) return false;
  }
  Bound bound{.bindings = fused_fn::inputs + fused_fn::outputs, .push_bytes = sizeof(push::FusedElementwisePush)};
  bound.add(program.operands);
  bound.add(program.results);
  return has_buffers(bound);
}

bool FuseKernels::takes_epilogue(const Node& main) const {
  if (!in_kernels_ || main.outputs.empty()) return false;
  const Value& out = graph_.value(main.outputs[0]);
  if (out.dtype != DType::f32 || out.shape.elements() == 0 || out.shape.elements() > 0xffffffffu) return false;
  // fused_epilogue takes no quantized weights, though where their products are split, the sum's kernel could.
  const auto is_blocks = [&](ValueId v) { return v.valid() && is_quantized(graph_.value(v).dtype); };
  if (std::any_of(main.inputs.begin(), main.inputs.end(), is_blocks)) return false;
  Emitter emitter(graph_, main, target_);
  return op_def(main.op).emit != nullptr && op_def(main.op).emit(emitter).ok() &&
         find_epilogue_place(emitter).has_value();
}

bool FuseKernels::runs_epilogue(const Node& main, const ValueProgram& program) const {
  if (!fits_epilogue(program.program, epilogue_columns(graph_, main))) return false;
  const Shape& shape = graph_.value(main.outputs[0]).shape;
  if (std::any_of(program.results.begin(), program.results.end(),
                  [&](ValueId v) { return graph_.value(v).shape != shape; })) {
    return false;
  }
  Emitter emitter(graph_, main, target_);
  if (!op_def(main.op).emit(emitter).ok()) return false;
  const auto place = find_epilogue_place(emitter);
  if (!place) return false;
  const DispatchDesc& dispatch = emitter.dispatches()[place->dispatch];
  Bound bound{.bindings = kEpilogueBindings};
  bound.add(dispatch);
  bound.places.erase({Slot::Kind::value, main.outputs[0].index});
  bound.add(program.operands);
  bound.add(program.results);
  return has_buffers(bound);
}

bool FuseKernels::adds_bias(const Node& main) const {
  Emitter emitter(graph_, main, target_);
  if (!op_def(main.op).emit(emitter).ok() || emitter.dispatches().empty()) return false;
  return std::all_of(emitter.dispatches().begin(), emitter.dispatches().end(), [&](const DispatchDesc& d) {
    const bool stores = std::any_of(d.bindings.begin(), d.bindings.end(), [&](const Binding& b) {
      return b.slot.kind == Slot::Kind::value && b.slot.index == main.outputs[0].index;
    });
    return !stores || std::find(std::begin(kAddBiasLast), std::end(kAddBiasLast), d.kernel) != std::end(kAddBiasLast);
  });
}

bool FuseKernels::adds_up(const Node& norm, ValueId first, ValueId second) const {
  Emitter emitter(graph_, norm, target_);
  if (!op_def(norm.op).emit(emitter).ok() || !add_norm_kernel(emitter)) return false;
  const DispatchDesc& dispatch = emitter.dispatches()[0];
  Bound bound{.bindings = 2};
  bound.add(dispatch);
  bound.add({first, second});  // beside the sum, which was read
  return has_buffers(bound);
}

}  // namespace graft::passes
