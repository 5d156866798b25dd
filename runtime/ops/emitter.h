// What an op's emit function sees: concrete shapes, the device's limits, and dispatch().
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <vector>

#include "platform/gpu/gpu.h"
#include "runtime/core/op_def.h"
#include "runtime/ops/choice.h"
#include "shaders/kernel_info.gen.h"

namespace graft {

enum class Access : std::uint8_t { read, write, read_write };

/// Memory that a dispatch may bind: a value, scratch memory of this node, or the step state block.
struct Slot {
  enum class Kind : std::uint8_t { value, scratch, step_state } kind = Kind::value;
  std::uint32_t index = 0;   ///< ValueId index, or scratch number
  std::uint64_t offset = 0;  ///< bytes from its start
  std::uint64_t size = 0;    ///< bytes bound
};

struct Binding {
  Slot slot;
  Access access = Access::read;
  bool as_stored = false;  ///< the kernel itself declares elements of 16 bits where the value is kept so
};
/// For kernels that read or write 16-bit elements themselves. Offset and size still count as if elements were f32.
inline Binding as_stored(Binding binding) {
  binding.as_stored = true;
  return binding;
}

/// Low-precision storage of a dispatch's bindings, two bits each from binding 0 on: as the kernel declares them, or f32
/// elements rounded to 16 bits. low_precision_kernel() (runtime/kernels/low_precision_kernel.h) makes such kernels.
using BindingStorage = std::uint64_t;
inline constexpr std::size_t kMaxLowPrecisionBindings = 32;
enum class Stored : std::uint8_t { declared = 0, f16 = 1, bf16 = 2 };
constexpr Stored stored_as(DType storage) {
  return storage == DType::f16 ? Stored::f16 : storage == DType::bf16 ? Stored::bf16 : Stored::declared;
}
constexpr Stored binding_storage(BindingStorage all, std::size_t binding) {
  return binding < kMaxLowPrecisionBindings ? static_cast<Stored>(all >> (2 * binding) & 3u) : Stored::declared;
}

/// One dispatch of a plan, before memory is assigned.
struct DispatchDesc {
  shaders::KernelId kernel{};
  std::vector<std::uint32_t> specialization;
  std::vector<Binding> bindings;
  std::vector<std::byte> push;
  std::array<std::uint32_t, 3> groups = {1, 1, 1};
  BindingStorage storage = 0;
};

/// Bytes that a value takes on the device: its elements, rounded up to whole 32-bit words, at least one.
/// Requires a constant, validated shape.
std::uint64_t device_bytes(const Value& value);
/// The same for any value: an error where the shape holds symbols or the bytes overflow.
Result<std::uint64_t> checked_device_bytes(const Value& value);

inline constexpr std::uint64_t kAnyWorkspace = std::numeric_limits<std::uint64_t>::max();

/// See Emitter::spread().
std::array<std::uint32_t, 3> spread_workgroups(const gpu::Caps& caps, std::uint64_t workgroups);

class Emitter {
 public:
  /// `workspace`: bytes that scratch() should not exceed in all; see workspace_left().
  Emitter(const Graph& graph, const Node& node, const gpu::Target& target, std::uint64_t workspace = kAnyWorkspace)
      : graph_(graph), node_(node), target_(target), workspace_(workspace) {}

  const gpu::Target& target() const { return target_; }
  const gpu::Caps& caps() const { return target_.caps; }
  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  const Attrs& attrs() const { return node_.attrs; }
  std::size_t inputs() const { return node_.inputs.size(); }
  bool has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  /// Constant shapes: the graph is bound.
  const Shape& in_shape(std::size_t i) const { return graph_.value(node_.inputs[i]).shape; }
  const Shape& out_shape(std::size_t i = 0) const { return graph_.value(node_.outputs[i]).shape; }
  DType in_dtype(std::size_t i) const { return graph_.value(node_.inputs[i]).dtype; }
  DType out_dtype(std::size_t i = 0) const { return graph_.value(node_.outputs[i]).dtype; }
  /// How the device keeps an operand. An op need not ask: it counts bytes as if all were f32, and store_low_precision()
  /// makes the bindings fit. One that has a kernel of its own for 16-bit elements marks its bindings with as_stored().
  DType in_storage(std::size_t i) const { return graph_.value(node_.inputs[i]).storage; }
  DType out_storage(std::size_t i = 0) const { return graph_.value(node_.outputs[i]).storage; }

