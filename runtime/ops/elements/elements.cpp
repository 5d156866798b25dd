// gather_elements and scatter_elements: single elements picked and written along an axis. nd_index: tuples of indices
// as numbers of rows, which gather and scatter_elements then take.
#include <array>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elements/reductions.h"
#include "runtime/ops/movement.h"
#include "shaders/elements/gather_elements_push.h"
#include "shaders/elements/nd_index_push.h"
#include "shaders/elements/scatter_elements_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::elements {
namespace {

constexpr AttrSpec kGather[] = {attr::integer("axis"), attr::integer("zero_miss")};
constexpr AttrSpec kScatter[] = {attr::integer("axis"), attr::text("reduction", "none")};
constexpr AttrSpec kNdIndex[] = {attr::shape("dims").needed(), attr::integer("batches")};
constexpr std::uint64_t kWorkgroup = 128;  // local_size_x of the kernels
constexpr std::uint32_t kNan = 0x7fc00000u;
constexpr std::uint64_t kMostIndices = std::numeric_limits<std::int32_t>::max();

/// Shapes differ along the axis alone; behind it the indices may have axes of size 1 only: an index for each run.
Status expect_lines(const Shape& data, const Shape& indices, std::size_t axis) {
  bool same = indices.rank() == data.rank(), single = same;
  for (std::size_t i = 0; same && i < axis; ++i) same = single = indices[i] == data[i];
  for (std::size_t i = axis + 1; i < data.rank() && (same || single); ++i) {
    same = same && indices[i] == data[i];
    single = single && indices[i] == Dim(1);
  }
  if (same || single) return ok_status();
  return invalid("Indices of shape ", indices.text(), " do not fit data of shape ", data.text(), " along axis ", axis,
                 ": all other axes must be equal, or those behind it 1.");
}

Shape with_axis(const Shape& shape, std::size_t axis, const Dim& size) {
  std::vector<Dim> dims(shape.begin(), shape.end());
  dims[axis] = size;
  return Shape(std::move(dims));
}

Status infer_gather(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  GRAFT_TRY(expect_words(c.dtype(0)));
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()));
  GRAFT_TRY(expect_lines(c.shape(0), c.shape(1), axis));
  c.output(c.dtype(0), with_axis(c.shape(0), axis, c.shape(1)[axis]));
  return ok_status();
}

Status infer_scatter(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  GRAFT_TRY(expect_words(c.dtype(0)));
  GRAFT_TRY(c.expect_dtype(2, c.dtype(0)));
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()));
  GRAFT_TRY(expect_lines(c.shape(0), c.shape(1), axis));
  GRAFT_TRY(c.expect_shape(2, with_axis(c.shape(0), axis, c.shape(1)[axis])));
  GRAFT_TRY_ASSIGN(const Reduction reduction, reduction_of(c.attrs()));
  if (reduction != Reduction::none && c.dtype(0) == DType::boolean) {
    return invalid("Truth values are written as they are (reduction none), not combined.");
  }
  c.output(c.dtype(0), c.shape(0));
  return ok_status();
}

struct Lines {
  std::uint32_t axis_size, picks, inner, index_inner;
};

Result<Lines> lines_of(const Shape& data, const Shape& indices, const Attrs& attrs) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(attrs.integer("axis"), data.rank()));
  const std::uint64_t size = data.elements(axis, axis + 1);
  if (size > kMostIndices) return unsupported("Axis ", axis, " of ", data.text(), " is longer than 2^31 - 1.");
  GRAFT_TRY(count32(data.elements(), "data"));
  GRAFT_TRY(count32(indices.elements(), "indices"));
  return Lines{static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(indices.elements(axis, axis + 1)),
               static_cast<std::uint32_t>(data.elements(axis + 1, data.rank())),
               static_cast<std::uint32_t>(indices.elements(axis + 1, indices.rank()))};
}

