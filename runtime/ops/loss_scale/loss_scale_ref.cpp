#include <cmath>

#include "runtime/reference/ref_context.h"
#include "shaders/loss_scale/loss_scale_state.h"

namespace graft::ops::loss_scale {
namespace {

double scale_of(double state, const Attrs& attrs) { return state == 0 ? attrs.number("initial") : state; }

}  // namespace

void ref_loss_scale(RefContext& c) {
  const double scale = scale_of(c.in(1)[kScale], c.attrs());
  c.out(0)[0] = c.in(0)[0] * scale;
  c.out(1)[0] = 1 / scale;
}

void ref_overflow_count(RefContext& c) {
  double count = 0;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    for (const double x : c.in(i)) count += std::isfinite(x) ? 0 : 1;
  }
  c.out()[0] = count;
}

void ref_loss_scale_step(RefContext& c) {
  const Attrs& a = c.attrs();
  const auto state = c.update(0);
  double scale = scale_of(state[kScale], a);
  const bool lost = c.has(3) && !std::isfinite(c.in(3)[0]);
  const bool skip = lost || c.in(1)[0] != 0;
  const double inverse = a.flag("unscaled") ? 1 : 1 / scale;
  double factor = inverse, squared = 0;
  if (a.number("max_norm") > 0) {
    const double length = std::sqrt(c.in(2)[0]) * inverse;
    squared = length * length;
    factor *= std::min(1.0, a.number("max_norm") / (length + 1e-6));
  }
  c.out(1)[0] = squared;
  const double t = state[kTaken] + 1;
  c.out(0)[0] = skip ? 0 : factor;
  c.out(0)[1] = c.out(0)[2] = 1;
  switch (a.integer("corrections")) {
    case kAdamCorrections:
      c.out(0)[1] = 1 - std::pow(a.number("beta1"), t);
      c.out(0)[2] = 1 - std::pow(a.number("beta2"), t);
      break;
    case kAdafactorCorrections:
      c.out(0)[1] = std::pow(t, a.number("beta2_decay"));
      c.out(0)[2] = 1 / std::sqrt(t);
      break;
    case kStepCount: c.out(0)[1] = t - 1; break;
    default: break;
  }
  c.out(0)[3] = skip ? 1 : (t == 1 ? 2 : 0);
  state[kGrowing] = skip ? std::min(state[kGrowing], 0.0) - 1 : std::max(state[kGrowing], 0.0) + 1;
  if (skip && !lost) scale *= a.number("backoff_factor");
  if (!skip && state[kGrowing] == a.number("interval")) {
    state[kGrowing] = 0;
    if (scale * a.number("growth_factor") < 0x1p128) scale *= a.number("growth_factor");
  }
  state[kScale] = scale;
  (skip ? state[kSkipped] : state[kTaken]) += 1;
}

}  // namespace graft::ops::loss_scale
