// Bindings that share a storage buffer: which may, and that every kernel can be made so (unit/shared_buffers runs
// them).
#include "runtime/core/op_id.gen.h"
#include "runtime/kernels/share_kernel.h"

#include <gtest/gtest.h>

#include "runtime/kernels/wide_kernel.h"
#include "shaders/kernels.gen.h"
#include "tests/support/networks.h"
#include "tests/support/files/spirv_files.h"

namespace graft::share_kernel_test {
namespace {

constexpr std::uint8_t kBindings = 12;  // more than any kernel has
constexpr std::uint32_t kPushBytes = 128;

/// Three buffers, and a word for all but one binding.
std::vector<Share> shares_of_all() {
  std::vector<Share> shares;
  for (std::uint8_t i = 0; i < kBindings; ++i) {
    shares.push_back({static_cast<std::uint8_t>(i % 3), i == 0 ? Share::kAtStart : static_cast<std::uint8_t>(i - 1)});
  }
  return shares;
}

TEST(ShareKernel, IsValidForEachKernel) {
  if (!test::SpirvFiles::can_validate()) GTEST_SKIP() << "spirv-val is not installed";
  test::SpirvFiles files;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const shaders::KernelInfo& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (!info.built() || info.features != 0) continue;  // newer SPIR-V than the validator of Debian 12 knows
    const auto shared = share_kernel(info.spirv(), shares_of_all(), kPushBytes + 4 * (kBindings - 1));
    if (!shared.ok()) {
      // Records of tables have no buffer of their own here, as they have in plans; depthwise convolutions bind four
      // buffers at most, some as pairs of vectors.
      const bool known = info.name.ends_with("_table") || info.name.starts_with("conv_depthwise") ||
                         info.name.starts_with("bench_") || info.name.starts_with("selftest");
      EXPECT_TRUE(known) << info.name << ": " << shared.status().message();
      continue;
    }
    files.add(std::string(info.name), widen_vectors(*shared));
  }
  EXPECT_GT(files.count(), 80u);
  files.expect_valid();
}

TEST(ShareKernel, RefusesWhatItCannotDo) {
  const std::span<const std::uint32_t> chain = shaders::kernel_info(shaders::KernelId::fused_elementwise__f32).spirv();
  const std::vector<Share> shares = shares_of_all();
  EXPECT_EQ(share_kernel(chain.first(3), shares, kPushBytes).status().code(), Code::invalid_argument);
  const auto few = share_kernel(chain, std::span(shares).first(3), kPushBytes);
  EXPECT_NE(few.status().message().find("beyond the 3"), std::string::npos) << few.status().message();
  EXPECT_EQ(share_kernel(chain, shares, 8).status().code(), Code::invalid_argument);
}

/// Plans for four storage buffers, and checks that none has more.
Plan plan_for_four(const Graph& graph, gpu::Target target = {}) {
  target.caps.max_storage_buffers_per_stage = 4;
  auto plan = test::checked_plan(graph, target);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  if (!plan.ok()) return {};
  for (const Step& step : plan->steps) {
    if (step.kind != StepKind::dispatch) continue;
    EXPECT_LE(bound_by(step).size(), 4u);
    EXPECT_EQ(plan->kernels[step.kernel].bindings, bound_by(step).size());
    EXPECT_EQ(plan->kernels[step.kernel].push_bytes, step.push.size());
    EXPECT_LE(step.push.size(), target.caps.max_push_constants);
    for (const PlanBinding& buffer : bound_by(step)) EXPECT_LE(buffer.size, target.caps.max_storage_buffer_range);
  }
  return *plan;
}

TEST(SharedBindings, HoldWhatNetworksBind) {
  test::Network resnet, transformer;
  test::build_resnet(resnet, 2, 3);
  test::build_transformer(transformer, 2, 1);
  for (const test::Network* net : {&resnet, &transformer}) {
    const Plan plan = plan_for_four(net->graph);
    const auto own = test::checked_plan(net->graph);
    ASSERT_TRUE(own.ok());
    EXPECT_GE(plan.steps.size(), own->steps.size());
    EXPECT_EQ(plan.transient_bytes, own->transient_bytes);
    for (const PlanKernel& kernel : own->kernels) EXPECT_LE(kernel.bindings, 8u);
  }
}

void add_adam(test::GraphMaker& g, std::string name, const Shape& shape) {
  const ValueId p = g.parameter(name, shape), m = g.state(name + ".m", shape), v = g.state(name + ".v", shape);
  g.act(Op::adam_step, {p, g.input(name + ".dy", shape), m, v},
        {{"group", std::int64_t{0}}, {"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}}, name + ".step");
}

// A parameter's moments stand beside it, so that it takes three times its bytes and not those of all parameters.
TEST(SharedBindings, ReachAParameterAndItsMoments) {
  test::GraphMaker g;
  for (const char* name : {"a", "b", "c"}) add_adam(g, name, {1024});
  gpu::Target target;
  target.caps.max_storage_buffer_range = 3 * 4096;
  const Plan plan = plan_for_four(g.graph, target);
  EXPECT_EQ(test::find_value(plan, "b.m")->offset, test::find_value(plan, "b")->offset + 4096);
  EXPECT_EQ(test::find_value(plan, "b.v")->offset, test::find_value(plan, "b")->offset + 2 * 4096);
}

TEST(SharedBindings, ThatCannotReachAreToldOf) {
  test::GraphMaker g;
  add_adam(g, "a", {1024});
  gpu::Target target;
  ASSERT_TRUE(test::checked_plan(g.graph, target).ok());
  target.caps.max_storage_buffers_per_stage = 4;
  target.caps.max_storage_buffer_range = 4096;
  const auto plan = test::checked_plan(g.graph, target);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::unsupported);
  const std::string& message = plan.status().message();
  for (const std::string_view part : {"\"a.step\"", "adam_step__f32", "6 buffers", "allows 4"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " in " << message;
  }
}

}  // namespace
}  // namespace graft::share_kernel_test
