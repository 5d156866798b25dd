// Chains of elementwise kernels and products with a bias run as one dispatch, with the same bits as apart.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>

#include "runtime/data/random.h"
#include "runtime/exec/run_once.h"
#include "tests/support/gpu_device.h"
#include "tests/support/narrow_graph.h"
#include "tests/support/networks.h"

namespace graft {
namespace {

using test::GraphMaker;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 20;

struct Case {
  const char* name;
  std::size_t apart;     ///< dispatches
  std::size_t together;  ///< with fusion
  std::function<void(GraphMaker&)> build;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Attrs affine(double alpha, double beta) { return {{"alpha", alpha}, {"beta", beta}}; }

const Case kCases[] = {
    {"gelu_of_parts", 5, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId e = g.add(Op::erf, {g.add(Op::affine, {x}, affine(0.70710678, 0))});
       g.output("y", g.add(Op::affine, {g.add(Op::mul, {x, g.add(Op::affine, {e}, affine(1, 1))})}, affine(0.5, 0)));
     }},
    {"what_lies_between_is_given_too", 3, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId t = g.add(Op::tanh, {g.add(Op::add, {x, g.input("z", {kRows, kColumns})})});
       g.output("t", t);
       g.output("y", g.add(Op::mul, {t, x}));
     }},
    {"broadcast", 5, 2,  // a chain holds four inputs
     [](GraphMaker& g) {
       ValueId y = g.add(Op::mul, {g.input("x", {kRows, kColumns}), g.input("scale", {kColumns})});
       y = g.add(Op::add, {y, g.input("shift", {kRows, 1})});
       y = g.add(Op::sub, {g.input("one", {1}), y});
       y = g.add(Op::div, {y, g.input("by", {kRows, kColumns})});
       g.output("y", g.add(Op::maximum, {y, g.input("least", {kColumns})}));
     }},
    {"a_row_that_fours_do_not_divide", 3, 1,
     [](GraphMaker& g) {
       ValueId y = g.add(Op::add, {g.input("x", {5, 7}), g.input("row", {7})});
       y = g.add(Op::mul, {y, g.input("column", {5, 1})});
       g.output("y", g.add(Op::sigmoid, {y}));
     }},
    {"longer_than_a_program", 20, 3,
     [](GraphMaker& g) {
       ValueId y = g.input("x", {3, 5});
       for (int i = 0; i < 10; ++i) y = g.add(Op::relu, {g.add(Op::affine, {y}, affine(-1.1, 0.1))});
       g.output("y", y);
     }},
    {"another_shape_stays_apart", 2, 2,
     [](GraphMaker& g) {
       const ValueId small = g.add(Op::exp, {g.input("x", {kColumns})});
       g.output("y", g.add(Op::add, {small, g.input("z", {kRows, kColumns})}));
     }},
    {"slopes", 3, 1,
     [](GraphMaker& g) {
       const ValueId x = g.input("x", {kRows, kColumns});
       const ValueId dy = g.add(Op::add, {g.input("d", {kRows, kColumns}), g.input("e", {kRows, kColumns})});
       Attrs silu{{"fn", static_cast<std::int64_t>(Op::silu)}};
       Attrs relu{{"fn", static_cast<std::int64_t>(Op::relu)}};
       const ValueId first = g.add(Op::unary_grad, {x, kNoValue, dy}, silu);
       g.output("y", g.add(Op::unary_grad, {kNoValue, x, first}, relu));
     }},
    {"bias_of_a_product", 3, 2,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       g.output("y", g.add(Op::relu, {g.add(Op::add, {y, g.input("bias", {kColumns})})}));
     }},
    {"bias_of_a_split_product", 3, 2,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {8, 4096}), g.input("w", {4096, 8})});
       g.output("y", g.add(Op::add, {g.input("bias", {8}), y}));
     }},
    {"a_product_that_is_given_keeps_its_own_place", 2, 2,
     [](GraphMaker& g) {
       const ValueId y = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
       g.output("product", y);
       g.output("y", g.add(Op::add, {y, g.input("bias", {kColumns})}));
     }},
};

class PlanFuse : public testing::TestWithParam<Case> {};

