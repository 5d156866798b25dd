// Fusion takes no more memory: what it would keep longer, or have beside what dies, stays apart.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include "runtime/core/op_id.gen.h"
#include "runtime/passes/fuse.h"
#include "tests/support/networks.h"
#include "tests/support/plan_checks.h"

namespace graft::plan_fuse_test::passes_fuse_memory_test {
namespace {

using test::dispatches;
using test::GraphMaker;

constexpr std::int64_t kRows = 6;
constexpr std::int64_t kColumns = 20;

/// A product that is wanted itself, of operands that are not wanted after it, and what it gives with `other` added: as
/// one, the sum is there before the operands go, so that it must take the place of `other`.
Result<Plan> product_and_sum(Shape other, bool lasting) {
  GraphMaker g;
  const ValueId product = g.add(Op::matmul, {g.input("x", {kRows, 16}), g.input("w", {16, kColumns})});
  const ValueId z = g.input("z", std::move(other));
  g.output("product", product);
  if (lasting) g.output("z", z);
  g.output("y", g.add(Op::add, {product, z}));
  gpu::Target target;
  target.caps.max_storage_buffers_per_stage = 16;
  return test::checked_plan(g.graph, target);
}

TEST(FuseMemory, ASumTakesThePlaceOfAnOperandThatDies) {
  const auto in_place = product_and_sum({kRows, kColumns}, false);
  const auto too_small = product_and_sum({kColumns}, false);
  const auto stays = product_and_sum({kRows, kColumns}, true);
  ASSERT_TRUE(in_place.ok() && too_small.ok() && stays.ok());
  EXPECT_EQ(dispatches(*in_place), 1u);
  EXPECT_EQ(dispatches(*too_small), 2u);
  EXPECT_EQ(dispatches(*stays), 2u);
}

// The sum is there long before what it is multiplied by: with it, both addends would have to wait.
TEST(FuseMemory, NothingIsKeptLongerThanItSaves) {
  const auto nodes = [](bool wait) {
    GraphMaker g;
    const Shape shape = {64, 64};
    const ValueId a = g.add(Op::exp, {g.input("x", shape)});
    const ValueId b = g.add(Op::softmax, {g.input("z", shape)}, {{"axis", std::int64_t{1}}});
    const ValueId sum = g.add(Op::add, {g.add(Op::softmax, {a}, {{"axis", std::int64_t{1}}}), b});
    ValueId other = g.input("w", shape);
    if (wait)
      other =
          g.add(Op::softmax, {g.add(Op::softmax, {other}, {{"axis", std::int64_t{1}}})}, {{"axis", std::int64_t{0}}});
    g.output("y", g.add(Op::mul, {sum, other}));
    return g.graph.nodes().size() - passes::fuse(g.graph, {})->graph.nodes().size();
  };
  EXPECT_EQ(nodes(false), 1u);
  EXPECT_EQ(nodes(true), 0u);
}

// Forward results that the backward pass reads stay what they were; forward and backward nodes do not mix.
TEST(FuseMemory, NetworksTakeNoMore) {
  const std::function<void(test::Network&)> networks[] = {
      [](test::Network& net) { test::build_lenet(net, 64); }, [](test::Network& net) { test::build_resnet(net, 4, 3); },
      [](test::Network& net) { test::build_transformer(net, 4, 2); },
      [](test::Network& net) { test::build_u_net(net, 2, 2); }};
  for (const auto& build : networks) {
    test::Network net;
    build(net);
    for (const auto type : {gpu::DeviceType::cpu, gpu::DeviceType::discrete}) {
      gpu::Target target;
      target.caps.type = type;
      target.caps.max_storage_buffers_per_stage = 16;
      const auto fused = passes::fuse(net.graph, target);
      ASSERT_TRUE(fused.ok()) << fused.status().message();
      ASSERT_TRUE(validate(fused->graph).ok()) << validate(fused->graph).message();
      const auto together = test::checked_plan(net.graph, target);
      const auto apart = test::checked_plan(net.graph, target, {.fuse = false});
      ASSERT_TRUE(together.ok()) << together.status().message();
      ASSERT_TRUE(apart.ok()) << apart.status().message();
      EXPECT_LE(dispatches(*together), dispatches(*apart));
      EXPECT_EQ(together->flops, apart->flops);
      EXPECT_LE(together->transient_bytes, apart->transient_bytes);
    }
  }
}

}  // namespace
}  // namespace graft::plan_fuse_test::passes_fuse_memory_test
