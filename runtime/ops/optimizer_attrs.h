// What the steps of optimizers share: their attributes, the factor of the gradients, Adam's numbers.
#pragma once

#include <cmath>

#include "runtime/ops/emitter.h"
#include "shaders/loss_scale/update_control.h"
#include "shaders/optimizer/adam_step_push.h"

namespace graft::ops {

inline constexpr std::int64_t kParameterGroups = 16;  // length of the step state's arrays
inline constexpr double kBelowOne = 1 - 0x1p-24;      // stays below 1 in f32

// Attributes that steps of optimizers have in common.
inline constexpr AttrSpec kGroup = attr::integer("group").within(0, kParameterGroups - 1);
inline constexpr AttrSpec kRateScale = attr::number("rate_scale", 1).at_least(0);
inline constexpr AttrSpec kWeightDecay = attr::number("weight_decay").at_least(0);

inline Status expect_scalar(InferContext& c, std::size_t i) {
  if (!c.has(i)) return ok_status();
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  return c.expect_rank(i, 0);
}

/// What gradients are multiplied by: one number, or what loss_scale_step gives.
inline Status expect_factor(InferContext& c, std::size_t i) {
  if (!c.has(i) || c.shape(i).rank() == 0) return expect_scalar(c, i);
  GRAFT_TRY(c.expect_dtype(i, DType::f32));
  return c.expect_shape(i, Shape::of({kUpdateControlFields}));
}

inline std::uint32_t factor_kind(const Emitter& e, std::size_t i) {
  return !e.has(i) ? 0 : e.in_shape(i).rank() == 0 ? 1 : 2;
}

inline constexpr AttrSpec kAdamAttrs[] = {kGroup,
                                          attr::number("beta1", 0.9).within(0, kBelowOne),
                                          attr::number("beta2", 0.999).within(0, kBelowOne),
                                          attr::number("epsilon", 1e-8).at_least(0),
                                          attr::flag("decoupled"),
                                          attr::flag("maximize"),
                                          kWeightDecay,
                                          kRateScale};

/// The parameter, the gradient and the factor (input `factor`).
inline Status infer_adam_common(InferContext& c, std::size_t factor) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY(c.expect_shape(1, c.shape(0)));
  return expect_factor(c, factor);
}

inline push::AdamStepPush adam_push(const Emitter& e, std::size_t factor) {
  const Attrs& a = e.attrs();
  const double beta1 = a.number("beta1");
  const double beta2 = a.number("beta2");
  return {.count = 0,
          .group = static_cast<std::uint32_t>(a.integer("group")),
          .has_factor = factor_kind(e, factor),
          .decoupled = a.flag("decoupled"),
          .maximize = a.flag("maximize"),
          .beta1 = static_cast<float>(beta1),
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .epsilon = static_cast<float>(a.number("epsilon")),
          .weight_decay = static_cast<float>(a.number("weight_decay")),
          .rate_scale = static_cast<float>(a.number("rate_scale"))};
}

}  // namespace graft::ops
