// slice: every step-th element along each axis, also backwards; slice_grad puts a cotangent back among zeros.
#include <algorithm>
#include <limits>

#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"

namespace graft::ops::slice {
namespace {

/// Of an axis that is a symbol still, starts and ends below 0 count from its end, and "begins" and "stops" hold starts
/// and ends that are symbols (others are kToEnd there); binding makes numbers in "starts" and "ends" of all.
constexpr AttrSpec kAttrs[] = {attr::integers("starts").needed(), attr::integers("ends").needed(),
                               attr::integers("steps").needed(), attr::shape("begins"), attr::shape("stops")};
constexpr AttrSpec kGradAttrs[] = {attr::shape("shape").needed(), attr::integers("starts").needed(),
                                   attr::integers("ends").needed(), attr::integers("steps").needed()};
constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kToBegin = std::numeric_limits<std::int32_t>::min();

/// How many elements of an axis of `size` elements [start, end) with `step` takes.
Result<std::int64_t> sliced_size(std::int64_t size, std::int64_t start, std::int64_t end, std::int64_t step) {
  if (step == 0 || step > kToEnd || step < -kToEnd) {
    return invalid("has the step ", step, "; it must not be 0 and fit 32 bits.");
  }
  const bool forward = step > 0;
  if (start < (forward ? 0 : -1) || start > (forward ? size : size - 1)) {
    return invalid("starts at ", start, ", outside of its ", size, " elements.");
  }
  if (end == kToEnd) end = size;
  if (end == kToBegin) end = -1;
  if (end < (forward ? 0 : -1) || end > size) return invalid("ends at ", end, ", outside of its ", size, " elements.");
  const std::int64_t span = forward ? end - start : start - end;
  const std::int64_t stride = forward ? step : -step;
  return span <= 0 ? 0 : (span + stride - 1) / stride;
}

/// The same where the size, the start or the end is a symbol.
Result<Dim> sliced_dim(const Dim& size, const Dim& start, std::int64_t end, std::int64_t step, const Dim& stop) {
  if (step < 1 || step > kToEnd)
    return invalid("has the step ", step, "; along a symbol only forward steps are known.");
  const auto from = start.is_constant() && start.value() < 0 ? add(size, start) : start;
  const auto to = stop != Dim(kToEnd) ? stop : end == kToEnd ? size : end < 0 ? add(size, Dim(end)) : Dim(end);
  const auto span = from && to ? subtract(*to, *from) : std::nullopt;
  const auto room = span ? add(*span, Dim(step - 1)) : std::nullopt;
  const auto count = room ? divide_floor(*room, step) : std::nullopt;
  if (!count || (count->is_constant() && count->value() < 0)) {
    return invalid("from ", start.text(), " to ", stop != Dim(kToEnd) ? stop.text() : cat(end),
                   " cannot be written; bind ", size.text(), " first.");
  }
  return *count;
}

/// The attribute of starts or ends that are symbols; kToEnd for each axis where there is none.
Result<Shape> open_places(const Shape& x, const Attrs& attrs, std::string_view name) {
  if (!attrs.has(name)) return Shape(std::vector<Dim>(x.rank(), Dim(kToEnd)));
  Shape places = attrs.shape(name);
  if (places.rank() == x.rank()) return places;
  return invalid("The attribute \"", name, "\" has ", places.rank(), " entries; the sliced shape has ", x.rank(),
                 " axes.");
}

Result<Shape> sliced_shape(const Shape& x, const Attrs& attrs) {
  const Ints starts = attrs.integers("starts");
  const Ints ends = attrs.integers("ends");
  const Ints steps = attrs.integers("steps");
  if (starts.size() != x.rank() || ends.size() != x.rank() || steps.size() != x.rank()) {
    return invalid("The attributes \"starts\", \"ends\" and \"steps\" have ", starts.size(), ", ", ends.size(), " and ",
                   steps.size(), " entries; the sliced shape ", x.text(), " has ", x.rank(), " axes.");
  }
  GRAFT_TRY_ASSIGN(const Shape begins, open_places(x, attrs, "begins"));
  GRAFT_TRY_ASSIGN(const Shape stops, open_places(x, attrs, "stops"));
  std::vector<Dim> dims;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    const Dim &begin = begins[axis], &stop = stops[axis];
    const bool open = begin != Dim(kToEnd) || stop != Dim(kToEnd);
    if (starts[axis] == 0 && ends[axis] == kToEnd && steps[axis] == 1 && !open) {
      dims.push_back(x[axis]);
      continue;
    }
    if (!x[axis].is_constant() || open) {
      const Dim start = begin == Dim(kToEnd) ? Dim(starts[axis]) : begin;
      auto size = sliced_dim(x[axis], start, ends[axis], steps[axis], stop);
      if (!size.ok()) return invalid("The slice of axis ", axis, " of ", x.text(), " ", size.status().message());
      dims.push_back(*size);
      continue;
    }
    auto size = sliced_size(x[axis].value(), starts[axis], ends[axis], steps[axis]);
    if (!size.ok()) return invalid("The slice of axis ", axis, " of ", x.text(), " ", size.status().message());
    dims.emplace_back(*size);
  }
  return Shape(std::move(dims));
}

Status infer(InferContext& c) {
  GRAFT_TRY_ASSIGN(Shape out, sliced_shape(c.shape(0), c.attrs()));
  c.output(c.dtype(0), std::move(out));
  return ok_status();
}

/// The whole tensor's side of the copy: where the slice begins in it, and its strides.
struct Walk {
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
};

Walk walk(const std::vector<std::int64_t>& whole, const Attrs& attrs) {
  const Ints starts = attrs.integers("starts");
  const Ints steps = attrs.integers("steps");
  Walk w{row_major_strides(whole)};
  for (std::size_t axis = 0; axis < whole.size(); ++axis) {
    w.offset += starts[axis] * w.strides[axis];
    w.strides[axis] *= steps[axis];
  }
  return w;
}

Status emit(Emitter& e) {
  GRAFT_TRY(expect_words(e.in_dtype(0)));
  const auto sizes = e.out_shape().values();
  Walk from = walk(e.in_shape(0).values(), e.attrs());
  return emit_strided_copy(e, e.in(0), e.out(),
                           {sizes, std::move(from.strides), row_major_strides(sizes), from.offset, 0});
}

Status vjp(VjpContext& c) {
  Attrs attrs = c.attrs();
  attrs.set("shape", c.in_shape(0));
  c.grad(0, c.b.node(Op::slice_grad, {c.dy()}, std::move(attrs)));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  const Shape whole = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(whole).with_context("In the attribute \"shape\""));
  GRAFT_TRY_ASSIGN(const Shape part, sliced_shape(whole, c.attrs()));
  GRAFT_TRY(c.expect_shape(0, part));
  c.output(c.dtype(0), whole);
  return ok_status();
}

