// ctest: middle
// Kernels on a device of four storage buffers per stage, where bindings share them: the bits are those of the same
// kernels with a buffer for each binding. Over the probes of all families of ops, forward and backward, and over
// kernels that end with others.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "platform/gpu/presets.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/self_test/self_test_probes.h"
#include "tests/support/edited_device.h"
#include "tests/support/gpu_device.h"
#include "tests/support/plan_checks.h"

namespace graft::shared_buffers_test {
namespace {

using test::GraphMaker;

std::set<std::string> kernels_that_share(const Plan& plan) {
  std::set<std::string> names;
  for (const PlanKernel& kernel : plan.kernels) {
    EXPECT_LE(kernel.bindings, 4u);
    if (!kernel.shares.empty()) names.insert(std::string(shaders::kernel_info(kernel.id).name));
  }
  return names;
}

class SharedBuffers : public testing::Test {
 protected:
  void SetUp() override {
    GRAFT_TEST_GPU(own);
    own_ = std::move(own);
    many_.emplace(*own_);
    few_.emplace(*own_);
    ASSERT_TRUE(gpu::apply_caps_preset("buffers4", few_->edit()).ok());
  }
  void TearDown() override { test::expect_no_validation_messages(); }

  /// The kernels that share buffers on the device that has few.
  std::set<std::string> sharing(const Graph& graph) {
    Residents residents(few_->caps());
    EXPECT_TRUE(residents.add(graph).ok());
    const auto plan = plan_fused(graph, few_->target(), residents);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() ? kernels_that_share(*plan) : std::set<std::string>();
  }

  /// Runs a graph on both devices, on random inputs.
  void expect_same_bits(const Graph& graph, std::string_view kernel) {
    SCOPED_TRACE(kernel);
    EXPECT_TRUE(sharing(graph).contains(std::string(kernel)));
    Tensors feeds;
    data::Random random(7);
    for (const ValueId id : graph.inputs()) {
      std::vector<float> x(graph.value(id).shape.elements());
      for (float& number : x) number = static_cast<float>(random.uniform() + 0.1);
      const auto bytes = std::as_bytes(std::span(x));
      feeds[graph.value(id).name].assign(bytes.begin(), bytes.end());
    }
    const auto expected = run_once(*many_, graph, feeds, {}, {.check_plan = true});
    const auto actual = run_once(*few_, graph, feeds, {}, {.check_plan = true});
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    EXPECT_EQ(expected->outputs, actual->outputs);
  }

  std::unique_ptr<gpu::Device> own_;
  std::optional<test::EditedDevice> many_, few_;
};

TEST_F(SharedBuffers, GiveTheSameBits) {
  std::set<std::string> seen;
  for (const OpProbe& probe : self_test_probes()) {
    const auto built = build_probe(probe);
    ASSERT_TRUE(built.ok()) << built.status().message();
    std::string fresh;
    for (const std::string& name : sharing(built->graph)) fresh += seen.insert(name).second ? " " + name : "";
    if (fresh.empty()) continue;  // nothing that an earlier one had not
    SCOPED_TRACE(fresh);
    const RunOnceOptions options{.check_plan = true};
    const auto expected = run_on_device(*many_, built->graph, built->feeds, built->step, options);
    const auto actual = run_on_device(*few_, built->graph, built->feeds, built->step, options);
    ASSERT_TRUE(expected.ok()) << expected.status().message();
    ASSERT_TRUE(actual.ok()) << actual.status().message();
    for (const auto& [name, tensor] : *expected) EXPECT_EQ(tensor.data, actual->at(name).data) << name;
  }
  for (const char* name : {"adam_step__f32", "fused_elementwise__f32", "layer_norm__f32", "layer_norm_grad__f32",
                           "norm_apply__f32", "rope__f32", "linear_cross_entropy_grad__f32", "reduce_grad__f32"}) {
    EXPECT_TRUE(seen.contains(name)) << name;
  }
}

TEST_F(SharedBuffers, GiveTheSameBitsWithWhatEndsKernels) {
  for (auto* device : {&many_, &few_}) (*device)->edit().caps.type = gpu::DeviceType::discrete;
  {
    GraphMaker g;
    const Attrs window = {{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}};
    ValueId y = g.add(Op::conv, {g.input("x", {2, 6, 6, 3}), g.input("w", {8, 3, 3, 3})}, window);
    y = g.add(Op::add, {y, g.input("bias", {8})});
    g.output("y", g.add(Op::relu, {g.add(Op::add, {y, g.input("skip", {2, 6, 6, 8})})}));
    expect_same_bits(g.graph, "conv__f32_epilogue");
  }
  {
    GraphMaker g;
    const ValueId y = g.add(Op::matmul, {g.input("x", {6, 16}), g.input("w", {16, 20})});
    g.output("y", g.add(Op::tanh, {y}));
    expect_same_bits(g.graph, "matmul__f32_epilogue");
  }
  {
    GraphMaker g;
    std::vector<ValueId> inputs = {g.input("x", {2, 3, 3, 8})};
    for (const char* name : {"scale", "bias", "mean", "variance"}) inputs.push_back(g.input(name, {8}));
    g.output("y", g.add(Op::relu, {g.add(Op::batch_norm, inputs)}));
    expect_same_bits(g.graph, "norm_apply__f32_epilogue");
  }
  {
    GraphMaker g;
    const ValueId row = g.input("row", {5});
    const auto grads = g.b.nodes(Op::layer_norm_grad,
                                 {g.input("x", {5, 24}), g.input("scale", {24}), row, row, g.input("dy", {5, 24})},
                                 {{"axis", std::int64_t{1}}});
    g.output("dx", g.add(Op::add, {g.input("other", {5, 24}), grads[0]}));
    g.output("scale_gradient", grads[1]);
    expect_same_bits(g.graph, "layer_norm_grad__f32_epilogue");
  }
}

}  // namespace
}  // namespace graft::shared_buffers_test
