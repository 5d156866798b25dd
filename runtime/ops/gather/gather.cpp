// gather: slices of a tensor picked by indices along one axis (embedding tables among others). A table may go on in
// another: rows from `first_row` on are those of the third input.
#include <limits>

#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/parts.h"
#include "runtime/ops/weight_gemm.h"
#include "shaders/gather/gather_grad_push.h"
#include "shaders/gather/gather_push.h"
#include "shaders/gather/gather_sort_push.h"
#include "shaders/gather/gather_sorted_sum_push.h"
#include "shaders/gather/gather_weight_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::gather {
namespace {

constexpr AttrSpec kAttrs[] = {attr::integer("axis"), attr::integer("first_row")};
constexpr AttrSpec kGradAttrs[] = {attr::shape("shape").needed(), attr::integer("axis"), attr::integer("first_row")};
constexpr std::uint64_t kWorkgroup = 128;       // local_size_x of the kernels
constexpr std::uint32_t kColumnsOfGroup = 512;  // as in gather_grad.comp
constexpr std::uint32_t kNan = 0x7fc00000u;

Result<Shape> gathered_shape(const Shape& data, const Shape& indices, const Attrs& attrs) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(attrs.integer("axis"), data.rank()));
  std::vector<Dim> dims(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(axis));
  dims.insert(dims.end(), indices.begin(), indices.end());
  dims.insert(dims.end(), data.begin() + static_cast<std::ptrdiff_t>(axis) + 1, data.end());
  return Shape(std::move(dims));
}

/// Of a table that goes on in `rows`.
Status check_rows(InferContext& c) {
  GRAFT_TRY(c.expect_rank(0, 2));
  GRAFT_TRY(c.expect_dtype(2, DType::f32));
  GRAFT_TRY(c.expect_shape(2, Shape{c.shape(2).rank() > 0 ? c.shape(2)[0] : Dim(0), c.shape(0)[1]}));
  const std::int64_t first = c.attrs().integer("first_row");
  const bool known = c.shape(0)[0].is_constant();
  if (c.attrs().integer("axis") != 0 || first < 0 || !known || first > c.shape(0)[0].value()) {
    return invalid("A table of shape ", c.shape(0).text(), " cannot go on in another from row ", first,
                   " on, along axis ", c.attrs().integer("axis"), ".");
  }
  if (c.dtype(0) == DType::f32 || is_quantized(c.dtype(0))) return ok_status();
  return unsupported("A table of type ", dtype_name(c.dtype(0)), " does not go on in another; f32 and blocks do.");
}

Status infer(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(1, DType::i32));
  if (c.inputs() > 2) GRAFT_TRY(check_rows(c));
  GRAFT_TRY_ASSIGN(Shape out, gathered_shape(c.shape(0), c.shape(1), c.attrs()));
  if (is_quantized(c.dtype(0)) &&
      (c.shape(0).rank() != 2 || normalize_axis(c.attrs().integer("axis"), 2).value() != 0)) {
    return unsupported("From a quantized table of shape ", c.shape(0).text(),
                       " nothing can be gathered: it must have rank 2, and rows are what is picked.");
  }
  c.output(is_quantized(c.dtype(0)) ? DType::f32 : c.dtype(0), std::move(out));
  return ok_status();
}

struct Sizes {
  std::uint64_t outer;
  std::uint64_t axis;
  std::uint64_t inner;
};

/// Indices are compared as i32, so an axis is limited to what they can name.
Result<Sizes> sizes_of(const Shape& data, const Attrs& attrs) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(attrs.integer("axis"), data.rank()));
  const Sizes s{data.elements(0, axis), data.elements(axis, axis + 1), data.elements(axis + 1, data.rank())};
  if (s.axis > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    return unsupported("Axis ", axis, " of the gathered shape ", data.text(), " is longer than 2^31 - 1.");
  }
  GRAFT_TRY(count32(data.elements(), "gathered tensor"));
  return s;
}

