// Ops that move elements: concat, split, slice, pad, gather.
#include <algorithm>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kBeforeFirst = std::numeric_limits<std::int32_t>::min();

/// One range per axis; by default all of it.
struct Ranges {
  explicit Ranges(std::size_t rank) : starts(rank, 0), ends(rank, kToEnd), steps(rank, 1) {}
  Ints starts, ends, steps;
  std::vector<Dim> begins, stops;  ///< places that are symbols; kToEnd where the numbers hold, and empty where all do
};

ValueId slice_of(NodeContext& c, ValueId x, const Ranges& r) {
  Attrs attrs = {{"starts", r.starts}, {"ends", r.ends}, {"steps", r.steps}};
  if (!r.begins.empty()) attrs.set("begins", Shape(r.begins));
  if (!r.stops.empty()) attrs.set("stops", Shape(r.stops));
  return c.emit(Op::slice, {x}, std::move(attrs));
}

Status concat(NodeContext& c) {
  const std::size_t rank = c.rank(0);
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 1), rank));
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (!c.has(i)) return corrupt("its input ", i, " is missing");
    if (c.rank(i) != rank) return corrupt("its inputs have ", rank, " and ", c.rank(i), " axes");
    if (c.type(i) != c.type(0)) {
      return corrupt("its inputs are ", elem_name(c.type(0)), " and ", elem_name(c.type(i)));
    }
  }
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    const Dim& size = c.shape(i)[axis];
    if (size == Dim(0)) continue;  // adds nothing
    inputs.push_back(c.in(i));
  }
  if (inputs.size() == 1) {
    c.out(0, inputs[0]);
    return {};
  }
  c.out(0, c.emit(Op::concat, inputs, {{"axis", static_cast<std::int64_t>(axis)}}));
  return {};
}

/// Of an axis that is a symbol: equal parts. Whether nothing is left over is seen once the symbol is bound.
Status split_open(NodeContext& c, std::size_t axis) {
  const Shape& x = c.shape(0);
  const auto count = static_cast<std::int64_t>(c.node.outputs.size());
  const auto exact = divide_exactly(x[axis], Dim(count));
  const auto part = exact || count < 1 ? exact : divide_floor(x[axis], count);
  const bool sizes = c.has(1) || c.has_attr("split");
  if (sizes || !part || x.rank() == Shape::kMaxRank || c.attr("num_outputs", count) != count) {
    return unsupported("it splits the symbolic axis ", x[axis].text(), "; bind it (--bind NAME=SIZE)");
  }
  std::vector<Dim> apart = x.dims(), one = x.dims();
  apart[axis] = Dim(count);
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis) + 1, *part);
  one[axis] = *part;
  const ValueId parts = c.reshape(c.in(0), Shape(apart));
  Ranges ranges(apart.size());
  for (std::int64_t k = 0; k < count; ++k) {
    if (!c.wants(static_cast<std::size_t>(k))) continue;
    ranges.starts[axis] = k;
    ranges.ends[axis] = k + 1;
    c.out(static_cast<std::size_t>(k), c.reshape(slice_of(c, parts, ranges), Shape(one)));
  }
  return {};
}

Status split(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  const Dim& size = c.shape(0)[axis];
  if (!size.is_constant()) return split_open(c, axis);
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("split", 1));
  Ints parts;
  if (given) {
    parts = *given;
  } else {
    const auto count = static_cast<std::int64_t>(c.node.outputs.size());
    if (count < 1 || c.attr("num_outputs", count) != count) return corrupt("its num_outputs is not ", count);
    const std::int64_t part = (size.value() + count - 1) / count;
    for (std::int64_t i = 0; i < count; ++i) parts.push_back(std::min(part, size.value() - i * part));
  }
  std::int64_t total = 0;
  for (const std::int64_t part : parts) {
    if (part < 0 || part > size.value()) return corrupt("it splits off ", part, " of ", size.value());
    total += part;
  }
  if (parts.size() != c.node.outputs.size() || total != size.value()) {
    return corrupt("its ", c.node.outputs.size(), " outputs do not add up to axis ", axis, " of size ", size.value());
  }
  Ranges ranges(c.rank(0));
  std::int64_t at = 0;
  for (std::size_t k = 0; k < parts.size(); at += parts[k++]) {
    if (!c.wants(k)) continue;
    ranges.starts[axis] = at;
    ranges.ends[axis] = at + parts[k];
    if (parts.size() == 1) {
      c.alias(k, 0);
    } else {
      c.out(k, slice_of(c, c.in(0), ranges));
    }
  }
  return {};
}