Status emit_grad(Emitter& e) {
  GRAFT_TRY(expect_words(e.in_dtype(0)));
  const std::uint64_t count = e.out_shape().elements();
  const auto sizes = e.in_shape(0).values();
  if (e.in_shape(0).elements() < count) GRAFT_TRY(emit_fill(e, e.out(), count, 0));
  Walk to = walk(e.out_shape().values(), e.attrs());
  return emit_strided_copy(e, e.in(0), e.out(), {sizes, row_major_strides(sizes), std::move(to.strides), 0, to.offset});
}

Status vjp_grad(VjpContext& c) {
  const Attrs& a = c.attrs();
  c.grad(0, c.b.node(Op::slice, {c.dy()},
                     {{"starts", a.integers("starts")}, {"ends", a.integers("ends")}, {"steps", a.integers("steps")}}));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_slice, op_slice_grad;
const OpDef op_slice = {
    .name = "slice", .attrs = kAttrs, .infer = infer, .emit = emit, .gradient = vjp, .flops = no_flops};
const OpDef op_slice_grad = {.name = "slice_grad",
                             .attrs = kGradAttrs,
                             .infer = infer_grad,
                             .emit = emit_grad,
                             .gradient = vjp_grad,
                             .flops = no_flops};

}  // namespace graft::ops::slice
