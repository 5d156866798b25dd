#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"

#include <gtest/gtest.h>

#include <set>

#include "runtime/core/build.h"
#include "runtime/ops/matrix_tiles.h"
#include "runtime/plan/plan.h"
#include "shaders/kernels.gen.h"

namespace graft::test::ops_choice_test {
namespace {

gpu::Target cpu_caps() {
  gpu::Target target;
  target.caps.type = gpu::DeviceType::cpu;
  target.caps.subgroup_size = 8;
  target.caps.subgroup_shuffle = true;
  return target;
}

TEST(ChoiceTable, EveryRuleNamesAVariantAndEveryFamilyEndsWithOneForAnyDevice) {
  std::set<Family> families;
  std::set<std::pair<Family, std::string_view>> names;
  for (const Variant& v : variants()) {
    families.insert(v.family);
    EXPECT_TRUE(names.emplace(v.family, v.name).second) << v.name;
    EXPECT_EQ(v.name.find_first_of("\t\n="), std::string_view::npos) << "names stand in cache files";
  }
  for (const Rule& rule : rules()) {  // one without a name is for the model of time, which ranks these
    EXPECT_TRUE(rule.variant.empty() ? rule.family == Family::gemm : names.contains({rule.family, rule.variant}))
        << rule.variant;
  }
  for (const Family family : families) {
    const Choice choice = choose(family, gpu::Target{}, {.m = 1000, .n = 1000, .k = 1000});
    ASSERT_NE(choice.variant, nullptr);
    EXPECT_EQ(choice.variant->family, family);
    EXPECT_FALSE(choice.why.empty());
  }
}

TEST(ChoiceTable, TilesInSharedMemoryKeepToWhatTheKernelCanDo) {
  for (const Variant& v : variants()) {
    if (v.family != Family::gemm || v.kernel != 0) continue;
    const std::uint32_t m = v.tile[0] / v.tile[1] * v.tile[2], n = v.tile[1] * v.tile[3];
    EXPECT_EQ(v.tile[0] % m, 0u) << v.name;  // each invocation stages one row and one column
    EXPECT_EQ(v.tile[0] % n, 0u) << v.name;
    EXPECT_LE(16 * (m + n) * sizeof(float), 16384u) << v.name;
    EXPECT_TRUE(v.tile[0] <= 128 || v.possible != nullptr) << v.name << " is not for every device";
  }
}

TEST(Choice, FollowsTheDeviceAndTheShape) {
  gpu::Target small, desktop;
  small.caps.type = gpu::DeviceType::integrated;
  desktop.caps.type = gpu::DeviceType::discrete;
  const ChoiceShape large{4096, 4096, 4096};
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), large).variant->name, "shuffle 64x8");
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), {512, 512, 512}).variant->name, "shuffle 32x8") << "fewer operations";
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), {4096, 20, 4096}).variant->name, "shuffle 32x4") << "few columns";
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), {128, 128, 200}).variant->name, "shuffle 32x4") << "few operations";
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), {128, 128, 20}).variant->name, "shuffle 16x4") << "very few operations";
  EXPECT_EQ(choose(Family::gemm, cpu_caps(), {16, 4096, 4096}).variant->name, "shuffle 16x4") << "few rows";
  EXPECT_EQ(choose(Family::epilogue, cpu_caps(), {}).variant->name, "apart");
  EXPECT_EQ(choose(Family::epilogue, small, {}).variant->name, "in the kernel");
  gpu::Target apart = cpu_caps();
  apart.caps.subgroup_shuffle = false;
  EXPECT_EQ(choose(Family::gemm, apart, large).variant->name, "apart 8x4x32x16");
  EXPECT_EQ(choose(Family::gemm, apart, {4096, 32, 64}).variant->name, "apart 8x2x16x16") << "few columns";
  EXPECT_EQ(choose(Family::gemm, apart, {16, 32, 64}).variant->name, "apart 8x4x8x8") << "very few operations";
  gpu::Target other = cpu_caps();
  other.caps.subgroup_size = 128;
  EXPECT_EQ(choose(Family::gemm, other, large).variant->name, "shuffle 64x8") << "its first lanes";
  EXPECT_EQ(shuffle_lanes(other.caps).all, 8u);
  EXPECT_EQ(choose(Family::attention, other, {9, 18, 20}).variant->name, "shuffle 8");
  other.caps.subgroup_size = 4;
  EXPECT_EQ(choose(Family::gemm, other, large).variant->name, "shuffle 64x8");
  EXPECT_EQ(choose(Family::gemm, other, {4096, 32, 4096}).variant->name, "shuffle 64x8")
      << "all of a cluster's columns";
  EXPECT_EQ(choose(Family::attention, other, {1536, 512, 64}).variant->name, "shuffle 32");
  EXPECT_EQ(choose(Family::attention, other, {1536, 512, 132}).variant->name, "shuffle 8") << "large heads";
  other.caps.vendor_id = 0x1ae0;
  EXPECT_EQ(choose(Family::gemm, other, large).variant->name, "shuffle 32x4") << "SwiftShader";
  ChoiceShape across = large;
  across.a_across = true;
  EXPECT_EQ(choose(Family::gemm, other, across).variant->name, "shuffle 16x8") << "SwiftShader";
  EXPECT_EQ(choose(Family::gemm, small, large).variant->name, "shared 64x8x4x4");
  EXPECT_EQ(choose(Family::gemm, desktop, large).variant->name, "shared 128x8x4x8");
  EXPECT_EQ(choose(Family::gemm, desktop, {8, 4096, 64}).variant->name, "shared 128x32x4x2");
  EXPECT_EQ(choose(Family::product, desktop, {4, 64, 64}).variant->name, "skinny");
  EXPECT_EQ(choose(Family::product, desktop, {5, 64, 64}).variant->name, "blocked");
}

