// Ops that pick and write elements by index.
#include <algorithm>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kNoIndex = std::numeric_limits<std::int32_t>::min();

Status expect_indices(const NodeContext& c, std::size_t i) {
  if (c.type(i) == ElemType::i32 || c.type(i) == ElemType::i64) return {};
  return corrupt("its indices are ", elem_name(c.type(i)));
}

/// Where the indices are known, one that is out of range is an error; elsewhere it gives not-a-number.
Status expect_range(const NodeContext& c, std::size_t i, const Dim& size) {
  const HostTensor* indices = c.host(i);
  if (indices == nullptr || indices->symbolic() || !size.is_constant()) return {};
  for (const std::int64_t index : indices->ints) {
    if (index < -size.value() || index >= size.value()) {
      return corrupt("its index ", index, " is outside an axis of size ", size.value());
    }
  }
  return {};
}

Result<Dim> size_of_axes(const Shape& shape, std::size_t from, std::size_t to) {
  return Shape(std::vector<Dim>(shape.begin() + static_cast<std::ptrdiff_t>(from),
                                shape.begin() + static_cast<std::ptrdiff_t>(to)))
      .element_count();
}

/// The first `size` elements of each axis but one, where that is less.
Result<ValueId> cropped(NodeContext& c, ValueId x, const Shape& to, std::size_t axis) {
  const Shape from = c.shape_of(x);
  Ints starts(from.rank(), 0), ends(from.rank(), std::numeric_limits<std::int32_t>::max()), steps(from.rank(), 1);
  bool whole = true;
  for (std::size_t i = 0; i < from.rank(); ++i) {
    if (i == axis || from[i] == to[i]) continue;
    if (!from[i].is_constant() || !to[i].is_constant() || to[i].value() > from[i].value()) {
      return unsupported("its indices ", to.text(), " reach beyond its data ", from.text(),
                         ", or symbols hide whether");
    }
    ends[i] = to[i].value();
    whole = false;
  }
  return whole ? x : c.emit(Op::slice, {x}, {{"starts", starts}, {"ends", ends}, {"steps", steps}});
}

Status gather_elements(NodeContext& c) {
  GRAFT_TRY(expect_indices(c, 1));
  if (c.rank(0) != c.rank(1)) return corrupt("its data and indices have ", c.rank(0), " and ", c.rank(1), " axes");
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  GRAFT_TRY(expect_range(c, 1, c.shape(0)[axis]));
  GRAFT_TRY_ASSIGN(const ValueId data, cropped(c, c.in(0), c.shape(1), axis));
  c.out(0, c.emit(Op::gather_elements, {data, c.in(1)}, {{"axis", static_cast<std::int64_t>(axis)}}));
  return {};
}

/// Numbers of rows from tuples of indices, which input `i` ends with.
Result<ValueId> row_numbers(NodeContext& c, std::size_t i, std::size_t batches) {
  GRAFT_TRY(expect_indices(c, i));
  const Shape& indices = c.shape(i);
  if (indices.rank() == 0 || !indices.back().is_constant()) return corrupt("its indices are ", indices.text());
  const auto size = static_cast<std::size_t>(indices.back().value());
  if (size == 0 || batches + size > c.rank(0) || batches >= indices.rank()) {
    return corrupt("its tuples of ", size, " indices do not fit data of shape ", c.shape(0).text());
  }
  const auto first = c.shape(0).begin() + static_cast<std::ptrdiff_t>(batches);
  const Shape dims(std::vector<Dim>(first, first + static_cast<std::ptrdiff_t>(size)));
  return c.emit(Op::nd_index, {c.in(i)}, {{"dims", dims}, {"batches", static_cast<std::int64_t>(batches)}});
}

Status gather_nd(NodeContext& c) {
  const std::int64_t batches = c.attr("batch_dims", 0);
  if (batches < 0 || batches >= std::min<std::int64_t>(std::ssize(c.shape(0).dims()), std::ssize(c.shape(1).dims()))) {
    return corrupt("its batch_dims is ", batches);
  }
  const auto leading = static_cast<std::size_t>(batches);
  for (std::size_t i = 0; i < leading; ++i) {
    if (c.shape(0)[i] != c.shape(1)[i]) return corrupt("its batch axes differ in size");
  }
  GRAFT_TRY_ASSIGN(const ValueId numbers, row_numbers(c, 1, leading));
  const Shape data = c.shape(0);
  const std::size_t named = leading + static_cast<std::size_t>(c.shape(1).back().value());
  GRAFT_TRY_ASSIGN(const Dim rows, size_of_axes(data, 0, named));
  std::vector<Dim> dims = {rows};
  dims.insert(dims.end(), data.begin() + static_cast<std::ptrdiff_t>(named), data.end());
  c.out(0, c.emit(Op::gather, {c.reshape(c.in(0), Shape(dims)), numbers}, {{"axis", std::int64_t{0}}}));
  return {};
}

