#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::binary_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Dims = std::vector<std::int64_t>;

OpCase with(Op op, Dims a, Dims b, double low = -2, double high = 2, Attrs attrs = {}) {
  return {
      .name = cat(op_def(op).name, Shape::of(a).text(), Shape::of(b).text()),
      .op = op,
      .inputs = {{.dims = std::move(a), .low = low, .high = high}, {.dims = std::move(b), .low = low, .high = high}},
      .attrs = std::move(attrs),
      .tolerance = 1e-6,
      .reason = "one operation, 2.5 ULP (6e-8 each) for division; sums of a gradient over broadcast axes a few more",
      .difference_step = 1e-6,
      .difference_tolerance = 1e-6};
}

OpCase without_gradient(OpCase c, DType dtype = DType::f32) {
  c.gradient = false;
  for (OpInput& input : c.inputs) {
    input.dtype = dtype;
    if (dtype == DType::boolean) input.low = 0;
    if (dtype == DType::boolean) input.high = 1;
  }
  c.name += cat("_", dtype_name(dtype));
  return c;
}

// Every pair of the two lists.
OpCase pairs(Op op, const std::vector<double>& values, Attrs attrs = {}, DType dtype = DType::f32) {
  const auto n = static_cast<std::int64_t>(values.size());
  OpCase c = without_gradient(with(op, {n, 1}, {n}, 0, 0, std::move(attrs)), dtype);
  c.name += "_pairs";
  for (const double x : values) {
    for (OpInput& input : c.inputs) input.values.push_back(static_cast<float>(x));
  }
  return c;
}

std::vector<OpCase> broadcasts() {
  std::vector<OpCase> all;
  const std::vector<std::pair<Dims, Dims>> shapes = {
      {{}, {}},
      {{3}, {3}},
      {{1031}, {1031}},
      {{1031}, {}},
      {{1}, {1031}},
      {{5, 8}, {8}},
      {{5, 7}, {7}},
      {{5, 8}, {5, 1}},
      {{5, 1}, {1, 8}},
      {{5, 1}, {1, 7}},
      {{2, 3, 8}, {3, 1}},
      {{2, 1, 4, 1, 3}, {5, 1, 6, 1}},
      {{1, 1}, {4}},
      {{0, 4}, {4}},
      {{3, 0}, {1, 1}},
      {{2, 1, 3, 1, 2, 1, 3, 1}, {1, 2, 1, 3, 1, 2, 1, 2}},
      {{2, 2, 2, 2, 2, 2, 2, 2}, {2, 2, 1, 2, 2, 1, 2, 2}},
  };
  for (const auto& [a, b] : shapes) all.push_back(with(Op::add, a, b));
  for (const auto& [a, b] : shapes) all.push_back(with(Op::mul, b, a));
  // Many workgroups, singly and by vectors of four.
  all.push_back(without_gradient(with(Op::sub, {300, 64}, {300, 1})));
  all.push_back(without_gradient(with(Op::sub, {700, 301}, {301})));
  return all;
}

