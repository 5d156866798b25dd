// Axes that are as long as the data decide, carried through ops that keep rows as rows. Behind the last row stand rows
// that are not there: whatever would mix them with others is refused.
#include <algorithm>
#include <map>
#include <set>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/chosen.h"
#include "tools/convert/onnx/proto/onnx_uses.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kEndOfRows = std::numeric_limits<std::int32_t>::max();
using Carried = Result<CountedAxis>;

bool is_counted(const NodeContext& c, std::size_t i) { return c.has(i) && c.record(i).counted.has_value(); }

/// Refuses counted axes of all inputs but the first.
Status only_first(const NodeContext& c) {
  for (std::size_t i = 1; i < c.inputs(); ++i) {
    if (is_counted(c, i)) return refuse_counted(c, i, "only its first input may be so");
  }
  return {};
}

/// The axis that the op works along must be another.
Result<std::size_t> other_axis(const NodeContext& c, std::int64_t given) {
  GRAFT_TRY(only_first(c));
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(given, c.rank(0)));
  if (axis == c.record(0).counted->axis) return refuse_counted(c, 0, "is what it works along");
  return axis;
}

Carried carry_elementwise(NodeContext& c) {
  std::size_t from_end = 0, rank = 0;
  ValueId count;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has(i)) continue;
    rank = std::max(rank, c.rank(i));
    if (!is_counted(c, i)) continue;
    const CountedAxis& own = *c.record(i).counted;
    if (count.valid() && (count != own.count || from_end != c.rank(i) - own.axis)) {
      return refuse_counted(c, i, "is another than that of its other inputs");
    }
    count = own.count;
    from_end = c.rank(i) - own.axis;
  }
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has(i) || is_counted(c, i) || c.rank(i) < from_end) continue;
    if (c.shape(i)[c.rank(i) - from_end] == Dim(1)) continue;
    return unsupported("its input \"", c.node.inputs[i], "\" of shape ", c.shape(i).text(),
                       " has no row for each of those whose number the data decide");
  }
  return CountedAxis{rank - from_end, count};
}

Carried carry_transpose(NodeContext& c) {
  const std::size_t axis = c.record(0).counted->axis;
  const Ints order = c.attr_ints("perm");
  if (order.empty()) return CountedAxis{c.rank(0) - 1 - axis, c.record(0).counted->count};
  const auto at = std::find(order.begin(), order.end(), static_cast<std::int64_t>(axis));
  if (at == order.end()) return corrupt("its perm does not name axis ", axis);
  return CountedAxis{static_cast<std::size_t>(at - order.begin()), c.record(0).counted->count};
}

Carried carry_squeeze(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("axes", 1));
  CountedAxis out = *c.record(0).counted;
  std::set<std::size_t> gone;
  for (std::size_t i = 0; !given && i < c.rank(0); ++i) {
    if (c.shape(0)[i] == Dim(1)) gone.insert(i);
  }
  for (const std::int64_t axis : given.value_or(Ints())) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, c.rank(0)));
    gone.insert(normal);
  }
  if (gone.contains(out.axis)) return refuse_counted(c, 0, "is what it takes away");
  out.axis -= static_cast<std::size_t>(std::distance(gone.begin(), gone.lower_bound(out.axis)));
  return out;
}

Carried carry_unsqueeze(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("axes", 1));
  CountedAxis out = *c.record(0).counted;
  const std::size_t rank = c.rank(0) + given.value_or(Ints()).size();
  std::set<std::size_t> added;
  for (const std::int64_t axis : given.value_or(Ints())) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, rank));
    added.insert(normal);
  }
  for (const std::size_t axis : added) out.axis += axis <= out.axis ? 1 : 0;  // in order
  return out;
}

Carried carry_concat(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t along, c.axis(c.attr("axis", 0), c.rank(0)));
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const Record& record = c.record(i);
    if (!record.counted) {
      return unsupported("its input \"", record.name, "\" has no row for each of those whose number the data decide");
    }
    if (record.counted->axis == along) return refuse_counted(c, i, "is what it works along");
    if (*record.counted != *c.record(0).counted) {
      return refuse_counted(c, i, "is another than that of its other inputs");
    }
  }
  return *c.record(0).counted;
}

/// What is looked up by counted indices, also among counted rows, or other axes of counted rows.
Carried carry_gather(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  if (is_counted(c, 1) && (!is_counted(c, 0) || c.record(0).counted->axis == axis)) {
    const CountedAxis& indices = *c.record(1).counted;
    return CountedAxis{axis + indices.axis, indices.count};
  }
  GRAFT_TRY(other_axis(c, c.attr("axis", 0)).status());
  CountedAxis out = *c.record(0).counted;
  if (axis < out.axis) out.axis = out.axis + c.rank(1) - 1;
  return out;
}