/// A table, or a part of one, whose rows are [first, first + rows) of `all_rows`.
struct Table {
  std::size_t input;
  std::uint64_t first;
  std::uint64_t rows;
  std::uint64_t all_rows;
};

/// Rows of a weight that is quantized, larger than a binding, or not all there are.
Status emit_weight(Emitter& e, const Table& table, std::uint64_t columns) {
  const DType dtype = e.in_dtype(table.input);
  GRAFT_TRY_ASSIGN(const std::uint64_t per_part, weight_rows_per_binding(e.caps(), dtype, columns));
  push::GatherWeightPush push{.all_rows = static_cast<std::uint32_t>(table.all_rows),
                              .columns = static_cast<std::uint32_t>(columns),
                              .quads = static_cast<std::uint32_t>(ceil_div<std::uint64_t>(columns, 4))};
  push.index_count = static_cast<std::uint32_t>(e.in_shape(1).elements());
  GRAFT_TRY(count32(e.out_shape().elements() + 3, "gathered result"));
  return for_each_part(table.rows, per_part, [&](std::uint64_t first, std::uint64_t count) -> Status {
    push.first = static_cast<std::uint32_t>(table.first + first);
    push.rows = static_cast<std::uint32_t>(count);
    Binding out = e.out();
    if (push.first > 0) out.access = Access::read_write;  // what is not in this part stays
    const std::uint64_t invocations = std::uint64_t{push.quads} * push.index_count;
    e.dispatch(shaders::KernelId::gather_weight__f32, {0, 0, 0, 0, static_cast<std::uint32_t>(dtype)},
               {weight_rows(e.in(table.input), dtype, columns, first, count), e.in(1), out}, push,
               e.spread(ceil_div(invocations, kWorkgroup)));
    return ok_status();
  });
}

/// Both tables; where all rows are the second's, they are all there are.
Status emit_tables(Emitter& e, const Sizes& s) {
  const auto first = static_cast<std::uint64_t>(e.attrs().integer("first_row"));
  const std::uint64_t rows = e.in_shape(2).elements(0, 1);
  const std::uint64_t all = first + rows;
  if (all > static_cast<std::uint64_t>(std::numeric_limits<std::int32_t>::max())) {
    return unsupported("Tables of ", all, " rows together are longer than 2^31 - 1.");
  }
  GRAFT_TRY(count32(rows * s.inner, "gathered tensor"));
  if (all == 0) return emit_fill(e, e.out(), e.out_shape().elements(), kNan);
  GRAFT_TRY(emit_weight(e, {0, 0, first, all}, s.inner));
  return emit_weight(e, {2, first, rows, all}, s.inner);
}

Status emit(Emitter& e) {
  const DType dtype = e.in_dtype(0);
  if (!is_quantized(dtype)) GRAFT_TRY(expect_words(dtype));
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const Sizes s, sizes_of(e.in_shape(0), e.attrs()));
  if (e.inputs() > 2) return emit_tables(e, s);
  const bool large = e.in_shape(0).elements() > binding_words(e.caps());
  if (is_quantized(dtype) || (large && s.outer == 1 && dtype == DType::f32)) {
    return emit_weight(e, {0, 0, s.axis, s.axis}, s.inner);
  }
  push::GatherPush push{.axis_size = static_cast<std::uint32_t>(s.axis),
                        .inner = static_cast<std::uint32_t>(s.inner),
                        .miss = e.in_dtype(0) == DType::f32 ? kNan : 0};
  GRAFT_TRY_ASSIGN(push.count, count32(count, "gathered result"));
  push.index_count = static_cast<std::uint32_t>(e.in_shape(1).elements());
  e.dispatch(shaders::KernelId::gather__w32, {}, {e.in(0), e.in(1), e.out()}, push,
             e.spread(ceil_div(count, kWorkgroup)));
  return ok_status();
}

