// Optimizer steps and what belongs to them. They update parameters and state in place; what changes from step to step
// (learning rate, bias corrections, the step number) comes from the step state.
#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/optimizer_attrs.h"
#include "runtime/ops/totals.h"
#include "shaders/kernels.gen.h"
#include "shaders/optimizer/accumulate_push.h"
#include "shaders/optimizer/clip_factor_push.h"
#include "shaders/optimizer/sgd_step_push.h"

namespace graft::ops::optimizer {
namespace {

constexpr NoGrad kUpdates{"it updates state in place"};

Status expect_like_first(InferContext& c, std::size_t i) {
  if (!c.has(i)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  return c.expect_shape(i, c.shape(0));
}

std::uint64_t elements_of(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  return shape.is_constant() ? shape.elements() : 0;
}

// --- sgd_step(param, grad, momentum_buffer?, factor?)

constexpr AttrSpec kSgdAttrs[] = {kGroup,
                                  attr::number("momentum").at_least(0),
                                  attr::number("dampening").finite(),
                                  attr::flag("nesterov"),
                                  attr::flag("maximize"),
                                  kWeightDecay,
                                  kRateScale};

Status infer_sgd(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(expect_like_first(c, 1));
  GRAFT_TRY(expect_like_first(c, 2));
  GRAFT_TRY(expect_factor(c, 3));
  const double momentum = c.attrs().number("momentum");
  if (momentum != 0 && !c.has(2)) return invalid("Momentum ", momentum, " needs a momentum buffer as input 2.");
  if (c.attrs().flag("nesterov") && (momentum == 0 || c.attrs().number("dampening") != 0)) {
    return invalid("Nesterov momentum needs a momentum above 0 and a dampening of 0.");
  }
  return ok_status();
}

Status emit_sgd(Emitter& e) {
  const Attrs& a = e.attrs();
  push::SgdStepPush push{.group = static_cast<std::uint32_t>(a.integer("group")),
                         .has_momentum = a.number("momentum") != 0,
                         .has_factor = factor_kind(e, 3),
                         .nesterov = a.flag("nesterov"),
                         .maximize = a.flag("maximize"),
                         .momentum = static_cast<float>(a.number("momentum")),
                         .one_minus_dampening = static_cast<float>(1 - a.number("dampening")),
                         .weight_decay = static_cast<float>(a.number("weight_decay")),
                         .rate_scale = static_cast<float>(a.number("rate_scale"))};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  const Binding velocity = push.has_momentum ? e.update(2) : e.update(0);
  emit_flat(e, shaders::KernelId::sgd_step__f32, {},
            {e.update(0), e.in(1), velocity, e.has(3) ? e.in(3) : e.step_state(), e.step_state()}, push,
            e.in_shape(0).elements(), 0b11000);
  return ok_status();
}

// --- adam_step(param, grad, m, v, factor?)

Status infer_adam(InferContext& c) {
  GRAFT_TRY(infer_adam_common(c, 4));
  for (const std::size_t i : {2, 3}) GRAFT_TRY(expect_like_first(c, i));
  return ok_status();
}

Status emit_adam(Emitter& e) {
  const push::AdamStepPush push = adam_push(e, 4);
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  emit_flat(e, shaders::KernelId::adam_step__f32, {},
            {e.update(0), e.in(1), e.update(2), e.update(3), e.has(4) ? e.in(4) : e.step_state(), e.step_state()}, push,
            e.in_shape(0).elements(), 0b110000);
  return ok_status();
}

// --- accumulate(acc, x), zero_state(acc)

Status infer_accumulate(InferContext& c) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  return expect_like_first(c, 1);
}

Status emit_accumulate(Emitter& e) {
  GRAFT_TRY(count32(e.in_shape(0).elements(), "accumulator"));
  emit_flat(e, shaders::KernelId::accumulate__f32, {}, {e.update(0), e.in(1)}, push::AccumulatePush{},
            e.in_shape(0).elements());
  return ok_status();
}

Status infer_zero(InferContext& c) { return expect_words(c.dtype(0)); }

Status emit_zero(Emitter& e) {
  return for_each_tile(e, e.in_shape(0).elements(), [&](std::uint64_t first, std::uint64_t n) {
    Binding to = part_of(e.update(0), first, n);
    to.access = Access::write;
    return emit_fill(e, to, n, 0);
  });
}

// --- squared_norm(xs...), clip_factor(squared_norm or overflow_count, loss?): without max_norm, of overflow_count

Status infer_squared_norm(InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  c.output(DType::f32, {});
  return ok_status();
}

Status emit_squared_norm(Emitter& e) {
  return emit_total(e, shaders::KernelId::squared_norm__f32, shaders::KernelId::squared_norm__f32_total, 1);
}

// --- state_hash(xs...): 64 bits of all inputs' bits

Status infer_state_hash(InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) GRAFT_TRY(expect_words(c.dtype(i)));
  c.output(DType::i32, Shape::of({2}));
  return ok_status();
}

Status emit_state_hash(Emitter& e) {
  return emit_total(e, shaders::KernelId::state_hash__f32, shaders::KernelId::state_hash__f32_total, 2);
}

constexpr AttrSpec kClipAttrs[] = {attr::number("max_norm").at_least(0)};

Status infer_clip(InferContext& c) {
  GRAFT_TRY(expect_scalar(c, 0));
  GRAFT_TRY(expect_scalar(c, 1));
  c.output(DType::f32, {});
  return ok_status();
}

Status emit_clip(Emitter& e) {
  const push::ClipFactorPush push{static_cast<float>(e.attrs().number("max_norm")), e.has(1)};
  e.dispatch(shaders::KernelId::clip_factor__f32, {}, {e.in(0), e.in(e.has(1) ? 1 : 0), e.out()}, push, {1, 1, 1});
  return ok_status();
}

std::uint64_t sgd_flops(const Graph& g, const Node& n) { return 6 * elements_of(g, n); }
std::uint64_t adam_flops(const Graph& g, const Node& n) { return 14 * elements_of(g, n); }
std::uint64_t accumulate_flops(const Graph& g, const Node& n) { return elements_of(g, n); }
std::uint64_t zero_flops(const Graph&, const Node&) { return 0; }
std::uint64_t squared_norm_flops(const Graph& graph, const Node& node) {
  std::uint64_t flops = 0;
  for (const ValueId id : node.inputs) {
    const Shape& shape = graph.value(id).shape;
    if (shape.is_constant()) flops += 2 * shape.elements();
  }
  return flops;
}

}  // namespace