/// Brings one axis' start, end and step into bounds as the specification says.
Status clamp_range(std::int64_t size, std::int64_t& start, std::int64_t& end, std::int64_t& step) {
  if (start < 0) start += size;
  if (end < 0 && end >= -size) {
    end += size;
  } else if (end < -size) {
    end = -1;
  }
  if (step > 0) {
    start = std::clamp<std::int64_t>(start, 0, size);
    end = std::clamp<std::int64_t>(end, start, size);
    return {};
  }
  if (size == 0) {
    start = 0;
    end = 0;
    step = 1;
    return {};
  }
  start = std::clamp<std::int64_t>(start, 0, size - 1);
  end = std::clamp<std::int64_t>(end, -1, size - 1);
  if (start <= end) {  // nothing
    end = start;
    step = 1;
    return {};
  }
  if (end == -1) end = kBeforeFirst;
  return {};
}

/// Starts and ends may be sizes of other tensors.
Result<std::vector<Dim>> slice_places(NodeContext& c, const char* name, std::size_t input) {
  if (c.opset >= 10 && c.has(input)) return c.dims(input, name);
  GRAFT_TRY_ASSIGN(const std::optional<Ints> places, c.ints_of(name, input));
  if (!places) return corrupt("its ", name, " are missing");
  return std::vector<Dim>(places->begin(), places->end());
}

/// From the last element of an axis that is a symbol to its first.
ValueId reversed(NodeContext& c, ValueId x, std::size_t axis) {
  const ValueId places = c.emit(Op::cumsum, {c.full(Shape{c.shape(0)[axis]}, 1, DType::i32)},
                                {{"exclusive", std::int64_t{1}}, {"reverse", std::int64_t{1}}});
  return c.emit(Op::gather, {x, places}, {{"axis", static_cast<std::int64_t>(axis)}});
}

std::vector<Dim>& opened(std::vector<Dim>& places, std::size_t rank) {
  if (places.empty()) places.assign(rank, Dim(kToEnd));
  return places;
}

Status slice(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::vector<Dim> begins, slice_places(c, "starts", 1));
  GRAFT_TRY_ASSIGN(const std::vector<Dim> stops, slice_places(c, "ends", 2));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> axes, c.ints_of("axes", 3));
  GRAFT_TRY_ASSIGN(const std::optional<Ints> steps, c.ints_of("steps", 4));
  if (begins.size() != stops.size() || (axes && axes->size() != begins.size()) ||
      (steps && steps->size() != begins.size()) || begins.size() > c.rank(0)) {
    return corrupt("its starts, ends, axes and steps differ in length or exceed the ", c.rank(0), " axes of its input");
  }
  Ranges ranges(c.rank(0));
  std::vector<std::size_t> turned;
  bool whole = true;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(axes ? (*axes)[i] : static_cast<std::int64_t>(i), c.rank(0)));
    const Dim& size = c.shape(0)[axis];
    const bool from_symbol = !begins[i].is_constant(), to_symbol = !stops[i].is_constant();
    std::int64_t start = from_symbol ? 0 : begins[i].value(), end = to_symbol ? kToEnd : stops[i].value();
    std::int64_t step = steps ? (*steps)[i] : 1;
    if (step == 0 || step > kToEnd || step < -kToEnd) return corrupt("its step is ", step);
    if (!size.is_constant() || from_symbol || to_symbol) {
      if (!from_symbol && start == 0 && end >= kToEnd && step == 1 && (!to_symbol || stops[i] == size)) continue;
      if (!from_symbol && !to_symbol && step == -1 && (start == -1 || start >= kToEnd) && end <= -kToEnd) {
        turned.push_back(axis);
        continue;
      }
      if (step < 1 || start < -kToEnd || start > kToEnd || end < -kToEnd) {
        return unsupported("it takes a part of the symbolic axis ", size.text(), "; bind it (--bind NAME=SIZE)");
      }
      ranges.starts[axis] = start;
      ranges.ends[axis] = std::min(end, kToEnd);
      ranges.steps[axis] = step;
      if (from_symbol) opened(ranges.begins, c.rank(0))[axis] = begins[i];
      if (to_symbol && stops[i] != size) opened(ranges.stops, c.rank(0))[axis] = stops[i];
      whole = false;
      continue;
    }
    start = std::max<std::int64_t>(start, -kToEnd);
    end = std::max<std::int64_t>(end, -kToEnd);
    GRAFT_TRY(clamp_range(size.value(), start, end, step));
    if (start == 0 && end == size.value() && step == 1) continue;
    ranges.starts[axis] = start;
    ranges.ends[axis] = end;
    ranges.steps[axis] = step;
    whole = false;
  }
  if (whole && turned.empty()) {
    c.alias(0, 0);
    return {};
  }
  ValueId x = c.in(0);
  for (const std::size_t axis : turned) x = reversed(c, x, axis);
  c.out(0, whole ? x : slice_of(c, x, ranges));
  return {};
}