TEST(Choice, ClustersAreOfLanesThatReallyRunSideBySide) {
  gpu::Target target = cpu_caps();
  const auto all_and_clusters = [&](std::string_view name, std::uint32_t subgroup) {
    target.caps.device_name = name;
    target.caps.subgroup_size = subgroup;
    const ShuffleLanes lanes = shuffle_lanes(target.caps);
    return std::pair(lanes.all, lanes.clusters);
  };
  const std::pair one_of_four(4u, 1u), one_of_eight(8u, 1u), two_of_four(8u, 2u), four_of_four(16u, 4u);
  EXPECT_EQ(all_and_clusters("llvmpipe (LLVM 15.0.6, 256 bits)", 8), one_of_eight);
  EXPECT_EQ(all_and_clusters("llvmpipe (LLVM 15.0.6, 256 bits)", 4), two_of_four);
  EXPECT_EQ(all_and_clusters("llvmpipe (LLVM 15.0.6, 512 bits)", 4), four_of_four);
  EXPECT_EQ(all_and_clusters("llvmpipe (LLVM 15.0.6, 256 bits)", 128), one_of_eight);
  EXPECT_EQ(all_and_clusters("llvmpipe (LLVM 15.0.6, 128 bits)", 4), one_of_four);
  EXPECT_EQ(all_and_clusters("another CPU", 4), one_of_four);
  EXPECT_EQ(all_and_clusters("", 8), one_of_eight);
}

// Subgroups of four lanes are no reason for kernels of CPUs.
TEST(Choice, AGpuOfFourLanesSharesMemory) {
  gpu::Target target = cpu_caps();
  target.caps.type = gpu::DeviceType::integrated;
  for (const std::uint32_t size : {4u, 8u, 16u}) {
    target.caps.subgroup_size = size;
    EXPECT_EQ(choose(Family::attention, target, {1536, 512, 64}).variant->name, "scalar") << size;
    EXPECT_EQ(choose(Family::attention_few, target, {4, 512, 64}).variant->name, "tiles") << size;
    EXPECT_EQ(choose(Family::gemm, target, {512, 512, 512}).variant->name, "shared 64x8x4x4") << size;
  }
}

gpu::Target matrix_caps() {
  gpu::Target target;
  target.caps.type = gpu::DeviceType::discrete;
  target.caps.cooperative_matrix = target.caps.shader_float16 = true;
  target.caps.matrix_subgroup = 32;
  target.caps.matrix_shapes = {{gpu::MatrixShape::Operand::f16, 16, 16, 16}};
  target.caps.max_workgroup_invocations = 1024;
  target.caps.max_workgroup_size = {1024, 1024, 64};
  target.caps.max_shared_memory = 49152;
  return target;
}

