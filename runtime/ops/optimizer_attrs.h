// What the steps of optimizers share: their attributes, the factor of the gradients, Adam's numbers.
#pragma once

#include <cmath>

#include "runtime/ops/emitter.h"
#include "shaders/loss_scale/update_control.h"
#include "shaders/optimizer/adam_step_push.h"

namespace graft::ops {

inline constexpr std::int64_t kParameterGroups = 16;  // length of the step state's arrays
inline constexpr double kAny = 3e38;                  // fits f32

inline Status check_group(const Attrs& attrs) {
  const std::int64_t group = attrs.integer("group");
  if (group >= 0 && group < kParameterGroups) return ok_status();
  return invalid("The attribute \"group\" is ", group, "; it must lie in [0, ", kParameterGroups - 1, "].");
}

/// The attribute, which must lie in [low, high] (and so not be NaN).
inline Status check_number(const Attrs& attrs, std::string_view name, double fallback, double low, double high) {
  const double value = attrs.number(name, fallback);
  if (value >= low && value <= high && std::isfinite(value)) return ok_status();
  return invalid("The attribute \"", name, "\" is ", value, "; it must be finite and lie in [", low, ", ", high, "].");
}

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

inline constexpr AttrSpec kAdamAttrs[] = {{"group", AttrType::integer},       {"beta1", AttrType::number},
                                          {"beta2", AttrType::number},        {"epsilon", AttrType::number},
                                          {"decoupled", AttrType::integer},   {"maximize", AttrType::integer},
                                          {"weight_decay", AttrType::number}, {"rate_scale", AttrType::number}};

/// The parameter, the gradient and the factor (input `factor`), and the attributes.
inline Status infer_adam_common(InferContext& c, std::size_t factor) {
  GRAFT_TRY(c.expect_dtype(0, DType::f32));
  GRAFT_TRY(c.expect_dtype(1, DType::f32));
  GRAFT_TRY(c.expect_shape(1, c.shape(0)));
  GRAFT_TRY(expect_factor(c, factor));
  GRAFT_TRY(check_group(c.attrs()));
  constexpr double kBelowOne = 1 - 0x1p-24;  // stays below 1 in f32
  GRAFT_TRY(check_number(c.attrs(), "beta1", 0.9, 0, kBelowOne));
  GRAFT_TRY(check_number(c.attrs(), "beta2", 0.999, 0, kBelowOne));
  GRAFT_TRY(check_number(c.attrs(), "epsilon", 1e-8, 0, kAny));
  GRAFT_TRY(check_number(c.attrs(), "rate_scale", 1, 0, kAny));
  return check_number(c.attrs(), "weight_decay", 0, 0, kAny);
}

inline push::AdamStepPush adam_push(const Emitter& e, std::size_t factor) {
  const Attrs& a = e.attrs();
  const double beta1 = a.number("beta1", 0.9);
  const double beta2 = a.number("beta2", 0.999);
  return {.count = 0,
          .group = static_cast<std::uint32_t>(a.integer("group")),
          .has_factor = factor_kind(e, factor),
          .decoupled = a.flag("decoupled"),
          .maximize = a.flag("maximize"),
          .beta1 = static_cast<float>(beta1),
          .one_minus_beta1 = static_cast<float>(1 - beta1),
          .beta2 = static_cast<float>(beta2),
          .one_minus_beta2 = static_cast<float>(1 - beta2),
          .epsilon = static_cast<float>(a.number("epsilon", 1e-8)),
          .weight_decay = static_cast<float>(a.number("weight_decay")),
          .rate_scale = static_cast<float>(a.number("rate_scale", 1))};
}

}  // namespace graft::ops