std::vector<OpCase> cases() {
  const std::vector<double> ends = {0.0, -0.0, 1, -1, 2, -2.5, kInf, -kInf, kNan, 1e15, -1e-15};
  const std::vector<double> integers = {0, 1, -1, 2, -3, 7, -8, 100};
  std::vector<OpCase> all = broadcasts();
  const auto add_case = [&](OpCase c) { all.push_back(std::move(c)); };
  add_case(with(Op::sub, {4, 33}, {33}));
  add_case(with(Op::div, {4, 33}, {4, 1}, 0.3, 3));
  add_case(with(Op::div, {33}, {4, 33}, -3, -0.3));
  add_case(with(Op::maximum, {4, 33}, {33}));
  add_case(with(Op::minimum, {4, 32}, {4, 1}));
  add_case(with(Op::prelu, {4, 6, 5}, {5}));
  add_case(with(Op::prelu, {4, 6, 5}, {6, 1}));
  OpCase pow = with(Op::pow, {6, 32}, {32}, 0.2, 4);
  pow.reason = "log2 to 3e-8 times the exponent (up to 4), then exp: below 1e-6";
  pow.low_precision_roundings = 8;  // the gradient of the exponent is a sum of six rounded terms of both signs
  add_case(pow);
  OpCase square = with(Op::pow, {6, 32}, {});
  square.inputs[1] = {.dims = {}, .values = {2}, .grad = false};
  add_case(square);
  OpCase cube = square;
  cube.name = "pow_cube_of_negative";
  cube.inputs[1].values = {3};
  add_case(cube);
  OpCase negative = square;
  negative.name = "pow_minus_one";
  negative.inputs[0].low = 0.5;
  negative.inputs[1].values = {-1};
  add_case(negative);
  // Remainders jump where a / b is whole; a in [3, 4) over b in [1.6, 1.9) stays between.
  for (const std::int64_t fmod : {0, 1}) {
    OpCase c = with(Op::remainder, {4, 33}, {33}, 3.3, 3.6, {{"fmod", fmod}});
    c.inputs[1].low = -1.6;
    c.inputs[1].high = -1.3;
    c.name += cat("_", fmod);
    add_case(c);
    OpCase p = pairs(Op::remainder, {5.5, -5.5, 3, -3, 0.25, 1e6, -7.75, 1, kInf, kNan, 0}, {{"fmod", fmod}});
    p.name += cat("_", fmod);
    add_case(p);
    OpCase i = pairs(Op::remainder, integers, {{"fmod", fmod}}, DType::i32);
    i.name += cat("_", fmod);
    add_case(i);
  }
  OpCase powers =
      pairs(Op::pow, {0.0, -0.0, 1, -1, 2, -2, 3, -3, 0.5, -0.5, 1.5, 5, -7, kInf, -kInf, kNan, 0.01, 9.25});
  powers.tolerance = 2e-5;
  powers.low_precision_roundings = 0;  // many powers lie beyond the range of f16
  powers.reason =
      "values from 1e-18 to 1e17 in one tensor are compared each relative to itself: |b log2 a| of 60 times "
      "3e-8, doubled";
  add_case(powers);
  for (const Op op : {Op::add, Op::sub, Op::mul, Op::div, Op::maximum, Op::minimum, Op::equal, Op::not_equal, Op::less,
                      Op::less_equal, Op::greater, Op::greater_equal}) {
    add_case(pairs(op, ends));
    add_case(pairs(op, integers, {}, DType::i32));
  }
  OpCase int_power = pairs(Op::pow, {0, 1, -1, 2, -3, 5}, {}, DType::i32);
  int_power.inputs[1].values = {0, 1, 2, 3, 4, 5};
  add_case(int_power);
  for (const Op op : {Op::logical_and, Op::logical_or, Op::logical_xor, Op::equal, Op::not_equal}) {
    add_case(pairs(op, {0, 1}, {}, DType::boolean));
    add_case(without_gradient(with(op, {3, 41}, {41}), DType::boolean));
  }
  for (const Op op : {Op::bitwise_and, Op::bitwise_or, Op::bitwise_xor}) add_case(pairs(op, integers, {}, DType::i32));
  for (const Op op : {Op::shift_left, Op::shift_right}) {
    add_case(pairs(op, {0, 1, -1, 5, 31, 32, 33, 2147483647, -2147483648.0}, {}, DType::i32));
  }
  for (std::size_t i = 0; i < all.size(); ++i) all[i].name = cat(i, "_", all[i].name);
  return all;
}

GRAFT_OP_CASES(Binary, cases());

TEST(BinaryErrors, ShapesAndTypes) {
  expect_infer_error(with(Op::add, {3}, {4}), "cannot be broadcast");
  expect_infer_error(with(Op::prelu, {3}, {2, 3}), "does not broadcast");
  expect_infer_error(without_gradient(with(Op::add, {3}, {3}), DType::boolean), "f32 or i32 is needed");
  expect_infer_error(with(Op::logical_and, {3}, {3}), "boolean is needed");
  OpCase mixed = with(Op::add, {3}, {3});
  mixed.inputs[1].dtype = DType::i32;
  expect_infer_error(mixed, "f32 and i32");
}

}  // namespace
}  // namespace graft::test::binary_test
