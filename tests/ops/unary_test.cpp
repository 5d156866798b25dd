#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::unary_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Ordinary arguments in [low, high); 1030 elements leave a remainder of two after the vectors of four, and use a
// second workgroup's worth of invocations.
OpCase smooth(Op op, double low, double high, Attrs attrs = {}) {
  return {.name = std::string(op_def(op).name),
          .op = op,
          .inputs = {{.dims = {2, 5, 103}, .low = low, .high = high}},
          .attrs = std::move(attrs),
          .tolerance = 2e-6,
          .reason = "own polynomials of a few ULP (6e-8) and up to ten roundings around them; division may be 2.5 ULP",
          .difference_step = 1e-5,
          .difference_tolerance = 1e-5};
}

/// The slope is 1 - y^2 or y (1 - y): near its bounds the rounding of y is large beside it.
OpCase saturating(Op op, double low, double high) {
  OpCase c = smooth(op, low, high);
  c.low_precision_roundings = 16;
  return c;
}

OpCase named(std::string suffix, OpCase c) {
  c.name += "_" + suffix;
  return c;
}

// Kinks stand between the probes: a step of 1e-7 around random numbers misses them.
OpCase kinked(Op op, double low, double high, Attrs attrs = {}) {
  OpCase c = smooth(op, low, high, std::move(attrs));
  c.difference_step = 1e-7;
  c.difference_tolerance = 1e-6;
  return c;
}

OpCase integers(Op op, Attrs attrs = {}) {
  return {.name = cat(op_def(op).name, "_i32"),
          .op = op,
          .inputs = {{.dims = {7, 3}, .dtype = DType::i32, .low = -9, .high = 9}},
          .attrs = std::move(attrs),
          .tolerance = 0,
          .reason = "integers are exact"};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all = {
      smooth(Op::neg, -2, 2),
      kinked(Op::abs, -2, 2),
      smooth(Op::exp, -10, 10),
      smooth(Op::expm1, -3, 3),
      smooth(Op::log, 0.01, 5),
      smooth(Op::log1p, -0.9, 5),
      smooth(Op::sqrt, 0.1, 9),
      smooth(Op::rsqrt, 0.1, 9),
      smooth(Op::reciprocal, 0.2, 4),
      smooth(Op::square, -3, 3),
      smooth(Op::sin, -30, 30),
      smooth(Op::cos, -30, 30),
      smooth(Op::tan, -1.3, 1.3),
      smooth(Op::asin, -0.99, 0.99),
      smooth(Op::acos, -0.99, 0.99),
      smooth(Op::atan, -5, 5),
      smooth(Op::sinh, -5, 5),
      smooth(Op::cosh, -5, 5),
      saturating(Op::tanh, -5, 5),
      smooth(Op::asinh, -5, 5),
      smooth(Op::acosh, 1.1, 9),
      smooth(Op::atanh, -0.95, 0.95),
      saturating(Op::sigmoid, -8, 8),
      kinked(Op::relu, -2, 2),
      kinked(Op::leaky_relu, -2, 2, {{"alpha", 0.2}}),
      named("negative_slope", kinked(Op::leaky_relu, -2, 2, {{"alpha", -0.5}})),
      kinked(Op::elu, -3, 3, {{"alpha", 1.5}}),
      kinked(Op::selu, -3, 3),
      kinked(Op::celu, -3, 3, {{"alpha", 2.0}}),
      smooth(Op::gelu, -6, 6),
      named("tanh", smooth(Op::gelu, -6, 6, {{"approximate", std::string("tanh")}})),
      smooth(Op::silu, -8, 8),
      kinked(Op::hard_sigmoid, -4, 4),
      kinked(Op::hard_swish, -5, 5),
      smooth(Op::mish, -8, 8),
      smooth(Op::softplus, -8, 8),
      smooth(Op::softsign, -3, 3),
      kinked(Op::thresholded_relu, -2, 3, {{"alpha", 0.7}}),
      smooth(Op::erf, -3, 3),
      smooth(Op::affine, -2, 2, {{"alpha", -1.5}, {"beta", 0.25}}),
      kinked(Op::clip, -2, 2, {{"min", -0.5}, {"max", 1.0}}),
      named("only_max", kinked(Op::clip, -2, 2, {{"max", 0.3}})),
      kinked(Op::floor, -4, 4),
      kinked(Op::ceil, -4, 4),
      kinked(Op::round, -4, 4),
      kinked(Op::sign, -4, 4),
      integers(Op::neg),
      integers(Op::abs),
      integers(Op::sign),
      integers(Op::affine, {{"alpha", 3.0}, {"beta", -7.0}}),
      integers(Op::clip, {{"min", -2.0}, {"max", 5.0}}),
      {.name = "logical_not",
       .op = Op::logical_not,
       .inputs = {{.dims = {9}, .dtype = DType::boolean, .low = 0, .high = 1}},
       .tolerance = 0,
       .reason = "truth values are exact"},
  };
  // Shapes: scalar, one and three elements, none at all, rank 8.
  for (const auto& dims :
       std::vector<std::vector<std::int64_t>>{{}, {1}, {3}, {0}, {9001}, {4, 0, 2}, {1, 2, 1, 2, 1, 2, 1, 2}}) {
    OpCase c = smooth(Op::tanh, -1, 1);
    c.name = "tanh_of_shape_" + Shape::of(dims).text();
    c.inputs[0].dims = dims;
    c.expect_dims = dims;
    all.push_back(c);
  }
  for (std::size_t i = 0; i < all.size(); ++i) all[i].name = cat(i, "_", all[i].name);
  return all;
}

