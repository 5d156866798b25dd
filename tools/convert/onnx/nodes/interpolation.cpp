#include "tools/convert/onnx/nodes/interpolation.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace graft::convert {
namespace {

/// A scale that files keep as f32 is meant as a ratio of small numbers, where one is as near as f32 can tell; sizes
/// give it exactly. Positions that it puts between pixels then lie there.
struct Ratio {
  double numerator = 1, denominator = 1;
};

Ratio ratio_of(const AxisResize& axis) {
  const auto near = [&](std::int64_t n, std::int64_t d) {
    return std::abs(static_cast<double>(n) / static_cast<double>(d) - axis.scale) <= 1e-7 * axis.scale;
  };
  if (near(axis.out, axis.in)) return {static_cast<double>(axis.out), static_cast<double>(axis.in)};
  for (std::int64_t d = 1; d <= 4096; ++d) {
    const auto n = static_cast<std::int64_t>(std::llround(axis.scale * static_cast<double>(d)));
    if (n > 0 && near(n, d)) return {static_cast<double>(n), static_cast<double>(d)};
  }
  return {axis.scale, 1};
}

/// Weights of the source positions first, first + 1, ..
struct AxisWeights {
  std::int64_t first = 0;
  std::vector<double> weights;
};

double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

AxisWeights taps_at(const Interpolation& how, const AxisResize& axis, double x) {
  // The distance from the position on the left, which for a whole x is the one before it.
  const auto left = static_cast<std::int64_t>(std::ceil(x)) - 1;
  const double ratio = x - static_cast<double>(left);
  const bool linear = how.mode == Interpolation::Mode::linear;
  const double scale = how.antialias ? std::min(axis.scale, 1.0) : 1.0;
  const double reach = linear ? 1 : 2;
  const auto start = static_cast<std::int64_t>(std::floor(-reach / scale)) + 1;
  AxisWeights taps{left + start, {}};
  double sum = 0;
  for (std::int64_t i = start; i < 2 - start; ++i) {
    const double distance = (static_cast<double>(i) - ratio) * scale;
    taps.weights.push_back(linear ? std::max(0.0, 1 - std::abs(distance)) : cubic(distance, how.cubic_a));
    sum += taps.weights.back();
  }
  if (how.antialias) {
    for (double& weight : taps.weights) weight /= sum;
  }
  return taps;
}

}  // namespace

Result<Interpolation> read_interpolation(NodeContext& c, bool old) {
  Interpolation how;
  const std::string mode = c.attr_text("mode", "nearest");
  if (mode == "linear" || mode == "bilinear") {
    how.mode = Interpolation::Mode::linear;
  } else if (mode == "cubic") {
    how.mode = Interpolation::Mode::cubic;
  } else if (mode != "nearest") {
    return unsupported("its mode is \"", mode, "\" (nearest, linear and cubic are supported)");
  }
  how.coordinates = old ? "asymmetric" : c.attr_text("coordinate_transformation_mode", "half_pixel");
  // An older name of the half-pixel mode with a nearest pixel below.
  if (how.coordinates == "tf_half_pixel_for_nn") how.coordinates = "half_pixel_for_nn";
  const auto one_of = [](const std::string& text, std::initializer_list<const char*> all) {
    return std::find(all.begin(), all.end(), text) != all.end();
  };
  if (!one_of(how.coordinates, {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                                "asymmetric", "tf_crop_and_resize", "half_pixel_for_nn"})) {
    return unsupported("its coordinate_transformation_mode is \"", how.coordinates, "\"");
  }
  how.nearest = old ? "floor" : c.attr_text("nearest_mode", "round_prefer_floor");
  if (!one_of(how.nearest, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})) {
    return unsupported("its nearest_mode is \"", how.nearest, "\"");
  }
  how.cubic_a = c.attr_number("cubic_coeff_a", -0.75);
  how.antialias = c.attr("antialias", 0) != 0 && how.mode != Interpolation::Mode::nearest;
  how.exclude_outside = c.attr("exclude_outside", 0) != 0;
  return how;
}

