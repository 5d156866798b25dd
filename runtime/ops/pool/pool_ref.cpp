#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/ops/pool/pool_common.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::pool {
namespace {

using Dims = std::vector<std::int64_t>;

std::size_t flat(const Dims& dims, std::int64_t n, std::int64_t h, std::int64_t w, std::int64_t c) {
  return static_cast<std::size_t>(((n * dims[1] + h) * dims[2] + w) * dims[3] + c);
}

template <typename Visit>
void for_each_output(const Dims& y, Visit visit) {
  for (std::int64_t n = 0; n < y[0]; ++n) {
    for (std::int64_t oh = 0; oh < y[1]; ++oh) {
      for (std::int64_t ow = 0; ow < y[2]; ++ow) {
        for (std::int64_t c = 0; c < y[3]; ++c) visit(n, oh, ow, c);
      }
    }
  }
}

// Positions (h, w) of window (oh, ow) that lie inside an image of x's size.
template <typename Visit>
void for_each_tap(const PoolWindow& window, const Dims& x, std::int64_t oh, std::int64_t ow, Visit visit) {
  for (std::int64_t r = 0; r < window.kernel[0]; ++r) {
    const std::int64_t h = oh * window.strides[0] - window.pads[0] + r * window.dilations[0];
    for (std::int64_t s = 0; s < window.kernel[1]; ++s) {
      const std::int64_t w = ow * window.strides[1] - window.pads[1] + s * window.dilations[1];
      if (h >= 0 && h < x[1] && w >= 0 && w < x[2]) visit(h, w);
    }
  }
}

// What a window's sum is divided by: the taps that lie in the image, or also those in the padding around it.
double divisor(const PoolWindow& window, const Dims& x, std::int64_t oh, std::int64_t ow) {
  std::int64_t counts[2] = {0, 0};
  const std::int64_t at[2] = {oh, ow};
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t size = x[axis + 1];
    for (std::int64_t r = 0; r < window.kernel[axis]; ++r) {
      const std::int64_t position = at[axis] * window.strides[axis] - window.pads[axis] + r;
      const bool inside = position >= 0 && position < size;
      const bool padded = position < size + window.pads[axis + 2];
      if (window.count_include_pad ? padded : inside) ++counts[axis];
    }
  }
  return static_cast<double>(counts[0] * counts[1]);
}

}  // namespace

void ref_max_pool(RefContext& c) {
  const PoolWindow window = read_pool_window(c.attrs()).value();
  const Dims& x = c.in_dims(0);
  const Dims& y = c.out_dims();
  for_each_output(y, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t channel) {
    double best = -std::numeric_limits<double>::infinity();
    std::int64_t index = -1;
    for_each_tap(window, x, oh, ow, [&](std::int64_t h, std::int64_t w) {
      const double value = c.in(0)[flat(x, n, h, w, channel)];
      if (index >= 0 && (std::isnan(best) || !(value > best || std::isnan(value)))) return;
      best = value;
      index = h * x[2] + w;
    });
    c.out(0)[flat(y, n, oh, ow, channel)] = best;
    c.out(1)[flat(y, n, oh, ow, channel)] = static_cast<double>(index);
  });
}

void ref_max_pool_grad(RefContext& c) {
  const Dims& x = c.out_dims();
  const Dims& y = c.in_dims(0);
  for_each_output(y, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t channel) {
    const std::size_t from = flat(y, n, oh, ow, channel);
    const auto index = static_cast<std::int64_t>(c.in(1)[from]);
    if (index >= 0) c.out()[flat(x, n, index / x[2], index % x[2], channel)] += c.in(0)[from];
  });
}

void ref_avg_pool(RefContext& c) {
  const PoolWindow window = read_pool_window(c.attrs()).value();
  const Dims& x = c.in_dims(0);
  const Dims& y = c.out_dims();
  for_each_output(y, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t channel) {
    double sum = 0;
    for_each_tap(window, x, oh, ow, [&](std::int64_t h, std::int64_t w) { sum += c.in(0)[flat(x, n, h, w, channel)]; });
    c.out()[flat(y, n, oh, ow, channel)] = sum / divisor(window, x, oh, ow);
  });
}

void ref_avg_pool_grad(RefContext& c) {
  const PoolWindow window = read_pool_window(c.attrs()).value();
  const Dims& x = c.out_dims();
  const Dims& y = c.in_dims(0);
  for_each_output(y, [&](std::int64_t n, std::int64_t oh, std::int64_t ow, std::int64_t channel) {
    const double share = c.in(0)[flat(y, n, oh, ow, channel)] / divisor(window, x, oh, ow);
    for_each_tap(window, x, oh, ow,
                 [&](std::int64_t h, std::int64_t w) { c.out()[flat(x, n, h, w, channel)] += share; });
  });
}

}  // namespace graft::ops::pool
