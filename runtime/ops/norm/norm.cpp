// Batch and group normalisation, channels last. Batch norm is one batch whose groups are single columns; group norm
// has a batch for each image. Their backward passes are therefore the same three kernels.
#include "platform/base/checked.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/vjp.h"
#include "runtime/ops/norm/columns.h"
#include "shaders/kernels.gen.h"
#include "shaders/norm/batch_norm_update_push.h"

namespace graft::ops::norm {
namespace {

constexpr AttrSpec kMomentum = attr::number("momentum", 0.1).within(0, 1);
constexpr AttrSpec kEpsilonAttrs[] = {kEpsilon};
// The momentum (the weight of new statistics in the running ones) is for training, and has no effect here.
constexpr AttrSpec kBatchAttrs[] = {kEpsilon, kMomentum};
constexpr AttrSpec kBatchGradAttrs[] = {kEpsilon, attr::flag("training")};
constexpr AttrSpec kUpdateAttrs[] = {kMomentum.needed(), attr::integer("count"), attr::shape("count_shape"),
                                     attr::flag("unbiased", true)};
constexpr AttrSpec kGroupAttrs[] = {attr::integer("groups").needed(), kEpsilon};

double epsilon_of(const Attrs& attrs) { return attrs.number("epsilon"); }

/// All inputs from `first` on that are given: f32 and of shape [C], C the last axis of input 0.
Status expect_channels(InferContext& c, std::size_t first, std::size_t last) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  if (c.shape(0).rank() < 2) {
    return invalid("Its input 0 has the shape ", c.shape(0).text(), "; rank 2 or more is needed, channels last.");
  }
  for (std::size_t i = first; i <= last; ++i) {
    if (!c.has(i)) continue;
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, {c.shape(0).back()}));
  }
  return ok_status();
}

NormView batch_view(const Shape& x) {
  const std::uint64_t rows = x.elements(0, x.rank() - 1);
  return {.rows = rows, .cols = x.elements(x.rank() - 1, x.rank()), .stat_rows = rows};
}

// --- batch_norm(x, scale, bias, mean, var), batch_norm_train(x, scale, bias) -> y, mean, var

Status infer_batch(InferContext& c) {
  GRAFT_TRY(expect_channels(c, 1, 4));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit_batch(Emitter& e) {
  const NormView view = batch_view(e.in_shape(0));
  if (view.elements() == 0) return ok_status();
  GRAFT_TRY_ASSIGN(push::NormPush p, norm_push(view, epsilon_of(e.attrs()), true));
  p.has_scale = p.has_bias = 1;
  emit_norm_apply(e, p, e.in(0), e.in(3), e.in(4), e.in(1), e.in(2), e.out());
  return ok_status();
}

Status infer_batch_train(InferContext& c) {
  GRAFT_TRY(expect_channels(c, 1, 2));
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, {c.shape(0).back()});
  c.output(DType::f32, {c.shape(0).back()});
  return ok_status();
}

Binding reading(Binding binding) {
  binding.access = Access::read;
  return binding;
}

Status emit_batch_train(Emitter& e) {
  const NormView view = batch_view(e.in_shape(0));
  if (view.elements() == 0) {
    GRAFT_TRY(emit_nan(e, e.out(1), view.cols));
    return emit_nan(e, e.out(2), view.cols);
  }
  GRAFT_TRY_ASSIGN(push::NormPush p, norm_push(view, epsilon_of(e.attrs()), true));
  p.has_scale = p.has_bias = 1;
  GRAFT_TRY(emit_norm_stats(e, p, e.in(0), e.out(1), e.out(2)));
  emit_norm_apply(e, p, e.in(0), reading(e.out(1)), reading(e.out(2)), e.in(1), e.in(2), e.out());
  return ok_status();
}

Status vjp_batch(VjpContext& c) {
  Builder& b = c.b;
  const double epsilon = epsilon_of(c.attrs());
  const bool statistics = c.needs(3) || c.needs(4);
  if (!statistics && !c.needs(1) && !c.needs(2)) {
    // Frozen statistics and affine: x need not be saved.
    const ValueId rstd = b.node(Op::rsqrt, {b.affine(c.in(4), 1, epsilon)});
    c.grad(0, b.mul(c.dy(), b.mul(c.in(1), rstd)));
    return ok_status();
  }
  const auto grads = b.nodes(Op::batch_norm_grad, {c.in(0), c.in(1), c.in(3), c.in(4), c.dy()},
                             {{"epsilon", epsilon}, {"training", std::int64_t{0}}});
  if (grads.empty()) return b.status();
  for (std::size_t i = 0; i < 3; ++i) c.grad(i, grads[i]);
  if (!statistics) return ok_status();
  const ValueId rstd = b.node(Op::rsqrt, {b.affine(c.in(4), 1, epsilon)});
  const ValueId scaled = b.mul(c.in(1), rstd);
  if (c.needs(3)) c.grad(3, b.neg(b.mul(grads[2], scaled)));
  if (c.needs(4)) c.grad(4, b.scale(b.mul(grads[1], b.mul(scaled, rstd)), -0.5));
  return ok_status();
}

