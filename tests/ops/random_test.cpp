#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::random_test {
namespace {

OpCase random(std::string name, Op op, Shape shape, std::int64_t stream, double offset = 0, double factor = 1) {
  OpCase c = {.name = std::move(name),
              .op = op,
              .attrs = {{"shape", std::move(shape)}, {"stream", stream}, {"offset", offset}, {"factor", factor}},
              .tolerance = op == Op::random_normal ? 3e-4 : 2e-5,
              .reason = "uniform numbers are exact; SwiftShader's logarithms of the normal ones are good to some 1e-4 near 1",
              .gradient = false};
  c.step_state.seed = 1234567;
  c.step_state.step = 17;
  c.step_state.micro_step = 2;
  return c;
}

std::vector<OpCase> cases() {
  return {
      random("uniform", Op::random_uniform, {3, 347}, 3),  random("uniform_range", Op::random_uniform, {9}, 4, -2, 5),
      random("normal", Op::random_normal, {3, 347}, 3),    random("normal_scaled", Op::random_normal, {6}, 5, 1, 0.5),
      random("scalar", Op::random_normal, {}, 4294967295), random("nothing", Op::random_uniform, {0, 4}, 0)};
}
GRAFT_OP_CASES(Random, cases());

// Moments of the reference's numbers: uniform 1/2 and 1/12, normal 0 and 1, each within five deviations of a mean.
TEST(RandomNumbers, AreDistributedAsTheySay) {
  for (const bool normal : {false, true}) {
    Graph graph;
    constexpr std::int64_t kCount = 40000;
    const auto node = graph.add_node(normal ? Op::random_normal : Op::random_uniform, {},
                                     {{"shape", Shape{kCount}}, {"stream", std::int64_t{1}}}, "r", {"r"});
    ASSERT_TRUE(node.ok()) << node.status().message();
    graph.add_output("r", graph.node(*node).outputs[0]);
    RefTensors values;
    ASSERT_TRUE(interpret(graph, values).ok());
    double sum = 0, squares = 0;
    for (const double x : values["r"].data) {
      sum += x;
      squares += x * x;
      ASSERT_TRUE(normal || (x >= 0 && x < 1)) << x;
    }
    const double mean = sum / kCount, variance = squares / kCount - mean * mean;
    EXPECT_NEAR(mean, normal ? 0 : 0.5, 5 * std::sqrt((normal ? 1 : 1.0 / 12) / kCount));
    EXPECT_NEAR(variance, normal ? 1 : 1.0 / 12, 5 * std::sqrt((normal ? 2 : 1.0 / 180) / kCount));
  }
}

TEST(RandomInfer, RefusesBadAttributes) {
  expect_infer_error(random("bad", Op::random_uniform, {3}, -1), "\"stream\" is -1");
  expect_infer_error(random("bad", Op::random_uniform, {3}, 0, std::nan("")), "must be finite");
}

}  // namespace
}  // namespace graft::test::random_test
