#include <algorithm>
#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::cross_entropy {
namespace {

struct Row {
  std::span<const double> x;
  double label;
  bool ignored;
  bool valid;
  double top;      // the largest logit
  double log_sum;  // log sum exp(x - top)
};

template <typename Fn>
void for_each_row(RefContext& c, Fn fn) {
  const auto columns = static_cast<std::size_t>(c.in_dims(0).back());
  for (std::size_t r = 0; r < c.in(1).size(); ++r) {
    Row row = {.x = c.in(0).subspan(r * columns, columns), .label = c.in(1)[r]};
    row.ignored = row.label == static_cast<double>(c.attrs().integer("ignore_index"));
    row.valid = row.label >= 0 && row.label < static_cast<double>(columns);
    row.top = *std::max_element(row.x.begin(), row.x.end());
    double sum = 0;
    for (const double x : row.x) sum += std::exp(x - row.top);
    row.log_sum = std::log(sum);
    fn(r, row);
  }
}

}  // namespace

void ref_cross_entropy(RefContext& c) {
  const double smoothing = c.attrs().number("label_smoothing");
  for_each_row(c, [&](std::size_t r, const Row& row) {
    if (row.ignored) return;
    if (!row.valid) {
      c.out()[r] = std::nan("");
      return;
    }
    const auto columns = static_cast<double>(row.x.size());
    double loss = 0;
    for (std::size_t k = 0; k < row.x.size(); ++k) {
      const double target = (static_cast<double>(k) == row.label ? 1 - smoothing : 0) + smoothing / columns;
      if (target != 0) loss += target * (row.log_sum - (row.x[k] - row.top));
    }
    c.out()[r] = loss;
  });
}

void ref_cross_entropy_grad(RefContext& c) {
  const double smoothing = c.attrs().number("label_smoothing");
  for_each_row(c, [&](std::size_t r, const Row& row) {
    if (row.ignored) return;
    const auto columns = static_cast<double>(row.x.size());
    for (std::size_t k = 0; k < row.x.size(); ++k) {
      const double target = (static_cast<double>(k) == row.label ? 1 - smoothing : 0) + smoothing / columns;
      const double slope = std::exp(row.x[k] - row.top - row.log_sum) - target;
      c.out()[r * row.x.size() + k] = row.valid ? c.in(2)[r] * slope : std::nan("");
    }
  });
}

}  // namespace graft::ops::cross_entropy