Status emit_pad(NodeContext& c, const Ints& pads, const std::string& mode, double value) {
  c.out(0, c.emit(Op::pad, {c.in(0)}, {{"pads", pads}, {"mode", mode}, {"value", value}}));
  return {};
}

/// Around its ends the tensor goes on with itself: along each axis its elements by index. Negative pads crop first, as
/// in ONNX Runtime: what is left is wrapped.
Status wrap_pad(NodeContext& c, const Ints& pads) {
  const std::size_t rank = c.rank(0);
  ValueId x = c.in(0);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const std::int64_t before = pads[axis], after = pads[axis + rank];
    if (before == 0 && after == 0) continue;
    const Dim& dim = c.shape(0)[axis];
    if (!dim.is_constant())
      return unsupported("it pads the symbolic axis ", dim.text(), "; bind it (--bind NAME=SIZE)");
    const std::int64_t size = dim.value(), all = before + size + after;
    const std::int64_t first = std::max<std::int64_t>(0, -before);
    const std::int64_t left = size + std::min<std::int64_t>(before, 0) + std::min<std::int64_t>(after, 0);
    if (left < 1 || all < 0 || all > (1 << 24)) return corrupt("it pads an axis of ", size, " to ", all);
    std::vector<std::int64_t> from;
    const std::int64_t shift = std::max<std::int64_t>(before, 0);
    for (std::int64_t i = 0; i < all; ++i) from.push_back(first + (((i - shift) % left) + left) % left);
    x = c.emit(Op::gather, {x, c.constant(HostTensor::of_ints(std::move(from)))},
               {{"axis", static_cast<std::int64_t>(axis)}});
  }
  c.out(0, x);
  return {};
}

/// Pads that are symbols: so many of the value before and behind.
Status pad_open(NodeContext& c, const std::vector<Dim>& pads, double value) {
  const std::size_t rank = c.rank(0);
  ValueId x = c.in(0);
  if (!c.status().ok()) return c.status();
  const DType dtype = c.dtype_of(x);
  Ints numbers(2 * rank, 0);
  for (std::size_t axis = 0; axis < rank; ++axis) {
    const auto part = [&](const Dim& size) {
      Shape shape = c.shape_of(x);
      shape[axis] = size;
      return c.full(shape, value, dtype);
    };
    std::vector<ValueId> parts;
    for (const std::size_t end : {axis, axis + rank}) {
      if (pads[end].is_constant()) {
        numbers[end] = pads[end].value();
      } else {
        parts.push_back(part(pads[end]));
      }
      if (end == axis) parts.push_back(x);
    }
    if (parts.size() > 1) x = c.emit(Op::concat, parts, {{"axis", static_cast<std::int64_t>(axis)}});
    if (!c.status().ok()) return c.status();
  }
  if (numbers != Ints(2 * rank, 0)) {
    x = c.emit(Op::pad, {x}, {{"pads", numbers}, {"mode", std::string("constant")}, {"value", value}});
  }
  c.out(0, x);
  return {};
}

