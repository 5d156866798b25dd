#include <algorithm>
#include <cmath>

#include "runtime/ops/unary/unary_table.h"
#include "runtime/reference/elementwise_math.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::unary {
namespace {

constexpr double kPi = 3.14159265358979323846;

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double softplus(double x) { return std::isnan(x) ? x : std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }
double at_infinity(double x, double y) { return std::isinf(x) ? std::max(x, 0.0) : y; }
double gelu_tanh_inner(double x) { return std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x); }

double apply(unary_fn::Fn fn, double x, const unary::Params& p) {
  switch (fn) {
    case unary_fn::neg: return -x;
    case unary_fn::abs: return std::abs(x);
    case unary_fn::exp: return std::exp(x);
    case unary_fn::expm1: return std::expm1(x);
    case unary_fn::log: return std::log(x);
    case unary_fn::log1p: return std::log1p(x);
    case unary_fn::sqrt: return std::sqrt(x);
    case unary_fn::rsqrt: return 1 / std::sqrt(x);
    case unary_fn::reciprocal: return 1 / x;
    case unary_fn::square: return x * x;
    case unary_fn::sin: return std::sin(x);
    case unary_fn::cos: return std::cos(x);
    case unary_fn::tan: return std::tan(x);
    case unary_fn::asin: return std::asin(x);
    case unary_fn::acos: return std::acos(x);
    case unary_fn::atan: return std::atan(x);
    case unary_fn::sinh: return std::sinh(x);
    case unary_fn::cosh: return std::cosh(x);
    case unary_fn::tanh: return std::tanh(x);
    case unary_fn::asinh: return std::asinh(x);
    case unary_fn::acosh: return std::acosh(x);
    case unary_fn::atanh: return std::atanh(x);
    case unary_fn::sigmoid: return sigmoid(x);
    case unary_fn::relu: return x < 0 ? 0 : x;
    case unary_fn::leaky_relu: return x < 0 ? p.alpha * x : x;
    case unary_fn::elu:
    case unary_fn::celu: return x < 0 ? p.alpha * std::expm1(x * p.beta) : x;
    case unary_fn::selu: return p.beta * (x < 0 ? p.alpha * std::expm1(x) : x);
    case unary_fn::gelu: return at_infinity(x, 0.5 * x * std::erfc(-x / std::sqrt(2.0)));
    case unary_fn::gelu_tanh: return at_infinity(x, 0.5 * x * (1 + std::tanh(gelu_tanh_inner(x))));
    case unary_fn::silu: return at_infinity(x, x * sigmoid(x));
    case unary_fn::hard_sigmoid: return std::clamp(p.alpha * x + p.beta, 0.0, 1.0);
    case unary_fn::hard_swish: return x * std::clamp(x / 6 + 0.5, 0.0, 1.0);
    case unary_fn::mish: return at_infinity(x, x * std::tanh(softplus(x)));
    case unary_fn::softplus: return softplus(x);
    case unary_fn::softsign: return x / (1 + std::abs(x));
    case unary_fn::thresholded_relu: return x > p.alpha || std::isnan(x) ? x : 0;
    case unary_fn::erf: return std::erf(x);
    case unary_fn::floor: return std::floor(x);
    case unary_fn::ceil: return std::ceil(x);
    case unary_fn::round: return std::nearbyint(x);
    case unary_fn::sign: return x > 0 ? 1 : (x < 0 ? -1 : x);
    case unary_fn::logical_not: return x == 0 ? 1 : 0;
    case unary_fn::is_nan: return std::isnan(x) ? 1 : 0;
    case unary_fn::is_inf: return std::isinf(x) ? 1 : 0;
    case unary_fn::affine: return p.alpha * x + p.beta;
    case unary_fn::clip: return std::isnan(x) ? x : std::min(std::max(x, p.alpha), p.beta);
  }
  return x;
}