Status vjp(VjpContext& c) {
  if (c.inputs() > 2) {
    if (c.needs(0)) return unsupported("A table that goes on in another one has no gradient; the other one has.");
    if (!c.needs(2)) return ok_status();
    c.grad(2, c.b.node(Op::gather_grad, {c.in(1), c.dy()},
                       {{"shape", c.in_shape(2)}, {"first_row", c.attrs().integer("first_row")}}));
    return ok_status();
  }
  if (!c.needs(0)) return ok_status();
  c.grad(0,
         c.b.node(Op::gather_grad, {c.in(1), c.dy()}, {{"shape", c.in_shape(0)}, {"axis", c.attrs().integer("axis")}}));
  return ok_status();
}

// --- gather_grad(indices, dy; shape of data, which row of all its first one is)

Status infer_grad(InferContext& c) {
  const Shape data = c.attrs().shape("shape");
  GRAFT_TRY(check_shape(data).with_context("In the attribute \"shape\""));
  GRAFT_TRY(c.expect_dtype(0, DType::i32));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY_ASSIGN(const Shape gathered, gathered_shape(data, c.shape(0), c.attrs()));
  GRAFT_TRY(c.expect_shape(1, gathered));
  const std::int64_t first = c.attrs().integer("first_row");
  if (first < 0 || first > INT32_MAX || (first > 0 && (data.rank() != 2 || c.attrs().integer("axis") != 0))) {
    return invalid("A gradient of shape ", data.text(), " cannot be of rows from ", first, " on, along axis ",
                   c.attrs().integer("axis"), ".");
  }
  c.output(DType::f32, data);
  return ok_status();
}

/// Whether to sort the indices first: where each slice's owner looks at all of them, the work is their product. The
/// sums and their order are the same.
bool is_sorted_cheaper(Emitter& e, const push::GatherGradPush& push, std::uint64_t dy_elements) {
  constexpr std::uint64_t kFewSteps = 8192;  // of workgroups that scan, for which nothing else is worth the dispatches
  const std::uint64_t owners = push.by_index != 0 ? push.index_count : push.count;
  const std::uint64_t scan = owners * push.column_tiles * ceil_div<std::uint64_t>(push.index_count, kWorkgroup);
  const std::uint64_t sorted = e.out_shape().elements() + dy_elements + push.count + push.index_count;
  if (scan < kFewSteps || scan / 4 < sorted / 32) return false;
  const std::uint64_t bytes = 4 * (std::uint64_t{push.count} + push.index_count);
  if (bytes <= e.workspace_left()) return true;
  e.withhold(bytes);
  return false;
}

Status emit_sorted_grad(Emitter& e, const push::GatherGradPush& scanning) {
  const push::GatherSortPush push{scanning.index_count, scanning.axis_size, scanning.first, scanning.count};
  const Slot ends = e.scratch(4 * std::uint64_t{push.rows}), order = e.scratch(4 * std::uint64_t{push.index_count});
  const auto groups = [&](std::uint64_t invocations) { return e.spread(ceil_div(invocations, kWorkgroup)); };
  GRAFT_TRY(emit_fill(e, {ends, Access::write}, push.rows, 0));
  e.dispatch(shaders::KernelId::gather_sort__i32_count, {}, {{ends, Access::read_write}, e.in(0)}, push,
             groups(push.index_count));
  e.dispatch(shaders::KernelId::gather_sort__i32_scan, {}, {{ends, Access::read_write}}, push, {1, 1, 1});
  e.dispatch(shaders::KernelId::gather_sort__i32_place, {},
             {{ends, Access::read_write}, e.in(0), {order, Access::write}}, push, groups(push.index_count));
  e.dispatch(shaders::KernelId::gather_sort__i32_sort, {}, {{ends, Access::read}, {order, Access::read_write}}, push,
             groups(push.rows));
  const push::GatherSortedSumPush sum{static_cast<std::uint32_t>(e.out_shape().elements()), push.rows, scanning.inner,
                                      push.index_count};
  e.dispatch(shaders::KernelId::gather_sorted_sum__f32, {},
             {{ends, Access::read}, {order, Access::read}, e.in(1), e.out()}, sum, groups(sum.count));
  return ok_status();
}

