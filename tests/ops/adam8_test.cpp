// AdamW with its state in 8 bits: the codes, and steps on the device against the reference.
#include <cmath>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "runtime/reference/interpreter.h"
#include "shaders/adam8/codes.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::adam8_test {
namespace {

TEST(Codes, StandForThemselves) {
  for (std::uint32_t code = 0; code < 256; ++code) {
    EXPECT_EQ(codes::encode_unsigned(codes::decode_unsigned(code)), code);
    EXPECT_EQ(codes::encode_signed(codes::decode_signed(code)), code);
  }
  EXPECT_EQ(codes::decode_unsigned(255), 1);
  EXPECT_EQ(codes::decode_signed(codes::encode_signed(1)), 1);
  EXPECT_EQ(codes::decode_signed(codes::encode_signed(0)), 0);
}

TEST(Codes, AreCloseOverSixDecades) {
  // Half a cell: 0.9 / 2^(bits + 1) of a decade, which is most beside a number at the decade's lower end.
  for (double x = 1.1e-6; x <= 1; x *= 1.0037) {
    const int decade = std::min(6, static_cast<int>(std::ceil(std::log10(x) - 1e-12)) + 6);
    const double half_cell = std::pow(10.0, decade - 6) * 0.45 / std::pow(2.0, decade);
    EXPECT_NEAR(codes::decode_unsigned(codes::encode_unsigned(x)), x, half_cell / 2 * 1.001) << x;
    EXPECT_NEAR(codes::decode_signed(codes::encode_signed(x)), x, half_cell * 1.001) << x;
    EXPECT_NEAR(codes::decode_signed(codes::encode_signed(-x)), -x, half_cell * 1.001) << x;
  }
}

Attrs attrs() {
  return {{"group", std::int64_t{1}}, {"decoupled", std::int64_t{1}}, {"weight_decay", 0.01}, {"epsilon", 1e-8}};
}

struct Problem {
  Graph graph;
  RefTensors feeds;
};

Problem problem(std::int64_t n, bool with_control) {
  Problem p;
  const std::int64_t words = (n + 3) / 4, blocks = (n + 255) / 256;
  std::vector<ValueId> ids;
  const auto add = [&](std::string name, DType dtype, Shape shape, ValueKind kind) {
    ids.push_back(p.graph.add_value(name, dtype, std::move(shape), kind).value());
  };
  add("w", DType::f32, Shape::of({n}), ValueKind::parameter);
  add("g", DType::f32, Shape::of({n}), ValueKind::input);
  add("m", DType::i32, Shape::of({words}), ValueKind::state);
  add("ms", DType::f32, Shape::of({blocks}), ValueKind::state);
  add("v", DType::i32, Shape::of({words}), ValueKind::state);
  add("vs", DType::f32, Shape::of({blocks}), ValueKind::state);
  if (with_control) add("control", DType::f32, Shape::of({4}), ValueKind::input);
  EXPECT_TRUE(p.graph.add_node(Op::adam8_step, ids, attrs(), "step").ok());
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const auto numbers = [&](std::int64_t count, auto make) {
    std::vector<double> data(static_cast<std::size_t>(count));
    for (double& x : data) x = make();
    return data;
  };
  p.feeds["w"] = {{n}, numbers(n, [&] { return normal(random); })};
  // Of sizes that differ by four decades, so that most of the codes are in use.
  p.feeds["g"] = {{n}, numbers(n, [&] { return normal(random) * std::pow(10.0f, -2 * std::abs(normal(random))); })};
  for (const auto& [name, count] : {std::pair{"m", words}, {"ms", blocks}, {"v", words}, {"vs", blocks}}) {
    p.feeds[name] = {{count}, std::vector<double>(static_cast<std::size_t>(count), 0)};
  }
  return p;
}

RefStepState rates() {
  RefStepState state;
  state.learning_rate[1] = 0.02;
  state.bias_correction1[1] = 0.1;
  state.bias_correction2[1] = 0.001;
  return state;
}

/// Device and reference step by step, both from the device's state: a number between two codes may go either way.
void check_steps(std::int64_t n, bool with_control) {
  Problem p = problem(n, with_control);
  for (int step = 0; step < 3; ++step) {
    if (with_control) p.feeds["control"] = {{4}, {0.5, 0.3, 0.02, step == 1 ? 1.0 : 0.0}};
    RefTensors reference = p.feeds;
    ASSERT_TRUE(interpret(p.graph, reference, rates()).ok());
    const auto device = run_on_device(p.graph, p.feeds, rates());
    ASSERT_TRUE(device.ok()) << device.status().message();
    for (const char* name : {"w", "ms", "vs"}) {
      const auto& now = device->at(name).data;
      for (std::size_t i = 0; i < now.size(); ++i) {
        // A few roundings of f32; a step is at most about 0.1.
        ASSERT_NEAR(now[i], reference[name].data[i], 2e-6 * std::max(1.0, std::abs(now[i])))
            << name << i << ' ' << step;
      }
    }
    for (const char* name : {"m", "v"}) {
      int others = 0;
      for (std::size_t i = 0; i < device->at(name).data.size(); ++i) {
        others += device->at(name).data[i] != reference[name].data[i] ? 1 : 0;
      }
      EXPECT_LE(others, static_cast<int>(n / 200) + 1) << name << ": codes of numbers at the border of two cells alone";
    }
    if (with_control && step == 1) {
      EXPECT_EQ(device->at("w").data, p.feeds["w"].data) << "a skipped step";
    }
    for (const char* name : {"w", "m", "ms", "v", "vs"}) p.feeds[name] = device->at(name);
  }
}

TEST(Adam8, StepsAsTheReference) {
  const Status status = device_available();
  if (!status.ok()) GTEST_SKIP() << status.message();
  check_steps(1000, false);
  check_steps(256, false);
  check_steps(3, false);
}

TEST(Adam8, TakesItsControlFromLossScaling) {
  const Status status = device_available();
  if (!status.ok()) GTEST_SKIP() << status.message();
  check_steps(515, true);
}

TEST(Adam8, WantsStateOfTheRightSize) {
  OpCase c{.name = "sizes", .op = Op::adam8_step, .attrs = attrs()};
  c.gradient = false;
  const auto input = [](std::int64_t n, DType dtype, ValueKind kind) {
    return OpInput{.dims = {n}, .dtype = dtype, .kind = kind};
  };
  c.inputs = {input(1000, DType::f32, ValueKind::parameter), input(1000, DType::f32, ValueKind::input),
              input(250, DType::i32, ValueKind::state),      input(3, DType::f32, ValueKind::state),
              input(250, DType::i32, ValueKind::state),      input(4, DType::f32, ValueKind::state)};
  expect_infer_error(c, "[4]");
}

}  // namespace
}  // namespace graft::test::adam8_test