Carried carry_gather_nd(NodeContext& c) {
  if (is_counted(c, 0)) return refuse_counted(c, 0, "is what it picks from");
  const CountedAxis& indices = *c.record(1).counted;
  if (indices.axis + 1 == c.rank(1) || c.attr("batch_dims", 0) != 0) {
    return refuse_counted(c, 1, "is no axis of tuples");
  }
  return indices;
}

Carried carry_gather_elements(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  for (std::size_t i = 0; i < 2; ++i) {
    if (!is_counted(c, i)) {
      if (i == 0 && c.record(1).counted->axis == axis) continue;  // picked from all
      return unsupported("its input \"", c.record(i).name,
                         "\" has no row for each of those whose number the data decide");
    }
    if (i == 0 && c.record(0).counted->axis == axis) return refuse_counted(c, 0, "is what it picks along");
    if (i == 1 && is_counted(c, 0) && *c.record(1).counted != *c.record(0).counted) {
      return refuse_counted(c, 1, "is another than that of its other input");
    }
  }
  return *c.record(1).counted;
}

/// The first rows of those that there are: as many as are asked for, or fewer.
Carried first_rows(NodeContext& c, std::int64_t start, std::int64_t end, std::int64_t step) {
  const CountedAxis& own = *c.record(0).counted;
  const Dim& most = c.shape(0)[own.axis];
  if (start != 0 || step != 1 || end < 0) {
    return refuse_counted(c, 0, cat("is cut from ", start, " to ", end, "; only its first rows can be taken"));
  }
  if (end >= kEndOfRows || (most.is_constant() && end >= most.value())) return own;
  const ValueId wanted = c.full(Shape{}, static_cast<double>(end), DType::i32);
  return CountedAxis{own.axis, c.emit(Op::minimum, {own.count, wanted})};
}

Carried carry_slice(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> starts, c.ints_of("starts", 1));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> ends, c.ints_of("ends", 2));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> axes, c.ints_of("axes", 3));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> steps, c.ints_of("steps", 4));
  if (!starts || !ends || starts->size() != ends->size() || (axes && axes->size() != starts->size()) ||
      (steps && steps->size() != starts->size())) {
    return corrupt("its starts, ends, axes and steps do not fit");
  }
  for (std::size_t i = 0; i < starts->size(); ++i) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), c.rank(0)));
    if (axis == c.record(0).counted->axis) {
      return first_rows(c, (*starts)[i], (*ends)[i], steps ? (*steps)[i] : 1);
    }
  }
  return *c.record(0).counted;
}

Carried carry_split(NodeContext& c) {
  GRAFT_TRY(other_axis(c, c.attr("axis", 0)).status());
  return *c.record(0).counted;
}

std::optional<Dim> product_without(const Shape& shape, std::size_t to, std::size_t without) {
  std::optional<Dim> product = Dim(1);
  for (std::size_t i = 0; i < to; ++i) {
    if (i != without) product = product ? multiply(*product, shape[i]) : product;
  }
  return product;
}

/// The counted axis must stay an axis of its own. The target says it by the size that was asked of the input, copies
/// it, or leaves it open where all other axes hold what a row holds; it must not say it by a number.
Carried carry_reshape(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  constexpr std::size_t kNone = Shape::kMaxRank;
  const CountedAxis& own = *c.record(0).counted;
  const Shape& from = c.shape(0);
  GRAFT_TRY_ASSIGN(std::vector<Dim> dims, c.dims(1, "shape"));
  std::size_t open = kNone, at = kNone;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == Dim(-1)) {
      open = i;
    } else if (c.is_size_of(c.host(1)->dim(i), own)) {
      at = i;
    } else if (dims[i] == Dim(0) && i < from.rank() && c.attr("allowzero", 0) == 0) {
      dims[i] = from[i];
      if (i == own.axis) at = i;
    }
  }
  const Shape to(dims);
  if (at == kNone && open != kNone &&
      product_without(from, from.rank(), own.axis) == product_without(to, to.rank(), open))
    at = open;
  if (at != kNone && (open >= at || open == kNone) &&
      product_without(from, own.axis, kNone) == product_without(to, at, kNone)) {
    return CountedAxis{at, own.count};
  }
  return refuse_counted(c, 0, cat("does not stay an axis of ", to.text()));
}

Carried carry_flatten(NodeContext& c) {
  const CountedAxis& own = *c.record(0).counted;
  if (own.axis == 0 && c.attr("axis", 1) == 1) return own;
  return refuse_counted(c, 0, "does not stay an axis of its own");
}

Carried carry_reduced(NodeContext& c, const Ints& axes) {
  CountedAxis out = *c.record(0).counted;
  std::size_t gone = 0;
  for (const std::int64_t given : axes) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, other_axis(c, given));
    gone += axis < out.axis ? 1 : 0;
  }
  if (c.attr("keepdims", 1) == 0) out.axis -= gone;
  return out;
}

Carried carry_reduce(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::optional<Ints> axes, c.ints_of("axes", 1));
  if (axes.value_or(Ints()).empty()) {
    if (c.attr("noop_with_empty_axes", 0) != 0) return *c.record(0).counted;
    return refuse_counted(c, 0, "is summed up as well");
  }
  return carry_reduced(c, *axes);
}

