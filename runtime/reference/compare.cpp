#include "runtime/reference/compare.h"

#include <algorithm>
#include <cmath>

namespace graft {

double worst_error(const std::vector<double>& actual, const std::vector<double>& expected) {
  double squares = 0;
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    squares += std::isfinite(expected[i]) ? expected[i] * expected[i] : 0;
    if (actual[i] == expected[i] || (std::isnan(actual[i]) && std::isnan(expected[i]))) continue;
    worst = std::max(worst, std::isfinite(actual[i]) ? std::abs(actual[i] - expected[i]) : HUGE_VAL);
  }
  const double rms = expected.empty() ? 0 : std::sqrt(squares / static_cast<double>(expected.size()));
  return worst / std::max(rms, 1e-12);
}

}  // namespace graft
