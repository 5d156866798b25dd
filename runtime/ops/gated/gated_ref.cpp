#include <cmath>
#include <numbers>

#include "runtime/reference/ref_context.h"

namespace graft::ops::gated {
namespace {

struct Point {
  double value;
  double slope;
};

Point silu(double x) {
  const double s = 1 / (1 + std::exp(-x));
  return {x * s, s * (1 + x * (1 - s))};
}

Point gelu(double x) {
  const double below = 0.5 * std::erfc(-x / std::numbers::sqrt2);
  return {x * below, below + x * std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi)};
}

Point gelu_tanh(double x) {
  const double c = std::sqrt(2 / std::numbers::pi);
  const double t = std::tanh(c * (x + 0.044715 * x * x * x));
  return {0.5 * x * (1 + t), 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x)};
}

Point activate(const RefContext& c, double x) {
  const std::string name = c.attrs().text("activation");
  return name == "silu" ? silu(x) : name == "gelu" ? gelu(x) : gelu_tanh(x);
}

}  // namespace

void ref_gated(RefContext& c) {
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = activate(c, c.in(0)[i]).value * c.in(1)[i];
}

void ref_gated_grad(RefContext& c) {
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const Point at = activate(c, c.in(0)[i]);
    c.out(0)[i] = c.in(2)[i] * c.in(1)[i] * at.slope;
    c.out(1)[i] = c.in(2)[i] * at.value;
  }
}

}  // namespace graft::ops::gated
