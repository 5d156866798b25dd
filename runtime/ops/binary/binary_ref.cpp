#include <algorithm>
#include <cmath>
#include <limits>

#include "runtime/ops/binary/binary_table.h"
#include "runtime/reference/broadcast.h"
#include "runtime/reference/elementwise_math.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::binary {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

double floor_mod(double a, double b) {
  const double r = std::fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

double choose(double a, double b, bool larger) {
  if (std::isnan(a) || std::isnan(b)) return kNan;
  return larger ? std::max(a, b) : std::min(a, b);
}

/// Of 32-bit integers; what is shifted out at the left is gone.
double bits(binary_fn::Fn fn, std::int32_t a, std::int64_t b) {
  const auto other = static_cast<std::int32_t>(b);
  const bool far = b < 0 || b > 31;
  switch (fn) {
    case binary_fn::bitwise_and: return a & other;
    case binary_fn::bitwise_or: return a | other;
    case binary_fn::bitwise_xor: return a ^ other;
    case binary_fn::shift_left: return far ? 0 : static_cast<std::int32_t>(static_cast<std::uint32_t>(a) << b);
    default: return far ? (a < 0 ? -1 : 0) : a >> b;
  }
}

double apply(binary_fn::Fn fn, double a, double b) {
  switch (fn) {
    case binary_fn::add: return a + b;
    case binary_fn::sub: return a - b;
    case binary_fn::mul: return a * b;
    case binary_fn::div: return a / b;
    case binary_fn::pow: return std::pow(a, b);
    case binary_fn::maximum: return choose(a, b, true);
    case binary_fn::minimum: return choose(a, b, false);
    case binary_fn::floor_mod: return floor_mod(a, b);
    case binary_fn::trunc_mod: return std::fmod(a, b);
    case binary_fn::prelu: return a < 0 ? a * b : a;
    case binary_fn::equal: return a == b;
    case binary_fn::not_equal: return a != b;
    case binary_fn::less: return a < b;
    case binary_fn::less_equal: return a <= b;
    case binary_fn::greater: return a > b;
    case binary_fn::greater_equal: return a >= b;
    case binary_fn::logical_and: return a != 0 && b != 0;
    case binary_fn::logical_or: return a != 0 || b != 0;
    case binary_fn::logical_xor: return (a != 0) != (b != 0);
    default: return bits(fn, static_cast<std::int32_t>(a), static_cast<std::int64_t>(b));
  }
}

// Integers differ in division alone: it truncates, and by zero it gives zero.
double apply_int(binary_fn::Fn fn, double a, double b) {
  const bool divides = fn == binary_fn::div || fn == binary_fn::floor_mod || fn == binary_fn::trunc_mod;
  if (divides && b == 0) return 0;
  return std::trunc(apply(fn, a, b));
}

double choice_slope(double a, double b, bool larger, bool by_b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(by_b ? b : a) ? 1 : 0;
  if (a == b) return 0.5;
  return ((a > b) == larger) != by_b ? 1 : 0;
}

double slope(binary_fn::Fn fn, double a, double b, bool by_b) {
  switch (fn) {
    case binary_fn::pow:
      if (!by_b) return b == 0 ? 0 : b * std::pow(a, b - 1);
      return a == 0 && b >= 0 ? 0 : std::pow(a, b) * std::log(a);
    case binary_fn::maximum: return choice_slope(a, b, true, by_b);
    case binary_fn::minimum: return choice_slope(a, b, false, by_b);
    case binary_fn::prelu: return by_b ? (a > 0 ? 0 : a) : (a > 0 ? 1 : b);
    case binary_fn::div: return by_b ? -a / (b * b) : 1 / b;
    case binary_fn::floor_mod: return by_b ? -std::floor(a / b) : 1;
    case binary_fn::trunc_mod: return by_b ? -std::trunc(a / b) : 1;
    default: return 0;
  }
}

void ref_binary(RefContext& c) {
  const auto fn = binary::function(c.node().op, c.attrs());
  const bool integers = c.graph().value(c.node().inputs[0]).dtype == DType::i32;
  const BroadcastIndex a(c.out_dims(), c.in_dims(0));
  const BroadcastIndex b(c.out_dims(), c.in_dims(1));
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    const double x = c.in(0)[a(i)];
    const double y = c.in(1)[b(i)];
    c.out()[i] = integers ? apply_int(fn, x, y) : apply(fn, x, y);
  }
}

}  // namespace

#define BINARY_REF(name) \
  void ref_##name(RefContext& c) { ref_binary(c); }

BINARY_REF(add)
BINARY_REF(sub)
BINARY_REF(mul)
BINARY_REF(div)
BINARY_REF(pow)
BINARY_REF(maximum)
BINARY_REF(minimum)
BINARY_REF(remainder)
BINARY_REF(prelu)
BINARY_REF(equal)
BINARY_REF(not_equal)
BINARY_REF(less)
BINARY_REF(less_equal)
BINARY_REF(greater)
BINARY_REF(greater_equal)
BINARY_REF(logical_and)
BINARY_REF(logical_or)
BINARY_REF(logical_xor)
BINARY_REF(bitwise_and)
BINARY_REF(bitwise_or)
BINARY_REF(bitwise_xor)
BINARY_REF(shift_left)
BINARY_REF(shift_right)

void ref_binary_grad(RefContext& c) {
  const auto fn = binary::function(static_cast<Op>(c.attrs().integer("fn")), c.attrs());
  const bool by_b = c.attrs().integer("wrt") == 1;
  const BroadcastIndex a(c.out_dims(), c.in_dims(0));
  const BroadcastIndex b(c.out_dims(), c.in_dims(1));
  for (std::size_t i = 0; i < c.out().size(); ++i) {
    c.out()[i] = c.in(2)[i] * slope(fn, c.in(0)[a(i)], c.in(1)[b(i)], by_b);
  }
}

}  // namespace graft::ops::binary

namespace graft::ref {

double binary_value(binary_fn::Fn fn, double a, double b) { return ops::binary::apply(fn, a, b); }

}  // namespace graft::ref
