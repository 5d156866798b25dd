#include "tools/convert/onnx/nodes/sampling.h"

#include "runtime/core/op_id.gen.h"

namespace graft::convert {

ValueId affine(NodeContext& c, ValueId x, double alpha, double beta) {
  return c.emit(Op::affine, {x}, {{"alpha", alpha}, {"beta", beta}});
}

ValueId scalar(NodeContext& c, double value) { return c.constant(HostTensor::scalar(static_cast<float>(value))); }

ValueId integers(NodeContext& c, std::vector<std::int64_t> dims, std::vector<std::int64_t> values) {
  HostTensor t = HostTensor::of_ints(std::move(values));
  t.type = ElemType::i32;
  t.dims = std::move(dims);
  return c.constant(t);
}

ValueId part_of(NodeContext& c, ValueId x, std::size_t axis, std::int64_t first, std::int64_t last) {
  if (!c.status().ok()) return kNoValue;
  constexpr std::int64_t kAll = 0x7fffffff;
  const std::size_t rank = c.shape_of(x).rank();
  Ints starts(rank, 0), ends(rank, kAll);
  starts[axis] = first;
  ends[axis] = last;
  return c.emit(Op::slice, {x}, {{"starts", starts}, {"ends", ends}, {"steps", Ints(rank, 1)}});
}

ValueId counted(NodeContext& c, const Dim& count, std::size_t behind) {
  std::vector<Dim> dims = {count};
  dims.insert(dims.end(), behind, Dim(1));
  return c.reshape(c.emit(Op::positions, {}, {{"shape", Shape{1, count}}}), Shape(dims));
}

namespace {

/// Into [low, high], back and forth; whatever is far away ends in [low, high] too.
ValueId reflected(NodeContext& c, ValueId x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return affine(c, x, 0, low);
  const ValueId away = c.emit(Op::abs, {affine(c, x, 1, -low)});
  const ValueId turns = c.emit(Op::floor, {affine(c, away, 1 / span, 0)});
  const ValueId rest = c.emit(Op::sub, {away, affine(c, turns, span, 0)});
  const ValueId half = affine(c, turns, 0.5, 0);
  const ValueId odd = c.emit(Op::greater, {c.emit(Op::sub, {half, c.emit(Op::floor, {half})}), scalar(c, 0.25)});
  return c.emit(Op::where, {odd, affine(c, rest, -1, high), affine(c, rest, 1, low)});
}

ValueId limited(NodeContext& c, ValueId x, double low, double high) {
  return c.emit(Op::clip, {x}, {{"min", low}, {"max", high}});
}

/// The same, with a gradient of 0 at low and high too, as PyTorch's grid_sample has it.
ValueId limited_inside(NodeContext& c, ValueId x, double low, double high) {
  const ValueId inside =
      c.emit(Op::logical_and, {c.emit(Op::greater, {x, scalar(c, low)}), c.emit(Op::less, {x, scalar(c, high)})});
  const ValueId above = c.emit(Op::greater, {x, scalar(c, (low + high) / 2)});
  return c.emit(Op::where, {inside, x, c.emit(Op::where, {above, scalar(c, high), scalar(c, low)})});
}

/// The indices of whole positions [.., P, T], and their weights where they count.
Taps finished(NodeContext& c, ValueId at, ValueId weight, std::int64_t count, const SampledAxis& axis) {
  const double last = static_cast<double>(axis.size - 1);
  if (axis.beyond == Beyond::zeros) {
    const ValueId inside = c.emit(
        Op::logical_and, {c.emit(Op::greater, {at, scalar(c, -0.5)}), c.emit(Op::less, {at, scalar(c, last + 0.5)})});
    weight = c.emit(Op::where, {inside, weight, scalar(c, 0)});
  } else if (axis.beyond == Beyond::reflection) {
    at = axis.corners ? reflected(c, at, 0, last) : reflected(c, at, -0.5, last + 0.5);
  }
  return {c.cast(limited(c, at, 0, last), DType::i32), weight, count};
}

/// [.., P] as [.., P, 1].
ValueId apart(NodeContext& c, ValueId x) {
  if (!c.status().ok()) return kNoValue;
  std::vector<Dim> dims(c.shape_of(x).begin(), c.shape_of(x).end());
  dims.push_back(1);
  return c.reshape(x, Shape(dims));
}

ValueId row(NodeContext& c, std::vector<float> numbers) {
  const auto count = static_cast<std::int64_t>(numbers.size());
  return c.constant(HostTensor::of_floats({count}, std::move(numbers)));
}

}  // namespace

ValueId brought_inside(NodeContext& c, ValueId position, const SampledAxis& axis) {
  const double last = static_cast<double>(axis.size - 1);
  if (axis.beyond == Beyond::border) return limited_inside(c, position, 0, last);
  if (axis.beyond != Beyond::reflection) return position;
  return axis.corners ? reflected(c, position, 0, last) : reflected(c, position, -0.5, last + 0.5);
}

Taps nearest_tap(NodeContext& c, ValueId position, const SampledAxis& axis) {
  const ValueId at = brought_inside(c, c.emit(Op::round, {apart(c, position)}), axis);
  if (!c.status().ok()) return {};
  return finished(c, at, c.full(Shape{1}, 1), 1, axis);
}

ValueId linear_weights(NodeContext& c, ValueId rest) {
  return c.emit(Op::add, {c.emit(Op::mul, {rest, row(c, {-1, 1})}), row(c, {1, 0})});
}

ValueId cubic_weights(NodeContext& c, ValueId rest, double a) {
  // Of the distances 1 + t, t, 1 - t and 2 - t, as polynomials in t.
  const auto f = [](double v) { return static_cast<float>(v); };
  const ValueId third = row(c, {f(a), f(a + 2), f(-a - 2), f(-a)});
  const ValueId second = row(c, {f(-2 * a), f(-a - 3), f(2 * a + 3), f(a)});
  const ValueId first = row(c, {f(a), 0, f(-a), 0});
  ValueId weight = c.emit(Op::add, {c.emit(Op::mul, {rest, third}), second});
  weight = c.emit(Op::add, {c.emit(Op::mul, {rest, weight}), first});
  return c.emit(Op::add, {c.emit(Op::mul, {rest, weight}), row(c, {0, 1, 0, 0})});
}

Taps linear_taps(NodeContext& c, ValueId position, const SampledAxis& axis) {
  ValueId x = apart(c, position);
  if (axis.beyond == Beyond::reflection) x = limited_inside(c, x, 0, static_cast<double>(axis.size - 1));
  const ValueId base = c.emit(Op::floor, {x});
  const ValueId weight = linear_weights(c, c.emit(Op::sub, {x, base}));
  return finished(c, c.emit(Op::add, {base, row(c, {0, 1})}), weight, 2, axis);
}

Taps cubic_taps(NodeContext& c, ValueId position, const SampledAxis& axis, double a) {
  const ValueId x = apart(c, position);
  const ValueId base = c.emit(Op::floor, {x});
  const ValueId weight = cubic_weights(c, c.emit(Op::sub, {x, base}), a);
  return finished(c, c.emit(Op::add, {base, row(c, {-1, 0, 1, 2})}), weight, 4, axis);
}

Taps combined(NodeContext& c, const std::vector<Taps>& taps, const std::vector<std::int64_t>& sizes) {
  Taps all = taps[0];
  for (std::size_t k = 1; k < taps.size(); ++k) {
    if (!c.status().ok()) return {};
    // [.., P, a, 1] and [.., P, 1, b].
    const auto spread = [&](ValueId v, std::int64_t outer, std::int64_t inner) {
      std::vector<Dim> dims(c.shape_of(v).begin(), c.shape_of(v).end());
      dims.back() = outer;
      dims.push_back(inner);
      return c.reshape(v, Shape(dims));
    };
    const auto flat = [&](ValueId v) {
      if (!c.status().ok()) return kNoValue;
      std::vector<Dim> dims(c.shape_of(v).begin(), c.shape_of(v).end());
      dims.pop_back();
      dims.back() = all.count * taps[k].count;
      return c.reshape(v, Shape(dims));
    };
    const ValueId outer = c.emit(Op::mul, {spread(all.index, all.count, 1), integers(c, {}, {sizes[k]})});
    const ValueId index = c.emit(Op::add, {outer, spread(taps[k].index, 1, taps[k].count)});
    const ValueId weight =
        c.emit(Op::mul, {spread(all.weight, all.count, 1), spread(taps[k].weight, 1, taps[k].count)});
    all = {flat(index), flat(weight), all.count * taps[k].count};
  }
  return all;
}

ValueId weighed_rows(NodeContext& c, ValueId rows, const Taps& taps) {
  const ValueId picked = c.emit(Op::gather, {rows, taps.index}, {{"axis", std::int64_t{0}}});
  const ValueId weighed = c.emit(Op::mul, {picked, apart(c, taps.weight)});
  if (!c.status().ok()) return kNoValue;
  const auto axis = static_cast<std::int64_t>(c.shape_of(weighed).rank()) - 2;
  return c.emit(Op::reduce_sum, {weighed}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{0}}});
}

}  // namespace graft::convert
