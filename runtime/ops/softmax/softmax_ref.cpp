#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::softmax {
namespace {

// Rows along an axis: `row(start, step, n)` for each, in elements.
template <typename Row>
void for_each_row(const std::vector<std::int64_t>& dims, std::int64_t axis, Row row) {
  if (axis < 0) axis += static_cast<std::int64_t>(dims.size());
  std::size_t outer = 1, inner = 1;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (static_cast<std::int64_t>(i) < axis) outer *= static_cast<std::size_t>(dims[i]);
    if (static_cast<std::int64_t>(i) > axis) inner *= static_cast<std::size_t>(dims[i]);
  }
  const auto n = static_cast<std::size_t>(dims[static_cast<std::size_t>(axis)]);
  for (std::size_t o = 0; o < outer; ++o) {
    for (std::size_t i = 0; i < inner; ++i) row(o * n * inner + i, inner, n);
  }
}

void ref_rows(RefContext& c, bool log) {
  const auto x = c.in(0);
  const auto y = c.out();
  for_each_row(c.in_dims(0), c.attrs().integer("axis"), [&](std::size_t start, std::size_t step, std::size_t n) {
    double top = -HUGE_VAL, sum = 0;
    for (std::size_t i = 0; i < n; ++i) top = std::max(top, x[start + i * step]);
    for (std::size_t i = 0; i < n; ++i) sum += std::exp(x[start + i * step] - top);
    for (std::size_t i = 0; i < n; ++i) {
      const double shifted = x[start + i * step] - top;
      y[start + i * step] = log ? shifted - std::log(sum) : std::exp(shifted) / sum;
    }
  });
}

}  // namespace

void ref_softmax(RefContext& c) { ref_rows(c, false); }
void ref_log_softmax(RefContext& c) { ref_rows(c, true); }

void ref_softmax_grad(RefContext& c) {
  const auto y = c.in(0);
  const auto dy = c.in(1);
  const bool log = c.attrs().flag("log");
  for_each_row(c.in_dims(0), c.attrs().integer("axis"), [&](std::size_t start, std::size_t step, std::size_t n) {
    double sum = 0;
    for (std::size_t i = start; i < start + n * step; i += step) sum += log ? dy[i] : y[i] * dy[i];
    for (std::size_t i = start; i < start + n * step; i += step) {
      c.out()[i] = log ? dy[i] - std::exp(y[i]) * sum : y[i] * (dy[i] - sum);
    }
  });
}

}  // namespace graft::ops::softmax