TEST(Choice, TakesMatricesOnlyWhereOperandsMayBeRounded) {
  gpu::Target target = matrix_caps();
  ChoiceShape shape{4096, 4096, 4096};
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shared 128x8x4x8");
  shape.rounded = true;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x4x64x32");
  EXPECT_EQ(choose(Family::gemm, target, {4096, 8, 4096, 1, true}).variant->name, "shared 64x8x4x4");
  target.caps.max_workgroup_invocations = 128;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x2x32x32");
  target.caps.max_shared_memory = 8192;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x2x16x16");
  target.caps.matrix_shapes = {{gpu::MatrixShape::Operand::f16, 16, 64, 16}};  // no size that the kernel has loops for
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shared 128x8x4x8");
}

// As graft bench ops --tune measured it on an H200, but for what is within a few percent.
TEST(Choice, LoadsAheadOnNvidiasGpus) {
  gpu::Target target = matrix_caps();
  target.caps.vendor_id = 0x10de;
  const auto tile = [&](const ChoiceShape& shape) { return choose(Family::gemm, target, shape).variant->name; };
  EXPECT_EQ(tile({4096, 4096, 4096}), "ahead 128x16x8x8");
  EXPECT_EQ(tile({392, 512, 4608}), "ahead 128x16x8x8") << "few tiles, but many parts of them";
  EXPECT_EQ(tile({25088, 64, 256}), "ahead 128x8x4x8") << "half of a wider tile would be empty";
  EXPECT_EQ(tile({3136, 64, 576}), "ahead 64x8x4x4");
  EXPECT_EQ(tile({64, 576, 3136}), "ahead 64x8x4x4");
  EXPECT_EQ(tile({50176, 20, 4096}), "ahead 64x8x4x4") << "few columns";
  target.caps.max_shared_memory = 16384;
  EXPECT_EQ(tile({25088, 64, 256}), "shared 128x8x4x8");
  target.caps.max_shared_memory = 49152;
  target.caps.vendor_id = 0x1002;
  EXPECT_EQ(tile({4096, 4096, 4096}), "shared 128x8x4x8") << "not measured there";
}

TEST(Choice, TakesMatricesOfFlexibleSizesBeforeOthersWhereTheyDivideTheTile) {
  gpu::Target target = matrix_caps();
  target.caps.flexible_shapes = {{gpu::MatrixShape::Operand::f16, 16, 16, 16}};
  target.caps.max_flexible_side = 256;
  const ChoiceShape shape{4096, 4096, 4096, 1, true};
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "flexible 2x4x64x64");
  target.caps.max_flexible_side = 32;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "flexible 2x2x32x32");
  target.caps.flexible_shapes[0].n = 64;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x4x64x32");
  target.caps.flexible_shapes[0] = {gpu::MatrixShape::Operand::bf16, 16, 16, 16};
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x4x64x32");
}

TEST(Choice, TakesMatricesOfBf16WhereTheDeviceHasThem) {
  gpu::Target target = matrix_caps();
  ChoiceShape shape{4096, 4096, 4096, 1, true, gpu::MatrixShape::Operand::bf16};
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shared 128x8x4x8") << "its matrices are of f16";
  target.caps.matrix_shapes.push_back({gpu::MatrixShape::Operand::bf16, 16, 8, 16});
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shared 128x8x4x8") << "it has not the type";
  target.caps.shader_bfloat16 = true;
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x4x64x32");
  EXPECT_EQ(choose(Family::attention, target, shape).variant->name, "matrices");
  EXPECT_EQ(matrix_constants(target.caps, MatrixTile({2, 4, 64, 32}), {}, MatrixOperands::bf16, false).size(), 28u);
  EXPECT_EQ(matrix_sizes(target.caps, gpu::MatrixShape::Operand::bf16)[17], 8u);
  EXPECT_EQ(matrix_sizes(target.caps, gpu::MatrixShape::Operand::f16)[17], 16u);
  target.caps.max_flexible_side = 256;
  target.caps.flexible_shapes = {{gpu::MatrixShape::Operand::f16, 16, 16, 16}};
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "matrices 2x4x64x32");
  target.caps.flexible_shapes.push_back({gpu::MatrixShape::Operand::bf16, 16, 16, 16});
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "flexible 2x4x64x64");
  const std::string key = choose(Family::gemm, target, shape).key;
  shape.operand = gpu::MatrixShape::Operand::f16;
  EXPECT_NE(choose(Family::gemm, target, shape).key, key) << "what was measured of one says nothing of the other";
}

