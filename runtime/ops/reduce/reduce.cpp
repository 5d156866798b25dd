#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/reduce/reduce_table.h"
#include "runtime/ops/reduce/reduction.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::reduce {
namespace {

constexpr AttrSpec kReduce[] = {attr::integers("axes"), attr::integer("keepdims")};
constexpr AttrSpec kArg[] = {attr::integer("axis").needed(), attr::integer("keepdims"), attr::integer("select_last")};
constexpr AttrSpec kGrad[] = {attr::integer("fn").needed(), attr::shape("shape").needed(), attr::integers("axes"),
                              attr::integer("keepdims")};

Shape output_shape(const Shape& in, const std::vector<bool>& reduced, bool keepdims) {
  if (keepdims) return reduce::keepdims_shape(in, reduced);
  std::vector<Dim> dims;
  for (std::size_t axis = 0; axis < in.rank(); ++axis) {
    if (!reduced[axis]) dims.push_back(in[axis]);
  }
  return Shape(std::move(dims));
}

Status infer_axes(InferContext& c, Op op, DType out) {
  GRAFT_TRY_ASSIGN(const auto reduced, reduce::reduced_axes(op, c.attrs(), c.shape(0).rank()));
  c.output(out, output_shape(c.shape(0), reduced, c.attrs().flag("keepdims")));
  return ok_status();
}

Status infer_float(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  return infer_axes(c, Op::reduce_sum, DType::f32);
}

Status infer_number(InferContext& c) {
  if (c.dtype(0) != DType::i32) return infer_float(c);
  return infer_axes(c, Op::reduce_sum, DType::i32);
}

Status infer_arg(InferContext& c) {
  if (c.dtype(0) != DType::i32) GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(infer_axes(c, Op::arg_max, DType::i32));
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(c.attrs().integer("axis"), c.shape(0).rank()));
  if (c.shape(0)[axis] == Dim(0)) return invalid("Axis ", axis, " has no elements, so that none is an extreme.");
  return ok_status();
}

Status emit_reduce(Emitter& e) {
  const Op op = e.node().op;
  GRAFT_TRY_ASSIGN(const auto reduced, reduce::reduced_axes(op, e.attrs(), e.in_shape(0).rank()));
  return reduce::emit_reduction(e, reduce::function(op, e.attrs()), e.in_dtype(0),
                                reduce::reduction_of(e.in_shape(0), reduced), e.in(0), e.out(), e.in(0));
}

// A cotangent or result with 1 in place of each reduced axis, whatever keepdims says.
ValueId with_kept_dims(VjpContext& c, ValueId value) {
  const auto reduced = reduce::reduced_axes(c.node().op, c.attrs(), c.in_shape(0).rank());
  return c.b.reshape(value, reduce::keepdims_shape(c.in_shape(0), reduced.value()));
}

Status vjp_sum(VjpContext& c) {
  c.grad(0, c.b.expand(with_kept_dims(c, c.dy()), c.in_shape(0)));
  return ok_status();
}

Status vjp_l1(VjpContext& c) {
  c.grad(0, c.b.mul(c.b.node(Op::sign, {c.in(0)}), with_kept_dims(c, c.dy())));
  return ok_status();
}

Status vjp_fused(VjpContext& c) {
  const Op op = c.node().op;
  const bool mean = op == Op::reduce_mean;
  Attrs attrs = c.attrs();
  attrs.set("fn", static_cast<std::int64_t>(op));
  attrs.set("shape", c.in_shape(0));
  c.grad(0,
         c.b.node(Op::reduce_grad, {mean ? kNoValue : c.in(0), mean ? kNoValue : c.out(), c.dy()}, std::move(attrs)));
  return ok_status();
}

Status infer_grad(InferContext& c) {
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  const bool known = op == Op::reduce_mean || op == Op::reduce_max || op == Op::reduce_min || op == Op::reduce_prod ||
                     op == Op::reduce_l2 || op == Op::reduce_logsumexp;
  if (!known) return invalid("The attribute \"fn\" names no reduction with a fused gradient.");
  const Shape shape = c.attrs().shape("shape");
  GRAFT_TRY_ASSIGN(const auto reduced, reduce::reduced_axes(op, c.attrs(), shape.rank()));
  const Shape result = output_shape(shape, reduced, c.attrs().flag("keepdims"));
  for (std::size_t i = 0; i < 3; ++i) {
    if (!c.has(i) && op == Op::reduce_mean) continue;
    if (!c.has(i)) return invalid("Its input ", i, " is missing.");
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, i == 0 ? shape : result));
  }
  c.output(DType::f32, shape);
  return ok_status();
}

