#include "runtime/core/quantized_fit.h"

#include <algorithm>
#include <cmath>

namespace graft {
namespace {

using Min = CodeRange::Min;

/// Weighted sums of codes c and numbers x, in double: groups have at most 32 numbers.
struct Sums {
  double w = 0, c = 0, cc = 0, x = 0, cx = 0, xx = 0;
};

Sums sums_of(std::span<const float> x, std::span<const float> weights, const CodeRange& range, const GroupFit& fit) {
  Sums s;
  const bool alike = std::ranges::all_of(weights, [](float w) { return w == 0; });
  const float inverse = fit.scale != 0 ? 1 / fit.scale : 0;
  const auto lowest = static_cast<float>(range.lowest), highest = static_cast<float>(range.highest);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double w = alike ? 1 : weights[i];
    // Adding and taking away 1.5 * 2^23 rounds to the nearest, ties to even.
    constexpr float kRound = 12582912.0f;
    const float cut = std::clamp((x[i] - fit.min) * inverse, lowest, highest);
    const double c = (cut + kRound) - kRound;
    s.w += w;
    s.c += w * c;
    s.cc += w * c * c;
    s.x += w * x[i];
    s.cx += w * c * x[i];
    s.xx += w * static_cast<double>(x[i]) * x[i];
  }
  return s;
}

struct Solved {
  double scale = 0, min = 0, error = 0;
};

/// The sum of w * (x - scale * c - min)^2.
double error_of(const Sums& s, double scale, double min) {
  return s.xx - 2 * scale * s.cx - 2 * min * s.x + scale * scale * s.cc + 2 * scale * min * s.c + min * min * s.w;
}

/// The best scale, and min where there is one, for these codes.
Solved solve(const Sums& s, const CodeRange& range) {
  Solved out;
  const double determinant = s.w * s.cc - s.c * s.c;
  const bool both = range.min != Min::none && determinant > 1e-12 * s.w * s.cc;
  if (both) {
    out.scale = (s.w * s.cx - s.c * s.x) / determinant;
    out.min = (s.cc * s.x - s.c * s.cx) / determinant;
  }
  if (!both || (range.min == Min::at_most_zero && out.min > 0)) {
    out.scale = s.cc > 0 ? s.cx / s.cc : 0;
    out.min = 0;
  }
  out.error = error_of(s, out.scale, out.min);
  return out;
}

/// The number of the largest magnitude, with its sign.
float signed_extreme(std::span<const float> x) {
  return *std::ranges::max_element(x, [](float a, float b) { return std::abs(a) < std::abs(b); });
}

}  // namespace

GroupFit fit_extremes(std::span<const float> x, const CodeRange& range) {
  if (range.min == Min::none) return {signed_extreme(x) / static_cast<float>(range.lowest), 0};
  float least = *std::ranges::min_element(x);
  if (range.min == Min::at_most_zero) least = std::min(least, 0.0f);
  return {std::max(*std::ranges::max_element(x) - least, 0.0f) / static_cast<float>(range.highest), least};
}

GroupFit fit_least_error(std::span<const float> x, std::span<const float> weights, const CodeRange& range) {
  const GroupFit first = fit_extremes(x, range);
  if (first.scale == 0) return first;
  GroupFit best = first;
  const Sums start = sums_of(x, weights, range, first);
  double least = error_of(start, first.scale, first.min);
  // The extremes get codes up to nine tenths beyond the range or within it: beyond, they are cut, and the others finer.
  constexpr int kSteps = 9;
  const auto span = static_cast<float>(range.min == Min::none ? -range.lowest : range.highest);
  for (int step = -kSteps; step <= kSteps; ++step) {
    const GroupFit tried = {first.scale * span / (span + 0.1f * static_cast<float>(step)), first.min};
    const Solved solved = solve(sums_of(x, weights, range, tried), range);
    if (!(solved.error < least)) continue;
    least = solved.error;
    best = {static_cast<float>(solved.scale), static_cast<float>(solved.min)};
  }
  return best;
}

}  // namespace graft
