// Dynamic loss scaling: gradients are computed of the loss times a scale, so that small ones survive 16 bits; a step
// whose gradients overflow is left out, and the scale is lowered. A step whose loss is not finite is left out too: its
// forward pass overflowed, which does not depend on the scale, so the scale stays. Words and defaults are those of
// torch.amp.GradScaler. P. Micikevicius et al., "Mixed Precision Training", ICLR 2018. Everything happens on the
// device.
#include <cmath>

#include "runtime/ops/emitter.h"
#include "runtime/ops/optimizer_attrs.h"
#include "runtime/ops/totals.h"
#include "shaders/kernels.gen.h"
#include "shaders/loss_scale/loss_scale_push.h"
#include "shaders/loss_scale/loss_scale_state.h"
#include "shaders/loss_scale/loss_scale_step_push.h"

namespace graft::ops::loss_scale {
namespace {

constexpr NoGrad kServesTraining{"it serves the optimizer alone"};

Status expect_state(InferContext& c, std::size_t i) {
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  return c.expect_shape(i, Shape::of({kLossScaleFields}));
}

constexpr double kTiny = 0x1p-126;
constexpr double kHuge = 0x1p126;
constexpr AttrSpec kInitial = attr::number("initial", 65536).within(kTiny, kHuge);

// --- loss_scale(weight, state; initial) -> weight * scale, 1 / scale

constexpr AttrSpec kScaleAttrs[] = {kInitial};

Status infer_scale(InferContext& c) {
  GRAFT_TRY(expect_scalar(c, 0));
  GRAFT_TRY(expect_state(c, 1));
  c.output(DType::f32, {});
  c.output(DType::f32, {});
  return ok_status();
}

Status emit_scale(Emitter& e) {
  const push::LossScalePush push{static_cast<float>(e.attrs().number("initial"))};
  e.dispatch(shaders::KernelId::loss_scale__f32, {}, {e.in(0), e.in(1), e.out(0), e.out(1)}, push, {1, 1, 1});
  return ok_status();
}

// --- overflow_count(xs...) -> how many elements are not finite

Status infer_count(InferContext& c) {
  for (std::size_t i = 0; i < c.inputs(); ++i) GRAFT_TRY(c.expect_dtype(i, DType::f32));
  c.output(DType::f32, {});
  return ok_status();
}

Status emit_count(Emitter& e) {
  return emit_total(e, shaders::KernelId::squared_norm__f32_overflow, shaders::KernelId::squared_norm__f32_total, 1);
}

// --- loss_scale_step(state, overflow_count, squared_norm?, loss?; ..) -> control [4], squared norm without the scale

constexpr AttrSpec kStepAttrs[] = {kInitial,
                                   attr::number("growth_factor", 2).within(1, kHuge),
                                   attr::number("backoff_factor", 0.5).within(kTiny, 1),
                                   attr::number("interval", 2000).within(1, 1 << 24),
                                   attr::number("max_norm").within(0, kHuge),
                                   attr::flag("unscaled"),
                                   attr::integer("corrections", kNoCorrections).within(kNoCorrections, kStepCount),
                                   attr::number("beta1").within(0, kBelowOne),
                                   attr::number("beta2").within(0, kBelowOne),
                                   attr::number("beta2_decay").within(-10, 0)};

Status infer_step(InferContext& c) {
  GRAFT_TRY(expect_state(c, 0));
  GRAFT_TRY(expect_scalar(c, 1));
  GRAFT_TRY(expect_scalar(c, 2));
  GRAFT_TRY(expect_scalar(c, 3));
  if (c.attrs().number("max_norm") != 0 && !c.has(2)) return invalid("Clipping needs the squared norm as input 2.");
  c.output(DType::f32, Shape::of({kUpdateControlFields}));
  c.output(DType::f32, {});
  return ok_status();
}

float log_of(double beta) { return static_cast<float>(std::max(std::log(beta), -1e30)); }

Status emit_step(Emitter& e) {
  const Attrs& a = e.attrs();
  const push::LossScaleStepPush push{.initial = static_cast<float>(a.number("initial")),
                                     .growth = static_cast<float>(a.number("growth_factor")),
                                     .backoff = static_cast<float>(a.number("backoff_factor")),
                                     .interval = static_cast<float>(a.number("interval")),
                                     .max_norm = static_cast<float>(a.number("max_norm")),
                                     .unscaled = a.flag("unscaled"),
                                     .log_beta1 = log_of(a.number("beta1")),
                                     .log_beta2 = log_of(a.number("beta2")),
                                     .corrections = static_cast<std::uint32_t>(a.integer("corrections")),
                                     .beta2_decay = static_cast<float>(a.number("beta2_decay")),
                                     .has_loss = e.has(3)};
  e.dispatch(shaders::KernelId::loss_scale_step__f32, {},
             {e.update(0), e.in(1), e.in(e.has(2) ? 2 : 1), e.in(e.has(3) ? 3 : 1), e.out(0), e.out(1)}, push,
             {1, 1, 1});
  return ok_status();
}

std::uint64_t no_flops(const Graph&, const Node&) { return 0; }

}  // namespace

extern const OpDef op_loss_scale, op_overflow_count, op_loss_scale_step;
const OpDef op_loss_scale = {.name = "loss_scale",
                             .attrs = kScaleAttrs,
                             .min_inputs = 2,
                             .max_inputs = 2,
                             .infer = infer_scale,
                             .emit = emit_scale,
                             .gradient = kServesTraining};
const OpDef op_overflow_count = {.name = "overflow_count",
                                 .max_inputs = 255,
                                 .infer = infer_count,
                                 .emit = emit_count,
                                 .gradient = kServesTraining,
                                 .flops = no_flops};
const OpDef op_loss_scale_step = {.name = "loss_scale_step",
                                  .attrs = kStepAttrs,
                                  .min_inputs = 2,
                                  .max_inputs = 4,
                                  .optional_inputs = 0b1100,
                                  .infer = infer_step,
                                  .emit = emit_step,
                                  .gradient = kServesTraining,
                                  .mutates = 0b1};

}  // namespace graft::ops::loss_scale