/// A value that the model computes goes where a padded tensor of ones has zeros.
Status pad_computed(NodeContext& c, const Ints& pads) {
  const auto padded = [&](ValueId x) {
    return c.emit(Op::pad, {x}, {{"pads", pads}, {"mode", std::string("constant")}, {"value", 0.0}});
  };
  const ValueId inside = c.emit(Op::equal, {padded(c.full(c.shape(0), 1, DType::i32)), c.full(Shape{}, 1, DType::i32)});
  c.out(0, c.emit(Op::where, {inside, padded(c.in(0)), c.reshape(c.in(2), Shape{})}));
  return {};
}

Result<std::vector<Dim>> read_pads(NodeContext& c) {
  if (c.opset >= 11 && c.has(1)) return c.dims(1, "pads");
  GRAFT_TRY_ASSIGN(const std::optional<Ints> given, c.ints_of("pads", 1));
  if (!given) return corrupt("its pads are missing");
  return std::vector<Dim>(given->begin(), given->end());
}

Status pad(NodeContext& c) {
  const std::string mode = c.attr_text("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap") {
    return corrupt("its mode is \"", mode, "\"");
  }
  GRAFT_TRY_ASSIGN(const std::vector<Dim> given, read_pads(c));
  double value = c.attr_number("value", 0);
  const bool computed = c.opset >= 11 && c.has(2) && c.host(2) == nullptr;
  if (c.opset >= 11 && c.has(2) && !computed) {
    GRAFT_TRY_ASSIGN(value, c.number(2, "value"));
  }
  const std::size_t rank = c.rank(0);
  std::vector<Dim> sizes(2 * rank, Dim(0));
  Ints axes;
  if (c.has(3)) {
    GRAFT_TRY_ASSIGN(axes, c.ints(3, "axes"));
  } else {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (given.size() != 2 * axes.size()) return corrupt("it has ", given.size(), " pads for ", axes.size(), " axes");
  for (std::size_t i = 0; i < axes.size(); ++i) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(axes[i], rank));
    sizes[axis] = given[i];
    sizes[axis + rank] = given[i + axes.size()];
  }
  Ints pads;
  bool open = false;
  for (const Dim& p : sizes) {
    open |= !p.is_constant();
    pads.push_back(p.is_constant() ? p.value() : 0);
    if (pads.back() > kToEnd || pads.back() < -kToEnd) return corrupt("it pads by ", pads.back());
  }
  if (open && (mode != "constant" || computed)) {
    return unsupported("its pads depend on a symbolic dimension in the mode \"", mode,
                       "\"; bind it (--bind NAME=SIZE)");
  }
  if (open) return pad_open(c, sizes, value);
  if (mode == "wrap") return wrap_pad(c, pads);
  if (computed && mode == "constant") return pad_computed(c, pads);
  return emit_pad(c, pads, mode, value);
}

Status center_crop_pad(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const Ints wanted, c.ints(1, "shape"));
  const std::size_t rank = c.rank(0);
  Ints axes = c.attr_ints("axes");
  if (axes.empty()) {
    for (std::size_t i = 0; i < rank; ++i) axes.push_back(static_cast<std::int64_t>(i));
  }
  if (axes.size() != wanted.size()) return corrupt("it has ", wanted.size(), " sizes for ", axes.size(), " axes");
  Ints pads(2 * rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(axes[i], rank));
    const Dim& size = c.shape(0)[axis];
    if (!size.is_constant()) return unsupported("it crops the symbolic axis ", size.text());
    if (wanted[i] < 1 || wanted[i] > kToEnd) return corrupt("its size ", wanted[i], " is out of range");
    const std::int64_t more = wanted[i] - size.value();
    // Cropping drops floor(n / 2) first, padding adds floor(n / 2) first.
    pads[axis] = more < 0 ? -((-more) / 2) : more / 2;
    pads[axis + rank] = more - pads[axis];
  }
  return emit_pad(c, pads, "constant", 0);
}

