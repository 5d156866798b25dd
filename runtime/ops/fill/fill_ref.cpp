#include <algorithm>

#include "runtime/reference/ref_context.h"

namespace graft::ops::fill {

void ref_full(RefContext& c) { std::fill(c.out().begin(), c.out().end(), c.attrs().number("value")); }

void ref_step_scalar(RefContext& c) {
  const RefStepState& state = c.step_state();
  const std::string field = c.attrs().text("field");
  const auto index = static_cast<std::size_t>(c.attrs().integer("index"));
  c.out()[0] = field == "loss_weight"          ? state.loss_weight
               : field == "term_weight"        ? state.term_weight[index]
               : field == "bias_correction1"   ? state.bias_correction1[index]
               : field == "bias_correction2"   ? state.bias_correction2[index]
               : field == "learning_rate"      ? state.learning_rate[index]
               : field == "loss_scale"         ? state.loss_scale
               : field == "inverse_loss_scale" ? state.inverse_loss_scale
                                               : state.clip_norm;
}

}  // namespace graft::ops::fill