extern const OpDef op_sgd_step, op_adam_step, op_accumulate, op_zero_state, op_squared_norm, op_clip_factor,
    op_state_hash;
const OpDef op_sgd_step = {.name = "sgd_step",
                           .attrs = kSgdAttrs,
                           .min_inputs = 2,
                           .max_inputs = 4,
                           .optional_inputs = 0b1100,
                           .infer = infer_sgd,
                           .emit = emit_sgd,
                           .gradient = kUpdates,
                           .flops = sgd_flops,
                           .mutates = 0b0101,
                           .uses_step_state = true};
const OpDef op_adam_step = {.name = "adam_step",
                            .attrs = kAdamAttrs,
                            .min_inputs = 4,
                            .max_inputs = 5,
                            .optional_inputs = 0b10000,
                            .infer = infer_adam,
                            .emit = emit_adam,
                            .gradient = kUpdates,
                            .flops = adam_flops,
                            .mutates = 0b1101,
                            .uses_step_state = true};
const OpDef op_accumulate = {.name = "accumulate",
                             .min_inputs = 2,
                             .max_inputs = 2,
                             .infer = infer_accumulate,
                             .emit = emit_accumulate,
                             .gradient = kUpdates,
                             .flops = accumulate_flops,
                             .mutates = 0b1};
const OpDef op_zero_state = {.name = "zero_state",
                             .infer = infer_zero,
                             .emit = emit_zero,
                             .gradient = kUpdates,
                             .flops = zero_flops,
                             .mutates = 0b1};
const OpDef op_squared_norm = {.name = "squared_norm",
                               .max_inputs = 255,
                               .infer = infer_squared_norm,
                               .emit = emit_squared_norm,
                               .gradient = NoGrad{"it serves gradient clipping alone"},
                               .flops = squared_norm_flops};
const OpDef op_clip_factor = {.name = "clip_factor",
                              .attrs = kClipAttrs,
                              .max_inputs = 2,
                              .optional_inputs = 0b10,
                              .infer = infer_clip,
                              .emit = emit_clip,
                              .gradient = NoGrad{"it serves gradient clipping alone"}};
const OpDef op_state_hash = {.name = "state_hash",
                             .max_inputs = 255,
                             .infer = infer_state_hash,
                             .emit = emit_state_hash,
                             .gradient = NoGrad{"it is of bits, not of numbers"},
                             .flops = zero_flops};

}  // namespace graft::ops::optimizer