/// Truth values are written as integers.
ValueId scatter(NodeContext& c, ValueId data, ValueId indices, ValueId updates, std::int64_t axis,
                const std::string& reduction) {
  const bool truth = c.dtype_of(data) == DType::boolean;
  if (truth) {
    data = c.cast(data, DType::i32);
    updates = c.cast(updates, DType::i32);
  }
  const ValueId y = c.emit(Op::scatter_elements, {data, indices, updates}, {{"axis", axis}, {"reduction", reduction}});
  return truth ? c.cast(y, DType::boolean) : c.kept_in(y, c.type(0));
}

Result<std::string> reduction_of(const NodeContext& c) {
  const std::string reduction = c.attr_text("reduction", "none");
  for (const char* known : {"none", "add", "mul", "min", "max"}) {
    if (reduction == known) return reduction;
  }
  return corrupt("its reduction is \"", reduction, "\"");
}

/// Indices and updates that cover a corner of the data are padded; an index that is no index writes nothing.
Result<ValueId> padded(NodeContext& c, ValueId x, const Shape& to, std::size_t axis, double value) {
  const Shape from = c.shape_of(x);
  Ints pads(2 * from.rank(), 0);
  bool whole = true;
  for (std::size_t i = 0; i < from.rank(); ++i) {
    if (i == axis || from[i] == to[i]) continue;
    if (!from[i].is_constant() || !to[i].is_constant() || from[i].value() > to[i].value()) {
      return unsupported("its indices ", from.text(), " reach beyond its data ", to.text(),
                         ", or symbols hide whether");
    }
    pads[from.rank() + i] = to[i].value() - from[i].value();
    whole = false;
  }
  if (whole) return x;
  return c.emit(Op::pad, {x}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", value}});
}

Status scatter_elements(NodeContext& c) {
  GRAFT_TRY(expect_indices(c, 1));
  if (c.rank(1) != c.rank(0) || c.shape(2) != c.shape(1) || c.type(2) != c.type(0)) {
    return corrupt("its data, indices and updates do not fit: ", c.shape(0).text(), ", ", c.shape(1).text(), " and ",
                   c.shape(2).text());
  }
  GRAFT_TRY_ASSIGN(const std::string reduction, reduction_of(c));
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  GRAFT_TRY(expect_range(c, 1, c.shape(0)[axis]));
  GRAFT_TRY_ASSIGN(const ValueId indices, padded(c, c.in(1), c.shape(0), axis, static_cast<double>(kNoIndex)));
  GRAFT_TRY_ASSIGN(const ValueId updates, padded(c, c.in(2), c.shape(0), axis, 0));
  c.out(0, scatter(c, c.in(0), indices, updates, static_cast<std::int64_t>(axis), reduction));
  return {};
}

Status scatter_nd(NodeContext& c) {
  if (c.type(2) != c.type(0)) return corrupt("its data and updates differ in type");
  GRAFT_TRY_ASSIGN(const std::string reduction, reduction_of(c));
  GRAFT_TRY_ASSIGN(const ValueId numbers, row_numbers(c, 1, 0));
  const Shape data = c.shape(0), indices = c.shape(1);
  const auto named = static_cast<std::size_t>(indices.back().value());
  std::vector<Dim> expected(indices.begin(), indices.end() - 1);
  expected.insert(expected.end(), data.begin() + static_cast<std::ptrdiff_t>(named), data.end());
  if (Shape(expected) != c.shape(2)) {
    return corrupt("its updates are ", c.shape(2).text(), " instead of ", Shape(expected).text());
  }
  GRAFT_TRY_ASSIGN(const Dim rows, size_of_axes(data, 0, named));
  GRAFT_TRY_ASSIGN(const Dim columns, size_of_axes(data, named, data.rank()));
  GRAFT_TRY_ASSIGN(const Dim writes, size_of_axes(indices, 0, indices.rank() - 1));
  const ValueId y = scatter(c, c.reshape(c.in(0), Shape{rows, columns}), c.reshape(numbers, Shape{writes, 1}),
                            c.reshape(c.in(2), Shape{writes, columns}), 0, reduction);
  c.out(0, c.reshape(y, data));
  return {};
}

Status top_k(NodeContext& c) {
  std::int64_t k = c.attr("k", -1);
  if (c.has(1)) {
    GRAFT_TRY_ASSIGN(const double given, c.number(1, "k"));
    if (!(given >= 0 && given <= 1e9)) return corrupt("its k is ", given);
    k = static_cast<std::int64_t>(given);
  }
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -1), c.rank(0)));
  const ValueId x = c.in(0);
  const ValueId indices = c.emit(
      Op::top_k, {x},
      {{"k", k}, {"axis", static_cast<std::int64_t>(axis)}, {"smallest", std::int64_t{c.attr("largest", 1) == 0}}});
  c.out(0, c.emit(Op::gather_elements, {x, indices}, {{"axis", static_cast<std::int64_t>(axis)}}));
  c.out_typed(1, indices, ElemType::i64);
  return {};
}