Status emit_grad(Emitter& e) {
  const Op op = static_cast<Op>(e.attrs().integer("fn"));
  const reduce_fn::Fn fn = reduce::function(op, e.attrs());
  const Shape& shape = e.out_shape();
  if (shape.elements() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(const auto reduced, reduce::reduced_axes(op, e.attrs(), shape.rank()));
  const reduce::Reduction reduction = reduce::reduction_of(shape, reduced);
  const Shape kept = reduce::keepdims_shape(shape, reduced);
  const StridedOperand dy = {e.in(2), kept};
  if (op == Op::reduce_mean) {
    const StridedOperand operands[] = {dy, dy, dy, dy};
    return emit_strided(e, shaders::KernelId::reduce_grad__f32, fn, operands,
                        spec(static_cast<float>(1.0 / static_cast<double>(reduction.count))));
  }
  Binding aux = e.in(2);
  if (op == Op::reduce_max || op == Op::reduce_min || op == Op::reduce_prod) {
    const Slot slot = e.scratch(reduction.outputs * 4);
    const auto aux_fn = op == Op::reduce_prod ? reduce_fn::product_of_rest : reduce_fn::ties;
    GRAFT_TRY(reduce::emit_reduction(e, aux_fn, DType::f32, reduction, e.in(0), {slot, Access::write}, e.in(1)));
    aux = {slot, Access::read};
  }
  const StridedOperand operands[] = {{e.in(0), shape}, {e.in(1), kept}, dy, {aux, kept}};
  return emit_strided(e, shaders::KernelId::reduce_grad__f32, fn, operands);
}

Status vjp_grad(VjpContext& c) {
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  if (op != Op::reduce_mean) {
    return unsupported("The second derivative of ", op_def(op).name, " is not implemented.");
  }
  Attrs attrs;
  attrs.set("axes", c.attrs().integers("axes"));
  attrs.set("keepdims", c.attrs().integer("keepdims"));
  c.grad(2, c.b.node(op, {c.dy()}, std::move(attrs)));
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) { return graph.value(node.inputs[0]).shape.elements(); }

constexpr OpDef reduce_op(std::string_view name, std::span<const AttrSpec> attrs, Status (*infer)(InferContext&),
                          Gradient gradient) {
  return {.name = name, .attrs = attrs, .infer = infer, .emit = emit_reduce, .gradient = gradient, .flops = flops};
}

}  // namespace

#define REDUCE(name_, ...)       \
  extern const OpDef op_##name_; \
  constexpr OpDef op_##name_ = reduce_op(#name_, __VA_ARGS__);

REDUCE(reduce_sum, kReduce, infer_number, vjp_sum)
REDUCE(reduce_mean, kReduce, infer_float, vjp_fused)
REDUCE(reduce_max, kReduce, infer_number, vjp_fused)
REDUCE(reduce_min, kReduce, infer_number, vjp_fused)
REDUCE(reduce_prod, kReduce, infer_number, vjp_fused)
REDUCE(reduce_l1, kReduce, infer_float, vjp_l1)
REDUCE(reduce_l2, kReduce, infer_float, vjp_fused)
REDUCE(reduce_logsumexp, kReduce, infer_float, vjp_fused)
REDUCE(arg_max, kArg, infer_arg, NoGrad{"its result is an index"})
REDUCE(arg_min, kArg, infer_arg, NoGrad{"its result is an index"})

/// reduce_grad(x?, y?, dy; fn, shape of x, axes, keepdims) -> dx. A mean needs neither x nor y.
extern const OpDef op_reduce_grad;
const OpDef op_reduce_grad = {.name = "reduce_grad",
                              .attrs = kGrad,
                              .min_inputs = 3,
                              .max_inputs = 3,
                              .optional_inputs = 0b011,
                              .infer = infer_grad,
                              .emit = emit_grad,
                              .gradient = vjp_grad,
                              .inplace_inputs = 0b001};

}  // namespace graft::ops::reduce
