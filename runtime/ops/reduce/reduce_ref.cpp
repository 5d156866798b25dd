#include <cmath>
#include <limits>

#include "runtime/ops/reduce/reduce_table.h"
#include "runtime/reference/broadcast.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::reduce {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The elements that each output is made of, in their order.
std::vector<std::vector<double>> groups(const std::vector<std::int64_t>& in_dims, const std::vector<bool>& reduced,
                                        std::span<const double> x) {
  std::vector<std::int64_t> kept = in_dims;
  std::size_t outputs = 1;
  for (std::size_t axis = 0; axis < kept.size(); ++axis) {
    if (reduced[axis]) kept[axis] = 1;
    outputs *= static_cast<std::size_t>(kept[axis]);
  }
  std::vector<std::vector<double>> out(outputs);
  const BroadcastIndex index(in_dims, kept);
  for (std::size_t i = 0; i < x.size(); ++i) out[index(i)].push_back(x[i]);
  return out;
}

double extreme(const std::vector<double>& xs, bool largest) {
  double best = largest ? -kInfinity : kInfinity;
  for (const double x : xs) {
    if (std::isnan(x)) return x;
    if (largest ? x > best : x < best) best = x;
  }
  return best;
}

double log_sum_exp(const std::vector<double>& xs) {
  const double top = extreme(xs, true);
  if (std::isinf(top) || std::isnan(top)) return top;
  double sum = 0;
  for (const double x : xs) sum += std::exp(x - top);
  return top + std::log(sum);
}

double arg_extreme(const std::vector<double>& xs, bool largest, bool last) {
  std::size_t best = 0;
  for (std::size_t i = 1; i < xs.size(); ++i) {
    const bool best_nan = std::isnan(xs[best]);
    const bool nan = std::isnan(xs[i]);
    const bool same = (nan && best_nan) || xs[i] == xs[best];
    const bool better = nan ? !best_nan : (!best_nan && (largest ? xs[i] > xs[best] : xs[i] < xs[best]));
    if (better || (same && last)) best = i;
  }
  return static_cast<double>(best);
}

double reduce_group(reduce_fn::Fn fn, const std::vector<double>& xs) {
  double sum = 0, product = 1, absolute = 0, squares = 0;
  for (const double x : xs) {
    sum += x;
    product *= x;
    absolute += std::abs(x);
    squares += x * x;
  }
  switch (fn) {
    case reduce_fn::sum: return sum;
    case reduce_fn::mean: return sum / static_cast<double>(xs.size());
    case reduce_fn::max: return extreme(xs, true);
    case reduce_fn::min: return extreme(xs, false);
    case reduce_fn::prod: return product;
    case reduce_fn::l1: return absolute;
    case reduce_fn::l2: return std::sqrt(squares);
    case reduce_fn::logsumexp: return log_sum_exp(xs);
    case reduce_fn::arg_max_first: return arg_extreme(xs, true, false);
    case reduce_fn::arg_max_last: return arg_extreme(xs, true, true);
    case reduce_fn::arg_min_first: return arg_extreme(xs, false, false);
    case reduce_fn::arg_min_last: return arg_extreme(xs, false, true);
    default: return 0;
  }
}

void ref_reduce(RefContext& c) {
  const Op op = c.node().op;
  const auto reduced = reduce::reduced_axes(op, c.attrs(), c.in_dims(0).size()).value();
  const auto parts = groups(c.in_dims(0), reduced, c.in(0));
  for (std::size_t o = 0; o < c.out().size(); ++o) c.out()[o] = reduce_group(reduce::function(op, c.attrs()), parts[o]);
}

double product_of_others(const std::vector<double>& xs, std::size_t left_out) {
  double product = 1;
  for (std::size_t i = 0; i < xs.size(); ++i) product *= i == left_out ? 1 : xs[i];
  return product;
}

double slope(reduce_fn::Fn fn, const std::vector<double>& xs, std::size_t i, double y) {
  switch (fn) {
    case reduce_fn::mean: return 1 / static_cast<double>(xs.size());
    case reduce_fn::max:
    case reduce_fn::min: {
      const auto wins = [&](double x) { return x == y || (std::isnan(x) && std::isnan(y)); };
      double ties = 0;
      for (const double x : xs) ties += wins(x) ? 1 : 0;
      return wins(xs[i]) ? 1 / ties : 0;
    }
    case reduce_fn::prod: return product_of_others(xs, i);
    case reduce_fn::l2: return y == 0 ? 0 : xs[i] / y;
    case reduce_fn::logsumexp:
      if (std::isinf(y) && xs[i] == y) return y > 0 ? std::numeric_limits<double>::quiet_NaN() : 0;
      return std::exp(xs[i] - y);
    default: return 0;
  }
}

}  // namespace

#define REDUCE_REF(name) \
  void ref_##name(RefContext& c) { ref_reduce(c); }

REDUCE_REF(reduce_sum)
REDUCE_REF(reduce_mean)
REDUCE_REF(reduce_max)
REDUCE_REF(reduce_min)
REDUCE_REF(reduce_prod)
REDUCE_REF(reduce_l1)
REDUCE_REF(reduce_l2)
REDUCE_REF(reduce_logsumexp)
REDUCE_REF(arg_max)
REDUCE_REF(arg_min)

void ref_reduce_grad(RefContext& c) {
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  const auto& dims = c.out_dims();
  const auto reduced = reduce::reduced_axes(op, c.attrs(), dims.size()).value();
  std::vector<std::int64_t> kept = dims;
  for (std::size_t axis = 0; axis < kept.size(); ++axis) kept[axis] = reduced[axis] ? 1 : kept[axis];
  const std::vector<double> zeros(c.out().size());
  const auto parts = groups(dims, reduced, c.has(0) ? c.in(0) : std::span<const double>(zeros));
  const BroadcastIndex index(dims, kept);
  std::vector<std::size_t> seen(parts.size());
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const std::size_t o = index(i);
    const double y = c.has(1) ? c.in(1)[o] : 0;
    c.out()[i] = c.in(2)[o] * slope(reduce::function(op, c.attrs()), parts[o], seen[o]++, y);
  }
}

}  // namespace graft::ops::reduce
