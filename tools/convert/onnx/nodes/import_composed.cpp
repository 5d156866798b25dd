// Ops that are written as a few of graft's: one-hot, hard maximum, triangles, diagonals, running sums.
#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kMaxTable = 1 << 12;

/// Moves the last axis of a value of `rank` axes to `axis`.
Perm last_to(std::size_t rank, std::size_t axis) {
  Perm perm;
  for (std::size_t i = 0; i + 1 < rank; ++i) perm.push_back(static_cast<std::uint8_t>(i));
  perm.insert(perm.begin() + static_cast<std::ptrdiff_t>(axis), static_cast<std::uint8_t>(rank - 1));
  return perm;
}

Status one_hot(NodeContext& c) {
  if (!is_integer(c.type(0)) && !is_float(c.type(0))) return corrupt("its indices are ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(const double given, c.number(1, "depth"));
  if (!(given >= 1 && given <= 1 << 20)) return corrupt("its depth is ", given);
  const auto depth = static_cast<std::int64_t>(given);
  if (c.rank(2) != 1 || c.shape(2)[0] != Dim(2))
    return corrupt("its values are ", c.shape(2).text(), " instead of [2]");
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0) + 1));
  if (c.rank(0) + 1 > Shape::kMaxRank) return unsupported("its result has too many axes");
  std::vector<Dim> apart(c.shape(0).begin(), c.shape(0).end());
  apart.push_back(1);
  const ValueId indices = c.reshape(c.cast(c.in(0), DType::i32), Shape(apart));
  // Negative indices count from the end in ONNX, and match nothing in TFLite, as what is beyond either end does.
  const ValueId places = c.counting(depth);
  ValueId hot = c.emit(Op::equal, {indices, places});
  if (c.node.domain != "tflite") {
    const ValueId from_end = c.emit(Op::sub, {places, c.full(Shape{}, static_cast<double>(depth), DType::i32)});
    hot = c.emit(Op::logical_or, {hot, c.emit(Op::equal, {indices, from_end})});
  }
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
  const ValueId best = c.emit(
      Op::arg_max, {x},
      {{"axis", static_cast<std::int64_t>(axis)}, {"keepdims", std::int64_t{1}}, {"select_last", std::int64_t{0}}});
  std::vector<Dim> places(c.shape_of(x).rank(), Dim(1));
  if (!c.status().ok()) return c.status();
  places[axis] = count;
  const ValueId hot = c.emit(Op::equal, {best, c.reshape(c.counting(count), Shape(places))});
  c.out(0, c.reshape(c.cast(hot, DType::f32), shape));
  return {};
}

Status cumulate(NodeContext& c) {
  if (!is_float(c.type(0)) && !is_integer(c.type(0))) return corrupt("its input is ", elem_name(c.type(0)));
  GRAFT_TRY_ASSIGN(const double given, c.number(1, "axis"));
  if (!(given >= -8 && given < 8)) return corrupt("its axis is ", given);
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(static_cast<std::int64_t>(given), c.rank(0)));
  c.out(0, c.kept_in(c.emit(c.target, {c.in(0)},
                            {{"axis", static_cast<std::int64_t>(axis)},
                             {"exclusive", std::int64_t{c.attr("exclusive", 0) != 0}},
                             {"reverse", std::int64_t{c.attr("reverse", 0) != 0}}}),
                     c.type(0)));
  return {};
}

/// Whether column - row >= k, or the same the other way round, from counted rows and columns.
ValueId triangle_mask(NodeContext& c, const Dim& rows, const Dim& columns, std::int64_t k, Op compare) {
  const ValueId row = c.emit(
      Op::add, {c.reshape(c.counting(rows), Shape{rows, 1}), c.full(Shape{}, static_cast<double>(k), DType::i32)});
  return c.emit(compare, {c.counting(columns), row});
}

Status eye_like(NodeContext& c) {
  if (c.rank(0) != 2) return corrupt("its input has ", c.rank(0), " axes instead of 2");
  const auto type = static_cast<ElemType>(c.attr("dtype", static_cast<std::int64_t>(c.type(0))));
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(type));
  const std::int64_t k = std::clamp<std::int64_t>(c.attr("k", 0), -(1 << 30), 1 << 30);
  c.out_typed(0, c.cast(triangle_mask(c, c.shape(0)[0], c.shape(0)[1], k, Op::equal), dtype), type);
  return {};
}

Status trilu(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(c.type(0)));
  std::int64_t k = 0;
  if (c.has(1)) {
    GRAFT_TRY_ASSIGN(const double given, c.number(1, "k"));
    if (given != given) return corrupt("its k is not a number");
    k = static_cast<std::int64_t>(std::clamp(given, -1e9, 1e9));  // no axis is as long
  }
  const std::size_t rank = c.rank(0);
  if (rank < 2) return corrupt("its input has ", rank, " axes, and at least 2 are needed");
  const Dim& rows = c.shape(0)[rank - 2];
  const Dim& columns = c.shape(0)[rank - 1];
  const bool upper = c.attr("upper", 1) != 0;
  const bool small =
      rows.is_constant() && columns.is_constant() && rows.value() <= kMaxTable && columns.value() <= kMaxTable;
  ValueId inside;
  if (small) {  // what passes recognise as a causal mask
    HostTensor mask;
    mask.type = ElemType::boolean;
    mask.dims = {rows.value(), columns.value()};
    for (std::int64_t i = 0; i < mask.dims[0]; ++i) {
      for (std::int64_t j = 0; j < mask.dims[1]; ++j) mask.ints.push_back(upper ? j >= i + k : j <= i + k);
    }
    inside = c.constant(mask);
  } else {
    inside = triangle_mask(c, rows, columns, k, upper ? Op::greater_equal : Op::less_equal);
  }
  if (dtype == DType::boolean) {
    c.out(0, c.emit(Op::logical_and, {inside, c.in(0)}));
  } else {
    c.out(0, c.emit(Op::where, {inside, c.in(0), c.full(Shape{}, 0, dtype)}));
  }
  return {};
}

}  // namespace

const RuleEntry kComposedRules[] = {
    {"OneHot", 3, 3, one_hot},
    {"tflite.ONE_HOT", 3, 3, one_hot},
    {"Hardmax", 1, 1, hardmax},
    {"CumSum", 2, 2, cumulate, Op::cumsum},
    {"CumProd", 2, 2, cumulate, Op::cumprod},
    {"Trilu", 1, 2, trilu},
    {"EyeLike", 1, 1, eye_like},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