GRAFT_OP_CASES(Unary, cases());

struct Probe {
  Op op;
  std::vector<double> values;
  Attrs attrs = {};
};

// Infinities, not-a-number, zeros, huge and tiny arguments; then what is hard for each function.
std::vector<Probe> probes() {
  const std::vector<double> ends = {0.0, -0.0, kInf, -kInf, kNan, 1e-30, -1e-30, 1e30, -1e30, 3e38, 1, -1, 87, -87};
  std::vector<Probe> all;
  for (const Op op : {Op::neg,
                      Op::abs,
                      Op::exp,
                      Op::expm1,
                      Op::log,
                      Op::log1p,
                      Op::sqrt,
                      Op::sigmoid,
                      Op::relu,
                      Op::elu,
                      Op::selu,
                      Op::celu,
                      Op::gelu,
                      Op::silu,
                      Op::mish,
                      Op::softplus,
                      Op::tanh,
                      Op::atan,
                      Op::asinh,
                      Op::erf,
                      Op::is_nan,
                      Op::is_inf,
                      Op::sign,
                      Op::floor,
                      Op::softsign,
                      Op::leaky_relu,
                      Op::hard_swish,
                      Op::hard_sigmoid,
                      Op::thresholded_relu}) {
    all.push_back({op, ends});
  }
  all.push_back({Op::gelu, ends, {{"approximate", std::string("tanh")}}});
  all.push_back({Op::clip, ends, {{"min", -2.0}, {"max", 2.0}}});
  all.push_back({Op::round, {0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, 8388609, 1e10, kInf, kNan}});
  for (const Op op : {Op::expm1, Op::log1p, Op::sinh, Op::tanh, Op::asinh, Op::atanh, Op::sin, Op::atan, Op::asin,
                      Op::erf, Op::tan}) {
    all.push_back({op, {1e-6, -3e-4, 0.2, -0.45, 0.34, 0.36, -0.28, -0.3}});
  }
  for (const Op op : {Op::exp, Op::sinh, Op::cosh, Op::sigmoid, Op::softplus, Op::tanh, Op::silu, Op::mish}) {
    all.push_back({op, {-80, -20, -5, 20, 80}});
  }
  all.push_back({Op::log, {1.0001, 0.9999, 1e-20, 1e20, 0.70710677, 0.70710683}});
  for (const Op op : {Op::sin, Op::cos}) all.push_back({op, {100.5, -1234.5, 20000.25}});
  all.push_back({Op::gelu, {-1, -3, -5, -8}});
  all.push_back({Op::acosh, {1, 1.0001, 2, 1e20, 0.5}});
  all.push_back({Op::acos, {-1, -0.999, -0.5, 0, 0.5, 0.999, 1, 1.5}});
  return all;
}

// A whole tensor's tolerance would hide the relative error of its small elements: here each stands for itself, and all
// functions run in one graph.
TEST(UnaryAccuracy, EachElementRelativeToItself) {
  constexpr double kRelative = 2e-6;  // a dozen roundings of 6e-8, doubled for division's 2.5 ULP
  const Status device = device_available();
  if (!device.ok()) GTEST_SKIP() << device.message();
  Graph graph;
  RefTensors tensors;
  std::vector<std::string> names;
  for (const Probe& probe : probes()) {
    const std::string input = cat("x", names.size());
    const auto count = static_cast<std::int64_t>(probe.values.size());
    tensors[input].dims = {count};
    for (const double x : probe.values) tensors[input].data.push_back(static_cast<float>(x));
    const auto x = graph.add_value(input, DType::f32, Shape::of({count}), ValueKind::input);
    ASSERT_TRUE(x.ok()) << x.status().message();
    names.push_back(cat(op_def(probe.op).name, names.size()));
    const auto node = graph.add_node(probe.op, {*x}, probe.attrs, names.back());
    ASSERT_TRUE(node.ok()) << node.status().message();
    graph.add_output(names.back(), graph.node(*node).outputs[0]);
  }
  const auto actual = run_on_device(graph, tensors);
  ASSERT_TRUE(actual.ok()) << actual.status().message();
  ASSERT_TRUE(interpret(graph, tensors).ok());
  for (std::size_t n = 0; n < names.size(); ++n) {
    const auto& x = tensors[cat("x", n)].data;
    const auto& wanted = tensors[names[n]].data;
    const auto& got = actual->find(names[n])->second.data;
    ASSERT_EQ(got.size(), wanted.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      // Results that f32 has no normal numbers for may be flushed to zero; past its largest they are infinite.
      const double expected =
          std::abs(wanted[i]) > std::numeric_limits<float>::max() ? std::copysign(kInf, wanted[i]) : wanted[i];
      if (std::isnan(expected) ? std::isnan(got[i]) : got[i] == expected) continue;
      EXPECT_LE(std::abs(got[i] - expected), std::max(kRelative * std::abs(expected), 1.2e-38))
          << names[n] << " of " << x[i] << " is " << got[i] << "; the reference says " << expected;
    }
  }
}

TEST(UnaryErrors, WrongTypesAndAttributes) {
  expect_infer_error(integers(Op::exp), "is of type i32; f32 is needed");
  expect_infer_error(integers(Op::affine, {{"alpha", 0.5}}), "must be an integer");
  expect_infer_error(smooth(Op::gelu, 0, 1, {{"approximate", std::string("erf")}}), "\"erf\"");
  expect_infer_error(smooth(Op::celu, 0, 1, {{"alpha", 0.0}}), "divides by it");
  expect_infer_error(smooth(Op::logical_not, 0, 1), "boolean is needed");
}

}  // namespace
}  // namespace graft::test::unary_test
