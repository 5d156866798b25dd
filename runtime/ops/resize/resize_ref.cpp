#include <algorithm>
#include <cmath>
#include <functional>

#include "runtime/reference/ref_context.h"

namespace graft::ops::resize {
namespace {

struct Tap {
  std::int64_t index;
  double weight;
};

double coordinate(const Attrs& attrs, double scale, std::int64_t in, std::int64_t out, std::int64_t position) {
  const std::string mode = attrs.text("coordinates");
  const auto o = static_cast<double>(position);
  if (mode == "asymmetric") return o / scale;
  if (mode == "align_corners") return out == 1 ? 0 : o * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  if (mode == "pytorch_half_pixel" && out == 1) return 0;
  return (o + 0.5) / scale - 0.5;
}

double nearest(const std::string& mode, double x) {
  // Halves and wholes are meant exactly; what is left of them after a division in double is noise.
  if (std::abs(2 * x - std::round(2 * x)) < 1e-6 * (1 + std::abs(x))) x = std::round(2 * x) / 2;
  if (mode == "floor") return std::floor(x);
  if (mode == "ceil") return std::ceil(x);
  return mode == "round_prefer_ceil" ? std::floor(x + 0.5) : std::ceil(x - 0.5);
}

/// What position `position` of the resized axis is made of.
std::vector<Tap> taps(const Attrs& attrs, const char* scale_name, std::int64_t in, std::int64_t out,
                      std::int64_t position) {
  double scale = attrs.number(scale_name);
  if (scale == 0) scale = static_cast<double>(out) / static_cast<double>(in);
  const double x = coordinate(attrs, scale, in, out, position);
  const auto clamped = [in](double i) { return std::clamp<std::int64_t>(static_cast<std::int64_t>(i), 0, in - 1); };
  if (attrs.text("mode") == "nearest") {
    return {{clamped(nearest(attrs.text("nearest"), x)), 1.0}};
  }
  const double low = std::floor(x);
  return {{clamped(low), 1 - (x - low)}, {clamped(low + 1), x - low}};
}

/// Calls visit(flat source index, flat resized index, weight) for all that is taken.
void for_each_tap(const Attrs& attrs, const std::vector<std::int64_t>& source, const std::vector<std::int64_t>& resized,
                  const std::function<void(std::int64_t, std::int64_t, double)>& visit) {
  for (std::int64_t n = 0; n < resized[0]; ++n) {
    for (std::int64_t h = 0; h < resized[1]; ++h) {
      for (std::int64_t w = 0; w < resized[2]; ++w) {
        for (const Tap& row : taps(attrs, "scale_h", source[1], resized[1], h)) {
          for (const Tap& col : taps(attrs, "scale_w", source[2], resized[2], w)) {
            const std::int64_t from = (n * source[1] + row.index) * source[2] + col.index;
            const std::int64_t to = (n * resized[1] + h) * resized[2] + w;
            for (std::int64_t k = 0; k < source[3]; ++k) {
              visit(from * source[3] + k, to * source[3] + k, row.weight * col.weight);
            }
          }
        }
      }
    }
  }
}

}  // namespace

void ref_resize(RefContext& c) {
  for_each_tap(c.attrs(), c.in_dims(0), c.out_dims(),
               [&](std::int64_t from, std::int64_t to, double weight) { c.out()[to] += weight * c.in(0)[from]; });
}

void ref_resize_grad(RefContext& c) {
  for_each_tap(c.attrs(), c.out_dims(), c.in_dims(0),
               [&](std::int64_t to, std::int64_t from, double weight) { c.out()[to] += weight * c.in(0)[from]; });
}

}  // namespace graft::ops::resize
