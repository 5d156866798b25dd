#include <algorithm>
#include <cmath>
#include <optional>

#include "runtime/reference/ref_context.h"

namespace graft::ops::descent {

namespace {

/// The factor input, where there is one: a number, or what loss_scale_step gives.
struct Factor {
  double value = 1;
  bool skip = false;
  std::optional<double> correction = {};  ///< the first, where the control has it
};

Factor factor_of(RefContext& c, std::size_t i) {
  if (!c.has(i)) return {};
  const auto control = c.in(i);
  if (control.size() == 1) return {control[0], std::isnan(control[0])};
  return {control[0], std::isnan(control[0]) || control[3] == 1, control[1]};
}

double rate_of(RefContext& c) {
  return c.step_state().learning_rate[c.attrs().integer("group")] * c.attrs().number("rate_scale");
}

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

}  // namespace

void ref_lion_step(RefContext& c) {
  const Factor factor = factor_of(c, 3);
  if (factor.skip) return;
  const double beta1 = c.attrs().number("beta1"), beta2 = c.attrs().number("beta2"), rate = rate_of(c);
  for (std::size_t i = 0; i < c.update(0).size(); ++i) {
    const double g = c.in(1)[i] * factor.value;
    double& x = c.update(0)[i];
    double& m = c.update(2)[i];
    x *= 1 - rate * c.attrs().number("weight_decay");
    x -= rate * sign(beta1 * m + (1 - beta1) * g);
    m = beta2 * m + (1 - beta2) * g;
  }
}

void ref_rmsprop_step(RefContext& c) {
  const Factor factor = factor_of(c, 5);
  if (factor.skip) return;
  const double alpha = c.attrs().number("alpha"), momentum = c.attrs().number("momentum"), rate = rate_of(c);
  for (std::size_t i = 0; i < c.update(0).size(); ++i) {
    double& x = c.update(0)[i];
    const double g = c.in(1)[i] * factor.value + c.attrs().number("weight_decay") * x;
    double& square = c.update(2)[i];
    square = alpha * square + (1 - alpha) * g * g;
    double spread = square;
    if (c.has(4)) {
      double& mean = c.update(4)[i];
      mean += (1 - alpha) * (g - mean);
      spread = std::max(spread - mean * mean, 0.0);
    }
    double step = g / (std::sqrt(spread) + c.attrs().number("epsilon"));
    if (momentum != 0) step = c.update(3)[i] = momentum * c.update(3)[i] + step;
    x -= rate * step;
  }
}

void ref_adagrad_step(RefContext& c) {
  const Factor factor = factor_of(c, 3);
  if (factor.skip) return;
  const double steps = factor.correction.value_or(c.step_state().step);
  const double rate = rate_of(c) / (1 + steps * c.attrs().number("lr_decay"));
  for (std::size_t i = 0; i < c.update(0).size(); ++i) {
    double& x = c.update(0)[i];
    const double g = c.in(1)[i] * factor.value + c.attrs().number("weight_decay") * x;
    c.update(2)[i] += g * g;
    x -= rate * g / (std::sqrt(c.update(2)[i] + c.attrs().number("initial")) + c.attrs().number("epsilon"));
  }
}

void ref_moment_update(RefContext& c) {
  const Attrs& a = c.attrs();
  const auto mean = c.update(0);
  const Factor factor = factor_of(c, 2);
  const bool skip = factor.skip;
  const double of_step = factor.correction.value_or(c.step_state().bias_correction1[a.integer("group")]);
  const double weight = a.flag("from_step") ? of_step : a.number("weight");
  for (std::size_t i = 0; i < mean.size() && !skip; ++i) {
    const double x = a.flag("squared") ? c.in(1)[i] * c.in(1)[i] : c.in(1)[i];
    mean[i] = a.flag("lerp") ? mean[i] + weight * (x - mean[i]) : a.number("decay") * mean[i] + weight * x;
  }
  std::copy(mean.begin(), mean.end(), c.out().begin());
}

void ref_apply_update(RefContext& c) {
  if (factor_of(c, 2).skip) return;
  const double rate = rate_of(c);
  double size = c.has(3) ? c.in(3)[0] : 1;
  size *= c.attrs().flag("absolute") ? c.attrs().number("rate_scale") : rate;
  for (std::size_t i = 0; i < c.update(0).size(); ++i) {
    double& x = c.update(0)[i];
    x = x * (1 - rate * c.attrs().number("weight_decay")) - size * c.in(1)[i];
  }
}

}  // namespace graft::ops::descent