Status emit_gather(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const Lines lines, lines_of(e.in_shape(0), e.in_shape(1), e.attrs()));
  const bool not_a_number = e.in_dtype(0) == DType::f32 && !e.attrs().flag("zero_miss");
  push::GatherElementsPush push{.axis_size = lines.axis_size,
                                .picks = lines.picks,
                                .inner = lines.inner,
                                .index_inner = lines.index_inner,
                                .miss = not_a_number ? kNan : 0};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "gathered result"));
  e.dispatch(shaders::KernelId::gather_elements__w32, {}, {e.in(0), e.in(1), e.out()}, push,
             e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Status emit_scatter(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  if (e.in_shape(1).elements() == 0) return emit_copy(e, e.in(0), e.out(), count);
  GRAFT_TRY_ASSIGN(const Lines lines, lines_of(e.in_shape(0), e.in_shape(1), e.attrs()));
  GRAFT_TRY_ASSIGN(const Reduction reduction, reduction_of(e.attrs()));
  push::ScatterElementsPush push{
      .axis_size = lines.axis_size, .picks = lines.picks, .inner = lines.inner, .index_inner = lines.index_inner};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "result"));
  const bool floats = e.in_dtype(0) == DType::f32;
  e.dispatch(floats ? shaders::KernelId::scatter_elements__f32 : shaders::KernelId::scatter_elements__i32,
             {static_cast<std::uint32_t>(reduction)}, {e.in(0), e.in(1), e.in(2), e.out()}, push,
             e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Attrs along(const VjpContext& c) { return {{"axis", c.attrs().integer("axis")}}; }

/// Elements out of range are nobody's, and give 0.
ValueId picked(VjpContext& c, ValueId from) {
  Attrs attrs = along(c);
  attrs.set("zero_miss", std::int64_t{1});
  return c.b.node(Op::gather_elements, {from, c.in(1)}, std::move(attrs));
}

ValueId scattered(VjpContext& c, ValueId data, ValueId updates, std::string_view reduction) {
  Attrs attrs = along(c);
  attrs.set("reduction", std::string(reduction));
  return c.b.node(Op::scatter_elements, {data, c.in(1), updates}, std::move(attrs));
}

Status vjp_gather(VjpContext& c) {
  if (!c.needs(0)) return ok_status();
  c.grad(0, scattered(c, c.b.full(c.in_shape(0), 0), c.dy(), "add"));
  return ok_status();
}

/// Whether an update is the one that stayed: each line's updates are numbered from 1, and the numbers are scattered.
ValueId stayed(VjpContext& c, std::size_t axis) {
  const Shape shape = c.in_shape(1);
  const ValueId numbers = c.b.node(Op::cumsum, {c.b.full(shape, 1, DType::i32)}, along(c));
  const ValueId none = c.b.full(with_axis(shape, axis, c.in_shape(0)[axis]), 0, DType::i32);
  return c.b.node(Op::equal, {picked(c, scattered(c, none, numbers, "none")), numbers});
}

Status vjp_scatter(VjpContext& c) {
  GRAFT_TRY_ASSIGN(const Reduction reduction, reduction_of(c.attrs()));
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), c.in_shape(0).rank()));
  const ValueId dy = c.dy();
  const auto only_where = [&](ValueId condition, ValueId value) {
    return c.b.node(Op::where, {condition, value, c.b.full(Shape(), 0)});
  };
  switch (reduction) {
    case Reduction::none:
      if (c.needs(0)) c.grad(0, scattered(c, dy, c.b.full(c.in_shape(2), 0), "none"));
      if (c.needs(2)) c.grad(2, only_where(stayed(c, axis), picked(c, dy)));
      return ok_status();
    case Reduction::add:
      if (c.needs(0)) c.grad(0, dy);
      if (c.needs(2)) c.grad(2, picked(c, dy));
      return ok_status();
    case Reduction::mul:
      if (c.needs(0)) c.grad(0, scattered(c, dy, c.in(2), "mul"));
      if (c.needs(2)) return unsupported("The gradient of updates that are multiplied is not implemented.");
      return ok_status();
    case Reduction::min:
    case Reduction::max: break;
  }
  // Whoever equals the result gave it; of equals each takes all of the gradient.
  if (c.needs(0)) c.grad(0, only_where(c.b.node(Op::equal, {c.out(), c.in(0)}), dy));
  if (c.needs(2)) c.grad(2, only_where(c.b.node(Op::equal, {picked(c, c.out()), c.in(2)}), picked(c, dy)));
  return ok_status();
}

