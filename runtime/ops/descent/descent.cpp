// Steps of more optimizers, and the two ends of those that are made of several ops: a running mean, and a step along a
// direction. As in optimizer.cpp, they update parameters and state in place.
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/optimizer_attrs.h"
#include "shaders/descent/adagrad_step_push.h"
#include "shaders/descent/apply_update_push.h"
#include "shaders/descent/lion_step_push.h"
#include "shaders/descent/moment_update_push.h"
#include "shaders/descent/rmsprop_step_push.h"
#include "shaders/kernels.gen.h"

namespace graft::ops::descent {
namespace {

constexpr NoGrad kUpdates{"it updates state in place"};

/// Inputs [0, count) are f32 of one shape, as far as they are given; the next one is the factor of the gradients.
Status expect_alike(InferContext& c, std::size_t count) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  for (std::size_t i = 1; i < count; ++i) {
    if (!c.has(i)) continue;
    GRAFT_TRY(c.expect_dtype(i, DType::f32));
    GRAFT_TRY(c.expect_shape(i, c.shape(0)));
  }
  return expect_factor(c, count);
}

float f32(const Emitter& e, std::string_view name) { return static_cast<float>(e.attrs().number(name)); }
std::uint32_t group_of(const Emitter& e) { return static_cast<std::uint32_t>(e.attrs().integer("group")); }
Binding factor_of(const Emitter& e, std::size_t i) { return e.has(i) ? e.in(i) : e.step_state(); }

std::uint64_t flops(const Graph& graph, const Node& node) {
  const Shape& shape = graph.value(node.inputs[0]).shape;
  return shape.is_constant() ? 8 * shape.elements() : 0;
}

// --- lion_step(param, grad, exp_avg, factor?)

constexpr AttrSpec kLionAttrs[] = {kGroup, attr::number("beta1", 0.9).within(0, kBelowOne),
                                   attr::number("beta2", 0.99).within(0, kBelowOne), kWeightDecay, kRateScale};

Status infer_lion(InferContext& c) {
  GRAFT_TRY(expect_alike(c, 3));
  return ok_status();
}

Status emit_lion(Emitter& e) {
  const double beta1 = e.attrs().number("beta1"), beta2 = e.attrs().number("beta2");
  const push::LionStepPush push{.count = 0,
                                .group = group_of(e),
                                .has_factor = factor_kind(e, 3),
                                .rate_scale = f32(e, "rate_scale"),
                                .beta1 = static_cast<float>(beta1),
                                .one_minus_beta1 = static_cast<float>(1 - beta1),
                                .beta2 = static_cast<float>(beta2),
                                .one_minus_beta2 = static_cast<float>(1 - beta2),
                                .weight_decay = f32(e, "weight_decay")};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  emit_flat(e, shaders::KernelId::lion_step__f32, {},
            {e.update(0), e.in(1), e.update(2), factor_of(e, 3), e.step_state()}, push, e.in_shape(0).elements(),
            0b11000);
  return ok_status();
}

// --- rmsprop_step(param, grad, square_avg, momentum_buffer?, grad_avg?, factor?)

constexpr AttrSpec kRmspropAttrs[] = {kGroup,
                                      attr::number("alpha", 0.99).within(0, kBelowOne),
                                      attr::number("epsilon", 1e-8).at_least(0),
                                      attr::number("momentum").at_least(0),
                                      kWeightDecay,
                                      kRateScale};

Status infer_rmsprop(InferContext& c) {
  GRAFT_TRY(expect_alike(c, 5));
  if (c.attrs().number("momentum") != 0 && !c.has(3)) {
    return invalid("Momentum ", c.attrs().number("momentum"), " needs a momentum buffer as input 3.");
  }
  return ok_status();
}

Status emit_rmsprop(Emitter& e) {
  const double alpha = e.attrs().number("alpha");
  const push::RmspropStepPush push{.count = 0,
                                   .group = group_of(e),
                                   .has_factor = factor_kind(e, 5),
                                   .rate_scale = f32(e, "rate_scale"),
                                   .has_momentum = e.attrs().number("momentum") != 0,
                                   .centered = e.has(4),
                                   .alpha = static_cast<float>(alpha),
                                   .one_minus_alpha = static_cast<float>(1 - alpha),
                                   .epsilon = f32(e, "epsilon"),
                                   .momentum = f32(e, "momentum"),
                                   .weight_decay = f32(e, "weight_decay")};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  const Binding velocity = e.update(push.has_momentum != 0 ? 3 : 0), mean = e.update(push.centered != 0 ? 4 : 0);
  emit_flat(e, shaders::KernelId::rmsprop_step__f32, {},
            {e.update(0), e.in(1), e.update(2), velocity, mean, factor_of(e, 5), e.step_state()}, push,
            e.in_shape(0).elements(), 0b1100000);
  return ok_status();
}

// --- adagrad_step(param, grad, sum, factor?)

constexpr AttrSpec kAdagradAttrs[] = {kGroup,
                                      attr::number("lr_decay").at_least(0),
                                      attr::number("initial").at_least(0),
                                      attr::number("epsilon", 1e-10).at_least(0),
                                      kWeightDecay,
                                      kRateScale};

Status infer_adagrad(InferContext& c) {
  GRAFT_TRY(expect_alike(c, 3));
  return ok_status();
}

Status emit_adagrad(Emitter& e) {
  const push::AdagradStepPush push{.count = 0,
                                   .group = group_of(e),
                                   .has_factor = factor_kind(e, 3),
                                   .rate_scale = f32(e, "rate_scale"),
                                   .lr_decay = f32(e, "lr_decay"),
                                   .initial = f32(e, "initial"),
                                   .epsilon = f32(e, "epsilon"),
                                   .weight_decay = f32(e, "weight_decay")};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  emit_flat(e, shaders::KernelId::adagrad_step__f32, {},
            {e.update(0), e.in(1), e.update(2), factor_of(e, 3), e.step_state()}, push, e.in_shape(0).elements(),
            0b11000);
  return ok_status();
}

// --- moment_update(mean, x, factor?) -> the mean after it

constexpr AttrSpec kMomentAttrs[] = {kGroup,
                                     attr::number("decay").at_least(0),
                                     attr::number("weight").at_least(0),
                                     attr::flag("lerp"),
                                     attr::flag("squared"),
                                     attr::flag("from_step")};

Status infer_moment(InferContext& c) {
  GRAFT_TRY(expect_alike(c, 2));
  c.output(DType::f32, c.shape(0));
  return ok_status();
}

Status emit_moment(Emitter& e) {
  const Attrs& a = e.attrs();
  const push::MomentUpdatePush push{.count = 0,
                                    .group = group_of(e),
                                    .has_factor = factor_kind(e, 2),
                                    .from_step = a.flag("from_step"),
                                    .lerp = a.flag("lerp"),
                                    .squared = a.flag("squared"),
                                    .decay = f32(e, "decay"),
                                    .weight = f32(e, "weight")};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "running mean"));
  emit_flat(e, shaders::KernelId::moment_update__f32, {}, {e.update(0), e.in(1), factor_of(e, 2), e.step_state()}, push,
            e.in_shape(0).elements(), 0b1100);
  return ok_status();
}

