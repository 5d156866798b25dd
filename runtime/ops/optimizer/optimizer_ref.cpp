#include <algorithm>
#include <bit>
#include <cmath>

#include "runtime/reference/ref_context.h"
#include "shaders/optimizer/totals_push.h"

namespace graft::ops::optimizer {

namespace {

/// The factor input, where there is one: a number, or what loss_scale_step gives.
struct Control {
  double factor = 1;
  bool skip = false;
  bool first;
  double correction1, correction2;
};

Control control_of(RefContext& c, std::size_t i) {
  const auto group = c.attrs().integer("group");
  Control out{.first = c.step_state().step == 0,
              .correction1 = c.step_state().bias_correction1[group],
              .correction2 = c.step_state().bias_correction2[group]};
  if (!c.has(i)) return out;
  const auto control = c.in(i);
  out.factor = control[0];
  out.skip = std::isnan(control[0]);
  if (control.size() == 1) return out;
  return {control[0], control[3] == 1, control[3] == 2, control[1], control[2]};
}

}  // namespace

void ref_sgd_step(RefContext& c) {
  const Attrs& a = c.attrs();
  const Control control = control_of(c, 3);
  if (control.skip) return;
  const double momentum = a.number("momentum");
  const double rate = c.step_state().learning_rate[a.integer("group")] * a.number("rate_scale");
  const auto param = c.update(0);
  for (std::size_t i = 0; i < param.size(); ++i) {
    double d = c.in(1)[i] * control.factor;
    if (a.flag("maximize")) d = -d;
    d += a.number("weight_decay") * param[i];
    if (momentum != 0) {
      double& velocity = c.update(2)[i];
      velocity = control.first ? d : momentum * velocity + (1 - a.number("dampening")) * d;
      d = a.flag("nesterov") ? d + momentum * velocity : velocity;
    }
    param[i] -= rate * d;
  }
}

void ref_adam_step(RefContext& c) {
  const Attrs& a = c.attrs();
  const Control control = control_of(c, 4);
  if (control.skip) return;
  const auto group = a.integer("group");
  const double beta1 = a.number("beta1");
  const double beta2 = a.number("beta2");
  const double decay = a.number("weight_decay");
  const double rate = c.step_state().learning_rate[group] * a.number("rate_scale");
  const auto param = c.update(0);
  const auto m = c.update(2);
  const auto v = c.update(3);
  for (std::size_t i = 0; i < param.size(); ++i) {
    double g = c.in(1)[i] * control.factor;
    if (a.flag("maximize")) g = -g;
    if (a.flag("decoupled")) {
      param[i] *= 1 - rate * decay;
    } else {
      g += decay * param[i];
    }
    m[i] = beta1 * m[i] + (1 - beta1) * g;
    v[i] = beta2 * v[i] + (1 - beta2) * g * g;
    const double denominator = std::sqrt(v[i]) / std::sqrt(control.correction2) + a.number("epsilon");
    param[i] -= rate / control.correction1 * m[i] / denominator;
  }
}

void ref_accumulate(RefContext& c) {
  for (std::size_t i = 0; i < c.update(0).size(); ++i) c.update(0)[i] += c.in(1)[i];
}

void ref_zero_state(RefContext& c) { std::fill(c.update(0).begin(), c.update(0).end(), 0.0); }

void ref_squared_norm(RefContext& c) {
  double sum = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    for (const double x : c.in(i)) sum += x * x;
  }
  c.out()[0] = sum;
}

void ref_state_hash(RefContext& c) {
  std::uint32_t sums[2] = {};
  for (std::uint32_t tensor = 0; tensor < c.inputs(); ++tensor) {
    const bool is_float = c.graph().value(c.node().inputs[tensor]).dtype == DType::f32;
    std::uint32_t key = tensor * push::kHashTensor;
    for (const double x : c.in(tensor)) {
      const auto bits = is_float ? std::bit_cast<std::uint32_t>(static_cast<float>(x))
                                 : static_cast<std::uint32_t>(static_cast<std::int64_t>(x));
      std::uint32_t word = (bits ^ key) * 0xC2B2AE3Du;
      word ^= word >> 15;
      std::uint32_t first = word * 0x27D4EB2Fu;
      first ^= first >> 13;
      std::uint32_t second = (word + key) * 0x165667B1u;
      second ^= second >> 16;
      sums[0] += first;
      sums[1] += second;
      key += push::kHashElement;
    }
  }
  for (int i = 0; i < 2; ++i) c.out()[i] = static_cast<std::int32_t>(sums[i]);
}

void ref_clip_factor(RefContext& c) {
  const double max_norm = c.attrs().number("max_norm");
  const double total = c.in(0)[0];
  const bool lost = c.has(1) && !std::isfinite(c.in(1)[0]);
  const bool bad = max_norm > 0 ? !std::isfinite(total) : total != 0;
  const double factor = max_norm > 0 ? std::min(1.0, max_norm / (std::sqrt(total) + 1e-6)) : 1;
  c.out()[0] = lost || bad ? std::nan("") : factor;
}

}  // namespace graft::ops::optimizer
