#include <algorithm>
#include <cmath>

#include "runtime/reference/ref_context.h"

namespace graft::ops::linear_cross_entropy {
namespace {

struct Row {
  std::span<const double> hidden;
  std::vector<double> logits;
  double label;
  double log_sum;
  bool ignored;
  bool valid;
};

/// The head's rows, of one table or two; `more` is the input of the second.
struct Weights {
  Weights(RefContext& c, std::size_t more) : width(static_cast<std::size_t>(c.in_dims(1)[1])), weight(c.in(1)) {
    rows = own = static_cast<std::size_t>(c.in_dims(1)[0]);
    if (c.inputs() <= more) return;
    own = static_cast<std::size_t>(c.attrs().integer("first_row"));
    rows = own + static_cast<std::size_t>(c.in_dims(more)[0]);
    behind = c.in(more);
  }
  double at(std::size_t v, std::size_t i) const {
    return v < own ? weight[v * width + i] : behind[(v - own) * width + i];
  }
  std::size_t width;
  std::span<const double> weight, behind;
  std::size_t rows = 0, own = 0;
};

template <typename Fn>
void for_each_row(RefContext& c, const Weights& weights, Fn fn) {
  const std::size_t vocabulary = weights.rows;
  const std::size_t width = weights.width;
  const double cap = c.attrs().number("softcap");
  for (std::size_t r = 0; r < c.in(2).size(); ++r) {
    Row row{c.in(0).subspan(r * width, width), std::vector<double>(vocabulary), c.in(2)[r], 0, false, false};
    for (std::size_t v = 0; v < vocabulary; ++v) {
      for (std::size_t i = 0; i < width; ++i) row.logits[v] += row.hidden[i] * weights.at(v, i);
      if (cap != 0) row.logits[v] = cap * std::tanh(row.logits[v] / cap);
    }
    const double top = *std::ranges::max_element(row.logits);
    double sum = 0;
    for (const double x : row.logits) sum += std::exp(x - top);
    row.log_sum = top + std::log(sum);
    row.ignored = row.label == static_cast<double>(c.attrs().integer("ignore_index"));
    row.valid = row.label >= 0 && row.label < static_cast<double>(vocabulary);
    fn(r, row);
  }
}

}  // namespace

void ref_linear_cross_entropy(RefContext& c) {
  for_each_row(c, Weights(c, 3), [&](std::size_t r, const Row& row) {
    if (row.ignored) return;
    const double smoothing = c.attrs().number("label_smoothing");
    double mean = 0;
    for (const double x : row.logits) mean += x / static_cast<double>(row.logits.size());
    const double hit = row.valid ? row.logits[static_cast<std::size_t>(row.label)] : std::nan("");
    c.out(0)[r] = row.log_sum - (1 - smoothing) * hit - smoothing * mean;
    c.out(1)[r] = row.log_sum;
  });
}

void ref_linear_cross_entropy_grad(RefContext& c) {
  const bool weight_gradient = c.attrs().flag("weight_gradient");
  const double smoothing = c.attrs().number("label_smoothing");
  const double cap = c.attrs().number("softcap");
  const bool rows_gradient = c.attrs().flag("rows_gradient");
  const Weights weights(c, 5);
  for_each_row(c, weights, [&](std::size_t r, const Row& row) {
    if (row.ignored) return;
    const std::size_t width = row.hidden.size();
    for (std::size_t v = 0; v < row.logits.size(); ++v) {
      const double target = (static_cast<double>(v) == row.label ? 1 - smoothing : 0) +
                            smoothing / static_cast<double>(row.logits.size());
      const double capped = cap != 0 ? 1 - row.logits[v] * row.logits[v] / (cap * cap) : 1;
      const double slope =
          row.valid ? capped * c.in(4)[r] * (std::exp(row.logits[v] - c.in(3)[r]) - target) : std::nan("");
      for (std::size_t i = 0; i < width; ++i) {
        c.out(0)[r * width + i] += slope * weights.at(v, i);
        if (weight_gradient) c.out(1)[v * width + i] += slope * row.hidden[i];
        if (rows_gradient && v >= weights.own) c.out(1)[(v - weights.own) * width + i] += slope * row.hidden[i];
      }
    }
  });
}

}  // namespace graft::ops::linear_cross_entropy
