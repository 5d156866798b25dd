// Dispatching elementwise kernels: contiguous ones (shaders/common/flat.glsl) and broadcasting ones
// (shaders/common/strided.glsl).
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "runtime/ops/emitter.h"
#include "shaders/common/strided_push.h"

namespace graft {

/// Elements that one workgroup of flat.glsl or strided.glsl handles.
inline constexpr std::uint64_t kVectorsPerWorkgroup = 512;

/// The most elements (of 4 bytes) that one binding may hold, a multiple of 64 so that parts stay aligned.
std::uint64_t max_bound_elements(const gpu::Caps& caps);

/// The part [first, first + count) of a binding of 4-byte elements.
Binding element_range(Binding binding, std::uint64_t first, std::uint64_t count);

/// Dispatches a kernel that includes flat.glsl over `elements`, in as many parts as the limit on bindings asks for.
/// Every binding holds `elements` 4-byte words, apart from those in `whole` (bit i: binding i is bound as it is).
/// Push::count is set for each part, and Push::first to its first element where the block has such a member.
template <typename Push>
void emit_flat(Emitter& e, shaders::KernelId kernel, std::initializer_list<std::uint32_t> specialization,
               const std::vector<Binding>& bindings, Push push, std::uint64_t elements, std::uint32_t whole = 0) {
  const std::uint64_t limit = max_bound_elements(e.caps());
  for (std::uint64_t first = 0; first < elements; first += limit) {
    const std::uint64_t count = std::min(limit, elements - first);
    push.count = static_cast<std::uint32_t>(count);
    if constexpr (requires { push.first; }) push.first = static_cast<std::uint32_t>(first);
    std::vector<Binding> part = bindings;
    for (std::size_t i = 0; i < part.size(); ++i) {
      if ((whole >> i & 1u) == 0) part[i] = element_range(part[i], first, count);
    }
    e.dispatch(kernel, specialization, std::move(part), push, e.spread(count / 4 / kVectorsPerWorkgroup + 1));
  }
}

/// How a kernel walks an output and its operands: axes merged as far as all operands allow, innermost first.
struct StridedLayout {
  std::uint32_t rank = 0;
  std::array<std::uint64_t, Shape::kMaxRank> dims = {};
  std::vector<std::array<std::uint64_t, Shape::kMaxRank>> strides;  ///< per operand, in elements; 0: broadcast
};

/// Requires that each operand broadcasts to `out`. Constant shapes.
StridedLayout strided_layout(const Shape& out, std::span<const Shape> operands);

/// What an elementwise kernel reads: memory of 4-byte elements, and the shape that it broadcasts from.
struct StridedOperand {
  Binding binding;
  Shape shape;
};

/// Dispatches a kernel that includes strided.glsl: output 0 from operands that broadcast to it. The kernel knows three
/// sets of strides: operands past the third must have the third one's shape. Specialization constants: `fn`, those of
/// strided.glsl, then `extra`.
Status emit_strided(Emitter& e, shaders::KernelId kernel, std::uint32_t fn, std::span<const StridedOperand> operands,
                    std::uint32_t extra = 0);

/// The same with the node's first `inputs` inputs as operands.
Status emit_broadcast(Emitter& e, shaders::KernelId kernel, std::uint32_t fn, std::size_t inputs);

}  // namespace graft