double slope_of_x(unary_fn::Fn fn, double x, const unary::Params& p) {
  const double s = sigmoid(x);
  switch (fn) {
    case unary_fn::abs: return x > 0 ? 1 : (x < 0 ? -1 : x);
    case unary_fn::log: return 1 / x;
    case unary_fn::log1p: return 1 / (1 + x);
    case unary_fn::square: return 2 * x;
    case unary_fn::sin: return std::cos(x);
    case unary_fn::cos: return -std::sin(x);
    case unary_fn::asin: return 1 / std::sqrt(1 - x * x);
    case unary_fn::acos: return -1 / std::sqrt(1 - x * x);
    case unary_fn::atan: return 1 / (1 + x * x);
    case unary_fn::sinh: return std::cosh(x);
    case unary_fn::cosh: return std::sinh(x);
    case unary_fn::asinh: return 1 / std::sqrt(x * x + 1);
    case unary_fn::acosh: return 1 / std::sqrt(x * x - 1);
    case unary_fn::atanh: return 1 / (1 - x * x);
    case unary_fn::leaky_relu: return x > 0 ? 1 : p.alpha;
    case unary_fn::elu:
    case unary_fn::celu: return x > 0 ? 1 : p.alpha * p.beta * std::exp(x * p.beta);
    case unary_fn::selu: return p.beta * (x > 0 ? 1 : p.alpha * std::exp(x));
    case unary_fn::gelu: return 0.5 * std::erfc(-x / std::sqrt(2.0)) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
    case unary_fn::gelu_tanh: {
      const double t = std::tanh(gelu_tanh_inner(x));
      return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
    }
    case unary_fn::silu: return s + x * s * (1 - s);
    case unary_fn::hard_swish: return x <= -3 ? 0 : (x >= 3 ? 1 : x / 3 + 0.5);
    case unary_fn::mish: {
      const double t = std::tanh(softplus(x));
      return t + x * s * (1 - t * t);
    }
    case unary_fn::softplus: return s;
    case unary_fn::softsign: return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
    case unary_fn::thresholded_relu: return x > p.alpha ? 1 : 0;
    case unary_fn::erf: return 2 / std::sqrt(kPi) * std::exp(-x * x);
    case unary_fn::clip: return x >= p.alpha && x <= p.beta ? 1 : 0;
    default: return 0;
  }
}

double slope_of_y(unary_fn::Fn fn, double y, const unary::Params& p) {
  switch (fn) {
    case unary_fn::exp: return y;
    case unary_fn::expm1: return y + 1;
    case unary_fn::sqrt: return 1 / (2 * y);
    case unary_fn::rsqrt: return -y * y * y / 2;
    case unary_fn::reciprocal: return -y * y;
    case unary_fn::tan: return 1 + y * y;
    case unary_fn::tanh: return 1 - y * y;
    case unary_fn::sigmoid: return y * (1 - y);
    case unary_fn::relu: return y > 0 ? 1 : 0;
    case unary_fn::hard_sigmoid: return y > 0 && y < 1 ? p.alpha : 0;
    default: return 0;
  }
}

void ref_unary(RefContext& c) {
  const Op op = c.node().op;
  const auto fn = unary::function(op, c.attrs()).fn;
  const auto params = unary::params(op, c.attrs());
  for (std::size_t i = 0; i < c.out().size(); ++i) c.out()[i] = apply(fn, c.in(0)[i], params);
}

}  // namespace

#define UNARY_REF(name) \
  void ref_##name(RefContext& c) { ref_unary(c); }

UNARY_REF(neg)
UNARY_REF(abs)
UNARY_REF(exp)
UNARY_REF(expm1)
UNARY_REF(log)
UNARY_REF(log1p)
UNARY_REF(sqrt)
UNARY_REF(rsqrt)
UNARY_REF(reciprocal)
UNARY_REF(square)
UNARY_REF(sin)
UNARY_REF(cos)
UNARY_REF(tan)
UNARY_REF(asin)
UNARY_REF(acos)
UNARY_REF(atan)
UNARY_REF(sinh)
UNARY_REF(cosh)
UNARY_REF(tanh)
UNARY_REF(asinh)
UNARY_REF(acosh)
UNARY_REF(atanh)
UNARY_REF(sigmoid)
UNARY_REF(relu)
UNARY_REF(leaky_relu)
UNARY_REF(elu)
UNARY_REF(selu)
UNARY_REF(celu)
UNARY_REF(gelu)
UNARY_REF(silu)
UNARY_REF(hard_sigmoid)
UNARY_REF(hard_swish)
UNARY_REF(mish)
UNARY_REF(softplus)
UNARY_REF(softsign)
UNARY_REF(thresholded_relu)
UNARY_REF(erf)
UNARY_REF(floor)
UNARY_REF(ceil)
UNARY_REF(round)
UNARY_REF(sign)
UNARY_REF(logical_not)
UNARY_REF(is_nan)
UNARY_REF(is_inf)
UNARY_REF(affine)
UNARY_REF(clip)

void ref_unary_grad(RefContext& c) {
  const Op op = static_cast<Op>(c.attrs().integer("fn"));
  const auto function = unary::function(op, c.attrs());
  const auto params = unary::params(op, c.attrs());
  const auto saved = c.in(function.slope == unary::Slope::of_x ? 0 : 1);
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    c.out()[i] = c.in(2)[i] * ref::unary_slope(function.fn, saved[i], params.alpha, params.beta);
  }
}

}  // namespace graft::ops::unary

namespace graft::ref {

double unary_value(unary_fn::Fn fn, double x, double alpha, double beta) {
  return ops::unary::apply(fn, x, {alpha, beta});
}

/// Each function is in one of the two tables; the other gives 0.
double unary_slope(unary_fn::Fn fn, double saved, double alpha, double beta) {
  return ops::unary::slope_of_x(fn, saved, {alpha, beta}) + ops::unary::slope_of_y(fn, saved, {alpha, beta});
}

}  // namespace graft::ref