/// x[.., t, ..] is x[.., length - 1 - t, ..] as long as t is below the sample's length.
Status reverse_sequence(NodeContext& c) {
  const std::int64_t time = c.attr("time_axis", 0), batch = c.attr("batch_axis", 1);
  if (c.rank(0) < 2 || time + batch != 1 || time * batch != 0) {
    return corrupt("its time_axis ", time, " and batch_axis ", batch, " are not 0 and 1");
  }
  GRAFT_TRY(expect_indices(c, 1));
  const Shape shape = c.shape(0);
  const Dim steps = shape[static_cast<std::size_t>(time)], samples = shape[static_cast<std::size_t>(batch)];
  const Shape row = time == 0 ? Shape{steps, 1} : Shape{1, steps};
  const Shape column = time == 0 ? Shape{1, samples} : Shape{samples, 1};
  const ValueId at = c.reshape(c.counting(steps), row);
  const ValueId lengths = c.reshape(c.in(1), column);
  const ValueId one = c.full(Shape{}, 1, DType::i32);
  const ValueId mirrored = c.emit(Op::sub, {c.emit(Op::sub, {lengths, one}), at});
  const ValueId from = c.emit(Op::where, {c.emit(Op::less, {at, lengths}), mirrored, at});
  GRAFT_TRY_ASSIGN(const Dim rest, size_of_axes(shape, 2, shape.rank()));
  const Shape flat{shape[0], shape[1], rest};
  const ValueId indices =
      c.expand(c.reshape(from, Shape{shape[0], shape[1], 1}), time == 0 ? flat : Shape{shape[0], shape[1], 1});
  const ValueId y = c.emit(Op::gather_elements, {c.reshape(c.in(0), flat), indices}, {{"axis", time}});
  c.out(0, c.reshape(y, shape));
  return {};
}

/// Keys or values written into a cache, each sample from its own position on.
Status tensor_scatter(NodeContext& c) {
  const std::string mode = c.attr_text("mode", "linear");
  if (mode != "linear" && mode != "circular") return corrupt("its mode is \"", mode, "\"");
  const Shape cache = c.shape(0), update = c.shape(1);
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", -2), cache.rank()));
  if (axis == 0 || update.rank() != cache.rank()) return corrupt("its axis is ", axis);
  std::vector<Dim> dims(cache.begin(), cache.end()), first(cache.rank(), Dim(1)), along(cache.rank(), Dim(1));
  for (std::size_t i = axis; i < cache.rank(); ++i) dims[i] = 1;
  dims[axis] = along[axis] = update[axis];
  first[0] = cache[0];
  ValueId at = c.reshape(c.counting(update[axis]), Shape(along));
  if (c.has(2)) at = c.emit(Op::add, {at, c.reshape(c.in(2), Shape(first))});
  if (mode == "circular") {
    if (!cache[axis].is_constant()) return unsupported("its cache has the symbolic axis ", cache[axis].text());
    at = c.emit(Op::remainder, {at, c.full(Shape{}, static_cast<double>(cache[axis].value()), DType::i32)},
                {{"fmod", std::int64_t{0}}});
  }
  c.out(0, scatter(c, c.in(0), c.expand(at, Shape(dims)), c.in(1), static_cast<std::int64_t>(axis), "none"));
  return {};
}

}  // namespace

const RuleEntry kIndexRules[] = {
    {"GatherElements", 2, 2, gather_elements},
    {"GatherND", 2, 2, gather_nd},
    {"Scatter", 3, 3, scatter_elements},
    {"ScatterElements", 3, 3, scatter_elements},
    {"ScatterND", 3, 3, scatter_nd},
    {"TopK", 1, 2, top_k},
    {"ReverseSequence", 2, 2, reverse_sequence},
    {"TensorScatter", 2, 3, tensor_scatter},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
