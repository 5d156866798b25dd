// Ops that are written as a few of graft's with a constant: one-hot, hard maximum, triangles, running sums.
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMaxTable = 1 << 12;

HostTensor counting(std::int64_t n) {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(i);
  return HostTensor::of_ints(std::move(values));
}

/// Moves the last axis of a value of `rank` axes to `axis`.
Perm last_to(std::size_t rank, std::size_t axis) {
  Perm perm;
  for (std::size_t i = 0; i + 1 < rank; ++i) perm.push_back(static_cast<std::uint8_t>(i));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::uint8_t>(rank - 1));
  return perm;
}

Status one_hot(NodeContext& c) {
  if (!is_integer(c.type(0))) return unsupported("its indices are ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(const double given, c.number(1, "depth"));
  if (!(given >= 1 && given <= 1 << 20)) return corrupt("its depth is ", given);
  const auto depth = static_cast<std::int64_t>(given);
  if (c.rank(2) != 1 || c.shape(2)[0] != Dim(2))
    return corrupt("its values are ", c.shape(2).text(), " instead of [2]");
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0) + 1));
  if (c.rank(0) + 1 > Shape::kMaxRank) return unsupported("its result has too many axes");
  std::vector<Dim> apart(c.shape(0).begin(), c.shape(0).end());
  apart.push_back(1);
  const ValueId indices = c.reshape(c.in(0), Shape(apart));
  // Negative indices count from the end; what is beyond either end matches nothing.
  HostTensor from_end = counting(depth);
  for (std::int64_t& v : from_end.ints) v -= depth;
  const ValueId hot = c.emit(Op::logical_or, {c.emit(Op::equal, {indices, c.constant(counting(depth))}),
                                              c.emit(Op::equal, {indices, c.constant(from_end)})});
  const auto value = [&](std::int64_t i) {
    const ValueId one = c.emit(Op::slice, {c.in(2)}, {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"steps", Ints{1}}});
    return c.reshape(one, Shape{});
  };
  const ValueId made = c.emit(Op::where, {hot, value(1), value(0)});
  c.out_typed(0, c.transpose(made, last_to(c.rank(0) + 1, axis)), c.type(2));
  return {};
}

/// 1 at the first maximum along the axis; before opset 13 along everything from `axis` on.
Status hardmax(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Shape shape = c.shape(0);
  GRAFT_TRY_ASSIGN(std::size_t axis, c.axis(c.attr("axis", c.opset < 13 ? 1 : -1), shape.rank()));
  ValueId x = c.in(0);
  Dim count = shape[axis];
  if (c.opset < 13) {
    std::vector<Dim> dims(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
    count = 1;
    for (std::size_t i = axis; i < shape.rank(); ++i) {
      const auto product = multiply(count, shape[i]);
      if (!product) return corrupt("its input is too large");
      count = *product;
    }
    dims.push_back(count);
    x = c.reshape(x, Shape(dims));
  }
  if (!count.is_constant() || count.value() > (1 << 20)) return unsupported("its axis has the size ", count.text());
  const ValueId best = c.emit(
      Op::arg_max, {x},
      {{"axis", static_cast<std::int64_t>(axis)}, {"keepdims", std::int64_t{1}}, {"select_last", std::int64_t{0}}});
  std::vector<Dim> places(c.shape_of(x).rank(), Dim(1));
  if (!c.status().ok()) return c.status();
  places[axis] = count;
  const ValueId hot = c.emit(Op::equal, {best, c.reshape(c.constant(counting(count.value())), Shape(places))});
  c.out(0, c.reshape(c.cast(hot, DType::f32), shape));
  return {};
}

/// Sums up to each element: a product with a triangle of ones.
Status cum_sum(NodeContext& c) {
  if (!is_float(c.type(0)))
    return unsupported("its input is ", elem_name(c.type(0)), ", and only floats are supported");
  GRAFT_TRY_ASSIGN(const double given, c.number(1, "axis"));
  if (!(given >= -8 && given < 8)) return corrupt("its axis is ", given);
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(static_cast<std::int64_t>(given), c.rank(0)));
  const Dim& size = c.shape(0)[axis];
  if (!size.is_constant() || size.value() > kMaxTable) {
    return unsupported("its axis has the size ", size.text(), "; constants up to ", kMaxTable, " are supported");
  }
  const std::int64_t n = size.value();
  const bool reverse = c.attr("reverse", 0) != 0;
  const bool exclusive = c.attr("exclusive", 0) != 0;
  std::vector<float> triangle(static_cast<std::size_t>(n * n), 0.0f);
  for (std::int64_t from = 0; from < n; ++from) {
    for (std::int64_t to = 0; to < n; ++to) {
      const bool counts = reverse ? from > to : from < to;
      if (counts || (from == to && !exclusive)) triangle[static_cast<std::size_t>(from * n + to)] = 1.0f;
    }
  }
  Perm to_last;
  for (std::size_t i = 0; i < c.rank(0); ++i) {
    if (i != axis) to_last.push_back(static_cast<std::uint8_t>(i));
  }
  to_last.push_back(static_cast<std::uint8_t>(axis));
  const ValueId x = c.in(0, simplified(to_last));
  std::vector<Dim> rows(c.shape_of(x).begin(), c.shape_of(x).end());
  const ValueId flat = c.rank(0) == 1 ? c.reshape(x, Shape{1, n}) : x;
  const ValueId sums = c.emit(Op::matmul, {flat, c.constant(HostTensor::of_floats({n, n}, std::move(triangle)))},
                              {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{0}}});
  c.out(0, c.reshape(sums, Shape(rows)), to_last);
  return {};
}

Status trilu(NodeContext& c) {
  if (!device_dtype(c.type(0)).ok() || c.type(0) == ElemType::boolean) {
    return unsupported("its input is ", elem_name(c.type(0)));
  }
  std::int64_t k = 0;
  if (c.has(1)) {
    GRAFT_TRY_ASSIGN(const double given, c.number(1, "k"));
    if (given != given) return corrupt("its k is not a number");
    k = static_cast<std::int64_t>(std::clamp(given, -1e9, 1e9));
  }
  const std::size_t rank = c.rank(0);
  if (rank < 2) return corrupt("its input has ", rank, " axes, and at least 2 are needed");
  const Dim& rows = c.shape(0)[rank - 2];
  const Dim& columns = c.shape(0)[rank - 1];
  if (!rows.is_constant() || !columns.is_constant() || rows.value() > kMaxTable || columns.value() > kMaxTable) {
    return unsupported("its matrices are ", rows.text(), " by ", columns.text(), "; constants up to ", kMaxTable,
                       " are supported");
  }
  const bool upper = c.attr("upper", 1) != 0;
  HostTensor mask;
  mask.type = ElemType::boolean;
  mask.dims = {rows.value(), columns.value()};
  for (std::int64_t i = 0; i < mask.dims[0]; ++i) {
    for (std::int64_t j = 0; j < mask.dims[1]; ++j) mask.ints.push_back(upper ? j >= i + k : j <= i + k);
  }
  HostTensor zero = HostTensor::scalar(0);
  if (is_integer(c.type(0))) {
    zero = HostTensor::of_ints({0});
    zero.dims = {};
  }
  c.out(0, c.emit(Op::where, {c.constant(mask), c.in(0), c.constant(zero)}));
  return {};
}

}  // namespace

const RuleEntry kComposedRules[] = {
    {"OneHot", 3, 3, one_hot}, {"Hardmax", 1, 1, hardmax}, {"CumSum", 2, 2, cum_sum},
    {"Trilu", 1, 2, trilu},    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