Status emit_grad(Emitter& e) {
  const std::uint64_t count = e.out_shape().elements();
  if (count == 0) return ok_status();
  if (e.in_shape(1).elements() == 0) return emit_fill(e, e.out(), count, 0);
  GRAFT_TRY_ASSIGN(const Sizes s, sizes_of(e.out_shape(), e.attrs()));
  const auto first_row = static_cast<std::uint64_t>(e.attrs().integer("first_row"));
  GRAFT_TRY(count32(first_row + s.axis, "gradient of the gathered tensor"));
  push::GatherGradPush push{.axis_size = static_cast<std::uint32_t>(first_row + s.axis),
                            .inner = static_cast<std::uint32_t>(s.inner),
                            .columns = static_cast<std::uint32_t>(s.outer * s.inner)};
  GRAFT_TRY(count32(e.in_shape(1).elements(), "gradient of the gathered tensor"));
  push.index_count = static_cast<std::uint32_t>(e.in_shape(0).elements());
  push.column_tiles = ceil_div<std::uint32_t>(push.columns, kColumnsOfGroup);
  // Every workgroup scans all indices: take as few workgroups as will do.
  push.by_index = push.axis_size / 2 > push.index_count;
  push.first = static_cast<std::uint32_t>(first_row);
  push.count = static_cast<std::uint32_t>(s.axis);
  if (count <= binding_words(e.caps()) && is_sorted_cheaper(e, push, e.in_shape(1).elements())) {
    return emit_sorted_grad(e, push);
  }
  if (push.by_index != 0) GRAFT_TRY(emit_fill(e, e.out(), count, 0));
  std::uint64_t per_part = s.axis;
  if (s.outer == 1 && count > binding_words(e.caps())) {
    GRAFT_TRY_ASSIGN(per_part, weight_rows_per_binding(e.caps(), DType::f32, s.inner));
  }
  return for_each_part(s.axis, per_part, [&](std::uint64_t first, std::uint64_t part) -> Status {
    push.first = static_cast<std::uint32_t>(first_row + first);
    push.count = static_cast<std::uint32_t>(part);
    push.rows = push.by_index != 0 ? push.index_count : push.count;
    e.dispatch(shaders::KernelId::gather_grad__f32, {},
               {e.in(0), e.in(1), weight_rows(e.out(), DType::f32, s.inner, first, s.outer * part)}, push,
               e.spread(std::uint64_t{push.rows} * push.column_tiles));
    return ok_status();
  });
}

Status vjp_grad(VjpContext& c) {
  if (!c.needs(1)) return ok_status();
  if (c.attrs().integer("first_row") != 0) {
    return unsupported("The gradient of rows behind a table's has no gradient of its own.");
  }
  c.grad(1, c.b.node(Op::gather, {c.dy(), c.in(0)}, {{"axis", c.attrs().integer("axis")}}));
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }
std::uint64_t grad_flops(const Graph& graph, const Node& node) {
  const Shape& dy = graph.value(node.inputs[1]).shape;
  return dy.is_constant() ? dy.elements() : 0;
}

}  // namespace

/// gather(data, indices; axis = 0) -> slices of data. gather(data [n, d], indices, rows [k, d]; first_row) -> rows of
/// the table whose rows from first_row on are `rows`, whatever data has there.
extern const OpDef op_gather, op_gather_grad;
const OpDef op_gather = {.name = "gather",
                         .attrs = kAttrs,
                         .min_inputs = 2,
                         .max_inputs = 3,
                         .infer = infer,
                         .emit = emit,
                         .gradient = vjp,
                         .flops = no_flops,
                         .quantized_inputs = 0b1};
const OpDef op_gather_grad = {.name = "gather_grad",
                              .attrs = kGradAttrs,
                              .min_inputs = 2,
                              .max_inputs = 2,
                              .infer = infer_grad,
                              .emit = emit_grad,
                              .gradient = vjp_grad,
                              .flops = grad_flops};

}  // namespace graft::ops::gather