// --- nd_index

Status infer_nd_index(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::i32));
  const Shape dims = c.attrs().shape("dims");
  GRAFT_TRY(check_shape(dims).with_context("In the attribute \"dims\""));
  const Shape& indices = c.shape(0);
  const std::int64_t batches = c.attrs().integer("batches");
  if (indices.rank() == 0 || indices[indices.rank() - 1] != Dim(static_cast<std::int64_t>(dims.rank())) ||
      dims.rank() == 0) {
    return invalid("Indices of shape ", indices.text(), " do not end with an axis of ", dims.rank(),
                   " for the attribute \"dims\", which is ", dims.text(), ".");
  }
  if (batches < 0 || batches >= static_cast<std::int64_t>(indices.rank())) {
    return invalid("The attribute \"batches\" is ", batches, " for indices of rank ", indices.rank(), ".");
  }
  c.output(DType::i32, Shape(std::vector<Dim>(indices.begin(), indices.end() - 1)));
  return ok_status();
}

Status emit_nd_index(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  const Shape dims = e.attrs().shape("dims");
  const auto batches = static_cast<std::size_t>(e.attrs().integer("batches"));
  const std::uint64_t rows = dims.elements();
  const std::uint64_t all = rows * e.out_shape().elements(0, batches);
  if (rows > kMostIndices || all > kMostIndices) {
    return unsupported("Rows of ", dims.text(), " in ", e.out_shape().elements(0, batches),
                       " batches are more than 2^31 - 1.");
  }
  push::NdIndexPush push{.tuples = static_cast<std::uint32_t>(e.out_shape().elements(batches, e.out_shape().rank())),
                         .size = static_cast<std::uint32_t>(dims.rank()),
                         .rows = static_cast<std::uint32_t>(rows)};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "result"));
  GRAFT_TRY(count32(e.in_shape(0).elements(), "indices"));
  for (std::size_t k = 0; k < dims.rank(); ++k) push.dims[k] = static_cast<std::uint32_t>(dims.elements(k, k + 1));
  e.dispatch(shaders::KernelId::nd_index__i32, {}, {e.in(0), e.out()}, push, e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

/// gather_elements(data, indices; axis, zero_miss) -> data[.., indices[.., m, ..], ..]. Negative indices count from the
/// end; out of range: not-a-number (0 for integers, and with zero_miss).
extern const OpDef op_gather_elements;
const OpDef op_gather_elements = {.name = "gather_elements",
                                  .attrs = kGather,
                                  .min_inputs = 2,
                                  .max_inputs = 2,
                                  .infer = infer_gather,
                                  .emit = emit_gather,
                                  .gradient = vjp_gather,
                                  .flops = no_flops};

/// scatter_elements(data, indices, updates; axis, reduction) -> data with updates written (none) or combined (add, mul,
/// min, max) in order. Negative indices count from the end; updates out of range are dropped.
extern const OpDef op_scatter_elements;
const OpDef op_scatter_elements = {.name = "scatter_elements",
                                   .attrs = kScatter,
                                   .min_inputs = 3,
                                   .max_inputs = 3,
                                   .infer = infer_scatter,
                                   .emit = emit_scatter,
                                   .gradient = vjp_scatter,
                                   .flops = no_flops};

/// nd_index(indices [.., k]; dims of rank k, batches) -> the number of the row of a tensor [leading `batches` axes,
/// dims..] that each tuple names; -2^31 where one is out of range.
extern const OpDef op_nd_index;
const OpDef op_nd_index = {.name = "nd_index",
                           .attrs = kNdIndex,
                           .infer = infer_nd_index,
                           .emit = emit_nd_index,
                           .gradient = NoGrad{"its result are indices"},
                           .flops = no_flops};

}  // namespace graft::ops::elements
