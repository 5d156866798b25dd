// The model of time against numbers computed by hand, and what must hold for any numbers.
#include "runtime/ops/time_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "platform/gpu/presets.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/plan/plan_time.h"

namespace graft::test::time_model_test {
namespace {

gpu::Target cpu() {
  gpu::Target target;
  target.caps.type = gpu::DeviceType::cpu;
  target.caps.subgroup_size = 8;
  target.caps.subgroup_shuffle = true;
  return target;
}

gpu::Target named(std::string_view name) {
  gpu::Target target;
  EXPECT_TRUE(gpu::apply_caps_preset(name, target).ok()) << name;
  return target;
}

// A GPU of four units, each of which begins 64 multiply-adds in a clock.
gpu::Speed four_units() {
  return {.f32_flops = 1e12, .memory_bytes = 1e11, .transfer_bytes = 1e10, .units = 4, .lanes = 64, .load_slots = 1};
}

const Variant& gemm(std::string_view name) { return *variant_named("gemm", name); }

TEST(TimeModel, ATileOfAGpuLoadsARowAndAColumnOfNumbersForEachStep) {
  // 64 invocations of 4 x 4 outputs each: eight numbers loaded, and of the 64 staged one each, which counts twice.
  const KernelUse use = use_of(named("adreno-7xx"), gemm("shared 64x8x4x4"), {32, 64, 128, 3}, four_units());
  EXPECT_DOUBLE_EQ(use.issue, 16.0 / (16 + 8 + 2));
  EXPECT_DOUBLE_EQ(use.useful, 1);
  EXPECT_EQ(use.workgroups, 6u);
  EXPECT_EQ(use.invocations, 64u);
}

TEST(TimeModel, ATileOfACpuCostsWhatItsLoadsDo) {
  // Tiles of 16 x 32: 48 numbers at 8/3 beside 64 multiply-adds of each lane.
  const KernelUse use = use_of(cpu(), gemm("shuffle 16x4"), {17, 33, 100}, {.f32_flops = 1e9});
  EXPECT_DOUBLE_EQ(use.issue, 64.0 / (64 + 128));
  EXPECT_DOUBLE_EQ(use.useful, 17.0 * 33 / (32 * 64)) << "what lies beyond the edges is lost";
}

TEST(TimeModel, ProductsOfFewRowsLoadTheOtherMatrixOnce) {
  const Variant& skinny = *variant_named("product", "skinny");
  EXPECT_DOUBLE_EQ(use_of(cpu(), skinny, {1, 64, 64}, {}).issue, 0.5);
  EXPECT_DOUBLE_EQ(use_of(cpu(), skinny, {3, 64, 64}, {}).issue, 0.75);
  EXPECT_DOUBLE_EQ(use_of(cpu(), *variant_named("weight_rows", "blocked"), {4, 64, 64}, {}).issue, 0.25)
      << "twelve for unpacking a number, once for four rows";
}

TEST(TimeModel, UnitsWithoutWorkAndLanesWithoutEnoughOfItAreLost) {
  const gpu::Speed speed = four_units();
  // Two rounds of four units for six workgroups; in each unit two of 64 invocations, where 4 x 64 would fill it.
  EXPECT_DOUBLE_EQ(fill_of({.workgroups = 6, .invocations = 64}, speed), 6.0 / 8 * 0.5);
  EXPECT_DOUBLE_EQ(fill_of({.workgroups = 1, .invocations = 256}, speed), 0.25);
  EXPECT_DOUBLE_EQ(fill_of({.workgroups = 4, .invocations = 1024}, speed), 1);
  EXPECT_DOUBLE_EQ(fill_of({.workgroups = 0, .invocations = 64}, speed), 1) << "not known";
  EXPECT_DOUBLE_EQ(fill_of({.workgroups = 6, .invocations = 64}, {.f32_flops = 1e12}), 1) << "units are not known";
}

TEST(TimeModel, RatesAreThePeakTimesTheShares) {
  gpu::Speed speed = four_units();
  KernelUse use{.issue = 0.5, .useful = 0.8, .workgroups = 4, .invocations = 128};
  EXPECT_DOUBLE_EQ(arithmetic_rate(use, speed), 1e12 * 0.5 * 0.8 * 0.5);
  use.halves = true;
  EXPECT_DOUBLE_EQ(arithmetic_rate(use, speed), 1e12 * 0.5 * 0.8 * 0.5) << "never slower than f32";
  speed.f16_flops = 3e12;
  EXPECT_DOUBLE_EQ(arithmetic_rate(use, speed), 3e12 * 0.5 * 0.8 * 0.5);
}

TEST(TimeModel, MoreWorkNeverTakesLessTimeNorMoreThanThePeakIsReached) {
  for (const gpu::Target& target : {cpu(), named("adreno-740"), named("navi21")}) {
    const gpu::Figures* const figures = gpu::figures_of(target.caps);
    const gpu::Speed speed = figures != nullptr ? gpu::speed_of(*figures) : gpu::Speed{.f32_flops = 1e11};
    for (const Variant& variant : variants()) {
      if (variant.family != Family::gemm) continue;
      double before = 0;
      for (const std::uint64_t size : {16, 32, 64, 128, 256, 512, 1024, 2048}) {
        const ChoiceShape shape{size, size, size};
        const double seconds = variant_seconds(target, variant, shape, speed);
        EXPECT_GT(seconds, before) << variant.name << " " << size;
        const double peak =
            variant.kernel == 2 || variant.kernel == 4 ? std::max(speed.f16_flops, speed.f32_flops) : speed.f32_flops;
        EXPECT_LE(2.0 * size * size * size / seconds, peak) << variant.name << " " << size;
        before = seconds;
      }
    }
  }
}

TEST(TimeModel, LargerTilesGainWhereTheyFillTheDeviceAndLoseWhereTheyDoNot) {
  const gpu::Target target = named("navi21");
  const gpu::Speed speed = gpu::speed_of(*gpu::figures_of(target.caps));
  const auto seconds = [&](std::string_view name, std::uint64_t size) {
    return variant_seconds(target, gemm(name), {size, size, size}, speed);
  };
  EXPECT_LT(seconds("shared 128x8x4x8", 4096), seconds("shared 64x8x4x4", 4096));
  EXPECT_GT(seconds("shared 128x8x4x8", 256), seconds("shared 64x8x4x4", 256));
}

TEST(TimeModel, ChoosesTheTilesOfGpusWhoseFiguresAreKnown) {
  for (const gpu::Figures& figures : gpu::known_figures()) {
    const gpu::Target target = named(figures.name);
    const gpu::Speed speed = gpu::speed_of(figures);
    std::set<std::string_view> chosen;
    for (const std::uint64_t size : {48, 128, 256, 512, 1024, 2048, 4096}) {
      const ChoiceShape shape{size, size, size};
      const std::string_view name = choose(Family::gemm, target, shape).variant->name;
      chosen.insert(name);
      for (const std::string_view other : {"shared 64x8x4x4", "shared 128x8x4x8"}) {
        EXPECT_LE(variant_seconds(target, gemm(name), shape, speed), variant_seconds(target, gemm(other), shape, speed))
            << figures.name << " " << size;
      }
    }
    EXPECT_EQ(chosen.size(), 2u) << figures.name << ": small products need many tiles, large ones few loads";
  }
}

// z = x y + w.
Result<Graph> product_and_sum() {
  Graph graph;
  GRAFT_TRY_ASSIGN(const ValueId x, graph.add_value("x", DType::f32, {1024, 512}, ValueKind::input));
  GRAFT_TRY_ASSIGN(const ValueId y, graph.add_value("y", DType::f32, {512, 256}, ValueKind::input));
  GRAFT_TRY_ASSIGN(const ValueId w, graph.add_value("w", DType::f32, {1024, 256}, ValueKind::input));
  Builder b(graph);
  graph.add_output("z", b.add(b.node(Op::matmul, {x, y}), w));
  GRAFT_TRY(b.status());
  return graph;
}

TEST(PlanTime, IsTheLargerOfArithmeticAndMemoryOfEachDispatch) {
  const gpu::Target target = named("adreno-7xx");
  const auto graph = product_and_sum();
  ASSERT_TRUE(graph.ok()) << graph.status().message();
  Residents residents(target.caps);
  ASSERT_TRUE(residents.add(*graph).ok());
  const auto plan = make_plan(*graph, target, residents);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  gpu::Speed speed = four_units();
  speed.dispatch_seconds = 1e-6;
  speed.barrier_seconds = 2e-6;
  speed.submit_seconds = 3e-6;
  const PlanTime time = estimate_plan(*plan, target, speed);
  ASSERT_EQ(time.nodes.size(), 2u);
  // 256 workgroups of 64: all four units, full; 2^28 FLOP at 16/26 of the peak.
  EXPECT_DOUBLE_EQ(time.nodes[0].arithmetic, 268435456.0 / (1e12 * 16 / 26));
  EXPECT_EQ(time.nodes[0].memory, 0);
  // 2^18 additions, three tensors of 2^20 bytes.
  EXPECT_DOUBLE_EQ(time.nodes[1].memory, 3.0 * 1048576 / 1e11);
  EXPECT_EQ(time.nodes[1].arithmetic, 0);
  double copied = 0, handing = speed.submit_seconds;
  for (const Step& step : plan->steps) {
    handing += speed.dispatch_seconds + (step.barrier_before ? speed.barrier_seconds : 0);
    if (step.kind != StepKind::dispatch) copied += 2.0 * static_cast<double>(step.bindings[0].size) / 1e10;
  }
  EXPECT_GT(copied, 0);
  EXPECT_NEAR(time.all.memory, time.nodes[1].memory + copied, 1e-15);
  EXPECT_NEAR(time.all.dispatching, handing, 1e-15);
  EXPECT_NEAR(time.all.seconds(), time.all.arithmetic + time.all.memory + handing, 1e-15);
}

TEST(PlanTime, AMeasuredProductGivesThePeakThatItsTileSaysItIsAShareOf) {
  const gpu::Speed speed{.f32_flops = 1};
  EXPECT_EQ(choose(Family::gemm, cpu(), {768, 768, 768}).variant->name, "shuffle 64x8");
  // Tiles of 64 x 64, which divide the product: 512 multiply-adds beside 128 numbers at 8/3.
  EXPECT_DOUBLE_EQ(product_share(cpu(), 768, speed), 0.6);
}

TEST(Figures, OfEachGpuHaveTheirPagesAndCapabilities) {
  std::set<std::string_view> names;
  for (const gpu::Figures& f : gpu::known_figures()) {
    SCOPED_TRACE(f.name);
    EXPECT_TRUE(names.insert(f.name).second);
    for (const std::string_view page : {f.units_source, f.clock_source, f.memory_source}) {
      EXPECT_TRUE(page.starts_with("https://")) << page;
    }
    const gpu::Target target = named(f.name);
    EXPECT_EQ(gpu::figures_of(target.caps), &f) << "by the name that plans print";
    EXPECT_EQ(gpu::find_figures(f.name), &f);
    const gpu::Speed speed = gpu::speed_of(f);
    EXPECT_GT(speed.f32_flops, 1e11);
    EXPECT_LT(speed.f32_flops, 1e14);
    EXPECT_GE(speed.f16_flops, speed.f32_flops);
    EXPECT_GT(speed.memory_bytes, 1e10);
    EXPECT_GT(speed.dispatch_seconds, 0);
  }
}

TEST(Figures, AreFoundByTheNamesThatDriversGive) {
  gpu::Caps caps;
  const auto found = [&](const char* device) {
    caps.device_name = device;
    const gpu::Figures* const figures = gpu::figures_of(caps);
    return figures == nullptr ? std::string_view() : figures->name;
  };
  EXPECT_EQ(found("Turnip Adreno (TM) 740"), "adreno-740");
  EXPECT_EQ(found("Adreno (TM) 630"), "adreno-630");
  EXPECT_EQ(found("AMD Radeon RX 6800 XT (RADV NAVI21)"), "navi21");
  EXPECT_EQ(found("AMD Radeon Graphics (RADV GFX1150)"), "gfx1150");
  EXPECT_EQ(found("Mali-G78"), "");
  EXPECT_EQ(found(""), "");
  EXPECT_EQ(gpu::find_figures("adreno-999"), nullptr);
}

TEST(Figures, GiveTheFlopsThatThePagesDo) {
  EXPECT_NEAR(gpu::speed_of(*gpu::find_figures("navi21")).f32_flops, 20.74e12, 0.01e12);
  EXPECT_NEAR(gpu::speed_of(*gpu::find_figures("polaris10")).f32_flops, 5.834e12, 0.001e12);
  EXPECT_NEAR(gpu::speed_of(*gpu::find_figures("vega10")).f32_flops, 12.66e12, 0.01e12);
  EXPECT_NEAR(gpu::speed_of(*gpu::find_figures("gfx1150")).f32_flops, 5.939e12, 0.001e12);
  EXPECT_NEAR(gpu::speed_of(*gpu::find_figures("adreno-630")).f32_flops, 727e9, 1e9);
}

}  // namespace
}  // namespace graft::test::time_model_test