Status refuse_statistics(const VjpContext& c) {
  if (!c.cotangent(1).valid() && !c.cotangent(2).valid()) return ok_status();
  return unsupported("The statistics that ", op_def(c.node().op).name,
                     " gives beside its result cannot be differentiated through.");
}

Status vjp_batch_train(VjpContext& c) {
  GRAFT_TRY(refuse_statistics(c));
  const auto grads = c.b.nodes(Op::batch_norm_grad, {c.in(0), c.in(1), c.out(1), c.out(2), c.dy()},
                               {{"epsilon", epsilon_of(c.attrs())}, {"training", std::int64_t{1}}});
  for (std::size_t i = 0; i < grads.size(); ++i) c.grad(i, grads[i]);
  return ok_status();
}

// --- batch_norm_grad(x, scale, mean, var, dy), group_norm_grad(x, scale?, mean, rstd, dy) -> dx, dscale, dbias

Status emit_grad(Emitter& e, const NormView& view, bool variance, bool moments) {
  if (view.elements() == 0) {
    GRAFT_TRY(emit_zero_floats(e, e.out(1), view.cols));
    return emit_zero_floats(e, e.out(2), view.cols);
  }
  GRAFT_TRY_ASSIGN(push::NormPush p, norm_push(view, epsilon_of(e.attrs()), variance));
  p.has_scale = e.has(1);
  p.has_moments = moments;
  const Binding scale = e.has(1) ? e.in(1) : e.in(2);
  const Slot sums = emit_norm_grad_sums(e, p, e.in(0), e.in(4), e.in(2), e.in(3));
  const Slot means = emit_norm_grad_params(e, p, sums, scale, e.out(1), e.out(2));
  emit_norm_grad_apply(e, p, e.in(0), e.in(4), e.in(2), e.in(3), scale, {means, Access::read}, e.out());
  return ok_status();
}

void output_gradients(InferContext& c) {
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, {c.shape(0).back()});
  c.output(DType::f32, {c.shape(0).back()});
}

Status infer_batch_grad(InferContext& c) {
  GRAFT_TRY(expect_channels(c, 1, 3));
  GRAFT_TRY(c.expect_dtype(4, DType::f32));
  GRAFT_TRY(c.expect_shape(4, c.shape(0)));
  output_gradients(c);
  return ok_status();
}

Status emit_batch_grad(Emitter& e) { return emit_grad(e, batch_view(e.in_shape(0)), true, e.attrs().flag("training")); }

// --- batch_norm_update(running_mean, running_var, mean, var)

Result<Dim> update_count(const Attrs& attrs) {
  if (attrs.has("count_shape")) return attrs.shape("count_shape").element_count();
  return Dim(attrs.integer("count"));
}

Status infer_update(InferContext& c) {
  GRAFT_TRY(c.expect_rank(0, 1));
  for (std::size_t i = 0; i < 4; ++i) {
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, c.shape(0)));
  }
  GRAFT_TRY_ASSIGN(const Dim count, update_count(c.attrs()));
  if (c.attrs().flag("unbiased") && count.is_constant() && count.value() < 2) {
    return invalid("Running statistics need 2 or more values per channel; the attribute \"count\" says ", count.text(),
                   ".");
  }
  return ok_status();
}

Status emit_update(Emitter& e) {
  const std::uint64_t channels = e.in_shape(0).elements();
  if (channels == 0) return ok_status();
  push::BatchNormUpdatePush push{.momentum = static_cast<float>(e.attrs().number("momentum")), .variance_factor = 1};
  GRAFT_TRY_ASSIGN(push.count, count32(channels, "list of channels"));
  if (e.attrs().flag("unbiased")) {
    GRAFT_TRY_ASSIGN(const Dim count, update_count(e.attrs()));
    const auto n = static_cast<double>(count.value());
    push.variance_factor = static_cast<float>(n / (n - 1));
  }
  e.dispatch(shaders::KernelId::batch_norm_update__f32, {}, {e.update(0), e.update(1), e.in(2), e.in(3)}, push,
             e.spread(ceil_div(channels, kNormWorkgroup)));
  return ok_status();
}

// --- group_norm(x, scale?, bias?) -> y, mean, rstd

Result<Shape> group_stats(InferContext& c) {
  const Shape& x = c.shape(0);
  GRAFT_TRY_ASSIGN(const std::int64_t channels, c.constant_dim(0, x.rank() - 1));
  const std::int64_t groups = c.attrs().integer("groups");
  if (groups < 1 || channels < 1 || channels % groups != 0) {
    return invalid("The attribute \"groups\" is ", groups, "; it must divide the ", channels, " channels of its input ",
                   x.text(), ".");
  }
  return Shape{x[0], groups};
}

NormView group_view(const Shape& x, std::int64_t groups) {
  const std::uint64_t rows = x.elements(1, x.rank() - 1);
  const std::uint64_t cols = x.elements(x.rank() - 1, x.rank());
  return {.batches = x.elements(0, 1),
          .rows = rows,
          .cols = cols,
          .stat_rows = rows,
          .group_cols = cols / static_cast<std::uint64_t>(groups)};
}

