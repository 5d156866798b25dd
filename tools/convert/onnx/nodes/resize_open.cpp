// Resizing along an axis whose size is a symbol: where each result comes from is computed on the device, and the
// source's elements there are picked and weighed.
#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/nodes/interpolation.h"
#include "tools/convert/onnx/nodes/sampling.h"

namespace graft::convert {
namespace {

ValueId number(NodeContext& c, const Dim& size) { return c.cast(c.size(size), DType::f32); }

/// Source positions [out] as floats.
Result<ValueId> positions(NodeContext& c, const Interpolation& how, const OpenResize& axis) {
  const ValueId at = c.cast(c.counting(axis.out), DType::f32);
  if (how.coordinates == "align_corners") {
    const auto last_in = subtract(axis.in, Dim(1)), last_out = subtract(axis.out, Dim(1));
    if (!last_in || !last_out) return unsupported("its sizes cannot be written; bind them (--bind NAME=SIZE)");
    const ValueId whole = c.emit(Op::maximum, {number(c, *last_out), c.full(Shape{}, 1)});
    return c.emit(Op::div, {c.emit(Op::mul, {at, number(c, *last_in)}), whole});
  }
  const bool halves = how.coordinates == "half_pixel" || how.coordinates == "pytorch_half_pixel";
  if (!halves && how.coordinates != "asymmetric") {
    return unsupported("it resizes a symbolic axis in the mode ", how.coordinates, "; bind it (--bind NAME=SIZE)");
  }
  const double shift = halves ? 0.5 : 0.0;
  if (axis.scale != 0) return affine(c, at, 1 / axis.scale, shift / axis.scale - shift);
  const ValueId scaled = c.emit(Op::mul, {affine(c, at, 1, shift), number(c, axis.in)});
  return affine(c, c.emit(Op::div, {scaled, number(c, axis.out)}), 1, -shift);
}

/// Which element is nearest, in whole numbers: a float may fall on the wrong side.
Result<ValueId> nearest(NodeContext& c, const Interpolation& how, const OpenResize& axis) {
  if (how.coordinates != "asymmetric" || how.nearest != "floor") {
    return unsupported("it resizes a symbolic axis in the mode ", how.coordinates, " to the nearest by ", how.nearest,
                       "; bind it (--bind NAME=SIZE)");
  }
  constexpr double kParts = 64;  // scales of open axes are so many parts of a whole
  const auto parts = static_cast<std::int64_t>(axis.scale * kParts);
  const ValueId times = c.size(axis.scale == 0 ? axis.in : Dim(static_cast<std::int64_t>(kParts)));
  const ValueId by = c.size(axis.scale == 0 ? axis.out : Dim(parts));
  return c.emit(Op::div, {c.emit(Op::mul, {c.counting(axis.out), times}), by});
}

}  // namespace

Result<ValueId> resize_open_axis(NodeContext& c, ValueId x, std::size_t place, const Interpolation& how,
                                 const OpenResize& axis) {
  if (!c.status().ok()) return c.status();
  const std::size_t rank = c.shape_of(x).rank();
  const auto last = subtract(axis.in, Dim(1));
  if (how.antialias || how.exclude_outside || !last) {
    return unsupported("it resizes a symbolic axis in this mode; bind it (--bind NAME=SIZE)");
  }
  const ValueId first = c.full(Shape{}, 0, DType::i32), end = c.size(*last);
  const auto picked = [&](ValueId index) {
    const ValueId inside = c.emit(Op::minimum, {c.emit(Op::maximum, {index, first}), end});
    return c.emit(Op::gather, {x, inside}, {{"axis", static_cast<std::int64_t>(place)}});
  };
  if (how.mode == Interpolation::Mode::nearest) {
    GRAFT_TRY_ASSIGN(const ValueId index, nearest(c, how, axis));
    return picked(index);
  }
  GRAFT_TRY_ASSIGN(const ValueId at, positions(c, how, axis));
  const ValueId base = c.emit(Op::floor, {at}), left = c.cast(base, DType::i32);
  const bool cubic = how.mode == Interpolation::Mode::cubic;
  const ValueId column = c.reshape(c.emit(Op::sub, {at, base}), Shape{axis.out, 1});
  const ValueId weights = cubic ? cubic_weights(c, column, how.cubic_a) : linear_weights(c, column);
  std::vector<Dim> along(rank - place, Dim(1));
  along[0] = axis.out;
  ValueId sum;
  const std::int64_t taps = cubic ? 4 : 2;
  for (std::int64_t k = 0; k < taps && c.status().ok(); ++k) {
    const std::int64_t step = k - (cubic ? 1 : 0);
    const ValueId element = picked(step == 0 ? left : c.emit(Op::add, {left, c.size(Dim(step))}));
    const ValueId weight = c.reshape(part_of(c, weights, 1, k, k + 1), Shape(along));
    const ValueId part = c.emit(Op::mul, {element, weight});
    sum = sum.valid() ? c.emit(Op::add, {sum, part}) : part;
  }
  return sum;
}

}  // namespace graft::convert
