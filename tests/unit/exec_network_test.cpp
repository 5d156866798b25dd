// ctest: slow
// A training step of whole networks on the test device: whatever the plan shares and reorders, and
// however vectors go to and from memory, the bits are the same.
#include <gtest/gtest.h>

#include <cstring>

#include "platform/gpu/quirks.h"
#include "platform/gpu/with_target.h"
#include "runtime/exec/run_once.h"
#include "runtime/kernels/wide_kernel.h"
#include "tests/support/gpu_device.h"
#include "tests/support/networks.h"

namespace graft::exec_network_test {
namespace {

/// Inputs and residents with small values that differ from element to element; labels below 4.
Tensors make_feeds(const Graph& graph) {
  Tensors feeds;
  std::uint32_t state = 12345;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    auto& bytes = feeds[value.name];
    bytes.resize(value.shape.elements() * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
      state = state * 1664525 + 1013904223;
      const auto word = static_cast<std::int32_t>(state >> 24 & 3);
      const float number = static_cast<float>(state >> 8) / 16777216.0f * 0.2f - 0.1f;
      value.dtype == DType::f32 ? std::memcpy(&bytes[i], &number, 4) : std::memcpy(&bytes[i], &word, 4);
    }
  }
  return feeds;
}

/// Which of the plan's passes alone changes the bits of a resident.
std::string differs_by(gpu::Device& device, const Graph& graph, const Tensors& feeds, const StepState& state,
                       const RunOnceOptions& options, const std::string& name) {
  std::string passes = " differs by";
  const std::pair<const char*, bool PlanOptions::*> all[] = {{" reorder", &PlanOptions::reorder},
                                                             {" in_place", &PlanOptions::in_place},
                                                             {" merge", &PlanOptions::merge},
                                                             {" fuse", &PlanOptions::fuse}};
  const auto with = run_once(device, graph, feeds, state, options);
  for (const auto& [text, pass] : all) {
    RunOnceOptions one = options;
    one.plan.*pass = false;
    const auto without = run_once(device, graph, feeds, state, one);
    if (!with.ok() || !without.ok() || with->residents.at(name) != without->residents.at(name)) passes += text;
  }
  return passes;
}

void expect_same_bits(void (*build)(test::Network&)) {
  GRAFT_TEST_GPU(device);
  test::Network net;
  build(net);
  if (testing::Test::HasFatalFailure() || testing::Test::HasNonfatalFailure()) return;
  const Tensors feeds = make_feeds(net.graph);
  StepState state;
  state.learning_rate[0] = 0.1f;
  const RunOnceOptions shared{.timeout = test::kTestTimeout, .check_plan = true};
  RunOnceOptions plain = shared;
  plain.plan = {.reorder = false, .in_place = false, .merge = false, .fuse = false};
  const auto a = run_once(*device, net.graph, feeds, state, shared);
  ASSERT_TRUE(a.ok()) << a.status().message();
  const auto b = run_once(*device, net.graph, feeds, state, plain);
  ASSERT_TRUE(b.ok()) << b.status().message();
  const auto again = run_once(*device, net.graph, feeds, state, shared);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(a->outputs, b->outputs);
  EXPECT_EQ(a->outputs, again->outputs);
  EXPECT_EQ(a->residents, again->residents);
  if (wants_wide_vectors(device->caps())) {
    gpu::WithTarget by_components(*device);
    by_components.edit().caps.shader_int64 = false;
    const auto c = run_once(by_components, net.graph, feeds, state, shared);
    ASSERT_TRUE(c.ok()) << c.status().message();
    EXPECT_EQ(a->outputs, c->outputs);
    EXPECT_EQ(a->residents, c->residents);
  }
  if (gpu::reads_texels(device->caps())) {
    gpu::WithTarget by_buffers(*device);
    by_buffers.edit().caps.max_texel_buffer_elements = 0;
    const auto d = run_once(by_buffers, net.graph, feeds, state, shared);
    ASSERT_TRUE(d.ok()) << d.status().message();
    EXPECT_EQ(a->outputs, d->outputs);
    EXPECT_EQ(a->residents, d->residents);
  }
  std::size_t moved = 0;
  for (const auto& [name, bytes] : a->residents) {
    EXPECT_TRUE(bytes == b->residents.at(name)) << name << differs_by(*device, net.graph, feeds, state, shared, name);
    moved += bytes != feeds.at(name) ? 1 : 0;
  }
  EXPECT_GE(moved, net.parameters.size() / 2) << "the step is to change the parameters";
  device.reset();
  test::expect_no_validation_messages();
}

TEST(ExecNetwork, LeNet) {
  expect_same_bits([](test::Network& net) { test::build_lenet(net, 2); });
}

TEST(ExecNetwork, ResidualWithBatchNorm) {
  expect_same_bits([](test::Network& net) { test::build_resnet(net, 1, 3); });
}

TEST(ExecNetwork, Transformer) {
  expect_same_bits([](test::Network& net) { test::build_transformer(net, 1, 1); });
}

}  // namespace
}  // namespace graft::exec_network_test
