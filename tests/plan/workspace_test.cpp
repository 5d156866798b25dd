// Partial sums take turns in less workspace where memory asks for it: less memory, the same bits.
#include <gtest/gtest.h>

#include <cstring>

#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/exec/run_once.h"
#include "tests/support/edited_device.h"
#include "tests/support/gpu_device.h"
#include "tests/support/plan_checks.h"

namespace graft::plan_workspace_test {
namespace {

using test::EditedDevice;
using test::GraphMaker;

/// A kernel that cuts its sums into parts on the device that `edit` makes.
struct Case {
  const char* name;
  void (*build)(GraphMaker&);
  void (*edit)(gpu::Target&);
};

void as_it_is(gpu::Target&) {}
/// Tiles in shared memory, and many parts.
void like_a_gpu(gpu::Target& target) { target.caps.type = gpu::DeviceType::discrete; }
void with_small_bindings(gpu::Target& target) { target.caps.max_storage_buffer_range = 16384; }

void product(GraphMaker& g, std::int64_t m, std::int64_t k, std::int64_t n, bool turned) {
  const ValueId a = g.input("a", turned ? Shape{k, m} : Shape{m, k});
  const ValueId b = g.input("b", {k, n});
  g.output("y", g.add(Op::matmul, {a, b, g.input("bias", {n})}, {{"trans_a", std::int64_t{turned}}}, "y"));
}

void weight_gradient(GraphMaker& g, std::int64_t channels, std::int64_t group_channels) {
  const Shape image = {4, 32, 32, channels};
  g.output("y", g.add(Op::conv_grad_weight, {g.input("x", image), g.input("dy", image)},
                      {{"strides", Ints{1, 1}},
                       {"pads", Ints{1, 1, 1, 1}},
                       {"groups", channels / group_channels},
                       {"shape", Shape{channels, 3, 3, group_channels}}},
                      "y"));
}

constexpr Case kCases[] = {
    {"product", [](GraphMaker& g) { product(g, 16, 4100, 20, false); }, as_it_is},
    {"product_like_a_gpu", [](GraphMaker& g) { product(g, 16, 4100, 20, false); }, like_a_gpu},
    {"few_rows", [](GraphMaker& g) { product(g, 2, 2048, 16, false); }, as_it_is},
    {"few_rows_like_a_gpu", [](GraphMaker& g) { product(g, 2, 2048, 16, false); }, like_a_gpu},
    {"sums_beyond_a_binding", [](GraphMaker& g) { product(g, 8, 2048, 12, true); }, with_small_bindings},
    {"convolution", [](GraphMaker& g) { weight_gradient(g, 8, 8); }, as_it_is},
    {"convolution_like_a_gpu", [](GraphMaker& g) { weight_gradient(g, 8, 8); }, like_a_gpu},
    {"depthwise", [](GraphMaker& g) { weight_gradient(g, 8, 1); }, as_it_is},
    {"depthwise_like_a_gpu", [](GraphMaker& g) { weight_gradient(g, 8, 1); }, like_a_gpu},
};

Tensors random_feeds(const Graph& graph) {
  Tensors feeds;
  std::uint64_t key = 1;
  for (const ValueId v : graph.inputs()) {
    data::Random random(key++);
    std::vector<float> numbers(graph.value(v).shape.elements());
    for (float& x : numbers) x = static_cast<float>(random.uniform() * 2 - 1);
    auto& bytes = feeds[graph.value(v).name];
    bytes.resize(numbers.size() * sizeof(float));
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
  }
  return feeds;
}

class Workspace : public testing::TestWithParam<Case> {};

TEST_P(Workspace, InTurnsGivesTheSameBits) {
  GRAFT_TEST_GPU(device);
  EditedDevice edited(*device);
  GetParam().edit(edited.edit());
  GraphMaker g;
  GetParam().build(g);
  const auto plan = [&](const PlanOptions& options) {
    auto made = test::checked_plan(g.graph, edited.target(), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return made.ok() ? std::move(made).value() : Plan{};
  };
  const Plan whole = plan({});
  const Plan least = plan({.least_memory = true});
  ASSERT_EQ(whole.nodes.size(), 1u);
  const std::uint64_t part = device_bytes(g.graph.value(g.graph.outputs()[0].value));
  ASSERT_GE(whole.nodes[0].scratch_bytes, 3 * part) << "several parts at once";
  EXPECT_EQ(whole.nodes[0].whole_scratch_bytes, whole.nodes[0].scratch_bytes);
  EXPECT_LT(least.nodes[0].scratch_bytes, whole.nodes[0].scratch_bytes);
  EXPECT_EQ(least.nodes[0].whole_scratch_bytes, whole.nodes[0].scratch_bytes);
  EXPECT_LT(least.transient_bytes, whole.transient_bytes);
  EXPECT_EQ(plan({.tile_workspace = false, .least_memory = true}).transient_bytes, whole.transient_bytes);

  const Tensors feeds = random_feeds(g.graph);
  const auto run = [&](const PlanOptions& options) {
    auto ran =
        run_once(edited, g.graph, feeds, {}, {.timeout = test::kTestTimeout, .plan = options, .check_plan = true});
    EXPECT_TRUE(ran.ok()) << ran.status().message();
    return ran.ok() ? std::move(ran->outputs["y"]) : std::vector<std::byte>{};
  };
  const auto expected = run({});
  ASSERT_FALSE(expected.empty());
  // Between the two ends: what a limit leaves room for, and no more turns than it takes.
  const std::uint64_t range = whole.transient_bytes - least.transient_bytes;
  for (const std::uint64_t tenth : {0, 3, 5, 8}) {
    const std::uint64_t limit = least.transient_bytes + range * tenth / 10;
    const PlanOptions limited = {.arena_limit = limit, .recompute = false};
    EXPECT_LE(plan(limited).transient_bytes, limit);
    EXPECT_TRUE(run(limited) == expected) << "tenth " << tenth;
  }
  EXPECT_LT(plan({.arena_limit = whole.transient_bytes - 1}).steps.size(), least.steps.size());
  test::expect_no_validation_messages();
}

INSTANTIATE_TEST_SUITE_P(All, Workspace, testing::ValuesIn(kCases), [](const auto& c) { return c.param.name; });

}  // namespace
}  // namespace graft::plan_workspace_test
