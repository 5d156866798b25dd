#include "runtime/plan/residents.h"

#include <algorithm>
#include <optional>

#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/emitter.h"

namespace graft {
namespace {

constexpr std::uint64_t kMaxSegment = std::uint64_t{1} << 40;
constexpr std::uint64_t kSegmentGrain = std::uint64_t{64} << 10;
constexpr std::uint32_t kManyBuffers = 8;  // as many as an optimizer's step binds

bool persistent(ValueKind kind) {
  return kind == ValueKind::constant || kind == ValueKind::parameter || kind == ValueKind::state;
}

/// The class of state that a node of this op updates; nothing for optimizers.
std::optional<MemoryClass> class_of_state(Op op) {
  switch (op) {
    case Op::accumulate: return MemoryClass::gradients;
    case Op::batch_norm_update:
    case Op::loss_scale_step: return MemoryClass::parameters;
    case Op::cache_append: return MemoryClass::activations;
    default: return std::nullopt;
  }
}

/// State is named after what updates it: accumulators hold gradients, running statistics belong to the model, caches
/// hold what was computed for earlier tokens.
std::vector<MemoryClass> classes_of(const Graph& graph) {
  std::vector<MemoryClass> classes(graph.values().size(), MemoryClass::optimizer);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const ValueKind kind = graph.values()[i].kind;
    if (kind == ValueKind::constant) classes[i] = MemoryClass::weights;
    if (kind == ValueKind::parameter) classes[i] = MemoryClass::parameters;
  }
  for (const Node& node : graph.nodes()) {
    // Part of what a run is, like running statistics: it is hashed with the parameters.
    if (node.op == Op::loss_scale) classes[node.inputs[1].index] = MemoryClass::parameters;
    const auto updated = class_of_state(node.op);
    if (!updated) continue;
    const std::uint32_t mutates = op_def(node.op).mutates;
    for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if ((mutates >> i & 1) == 0 || !node.inputs[i].valid()) continue;
      if (graph.value(node.inputs[i]).kind != ValueKind::state) continue;
      classes[node.inputs[i].index] = *updated;
    }
  }
  return classes;
}

/// The order that values are placed in. Where a device has few storage buffers, what one node updates stands side by
/// side, a parameter and its optimizer's state, so that one buffer can hold it: see share_buffers().
std::vector<std::uint32_t> order_of_places(const Graph& graph, bool side_by_side) {
  std::vector<std::uint32_t> order;
  std::vector<char> there(graph.values().size(), 0);
  const auto add = [&](ValueId v) {
    if (!v.valid() || there[v.index] != 0 || !persistent(graph.value(v).kind)) return;
    there[v.index] = 1;
    order.push_back(v.index);
  };
  for (std::size_t n = 0; side_by_side && n < graph.nodes().size(); ++n) {
    const Node& node = graph.nodes()[n];
    const std::uint32_t mutates = op_def(node.op).mutates;
    for (std::size_t i = 0; i < node.inputs.size() && i < 32; ++i) {
      if ((mutates >> i & 1) != 0) add(node.inputs[i]);
    }
  }
  for (std::uint32_t v = 0; v < there.size(); ++v) add(ValueId{v});
  return order;
}

}  // namespace

std::string_view memory_class_name(MemoryClass c) {
  static constexpr std::string_view kNames[kMemoryClasses] = {"weights",     "parameters", "gradients", "optimizer",
                                                              "activations", "workspace",  "staging",   "step_state"};
  return kNames[static_cast<std::size_t>(c)];
}

std::uint64_t segment_bytes_of(const gpu::Caps& caps) {
  const std::uint64_t bytes = std::min(caps.max_allocation, kMaxSegment);
  return std::max(bytes / kSegmentGrain * kSegmentGrain, kSegmentGrain);
}

std::uint64_t block_alignment_of(const gpu::Caps& caps) {
  constexpr std::uint64_t kVector = 16;  // so that kernels that bind more than one block find vectors of four in each
  return std::max<std::uint64_t>(caps.storage_buffer_alignment, kVector);
}

std::uint64_t fit_segment(std::uint64_t offset, std::uint64_t bytes, std::uint64_t segment) {
  const bool crosses = bytes != 0 && offset / segment != (offset + bytes - 1) / segment;
  return crosses ? (offset / segment + 1) * segment : offset;
}

Residents::Residents(const gpu::Caps& caps, ResidentOptions options)
    : options_(std::move(options)),
      segment_bytes_(segment_bytes_of(caps)),
      alignment_(block_alignment_of(caps)),
      side_by_side_(caps.max_storage_buffers_per_stage < kManyBuffers) {}

Status Residents::add(const Graph& graph) {
  const std::vector<MemoryClass> classes = classes_of(graph);
  Residents next = *this;
  for (const std::uint32_t i : order_of_places(graph, side_by_side_)) {
    const Value& value = graph.values()[i];
    GRAFT_TRY_ASSIGN(const std::uint64_t device, checked_device_bytes(value));
    if (const Resident* known = next.find(value.name)) {
      if (known->dtype != value.dtype || known->shape != value.shape) {
        return invalid("The resident value \"", value.name, "\" is ", dtype_name(value.dtype), value.shape.text(),
                       " in one graph and ", dtype_name(known->dtype), known->shape.text(), " in another.");
      }
      if (known->stored != stored_dtype(value)) {
        return invalid("The resident value \"", value.name, "\" is kept as ", dtype_name(stored_dtype(value)),
                       " in one graph and as ", dtype_name(known->stored), " in another.");
      }
      continue;
    }
    const std::uint64_t bytes = storage_bytes(value.dtype, value.shape.elements());
    GRAFT_TRY(next.place(
        {value.name, classes[i], value.kind, value.dtype, stored_dtype(value), value.shape, 0, bytes, device}));
  }
  *this = std::move(next);
  return ok_status();
}

Status Residents::place(Resident resident) {
  const std::uint64_t bytes = align_up(resident.device_bytes, alignment_);
  if (resident.device_bytes > segment_bytes_ || bytes > segment_bytes_) {
    return error(Code::out_of_memory, "Value \"", resident.name, "\" needs ", bytes_text(resident.device_bytes),
                 ", but one allocation of this device holds ", bytes_text(segment_bytes_), ".");
  }
  resident.streamed = options_.streaming.names.contains(resident.name);
  if (!resident.streamed) {
    resident.offset = fit_segment(bytes_, bytes, segment_bytes_);
    memory_[resident.memory_class] += resident.offset + bytes - bytes_;
    bytes_ = resident.offset + bytes;
    transfer_bytes_ = std::max(transfer_bytes_, std::min(resident.device_bytes, options_.transfer_bytes));
  }
  by_name_.emplace(resident.name, static_cast<std::uint32_t>(entries_.size()));
  entries_.push_back(std::move(resident));
  return ok_status();
}

Residents Residents::streamed(Streaming streaming) const {
  Residents out = *this;
  out.options_.streaming = std::move(streaming);
  out.entries_.clear();
  out.by_name_.clear();
  out.bytes_ = 0;
  out.transfer_bytes_ = 0;
  out.memory_ = {};
  for (Resident resident : entries_) {
    resident.offset = 0;
    // They were placed once: no error is left that could come.
    if (!out.place(std::move(resident)).ok()) return out;
  }
  return out;
}

const Resident* Residents::find(std::string_view name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? nullptr : &entries_[it->second];
}

}  // namespace graft