Carried carry_arg_reduce(NodeContext& c) { return carry_reduced(c, {c.attr("axis", 0)}); }

Carried carry_top_k(NodeContext& c) {
  GRAFT_TRY(other_axis(c, c.attr("axis", -1)).status());
  return *c.record(0).counted;
}

/// Before opset 13 everything from the axis on is one row.
Carried carry_softmax(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, other_axis(c, c.attr("axis", c.opset >= 13 ? -1 : 1)));
  if (c.opset < 13 && c.record(0).counted->axis > axis) return refuse_counted(c, 0, "is what it works along");
  return *c.record(0).counted;
}

/// Rows times a matrix.
Carried carry_matmul(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  const CountedAxis& own = *c.record(0).counted;
  if (own.axis + 1 == c.rank(0)) return refuse_counted(c, 0, "is what it sums over");
  if (c.rank(1) != 2) return refuse_counted(c, 0, cat("meets an operand with ", c.rank(1), " axes instead of 2"));
  return own;
}

Carried carry_gemm(NodeContext& c) {
  GRAFT_TRY(only_first(c));
  const CountedAxis& own = *c.record(0).counted;
  if (own.axis != (c.attr("transA", 0) == 0 ? 0 : 1)) return refuse_counted(c, 0, "is what it sums over");
  if (c.has(2) && c.rank(2) == 2 && c.shape(2)[0] != Dim(1)) {
    return refuse_counted(c, 0, "meets a bias with rows of its own");
  }
  return CountedAxis{0, own.count};
}

using Carry = Carried (*)(NodeContext&);

const std::map<std::string_view, Carry>& carries() {
  static const std::map<std::string_view, Carry> kAll = [] {
    std::map<std::string_view, Carry> all = {
        {"Transpose", carry_transpose},
        {"Squeeze", carry_squeeze},
        {"Unsqueeze", carry_unsqueeze},
        {"Concat", carry_concat},
        {"Gather", carry_gather},
        {"GatherND", carry_gather_nd},
        {"GatherElements", carry_gather_elements},
        {"Slice", carry_slice},
        {"Split", carry_split},
        {"Reshape", carry_reshape},
        {"Flatten", carry_flatten},
        {"ArgMax", carry_arg_reduce},
        {"ArgMin", carry_arg_reduce},
        {"TopK", carry_top_k},
        {"Softmax", carry_softmax},
        {"LogSoftmax", carry_softmax},
        {"MatMul", carry_matmul},
        {"Gemm", carry_gemm},
    };
    for (const char* name : {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
                             "ReduceLogSumExp", "ReduceLogSum", "ReduceSumSquare"}) {
      all.emplace(name, carry_reduce);
    }
    for (const char* name : {"Abs",         "Acos",       "Acosh",      "Add",
                             "And",         "Asin",       "Asinh",      "Atan",
                             "Atanh",       "BitwiseAnd", "BitwiseNot", "BitwiseOr",
                             "BitwiseXor",  "Cast",       "Ceil",       "Celu",
                             "Clip",        "Cos",        "Cosh",       "Div",
                             "Elu",         "Equal",      "Erf",        "Exp",
                             "Floor",       "Gelu",       "Greater",    "GreaterOrEqual",
                             "HardSigmoid", "HardSwish",  "Identity",   "IsInf",
                             "IsNaN",       "LeakyRelu",  "Less",       "LessOrEqual",
                             "Log",         "Max",        "Mean",       "Min",
                             "Mish",        "Mod",        "Mul",        "Neg",
                             "Not",         "Or",         "PRelu",      "Pow",
                             "Reciprocal",  "Relu",       "Round",      "Selu",
                             "Sigmoid",     "Sign",       "Sin",        "Sinh",
                             "Softplus",    "Softsign",   "Sqrt",       "Sub",
                             "Sum",         "Tan",        "Tanh",       "ThresholdedRelu",
                             "Where",       "Xor"}) {
      all.emplace(name, carry_elementwise);
    }
    return all;
  }();
  return kAll;
}

}  // namespace

Status refuse_counted(const NodeContext& c, std::size_t i, std::string_view why) {
  const Record& record = c.record(i);
  return unsupported("of its input \"", record.name, "\", ", record.shape.text(), ", axis ", record.counted->axis,
                     " is as long as the data decide, and ", why);
}

Result<std::optional<CountedAxis>> carried_count(NodeContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!is_counted(c, i)) continue;
    if (is_one_of(c.node.kind(), {"NonMaxSuppression", "NonZero"})) break;  // they see what is there
    const auto carry = carries().find(c.node.kind());
    if (carry == carries().end()) return refuse_counted(c, i, "the op does not keep its rows apart");
    GRAFT_TRY_ASSIGN(const CountedAxis axis, carry->second(c));
    return std::optional(axis);
  }
  return std::optional<CountedAxis>();
}

}  // namespace graft::convert