Status infer_group(InferContext& c) {
  GRAFT_TRY(expect_channels(c, 1, 2));
  GRAFT_TRY_ASSIGN(const Shape stats, group_stats(c));
  c.output(DType::f32, c.shape(0));
  c.output(DType::f32, stats);
  c.output(DType::f32, stats);
  return ok_status();
}

Status emit_group(Emitter& e) {
  const NormView view = group_view(e.in_shape(0), e.attrs().integer("groups"));
  if (view.elements() == 0) {
    GRAFT_TRY(emit_nan(e, e.out(1), e.out_shape(1).elements()));
    return emit_nan(e, e.out(2), e.out_shape(2).elements());
  }
  GRAFT_TRY_ASSIGN(push::NormPush p, norm_push(view, epsilon_of(e.attrs()), false));
  p.has_scale = e.has(1);
  p.has_bias = e.has(2);
  GRAFT_TRY(emit_norm_stats(e, p, e.in(0), e.out(1), e.out(2)));
  emit_norm_apply(e, p, e.in(0), reading(e.out(1)), reading(e.out(2)), e.has(1) ? e.in(1) : e.in(0),
                  e.has(2) ? e.in(2) : e.in(0), e.out());
  return ok_status();
}

Status vjp_group(VjpContext& c) {
  GRAFT_TRY(refuse_statistics(c));
  const auto grads = c.b.nodes(Op::group_norm_grad, {c.in(0), c.in(1), c.out(1), c.out(2), c.dy()}, c.attrs());
  for (std::size_t i = 0; i < grads.size(); ++i) {
    if (c.in(i).valid()) c.grad(i, grads[i]);
  }
  return ok_status();
}

Status infer_group_grad(InferContext& c) {
  GRAFT_TRY(expect_channels(c, 1, 1));
  GRAFT_TRY_ASSIGN(const Shape stats, group_stats(c));
  for (const std::size_t i : {2, 3, 4}) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  GRAFT_TRY(c.expect_shape(2, stats));
  GRAFT_TRY(c.expect_shape(3, stats));
  GRAFT_TRY(c.expect_shape(4, c.shape(0)));
  output_gradients(c);
  return ok_status();
}

Status emit_group_grad(Emitter& e) {
  return emit_grad(e, group_view(e.in_shape(0), e.attrs().integer("groups")), false, true);
}

std::uint64_t apply_flops(const Graph& g, const Node& n) { return norm_flops(g, n, 4); }
std::uint64_t train_flops(const Graph& g, const Node& n) { return norm_flops(g, n, 10); }
std::uint64_t grad_flops(const Graph& g, const Node& n) { return norm_flops(g, n, 14); }
std::uint64_t update_flops(const Graph& g, const Node& n) { return norm_flops(g, n, 7); }

constexpr NoGrad kBackward{"it is itself a gradient"};

}  // namespace

extern const OpDef op_batch_norm, op_batch_norm_train, op_batch_norm_update, op_batch_norm_grad, op_group_norm,
    op_group_norm_grad;
const OpDef op_batch_norm = {.name = "batch_norm",
                             .attrs = kBatchAttrs,
                             .min_inputs = 5,
                             .max_inputs = 5,
                             .infer = infer_batch,
                             .emit = emit_batch,
                             .gradient = vjp_batch,
                             .flops = apply_flops};
const OpDef op_batch_norm_train = {.name = "batch_norm_train",
                                   .attrs = kEpsilonAttrs,
                                   .min_inputs = 3,
                                   .max_inputs = 3,
                                   .infer = infer_batch_train,
                                   .emit = emit_batch_train,
                                   .gradient = vjp_batch_train,
                                   .flops = train_flops};
const OpDef op_batch_norm_update = {.name = "batch_norm_update",
                                    .attrs = kUpdateAttrs,
                                    .min_inputs = 4,
                                    .max_inputs = 4,
                                    .infer = infer_update,
                                    .emit = emit_update,
                                    .gradient = NoGrad{"it updates running statistics in place"},
                                    .flops = update_flops,
                                    .mutates = 0b11};
const OpDef op_batch_norm_grad = {.name = "batch_norm_grad",
                                  .attrs = kBatchGradAttrs,
                                  .min_inputs = 5,
                                  .max_inputs = 5,
                                  .infer = infer_batch_grad,
                                  .emit = emit_batch_grad,
                                  .gradient = kBackward,
                                  .flops = grad_flops};
const OpDef op_group_norm = {.name = "group_norm",
                             .attrs = kGroupAttrs,
                             .max_inputs = 3,
                             .optional_inputs = 0b110,
                             .infer = infer_group,
                             .emit = emit_group,
                             .gradient = vjp_group,
                             .flops = train_flops};
const OpDef op_group_norm_grad = {.name = "group_norm_grad",
                                  .attrs = kGroupAttrs,
                                  .min_inputs = 5,
                                  .max_inputs = 5,
                                  .optional_inputs = 0b10,
                                  .infer = infer_group_grad,
                                  .emit = emit_group_grad,
                                  .gradient = kBackward,
                                  .flops = grad_flops};

}  // namespace graft::ops::norm
