#include "tests/support/op_case.h"

#include <cmath>
#include <cstdlib>
#include <random>

#include "platform/base/half.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/quantized.h"
#include "runtime/reference/device_run.h"
#include "runtime/reference/probe.h"
#include "runtime/self_test/low_precision_graph.h"
#include "tests/support/run_graph.h"

namespace graft::test {
namespace {

struct Built : Probe {
  RefTensors feeds;
};

std::vector<double> numbers_of(const OpInput& input, std::mt19937_64& random, std::size_t count) {
  if (!input.values.empty()) return input.values;
  std::vector<double> data(count);
  for (double& x : data) {
    const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
    if (is_float(input.dtype) || is_quantized(input.dtype)) {
      x = static_cast<float>(input.low + unit * (input.high - input.low));
    } else {
      x = std::floor(input.low + unit * (input.high - input.low + 1));
    }
  }
  return data;
}

// Where matrix units round operands to f16, operands are such numbers: sums of products are as exact as in f32.
std::vector<double> fill(const OpInput& input, std::mt19937_64& random, std::size_t count) {
  std::vector<double> data = numbers_of(input, random, count);
  if (!is_float(input.dtype) || !rounds_products()) return data;
  for (double& x : data) {
    const double rounded = half_to_float(float_to_half(static_cast<float>(x)));
    if (std::isfinite(rounded)) x = rounded;
  }
  return data;
}

// What goes from one product to the next, and dequantized weights, are rounded to f16 as well: 2^-11 of each number.
// Of attention, weights and gradients of scores are rounded between products: attention in double with these two
// roundings alone is off by up to 0.15 % (results), 0.60 % (dq), 0.32 % (dk), 0.24 % (dv) over 300 draws of the cases'
// shapes (tests/bench/attention_rounding.py), most where rows see two keys or scores lie far apart; a sixth more here.
double rounded_tolerance(const OpCase& c) { return c.op == Op::attention ? 7e-3 : 2e-3; }
/// At least the case's own: of a product whose rows may be rounded to 8 bits.
double dots_tolerance(const OpCase& c) {
  const bool weights = c.op == Op::matmul && (c.inputs[1].dtype == DType::q8_0 || c.inputs[1].dtype == DType::q4_0);
  return weights && rounds_to_8_bits() ? std::max(c.tolerance, kIntegerDotTolerance) : c.tolerance;
}

double tolerance_of(const OpCase& c) {
  const double own = dots_tolerance(c), rounded = rounded_tolerance(c);
  const bool exact =
      (c.op == Op::matmul || c.op == Op::conv || c.op == Op::conv_transpose) && !is_quantized(c.inputs[1].dtype);
  return rounds_products() && !exact ? std::max(own, rounded) : own;
}

Result<Built> build(const OpCase& c) {
  std::vector<ProbeInput> inputs;
  for (const OpInput& input : c.inputs) {
    const bool weight = is_quantized(input.dtype) && input.kind != ValueKind::state;
    const ValueKind kind = weight ? ValueKind::constant : input.kind;
    inputs.push_back({input.dtype, Shape::of(input.dims), kind, input.grad, input.missing});
  }
  Built built;
  GRAFT_TRY_ASSIGN(static_cast<Probe&>(built), make_probe(c.op, inputs, c.attrs, c.gradient ? c.cotangents : 0));
  std::mt19937_64 random(std::hash<std::string>{}(c.name));
  for (std::size_t i = 0; i < c.inputs.size(); ++i) {
    const OpInput& input = c.inputs[i];
    if (input.missing) continue;
    const std::size_t count = Shape::of(input.dims).elements();
    auto& feed = built.feeds[cat("in", i)];
    feed = {input.dims, fill(input, random, count)};
    if (is_quantized(input.dtype)) {
      const std::vector<float> numbers(feed.data.begin(), feed.data.end());
      std::vector<std::byte> blocks(storage_bytes(input.dtype, count));
      quantize(input.dtype, numbers, blocks);
      feed = quantized_tensor(input.dtype, blocks, input.dims);
    }
    if (feed.data.size() != count) return invalid("The case gives in", i, " the wrong number of values.");
  }
  for (const auto& [output, cotangent] : built.weighted) {
    const Shape& shape = built.graph.value(built.graph.find_value(cotangent)).shape;
    built.feeds[cotangent] = {shape.values(), fill({.low = -1, .high = 1}, random, shape.elements())};
  }
  return built;
}

double weighted_sum(const Built& built, RefTensors tensors, const OpCase& c) {
  const Status status = interpret(built.graph, tensors, c.step_state);
  EXPECT_TRUE(status.ok()) << status.message();
  double sum = 0;
  for (const auto& [output, cotangent] : built.weighted) {
    const auto& y = tensors[output].data;
    const auto& w = tensors[cotangent].data;
    for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * w[i];
  }
  return sum;
}

// Central differences in double at a handful of elements of each input.
void check_differences(const OpCase& c, const Built& built, const RefTensors& reference) {
  constexpr std::size_t kProbes = 12;
  for (std::size_t g = 0; g < built.wrt.size(); ++g) {
    const auto& gradient = reference.find(built.gradients[g])->second.data;
    double scale = 1e-3;
    for (const double x : gradient) scale = std::max(scale, std::abs(x));
    const std::size_t count = gradient.size();
    const std::size_t stride = std::max<std::size_t>(1, count / kProbes) | 1;
    for (std::size_t i = 0, probes = 0; i < count && probes < kProbes; i += stride, ++probes) {
      RefTensors up = built.feeds;
      RefTensors down = built.feeds;
      up[built.wrt[g]].data[i] += c.difference_step;
      down[built.wrt[g]].data[i] -= c.difference_step;
      const double slope =
          (weighted_sum(built, std::move(up), c) - weighted_sum(built, std::move(down), c)) / (2 * c.difference_step);
      EXPECT_NEAR(gradient[i], slope, c.difference_tolerance * scale)
          << "the reference's gradient of " << built.wrt[g] << "[" << i << "] against central differences";
    }
  }
}

void expect_close(const std::string& name, const std::vector<double>& actual, const std::vector<double>& expected,
                  double tolerance) {
  ASSERT_EQ(actual.size(), expected.size()) << name;
  double squares = 0;
  std::size_t finite = 0;
  for (const double x : expected) {
    if (!std::isfinite(x)) continue;
    squares += x * x;
    ++finite;
  }
  const double rms = finite ? std::sqrt(squares / static_cast<double>(finite)) : 0;
  int reported = 0;
  for (std::size_t i = 0; i < actual.size() && reported < 5; ++i) {
    const bool both_nan = std::isnan(actual[i]) && std::isnan(expected[i]);
    const double allowed = tolerance * std::max({std::abs(expected[i]), rms, 1e-30});
    if (both_nan || actual[i] == expected[i] || std::abs(actual[i] - expected[i]) <= allowed) continue;
    ADD_FAILURE() << name << "[" << i << "] is " << actual[i] << " on the device, " << expected[i]
                  << " in the reference; allowed difference " << allowed;
    ++reported;
  }
}

bool same_bits(const RefTensors& a, const RefTensors& b) {
  if (a.size() != b.size()) return false;
  for (const auto& [name, tensor] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.data.size() != tensor.data.size()) return false;
    for (std::size_t i = 0; i < tensor.data.size(); ++i) {
      const double x = tensor.data[i];
      const double y = other->second.data[i];
      if (x != y && !(std::isnan(x) && std::isnan(y))) return false;
    }
  }
  return true;
}

/// The device's kernels over 16-bit elements against the reference in double, from inputs that 16 bits hold exactly.
void check_narrow(const OpCase& c, const Built& built, DType storage) {
  SCOPED_TRACE(dtype_name(storage));
  const double unit_roundoff = storage == DType::f16 ? 0x1p-11 : 0x1p-8;
  // Matrix units round what goes from one product to the next to their operands' type.
  const bool matrices = storage == DType::f16 ? has_matrix_units() : has_bf16_matrices();
  const double rounded = rounded_tolerance(c) * unit_roundoff / 0x1p-11;
  const double own = dots_tolerance(c);
  const double tolerance = matrices ? std::max(own, rounded) : own;
  const auto graph = keep_low_precision(built.graph, storage);
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  RefTensors feeds = built.feeds;
  for (auto& [name, tensor] : feeds) {
    const Value& value = built.graph.value(built.graph.find_value(name));
    if (value.dtype != DType::f32 || value.kind != ValueKind::input) continue;
    for (double& x : tensor.data) x = rounded_to(storage, x);
  }
  RefTensors reference = feeds;
  ASSERT_TRUE(interpret(built.graph, reference, c.step_state).ok());
  const auto device = run_on_device(*graph, feeds, c.step_state);
  ASSERT_TRUE(device.ok()) << device.status().message();
  for (const auto& [name, tensor] : *device) {
    expect_close(name, tensor.data, reference[name].data, tolerance + c.low_precision_roundings * unit_roundoff);
  }
}

void check_narrow(const OpCase& c, const Built& built) {
  if (c.low_precision_roundings == 0) return;
  const char* const chosen = std::getenv("GRAFT_TEST_LOW_PRECISION");
  const bool all = chosen != nullptr && std::string_view(chosen) == "all";
  const bool even = std::hash<std::string>{}(c.name) % 2 == 0;
  if (all || even) check_narrow(c, built, DType::f16);
  if (all || !even) check_narrow(c, built, DType::bf16);
}

}  // namespace

