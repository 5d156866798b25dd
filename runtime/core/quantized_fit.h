// Scales of quantized blocks: what a group of numbers is best written with.
#pragma once

#include <cstdint>
#include <span>

namespace graft {

/// A number is scale * code + min, codes from `lowest` to `highest`.
struct CodeRange {
  int lowest = 0;
  int highest = 0;
  enum class Min : std::uint8_t { none, any, at_most_zero } min = Min::none;
};

struct GroupFit {
  float scale = 0;
  float min = 0;
};

/// By the extremes: these get codes at the ends of the range, or the largest magnitude the code that is farthest from
/// 0.
GroupFit fit_extremes(std::span<const float> x, const CodeRange& range);

/// By least squares: of a few scales near that of the extremes, the one whose codes leave the least sum of
/// weights[i] * (x[i] - (scale * code + min))^2 once scale and min are the best for these codes. `weights` has as many
/// numbers as x, none negative; where all are 0 they count alike. Never worse than the extremes, but for rounding.
GroupFit fit_least_error(std::span<const float> x, std::span<const float> weights, const CodeRange& range);

}  // namespace graft
