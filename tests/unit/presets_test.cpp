// Presets of capabilities: each one's table is laid over a device, and plans obey it.
#include "platform/gpu/presets.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "platform/gpu/caps_fields.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/networks.h"

namespace graft::presets_test {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;

class Presets : public testing::TestWithParam<gpu::CapsPreset> {
 protected:
  gpu::Target made() const {
    gpu::Target target{.caps = {.device_name = "any"}};
    GetParam().apply(target);
    return target;
  }
};

TEST_P(Presets, KeepToWhatVulkanGuarantees) {
  const gpu::Target target = made();
  EXPECT_GE(target.caps.max_storage_buffer_range, 128 * kMiB);
  EXPECT_GE(target.caps.max_allocation, 1024 * kMiB);
  EXPECT_LE(target.caps.storage_buffer_alignment, 256u);
  EXPECT_GE(target.caps.max_storage_buffers_per_stage, 4u);
  EXPECT_GE(target.caps.max_push_constants, 128u);
  EXPECT_GE(target.caps.max_shared_memory, 16384u);
  EXPECT_GE(target.caps.max_workgroup_invocations, 128u);
  EXPECT_GE(target.caps.max_workgroup_size[0], 128u);
  EXPECT_GE(target.caps.max_workgroup_size[2], 64u);
  for (const std::uint32_t count : target.caps.max_workgroup_count) EXPECT_GE(count, 65535u);
  EXPECT_EQ(target.caps.subgroup_size & (target.caps.subgroup_size - 1), 0u);
  EXPECT_TRUE(target.caps.subgroup_basic || !target.caps.subgroup_arithmetic) << "operations without subgroups";
  if (GetParam().source.empty()) return;
  EXPECT_TRUE(GetParam().source.starts_with("https://"));
  EXPECT_FALSE(target.caps.heaps.empty());
  EXPECT_NE(target.caps.device_name, "any");
}

void expect_obeys(const Graph& graph, const gpu::Target& target) {
  const auto plan = test::checked_plan(graph, target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  std::size_t dispatches = 0;
  for (const Step& step : plan->steps) {
    if (step.kind != StepKind::dispatch) continue;
    ++dispatches;
    EXPECT_LE(bound_by(step).size(), target.caps.max_storage_buffers_per_stage);
    for (const PlanBinding& binding : bound_by(step)) {
      EXPECT_LE(binding.size, std::min(target.caps.max_storage_buffer_range, 1024 * kMiB));
      EXPECT_EQ(binding.offset % target.caps.storage_buffer_alignment, 0u);
    }
    EXPECT_LE(step.push.size(), target.caps.max_push_constants);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_LE(step.groups[i], target.caps.max_workgroup_count[i]);
  }
  EXPECT_GT(dispatches, 0u);
}

TEST_P(Presets, PlansOfTrainingObeyThem) {
  test::Network lenet, transformer;
  test::build_lenet(lenet, 8);
  expect_obeys(lenet.graph, made());
  test::build_transformer(transformer, 2, 1);
  expect_obeys(transformer.graph, made());
}

TEST_P(Presets, LargeProductsArePlannedInBindingsThatFit) {
  test::GraphMaker g;  // 400 MB in each operand
  g.output("y", g.add(Op::matmul, {g.input("x", {10000, 10000}), g.parameter("w", {10000, 10000})}));
  expect_obeys(g.graph, made());
}

TEST_P(Presets, StayWithinTheDeviceThatRunsThem) {
  gpu::Caps device;
  device.max_shared_memory = 20000;
  device.storage_buffer_alignment = 64;
  device.max_workgroup_size = {200, 150, 70};
  const gpu::Caps least = gpu::within_device(made().caps, device);
  EXPECT_LE(least.max_shared_memory, 20000u);
  EXPECT_GE(least.storage_buffer_alignment, 64u);
  EXPECT_LE(least.max_workgroup_size[1], 150u);
  EXPECT_EQ(least.subgroup_size, made().caps.subgroup_size);
  gpu::each_feature([](std::string_view name, bool feature) { EXPECT_FALSE(feature) << name; }, least);
}

std::string test_name(const testing::TestParamInfo<gpu::CapsPreset>& preset) {
  std::string name(preset.param.name);
  std::ranges::replace(name, '-', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(, Presets, testing::ValuesIn(gpu::caps_presets().begin(), gpu::caps_presets().end()),
                         test_name);

TEST(PresetNames, AreAllDifferentAndListedWhereAnotherIsAsked) {
  std::set<std::string_view> names;
  gpu::Target target;
  const Status status = gpu::apply_caps_preset("adreno-9xx", target);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  for (const gpu::CapsPreset& preset : gpu::caps_presets()) {
    EXPECT_TRUE(names.insert(preset.name).second) << preset.name;
    EXPECT_NE(status.message().find(preset.name), std::string::npos) << status.message();
  }
}

TEST(PresetValues, AreThoseOfTheirSources) {
  gpu::Target target;
  ASSERT_TRUE(gpu::apply_caps_preset("raspberry-pi-4", target).ok());
  EXPECT_EQ(target.caps.max_storage_buffers_per_stage, 8u);
  EXPECT_EQ(target.caps.max_workgroup_invocations, 256u);
  EXPECT_FALSE(target.caps.subgroup_arithmetic);
  ASSERT_TRUE(gpu::apply_caps_preset("mali-g78", target).ok());
  EXPECT_EQ(target.caps.subgroup_size, 16u);
  EXPECT_EQ(target.caps.max_workgroup_size[2], 512u);
  EXPECT_TRUE(target.caps.integer_dot);
  ASSERT_TRUE(gpu::apply_caps_preset("apple-moltenvk", target).ok());
  EXPECT_EQ(target.caps.max_storage_buffers_per_stage, 31u);
  EXPECT_FALSE(target.caps.max_storage_buffer_range > 0xffffffffull);
  ASSERT_TRUE(gpu::apply_caps_preset("adreno-6xx", target).ok());
  EXPECT_EQ(target.caps.subgroup_size, 128u);
  EXPECT_FALSE(target.caps.storage_16bit);
  ASSERT_TRUE(gpu::apply_caps_preset("adreno-8xx", target).ok());
  EXPECT_EQ(target.caps.subgroup_size, 64u);
  EXPECT_TRUE(target.caps.storage_16bit);
}

}  // namespace
}  // namespace graft::presets_test