  /// How the device keeps what a binding holds: blocks, f16, bf16 or 32-bit numbers. Scratch memory is f32.
  DType stored(const Binding& binding) const {
    return binding.slot.kind == Slot::Kind::value ? stored_dtype(graph_.value(ValueId{binding.slot.index}))
                                                  : DType::f32;
  }

  // Bindings. A kernel with an optional operand binds any valid slot in its place and is told by a constant.
  Binding in(std::size_t i) const { return {value_slot(node_.inputs[i]), Access::read}; }
  Binding out(std::size_t i = 0) const { return {value_slot(node_.outputs[i]), Access::write}; }
  Binding update(std::size_t i) const { return {value_slot(node_.inputs[i]), Access::read_write}; }  ///< mutated input
  Binding step_state() const;
  /// Uninitialised memory that lives for this node's dispatches only.
  Slot scratch(std::uint64_t bytes);
  /// How many bytes scratch() should keep to from here on. A wish: an op that can do with less, to the same bits, does,
  /// and tells withhold() how many more it would have taken.
  std::uint64_t workspace_left() const;
  void withhold(std::uint64_t bytes) { withheld_ += bytes; }
  std::uint64_t withheld() const { return withheld_; }

  /// One dispatch. Dispatches of a node run in order; the plan inserts the barriers they need.
  /// `specialization` are constant_id 0, 1, ...: pass bool, int32, uint32 or float words with spec().
  template <typename Push>
  void dispatch(shaders::KernelId kernel, std::initializer_list<std::uint32_t> specialization,
                std::vector<Binding> bindings, const Push& push, std::array<std::uint32_t, 3> groups) {
    static_assert(std::is_trivially_copyable_v<Push>);
    std::vector<std::byte> bytes(sizeof(Push));
    std::memcpy(bytes.data(), &push, sizeof(Push));
    dispatches_.push_back({kernel, specialization, std::move(bindings), std::move(bytes), groups});
  }

  /// Workgroup counts for `workgroups` groups of a kernel that uses flat_workgroup() (shaders/common/index.glsl):
  /// spread over x, y, z within the device's limits; the kernel discards the excess.
  std::array<std::uint32_t, 3> spread(std::uint64_t workgroups) const { return spread_workgroups(caps(), workgroups); }

  /// Remembers a choice for reports; each once.
  const Variant& note(const Choice& choice);
  std::vector<Choice>& choices() { return choices_; }

  std::vector<DispatchDesc>& dispatches() { return dispatches_; }
  const std::vector<std::uint64_t>& scratch_sizes() const { return scratch_; }

 private:
  Slot value_slot(ValueId id) const;
  const Graph& graph_;
  const Node& node_;
  const gpu::Target& target_;
  std::uint64_t workspace_;
  std::uint64_t withheld_ = 0;
  std::vector<DispatchDesc> dispatches_;
  std::vector<std::uint64_t> scratch_;
  std::vector<Choice> choices_;
};

/// Makes the bindings of a node's dispatches fit values that are kept in 16 bits, and says so in
/// DispatchDesc::storage. An op counted the bytes as of f32. An error where a kernel has too many bindings.
Status store_low_precision(const Graph& graph, std::vector<DispatchDesc>& dispatches);

inline std::uint32_t spec(float value) { return std::bit_cast<std::uint32_t>(value); }

/// An element count as the kernels' 32-bit unsigned; emit returns an error where a tensor has 2^32 elements or more.
Result<std::uint32_t> count32(std::uint64_t count, std::string_view what);

}  // namespace graft
