#include "runtime/data/draws.h"

#include <cmath>
#include <numbers>

namespace graft::data {

double normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.uniform()));
  return radius * std::cos(2 * std::numbers::pi * random.uniform());
}

// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables", 2000.
double log_gamma_variate(Random& random, double shape) {
  if (shape < 1) return log_gamma_variate(random, shape + 1) + std::log(1 - random.uniform()) / shape;
  const double d = shape - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = normal(random);
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    if (std::log(1 - random.uniform()) < x * x / 2 + d - d * v + d * std::log(v)) return std::log(d * v);
  }
}

double beta_variate(Random& random, double alpha) {
  const double a = log_gamma_variate(random, alpha), b = log_gamma_variate(random, alpha);
  return 1 / (1 + std::exp(b - a));
}

}  // namespace graft::data
