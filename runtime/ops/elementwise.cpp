#include "runtime/ops/elementwise.h"

#include <algorithm>

namespace graft {
namespace {

constexpr std::uint64_t kWord = 4;  // bytes of an element

// The stride of each axis of `operand` when it is broadcast to `out`, outermost first; 0 where it is repeated.
std::vector<std::uint64_t> broadcast_strides(const Shape& out, const Shape& operand) {
  std::vector<std::uint64_t> strides(out.rank(), 0);
  std::uint64_t stride = 1;
  for (std::size_t i = 0; i < operand.rank(); ++i) {
    const std::size_t axis = operand.rank() - 1 - i;
    const auto dim = static_cast<std::uint64_t>(operand[axis].value());
    if (dim != 1) strides[out.rank() - 1 - i] = stride;
    stride *= dim;
  }
  return strides;
}

// Whether four neighbouring output elements are four neighbours (or one) of each operand throughout. A single axis
// may have a remainder, which the kernel does singly.
bool vectorizes(const StridedLayout& layout) {
  for (const auto& strides : layout.strides) {
    if (strides[0] > 1) return false;
    for (std::size_t axis = 1; axis < layout.rank; ++axis) {
      if (strides[0] == 1 && strides[axis] % 4 != 0) return false;
    }
  }
  return layout.rank == 1 || layout.dims[0] % 4 == 0;
}

// Elements of an operand from the first to the last that the layout reaches.
std::uint64_t operand_extent(const StridedLayout& layout, std::size_t operand) {
  std::uint64_t extent = 1;
  for (std::size_t axis = 0; axis < layout.rank; ++axis) {
    extent += (layout.dims[axis] - 1) * layout.strides[operand][axis];
  }
  return extent;
}

push::StridedPush make_push(const StridedLayout& layout, bool vector, std::uint64_t count, std::uint32_t* splat) {
  push::StridedPush push = {};
  push.count = static_cast<std::uint32_t>(vector ? count / 4 : count);
  for (std::size_t axis = 0; axis < 7; ++axis) {
    const std::uint64_t per_unit = vector && axis == 0 && layout.rank > 1 ? 4 : 1;
    push.dims[axis] = static_cast<std::uint32_t>(layout.dims[axis] / per_unit);
  }
  std::uint32_t* const tables[] = {push.strides_a, push.strides_b, push.strides_c};
  for (std::size_t operand = 0; operand < std::min<std::size_t>(layout.strides.size(), 3); ++operand) {
    const auto& strides = layout.strides[operand];
    if (strides[0] == 0) *splat |= 1u << operand;
    for (std::size_t axis = 0; axis < layout.rank; ++axis) {
      const std::uint64_t per_unit = vector && axis > 0 && strides[0] == 1 ? 4 : 1;
      tables[operand][axis] = static_cast<std::uint32_t>(strides[axis] / per_unit);
    }
  }
  return push;
}

}  // namespace

std::uint64_t max_bound_elements(const gpu::Caps& caps) {
  const std::uint64_t bytes = std::min<std::uint64_t>(caps.max_storage_buffer_range, 128ull << 20);
  return bytes / kWord / 64 * 64;
}

Binding element_range(Binding binding, std::uint64_t first, std::uint64_t count) {
  binding.slot.offset += first * kWord;
  binding.slot.size = count * kWord;
  return binding;
}

StridedLayout strided_layout(const Shape& out, std::span<const Shape> operands) {
  std::vector<std::vector<std::uint64_t>> full;
  for (const Shape& operand : operands) full.push_back(broadcast_strides(out, operand));
  StridedLayout layout;
  layout.strides.resize(operands.size());
  for (std::size_t axis = out.rank(); axis-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(out[axis].value());
    if (dim == 1) continue;
    bool merges = layout.rank > 0;
    for (std::size_t i = 0; i < operands.size() && merges; ++i) {
      const std::size_t inner = layout.rank - 1;
      merges = full[i][axis] == layout.strides[i][inner] * layout.dims[inner];
    }
    if (merges) {
      layout.dims[layout.rank - 1] *= dim;
      continue;
    }
    layout.dims[layout.rank] = dim;
    for (std::size_t i = 0; i < operands.size(); ++i) layout.strides[i][layout.rank] = full[i][axis];
    ++layout.rank;
  }
  if (layout.rank == 0) {  // one element
    layout.rank = 1;
    layout.dims[0] = 1;
    for (auto& strides : layout.strides) strides[0] = 1;
  }
  return layout;
}

Status emit_strided(Emitter& e, shaders::KernelId kernel, std::uint32_t fn, std::span<const StridedOperand> operands,
                    std::uint32_t extra) {
  const std::uint64_t total = e.out_shape().elements();
  if (total == 0) return ok_status();
  GRAFT_TRY(count32(total, "The output"));
  std::vector<Shape> shapes;
  for (const StridedOperand& operand : operands) shapes.push_back(operand.shape);
  StridedLayout layout = strided_layout(e.out_shape(), shapes);

  // Parts along the outermost axis, so that no binding exceeds the limit; 64 elements keep offsets aligned.
  const std::size_t outer = layout.rank - 1;
  const std::uint64_t outer_dim = layout.dims[outer];
  const std::uint64_t inner = total / outer_dim;
  const std::uint64_t limit = max_bound_elements(e.caps());
  const std::uint64_t step = total <= limit ? outer_dim : limit / inner / 64 * 64;
  if (step == 0) {
    return unsupported("The output of shape ", e.out_shape().text(), " cannot be split into parts of at most ", limit,
                       " elements, the limit of one binding on this device.");
  }
  for (std::uint64_t first = 0; first < outer_dim; first += step) {
    layout.dims[outer] = std::min(step, outer_dim - first);
    const bool vector = vectorizes(layout);
    std::uint32_t splat = 0;
    const push::StridedPush push = make_push(layout, vector, inner * layout.dims[outer], &splat);
    std::vector<Binding> bindings;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const std::uint64_t extent = operand_extent(layout, i);
      if (extent > limit) {
        return unsupported("Operand ", i, " of shape ", shapes[i].text(), " exceeds ", limit,
                           " elements, the limit of one binding on this device.");
      }
      bindings.push_back(element_range(operands[i].binding, first * layout.strides[i][outer], extent));
    }
    bindings.push_back(element_range(e.out(), first * inner, inner * layout.dims[outer]));
    e.dispatch(kernel, {fn, layout.rank, vector, splat, extra}, std::move(bindings), push,
               e.spread(push.count / kVectorsPerWorkgroup + 1));
  }
  return ok_status();
}

Status emit_broadcast(Emitter& e, shaders::KernelId kernel, std::uint32_t fn, std::size_t inputs) {
  std::vector<StridedOperand> operands;
  for (std::size_t i = 0; i < inputs; ++i) operands.push_back({e.in(i), e.in_shape(i)});
  return emit_strided(e, kernel, fn, operands);
}

}  // namespace graft