TEST(Choice, LeavesTheMatricesOfSoftwareAlone) {
  gpu::Target target = matrix_caps();
  target.caps.type = gpu::DeviceType::cpu;
  const ChoiceShape shape{64, 64, 64, 1, true};
  EXPECT_FALSE(choose(Family::gemm, target, shape).variant->name.starts_with("matrices"));
  target.policy.matmul_precision = gpu::MatmulPrecision::high;
  EXPECT_FALSE(graft::rounds_products(target));
  target.hooks.software_matrices = true;
  EXPECT_TRUE(choose(Family::gemm, target, shape).variant->name.starts_with("matrices"));
}

/// A product of two values that are kept as these say, and what may be done with them.
MatrixOperands operands_of(const gpu::Target& target, DType left, DType right) {
  Graph graph;
  for (const DType stored : {left, right}) {
    const auto v = graph.add_value(std::string(dtype_name(stored)) + std::to_string(graph.values().size()),
                                   stored == DType::q8_0 ? stored : DType::f32, Shape{32, 32}, ValueKind::constant);
    EXPECT_TRUE(v.ok());
    if (stored != DType::q8_0) graph.mutable_value(*v).storage = stored;
  }
  const auto node =
      graph.add_node(Op::matmul, {ValueId{0}, ValueId{1}}, {{"trans_b", std::int64_t{1}}}, "product", {"y"});
  EXPECT_TRUE(node.ok()) << node.status().message();
  const Emitter e(graph, graph.node(*node), target);
  return matrix_operands(e, std::array{e.in(0), e.in(1)});
}

TEST(Choice, OperandsOfMatrixUnitsAreKeptAsTheyTakeThemOrMayBeRounded) {
  using enum MatrixOperands;
  gpu::Target target = matrix_caps();
  EXPECT_EQ(operands_of(target, DType::f16, DType::f16), f16) << "nothing is lost";
  EXPECT_EQ(operands_of(target, DType::bf16, DType::bf16), bf16) << "nothing is lost";
  EXPECT_EQ(operands_of(target, DType::f16, DType::f32), none);
  EXPECT_EQ(operands_of(target, DType::f32, DType::f32), none);
  EXPECT_EQ(operands_of(target, DType::f16, DType::q8_0), none) << "a block's scale times its numbers has more bits";
  EXPECT_EQ(operands_of(target, DType::bf16, DType::f32), none);
  target.policy.matmul_precision = gpu::MatmulPrecision::high;
  EXPECT_EQ(operands_of(target, DType::f16, DType::f32), f16);
  EXPECT_EQ(operands_of(target, DType::f32, DType::f32), f16);
  EXPECT_EQ(operands_of(target, DType::f32, DType::q8_0), f16);
  EXPECT_EQ(operands_of(target, DType::bf16, DType::bf16), bf16) << "f16 has not its range";
  EXPECT_EQ(operands_of(target, DType::f32, DType::bf16), none) << "11 bits are promised";
  EXPECT_EQ(operands_of(target, DType::bf16, DType::q8_0), none);
  EXPECT_EQ(operands_of(target, DType::f16, DType::bf16), none);
  target.policy.matmul_precision = gpu::MatmulPrecision::medium;
  EXPECT_EQ(operands_of(target, DType::f32, DType::f32), f16);
  EXPECT_EQ(operands_of(target, DType::bf16, DType::bf16), bf16);
  EXPECT_EQ(operands_of(target, DType::f32, DType::bf16), bf16_rounded);
  EXPECT_EQ(operands_of(target, DType::bf16, DType::q8_0), bf16_rounded);
}

TEST(Choice, TakesWhatWasMeasuredWhereTheDeviceCanRunIt) {
  gpu::Target target = cpu_caps();
  const ChoiceShape shape{700, 700, 700};
  const std::string key = choose(Family::gemm, target, shape).key;
  target.advice.tuned[key] = "shared 64x8x8x8";
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shared 64x8x8x8");
  EXPECT_EQ(choose(Family::gemm, target, {600, 1000, 513}).variant->name, "shared 64x8x8x8") << "of the same size";
  EXPECT_EQ(choose(Family::gemm, target, {1024, 700, 700}).variant->name, "shuffle 64x8");
  target.advice.tuned[key] = "shared 256x16x8x8";  // more invocations than it has
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shuffle 64x8");
  target.advice.tuned[key] = "something from a later release";
  EXPECT_EQ(choose(Family::gemm, target, shape).variant->name, "shuffle 64x8");
}

