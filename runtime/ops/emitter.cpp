#include "runtime/ops/emitter.h"

#include <algorithm>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/features.h"
#include "shaders/common/step_state.h"

namespace graft {

namespace {

std::uint64_t whole_words(DType dtype, const Shape& shape) {
  // Kernels address 32-bit words, and a binding of no bytes is not allowed.
  return std::max<std::uint64_t>(align_up(storage_bytes(dtype, shape.elements()), 4), 4);
}

}  // namespace

std::uint64_t device_bytes(const Value& value) { return whole_words(stored_dtype(value), value.shape); }

Result<std::uint64_t> checked_device_bytes(const Value& value) {
  if (!value.shape.is_constant()) {
    return invalid("Value \"", value.name, "\" has the shape ", value.shape.text(),
                   ", whose symbols must be bound to numbers before planning.");
  }
  GRAFT_TRY_ASSIGN(const Dim count, value.shape.element_count());
  const auto elements = static_cast<std::uint64_t>(count.value());
  const auto bytes =
      checked_mul<std::uint64_t>(elements / dtype_block(value.dtype).elements, dtype_block(value.dtype).bytes);
  if (!bytes || !checked_align(*bytes, 4)) {
    return invalid("Value \"", value.name, "\" of shape ", value.shape.text(), " has ", elements,
                   " elements, more bytes than 64 bits can count.");
  }
  return device_bytes(value);
}

Slot Emitter::value_slot(ValueId id) const {
  const Value& value = graph_.value(id);
  return {Slot::Kind::value, id.index, 0, whole_words(value.dtype, value.shape)};
}

Status store_low_precision(const Graph& graph, std::vector<DispatchDesc>& dispatches) {
  for (DispatchDesc& dispatch : dispatches) {
    for (std::size_t i = 0; i < dispatch.bindings.size(); ++i) {
      Slot& slot = dispatch.bindings[i].slot;
      if (slot.kind != Slot::Kind::value) continue;
      const Value& value = graph.value(ValueId{slot.index});
      if (value.dtype != DType::f32 || value.storage == DType::f32) continue;
      if constexpr (!kHasHalves) return left_out("values in 16 bits", "halves");
      slot.offset /= 2;
      slot.size = align_up(slot.size / 2, 4);
      if (dispatch.bindings[i].as_stored) continue;
      if (i >= kMaxLowPrecisionBindings) {
        return unsupported("Kernel ", shaders::kernel_info(dispatch.kernel).name, " binds value \"", value.name,
                           "\", which is kept as ", dtype_name(value.storage), ", at ", i, "; at most ",
                           kMaxLowPrecisionBindings, " bindings may be so.");
      }
      dispatch.storage |= static_cast<BindingStorage>(stored_as(value.storage)) << (2 * i);
    }
  }
  return ok_status();
}

Binding Emitter::step_state() const { return {{Slot::Kind::step_state, 0, 0, sizeof(StepState)}, Access::read}; }

Slot Emitter::scratch(std::uint64_t bytes) {
  // Saturates instead of wrapping: the plan rejects what no device can hold.
  const auto rounded = checked_align(std::max<std::uint64_t>(bytes, 4), 4);
  scratch_.push_back(rounded.value_or(std::numeric_limits<std::uint64_t>::max() & ~std::uint64_t{3}));
  return {Slot::Kind::scratch, static_cast<std::uint32_t>(scratch_.size() - 1), 0, scratch_.back()};
}

std::uint64_t Emitter::workspace_left() const {
  std::uint64_t left = workspace_;
  for (const std::uint64_t bytes : scratch_) left -= std::min(left, bytes);
  return left;
}

const Variant& Emitter::note(const Choice& choice) {
  const auto same = [&](const Choice& other) { return other.key == choice.key; };
  if (std::ranges::none_of(choices_, same)) choices_.push_back(choice);
  return *choice.variant;
}

std::array<std::uint32_t, 3> spread_workgroups(const gpu::Caps& caps, std::uint64_t workgroups) {
  const auto& limit = caps.max_workgroup_count;
  const auto word = [](std::uint64_t n) {
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(n, std::numeric_limits<std::uint32_t>::max()));
  };
  // The fewest layers first, then layers as even as can be, so that little is launched in vain.
  const std::uint64_t layer = std::uint64_t{limit[0]} * limit[1];
  const std::uint64_t z = std::max<std::uint64_t>(workgroups / layer + (workgroups % layer != 0), 1);
  const std::uint64_t in_layer = workgroups / z + (workgroups % z != 0);
  const std::uint64_t y = std::max<std::uint64_t>(ceil_div<std::uint64_t>(in_layer, limit[0]), 1);
  const std::uint64_t x = ceil_div<std::uint64_t>(in_layer, y);
  return {word(x), word(y), word(z)};  // a z beyond the limit is an error of the plan
}

Result<std::uint32_t> count32(std::uint64_t count, std::string_view what) {
  if (count > std::numeric_limits<std::uint32_t>::max()) {
    return unsupported("The ", what, " has ", count, " elements; kernels count up to ",
                       std::numeric_limits<std::uint32_t>::max(), ".");
  }
  return static_cast<std::uint32_t>(count);
}

}  // namespace graft