double source_position(const Interpolation& how, const AxisResize& axis, std::int64_t o) {
  const double at = static_cast<double>(o), in = static_cast<double>(axis.in), out = static_cast<double>(axis.out);
  const Ratio scale = ratio_of(axis);
  const double length = in * scale.numerator / scale.denominator;  // of the result, which need not be whole
  const double half_pixel = (at + 0.5) * scale.denominator / scale.numerator - 0.5;
  if (how.coordinates == "asymmetric") return at * scale.denominator / scale.numerator;
  if (how.coordinates == "half_pixel_for_nn") return (at + 0.5) * scale.denominator / scale.numerator;
  // By the whole size of the result, as PyTorch and ONNX Runtime have it; ONNX's text divides by in * scale - 1.
  if (how.coordinates == "align_corners") return axis.out <= 1 ? 0 : at * (in - 1) / (out - 1);
  if (how.coordinates == "pytorch_half_pixel") return axis.out > 1 ? half_pixel : 0;
  if (how.coordinates == "half_pixel_symmetric") {
    // The centre of the source goes to the centre of the result.
    return in / 2 * (1 - out / length) + half_pixel;
  }
  if (how.coordinates == "tf_crop_and_resize") {
    const double extent = (axis.roi_end - axis.roi_start) * (in - 1);
    if (axis.out <= 1) return 0.5 * (axis.roi_start + axis.roi_end) * (in - 1);
    return axis.roi_start * (in - 1) + at * extent / (out - 1);
  }
  return half_pixel;
}

bool is_extrapolated(const Interpolation& how, const AxisResize& axis, std::int64_t o) {
  if (how.coordinates != "tf_crop_and_resize") return false;
  const double x = source_position(how, axis, o);
  return x < 0 || x > static_cast<double>(axis.in - 1);
}

std::vector<std::int64_t> nearest_positions(const Interpolation& how, const AxisResize& axis) {
  std::vector<std::int64_t> positions;
  for (std::int64_t o = 0; o < axis.out; ++o) {
    const double x = source_position(how, axis, o);
    const double whole = how.nearest == "floor"               ? std::floor(x)
                         : how.nearest == "ceil"              ? std::ceil(x)
                         : how.nearest == "round_prefer_ceil" ? std::floor(x + 0.5)
                                                              : std::ceil(x - 0.5);
    positions.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(whole), 0, axis.in - 1));
  }
  return positions;
}

std::vector<float> interpolation_matrix(const Interpolation& how, const AxisResize& axis) {
  std::vector<float> matrix(static_cast<std::size_t>(axis.in * axis.out), 0.0f);
  for (std::int64_t o = 0; o < axis.out; ++o) {
    if (is_extrapolated(how, axis, o)) continue;
    AxisWeights taps = taps_at(how, axis, source_position(how, axis, o));
    double sum = 1;
    if (how.exclude_outside) {
      sum = 0;
      for (std::size_t k = 0; k < taps.weights.size(); ++k) {
        const std::int64_t at = taps.first + static_cast<std::int64_t>(k);
        if (at < 0 || at >= axis.in) taps.weights[k] = 0;
        sum += taps.weights[k];
      }
    }
    std::vector<double> row(static_cast<std::size_t>(axis.in), 0.0);
    for (std::size_t k = 0; k < taps.weights.size(); ++k) {
      const std::int64_t at = std::clamp<std::int64_t>(taps.first + static_cast<std::int64_t>(k), 0, axis.in - 1);
      row[static_cast<std::size_t>(at)] += taps.weights[k] / sum;
    }
    std::transform(row.begin(), row.end(), matrix.begin() + o * axis.in,
                   [](double w) { return static_cast<float>(w); });
  }
  return matrix;
}

}  // namespace graft::convert