Result<Plan> plan_product(const gpu::Target& target) {
  Graph graph;
  GRAFT_TRY_ASSIGN(const ValueId a, graph.add_value("a", DType::f32, {64, 64}, ValueKind::input));
  GRAFT_TRY_ASSIGN(const ValueId b, graph.add_value("b", DType::f32, {64, 64}, ValueKind::input));
  GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(Op::matmul, {a, b}, {}, "y"));
  graph.add_output("y", graph.node(node).outputs[0]);
  Residents residents(target.caps);
  GRAFT_TRY(residents.add(graph));
  return make_plan(graph, target, residents);
}

std::set<std::string_view> kernels_of(const Plan& plan) {
  std::set<std::string_view> names;
  for (const PlanKernel& kernel : plan.kernels) names.insert(shaders::kernel_info(kernel.id).name);
  return names;
}

TEST(Choice, PlansKernelsForBf16WhereAllOperandsAreKeptSo) {
  gpu::Target target = matrix_caps();
  target.caps.matrix_shapes = {{gpu::MatrixShape::Operand::bf16, 16, 16, 16}};
  target.caps.shader_bfloat16 = true;
  const auto planned = [&](DType left, DType right) {
    Graph graph;
    std::vector<ValueId> ids;
    for (const DType stored : {left, right}) {
      ids.push_back(*graph.add_value(ids.empty() ? "a" : "b", DType::f32, Shape{64, 64}, ValueKind::constant));
      graph.mutable_value(ids.back()).storage = stored;
    }
    const auto node = graph.add_node(Op::matmul, ids, {}, "y");
    EXPECT_TRUE(node.ok());
    graph.add_output("y", graph.node(*node).outputs[0]);
    Residents residents(target.caps);
    EXPECT_TRUE(residents.add(graph).ok());
    const auto plan = make_plan(graph, target, residents);
    EXPECT_TRUE(plan.ok()) << plan.status().message();
    return plan.ok() && kernels_of(*plan).contains("matmul__f32_coopmat_bf16");
  };
  const bool built = shaders::kernel_info(shaders::KernelId::matmul__f32_coopmat_bf16).built();
  EXPECT_EQ(planned(DType::bf16, DType::bf16), built);
  EXPECT_EQ(multiplies_bf16(target), built);
  for (const DType other : {DType::f32, DType::f16}) EXPECT_FALSE(planned(DType::bf16, other));
  EXPECT_FALSE(planned(DType::f16, DType::f16));
  target.policy.matmul_precision = gpu::MatmulPrecision::medium;
  EXPECT_EQ(planned(DType::bf16, DType::f32), built);
  EXPECT_EQ(graft::rounds_products(target), built);
  EXPECT_FALSE(rounds_to_f16(target));
  target.advice.avoided.insert("matmul__f32_coopmat_bf16");
  EXPECT_FALSE(planned(DType::bf16, DType::bf16)) << "it failed its self-test";
  target.advice.avoided.clear();
  target.caps.shader_bfloat16 = false;
  EXPECT_FALSE(planned(DType::bf16, DType::bf16));
  EXPECT_FALSE(planned(DType::bf16, DType::f32));
}

TEST(Choice, LeavesOutKernelsThatFailedAndSaysWhereNothingIsLeft) {
  gpu::Target target = cpu_caps();
  auto plan = plan_product(target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  ASSERT_EQ(plan->nodes[0].choices.size(), 1u);
  EXPECT_EQ(plan->nodes[0].choices[0].variant, "shuffle 16x4");
  EXPECT_EQ(plan->kernels[0].id, shaders::KernelId::matmul__f32_shuffle);

  target.advice.avoided.insert("matmul__f32_shuffle");
  plan = plan_product(target);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  EXPECT_EQ(plan->kernels[0].id, shaders::KernelId::matmul__f32);

  target.advice.avoided.insert("matmul__f32");
  target.advice.avoided.insert("matmul__f32_apart");
  plan = plan_product(target);
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.status().code(), Code::unsupported);
  EXPECT_NE(plan.status().message().find("failed its self-test"), std::string::npos) << plan.status().message();
}

}  // namespace
}  // namespace graft::test::ops_choice_test