// --- apply_update(param, direction, factor?, scale?)

constexpr AttrSpec kApplyAttrs[] = {kGroup, attr::flag("absolute"), kWeightDecay, kRateScale};

Status infer_apply(InferContext& c) {
  GRAFT_TRY(expect_alike(c, 2));
  GRAFT_TRY(expect_scalar(c, 3));
  return ok_status();
}

Status emit_apply(Emitter& e) {
  const push::ApplyUpdatePush push{.count = 0,
                                   .group = group_of(e),
                                   .has_factor = factor_kind(e, 2),
                                   .rate_scale = f32(e, "rate_scale"),
                                   .has_scale = e.has(3),
                                   .absolute = e.attrs().flag("absolute"),
                                   .weight_decay = f32(e, "weight_decay")};
  GRAFT_TRY(count32(e.in_shape(0).elements(), "parameter"));
  emit_flat(e, shaders::KernelId::apply_update__f32, {},
            {e.update(0), e.in(1), factor_of(e, 2), factor_of(e, 3), e.step_state()}, push, e.in_shape(0).elements(),
            0b11100);
  return ok_status();
}

}  // namespace

extern const OpDef op_lion_step, op_rmsprop_step, op_adagrad_step, op_moment_update, op_apply_update;
const OpDef op_lion_step = {.name = "lion_step",
                            .attrs = kLionAttrs,
                            .min_inputs = 3,
                            .max_inputs = 4,
                            .optional_inputs = 0b1000,
                            .infer = infer_lion,
                            .emit = emit_lion,
                            .gradient = kUpdates,
                            .flops = flops,
                            .mutates = 0b101,
                            .uses_step_state = true};
const OpDef op_rmsprop_step = {.name = "rmsprop_step",
                               .attrs = kRmspropAttrs,
                               .min_inputs = 3,
                               .max_inputs = 6,
                               .optional_inputs = 0b111000,
                               .infer = infer_rmsprop,
                               .emit = emit_rmsprop,
                               .gradient = kUpdates,
                               .flops = flops,
                               .mutates = 0b11101,
                               .uses_step_state = true};
const OpDef op_adagrad_step = {.name = "adagrad_step",
                               .attrs = kAdagradAttrs,
                               .min_inputs = 3,
                               .max_inputs = 4,
                               .optional_inputs = 0b1000,
                               .infer = infer_adagrad,
                               .emit = emit_adagrad,
                               .gradient = kUpdates,
                               .flops = flops,
                               .mutates = 0b101,
                               .uses_step_state = true};
const OpDef op_moment_update = {.name = "moment_update",
                                .attrs = kMomentAttrs,
                                .min_inputs = 2,
                                .max_inputs = 3,
                                .optional_inputs = 0b100,
                                .infer = infer_moment,
                                .emit = emit_moment,
                                .gradient = kUpdates,
                                .flops = flops,
                                .mutates = 0b1,
                                .alias_input = 0,
                                .uses_step_state = true};
const OpDef op_apply_update = {.name = "apply_update",
                               .attrs = kApplyAttrs,
                               .min_inputs = 2,
                               .max_inputs = 4,
                               .optional_inputs = 0b1100,
                               .infer = infer_apply,
                               .emit = emit_apply,
                               .gradient = kUpdates,
                               .flops = flops,
                               .mutates = 0b1,
                               .uses_step_state = true};

}  // namespace graft::ops::descent