void check_op_case(const OpCase& c) {
  ASSERT_FALSE(c.reason.empty()) << "a tolerance needs its reason";
  auto built = build(c);
  ASSERT_TRUE(built.ok()) << built.status().message();
  if (c.expect_dims != std::vector<std::int64_t>{-1}) {
    EXPECT_EQ(built->graph.value(built->graph.outputs()[0].value).shape.text(), Shape::of(c.expect_dims).text());
  }
  RefTensors reference = built->feeds;
  const Status status = interpret(built->graph, reference, c.step_state);
  ASSERT_TRUE(status.ok()) << status.message();
  check_differences(c, *built, reference);

  const Status device = device_available();
  if (!device.ok()) GTEST_SKIP() << device.message();
  const auto first = run_on_device(built->graph, built->feeds, c.step_state);
  ASSERT_TRUE(first.ok()) << first.status().message();
  for (const auto& [name, tensor] : *first) {
    expect_close(name, tensor.data, reference[name].data, tolerance_of(c));
  }
  const auto second = run_on_device(built->graph, built->feeds, c.step_state);
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_TRUE(same_bits(*first, *second)) << "two runs on one device must give the same bits";
  check_narrow(c, *built);
}

void expect_infer_error(const OpCase& c, const std::string& part) {
  const auto built = build(c);
  ASSERT_FALSE(built.ok()) << c.name << " should not be accepted";
  EXPECT_NE(built.status().message().find(part), std::string::npos) << built.status().message();
}

std::string op_case_name(const testing::TestParamInfo<OpCase>& info) {
  std::string name = info.param.name;
  for (char& x : name) x = std::isalnum(static_cast<unsigned char>(x)) ? x : '_';
  return name;
}

void PrintTo(const OpCase& c, std::ostream* out) { *out << c.name; }

}  // namespace graft::test