/// One constant index is a slice: a view-like copy with a cheap gradient.
bool gather_one(NodeContext& c, std::size_t axis) {
  const HostTensor* indices = c.host(1);
  if (!indices || indices->symbolic() || indices->count() != 1 || !is_integer(c.type(1))) return false;
  if (c.rank(1) > 1) return false;
  std::int64_t index = indices->ints[0];
  if (const Dim& dim = c.shape(0)[axis]; dim.is_constant()) {
    if (index < 0) index += dim.value();
    if (index < 0 || index >= dim.value()) return false;
  } else if (index < -kToEnd || index >= kToEnd) {
    return false;
  }
  Ranges ranges(c.rank(0));
  ranges.starts[axis] = index;
  ranges.ends[axis] = index == -1 ? kToEnd : index + 1;
  const ValueId part = slice_of(c, c.in(0), ranges);
  std::vector<Dim> dims;
  for (std::size_t i = 0; i < c.rank(0); ++i) {
    if (i != axis) dims.push_back(c.shape(0)[i]);
    if (i == axis && c.rank(1) == 1) dims.push_back(1);
  }
  c.out(0, c.reshape(part, Shape(std::move(dims))));
  return true;
}

Status gather(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, c.axis(c.attr("axis", 0), c.rank(0)));
  if (c.type(1) != ElemType::i32 && c.type(1) != ElemType::i64)
    return corrupt("its indices are ", elem_name(c.type(1)));
  if (gather_one(c, axis)) return {};
  if (const HostTensor* indices = c.host(1); indices && !indices->symbolic() && c.shape(0)[axis].is_constant()) {
    const std::int64_t size = c.shape(0)[axis].value();
    for (const std::int64_t i : indices->ints) {
      if (i < -size || i >= size) return corrupt("its index ", i, " is outside axis ", axis, " of size ", size);
    }
  }
  ValueId at = c.in(1);
  if (const auto& rows = c.record(0).counted; rows && rows->axis == axis) {  // below 0: from the last that is there
    const ValueId negative = c.emit(Op::less, {at, c.full(Shape{}, 0, DType::i32)});
    at = c.emit(Op::where, {negative, c.emit(Op::add, {at, rows->count}), at});
  }
  c.out(0, c.emit(Op::gather, {c.in(0), at}, {{"axis", static_cast<std::int64_t>(axis)}}));
  return {};
}

/// Both rearrange blocks: [N, C, H, W] in six axes, transposed, and back in four.
Status blocks(NodeContext& c) {
  if (c.rank(0) != 4) return corrupt("its input has ", c.rank(0), " axes instead of 4");
  const std::int64_t b = c.attr("blocksize", 0);
  if (b < 1 || b > (1 << 12)) return corrupt("its blocksize is ", b);
  const Shape in = c.shape(0);
  const auto part = [&](const Dim& dim, std::int64_t by) { return divide_exactly(dim, Dim(by)); };
  const auto times = [&](const Dim& dim, std::int64_t by) { return multiply(dim, Dim(by)); };
  if (c.node.op == "DepthToSpace") {
    const auto depth = part(in[1], b * b), height = times(in[2], b), width = times(in[3], b);
    if (!depth || !height || !width) return corrupt("its ", in[1].text(), " channels are no multiple of ", b * b);
    const std::string mode = c.attr_text("mode", "DCR");
    if (mode != "DCR" && mode != "CRD") return corrupt("its mode is \"", mode, "\"");
    const bool depth_first = mode == "DCR";
    const Shape six = depth_first ? Shape{in[0], b, b, *depth, in[2], in[3]} : Shape{in[0], *depth, b, b, in[2], in[3]};
    const Perm order = depth_first ? Perm{0, 3, 4, 1, 5, 2} : Perm{0, 1, 4, 2, 5, 3};
    c.out(0, c.reshape(c.transpose(c.reshape(c.in(0), six), order), Shape{in[0], *depth, *height, *width}));
    return {};
  }
  const auto depth = times(in[1], b * b), height = part(in[2], b), width = part(in[3], b);
  if (!depth || !height || !width) return corrupt("its ", in.text(), " image cannot be cut into blocks of ", b);
  const Shape six{in[0], in[1], *height, b, *width, b};
  c.out(0, c.reshape(c.transpose(c.reshape(c.in(0), six), {0, 3, 5, 1, 2, 4}), Shape{in[0], *depth, *height, *width}));
  return {};
}

}  // namespace

const RuleEntry kMoveRules[] = {
    {"Concat", 1, 4096, concat},    {"Split", 1, 2, split},
    {"Slice", 1, 5, slice},         {"Pad", 1, 4, pad},
    {"Gather", 2, 2, gather},       {"CenterCropPad", 2, 2, center_crop_pad},
    {"DepthToSpace", 1, 1, blocks}, {"SpaceToDepth", 1, 1, blocks},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
