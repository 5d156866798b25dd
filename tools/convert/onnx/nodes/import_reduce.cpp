// Reductions and softmax.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

struct ReduceName {
  std::string_view onnx;
  Op before, reduce, after;  // Op::count_: nothing
};
constexpr ReduceName kReduce[] = {
    {"ReduceSum", Op::count_, Op::reduce_sum, Op::count_},
    {"ReduceMean", Op::count_, Op::reduce_mean, Op::count_},
    {"ReduceMax", Op::count_, Op::reduce_max, Op::count_},
    {"ReduceMin", Op::count_, Op::reduce_min, Op::count_},
    {"ReduceProd", Op::count_, Op::reduce_prod, Op::count_},
    {"ReduceL1", Op::count_, Op::reduce_l1, Op::count_},
    {"ReduceL2", Op::count_, Op::reduce_l2, Op::count_},
    {"ReduceLogSumExp", Op::count_, Op::reduce_logsumexp, Op::count_},
    {"ReduceSumSquare", Op::square, Op::reduce_sum, Op::count_},
    {"ReduceLogSum", Op::count_, Op::reduce_sum, Op::log},
};

/// What a reduction over no elements gives.
Status reduce_nothing(NodeContext& c, const ReduceName& entry, const std::vector<std::size_t>& axes, bool keep) {
  GRAFT_TRY_ASSIGN(const DType dtype, device_dtype(c.type(0)));
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const bool smallest = entry.reduce == Op::reduce_max, largest = entry.reduce == Op::reduce_min;
  double value = entry.reduce == Op::reduce_prod ? 1 : 0;
  if (entry.reduce == Op::reduce_mean) value = std::numeric_limits<double>::quiet_NaN();
  if (entry.after == Op::log || entry.reduce == Op::reduce_logsumexp) value = -kInfinity;
  if (smallest || largest) {
    const auto range = integer_range(c.type(0));
    const double high = dtype == DType::f32 ? kInfinity
                        : range             ? static_cast<double>(std::min<std::int64_t>(range->high, INT32_MAX))
                                            : 1;
    const double low = dtype == DType::f32 ? -kInfinity
                       : range             ? static_cast<double>(std::max<std::int64_t>(range->low, INT32_MIN))
                                           : 0;
    value = smallest ? low : high;
  }
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < c.rank(0); ++i) {
    const bool gone = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!gone) dims.push_back(c.shape(0)[i]);
    if (gone && keep) dims.emplace_back(1);
  }
  c.out(0, c.full(Shape(std::move(dims)), value, dtype));
  return {};
}

Status reduce(NodeContext& c) {
  const auto entry =
      std::find_if(std::begin(kReduce), std::end(kReduce), [&](const ReduceName& r) { return r.onnx == c.node.op; });
  const std::size_t rank = c.rank(0);
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("axes", 1));
  std::vector<std::size_t> axes;
  for (const std::int64_t axis : given.value_or(Ints())) {
    GRAFT_TRY_ASSIGN(const std::size_t normal, c.axis(axis, rank));
    if (std::find(axes.begin(), axes.end(), normal) == axes.end()) axes.push_back(normal);
  }
  const bool keep = c.attr("keepdims", 1) != 0;
  const bool noop = c.attr("noop_with_empty_axes", 0) != 0, nothing = noop && axes.empty();
  if (axes.empty() && !nothing) {
    axes.resize(rank);
    std::iota(axes.begin(), axes.end(), std::size_t{0});
  }
  if (!nothing && std::any_of(axes.begin(), axes.end(), [&](std::size_t i) { return c.shape(0)[i] == Dim(0); })) {
    return reduce_nothing(c, *entry, axes, keep);
  }
  ValueId x = c.in(0);
  const bool boolean = c.type(0) == ElemType::boolean;
  if (boolean) x = c.cast(x, DType::i32);
  if (entry->before != Op::count_) x = c.emit(entry->before, {x});
  Ints at;
  for (const std::size_t axis : axes) at.push_back(static_cast<std::int64_t>(axis));
  std::sort(at.begin(), at.end());
  // Without axes, L1, L2 and LogSumExp of single elements still have to be computed: over an axis of size 1.
  const bool single = axes.empty() && entry->reduce != Op::reduce_sum && entry->reduce != Op::reduce_mean &&
                      entry->reduce != Op::reduce_prod;
  if (single) {
    std::vector<Dim> dims(c.shape_of(x).begin(), c.shape_of(x).end());
    dims.push_back(1);
    at = {static_cast<std::int64_t>(dims.size()) - 1};
    x = c.reshape(x, Shape(std::move(dims)));
  }
  if (!at.empty()) {
    x = c.emit(entry->reduce, {x}, {{"axes", at}, {"keepdims", std::int64_t{keep && !single}}});
  } else if (entry->before == Op::count_ && entry->after == Op::count_) {
    if (!boolean) {
      c.alias(0, 0);
      return {};
    }
  }
  if (entry->after != Op::count_) x = c.emit(entry->after, {x});
  if (boolean) x = c.cast(x, DType::boolean);
  c.out(0, c.kept_in(x, c.type(0)));
  return {};
}

Status arg(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  const bool keep = c.attr("keepdims", 1) != 0;
  const ValueId y = c.emit(c.node.op == "ArgMax" ? Op::arg_max : Op::arg_min, {c.in(0)},
                           {{"axis", static_cast<std::int64_t>(axis)},
                            {"keepdims", std::int64_t{keep}},
                            {"select_last", std::int64_t{c.attr("select_last_index", 0) != 0}}});
  c.out_typed(0, y, ElemType::i64);
  return {};
}

/// Before opset 13 softmax ran over everything from `axis` on.
Status softmax(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Op op = c.node.op == "Softmax" ? Op::softmax : Op::log_softmax;
  const bool flat = c.opset < 13;
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", flat ? 1 : -1), c.rank(0)));
  bool tail_of_ones = true;
  for (std::size_t i = axis + 1; i < c.rank(0); ++i) tail_of_ones &= c.shape(0)[i] == Dim(1);
  if (!flat || tail_of_ones) {
    c.out(0, c.emit(op, {c.in(0)}, {{"axis", static_cast<std::int64_t>(axis)}}));
    return {};
  }
  const Shape shape = c.shape(0);
  std::vector<Dim> dims(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(axis));
  Dim rest(1);
  for (std::size_t i = axis; i < shape.rank(); ++i) {
    const auto product = multiply(rest, shape[i]);
    if (!product) return corrupt("its input ", shape.text(), " is too large");
    rest = *product;
  }
  dims.push_back(rest);
  const ValueId rows = c.reshape(c.in(0), Shape(std::move(dims)));
  c.out(0, c.reshape(c.emit(op, {rows}, {{"axis", static_cast<std::int64_t>(axis)}}), shape));
  return {};
}

}  // namespace

const RuleEntry kReduceRules[] = {
    {"ReduceSum", 1, 2, reduce},
    {"ReduceMean", 1, 2, reduce},
    {"ReduceMax", 1, 2, reduce},
    {"ReduceMin", 1, 2, reduce},
    {"ReduceProd", 1, 2, reduce},
    {"ReduceL1", 1, 2, reduce},
    {"ReduceL2", 1, 2, reduce},
    {"ReduceLogSumExp", 1, 2, reduce},
    {"ReduceSumSquare", 1, 2, reduce},
    {"ReduceLogSum", 1, 2, reduce},
    {"ArgMax", 1, 1, arg},
    {"ArgMin", 1, 1, arg},
    {"Softmax", 1, 1, softmax},
    {"LogSoftmax", 1, 1, softmax},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