std::size_t dispatches(const Plan& plan) {
  std::size_t count = 0;
  for (const Step& step : plan.steps) count += step.kind == StepKind::dispatch;
  return count;
}

TEST_P(PlanFuse, NeedsFewerDispatchesAndBarriers) {
  GraphMaker g;
  GetParam().build(g);
  gpu::Caps caps;
  const auto together = test::checked_plan(g.graph, caps);
  const auto apart = test::checked_plan(g.graph, caps, {.fuse = false});
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_EQ(dispatches(*together), GetParam().together);
  EXPECT_EQ(dispatches(*apart), GetParam().apart);
  EXPECT_LE(together->barriers, apart->barriers);
  EXPECT_EQ(together->transient_bytes, apart->transient_bytes);
  test::expect_every_barrier_needed(*together);
}

/// Runs the graph with fusion and without it, on the same random inputs.
void expect_same_bits(const Graph& graph, std::vector<double> scales) {
  GRAFT_TEST_GPU(device);
  Tensors feeds;
  data::Random random(7);
  for (const ValueId id : graph.inputs()) {
    const Value& value = graph.value(id);
    std::vector<float> x(value.shape.elements());
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>((random.uniform() * 4 - 2) * scales[i % scales.size()]);
    }
    const auto bytes = std::as_bytes(std::span(x));
    feeds[value.name].assign(bytes.begin(), bytes.end());
  }
  Result<RunOnceResult> results[2] = {run_once(*device, graph, feeds, {}, {.plan = {.fuse = false}}),
                                      run_once(*device, graph, feeds, {}, {.check_plan = true})};
  for (const auto& result : results) ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(results[0]->outputs, results[1]->outputs);
  test::expect_no_validation_messages();
}

TEST_P(PlanFuse, GivesTheSameBits) {
  GraphMaker g;
  GetParam().build(g);
  expect_same_bits(g.graph, {1});
}

// What lies between is not stored, but rounded as if it were.
TEST_P(PlanFuse, GivesTheSameBitsOfValuesKeptIn16Bits) {
  GraphMaker g;
  GetParam().build(g);
  for (const DType storage : {DType::f16, DType::bf16}) {
    if (storage == DType::bf16 && GetParam().apart != 3) continue;  // pipelines take time
    SCOPED_TRACE(dtype_name(storage));
    const auto narrow = test::keep_narrow(g.graph, storage);
    ASSERT_TRUE(narrow.ok()) << narrow.status().message();
    const auto together = test::checked_plan(*narrow);
    const auto apart = test::checked_plan(*narrow, {}, {.fuse = false});
    ASSERT_TRUE(together.ok() && apart.ok());
    EXPECT_LE(dispatches(*together), dispatches(*apart));
    if (GetParam().together == 1) {
      EXPECT_LT(dispatches(*together), dispatches(*apart));
    }
    EXPECT_EQ(together->transient_bytes, apart->transient_bytes);
    // Also numbers that f16 holds as subnormal ones, and such that sums and products leave its range.
    expect_same_bits(*narrow, {1, 1, 1e-5, 3e4, 1});
  }
}

INSTANTIATE_TEST_SUITE_P(Chains, PlanFuse, testing::ValuesIn(kCases),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(PlanFuseNetworks, TrainingNeedsFewerDispatches) {
  test::Network net;
  test::build_resnet(net, 2, 3);
  const auto together = test::checked_plan(net.graph);
  const auto apart = test::checked_plan(net.graph, {}, {.fuse = false});
  ASSERT_TRUE(together.ok()) << together.status().message();
  ASSERT_TRUE(apart.ok()) << apart.status().message();
  EXPECT_LT(dispatches(*together), dispatches(*apart));
  EXPECT_EQ(together->flops, apart->flops);
}

TEST(PlanFuseNetworks, DevicesWithFewBindingsRunKernelsApart) {
  GraphMaker g;
  kCases[0].build(g);
  gpu::Caps caps;
  caps.max_storage_buffers_per_stage = 6;
  const auto plan = test::checked_plan(g.graph, caps);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(dispatches(*plan), kCases[0].apart);
}

}  // namespace
}  // namespace graft
