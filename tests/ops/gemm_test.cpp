// ctest: costly
// The GEMM tiles that other devices would choose: shared memory instead of shuffles, the tiles of GPUs, their splits.
#include "runtime/ops/gemm.h"
#include "runtime/core/op_id.gen.h"

#include <array>

#include "platform/gpu/presets.h"
#include "runtime/ops/parts.h"
#include "shaders/kernels.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::gemm_test {
namespace {

void like_a_gpu(gpu::Target& target) { target.caps.type = gpu::DeviceType::discrete; }

OpCase make(std::string name, Op op, std::vector<std::vector<std::int64_t>> inputs, Attrs attrs, bool gradient = true) {
  OpCase c{.name = std::move(name), .op = op, .attrs = std::move(attrs), .tolerance = 5e-5, .gradient = gradient};
  c.reason = "f32 sums of up to 2000 products: about sqrt(K) roundings of 6e-8, relative to the result's size";
  for (auto& dims : inputs) c.inputs.push_back({.dims = std::move(dims)});
  return c;
}

std::vector<OpCase> cases() {
  const Ints pads = {1, 0, 0, 1};
  const Ints strides = {2, 3};
  const Attrs window = {{"pads", pads}, {"strides", strides}};
  return {
      make("product", Op::matmul, {{33, 70}, {70, 45}}, {}),
      make("transposed product", Op::matmul, {{2, 70, 33}, {2, 45, 70}},
           {{"trans_a", std::int64_t{1}}, {"trans_b", std::int64_t{1}}}),
      make("few rows", Op::matmul, {{5, 37}, {37, 130}}, {}),
      make("few columns", Op::matmul, {{130, 37}, {37, 3}}, {}),
      make("large tiles", Op::matmul, {{1000, 5}, {5, 600}}, {}, false),
      make("split", Op::matmul, {{20, 2000}, {2000, 40}}, {}),
      make("convolution", Op::conv, {{2, 9, 11, 5}, {7, 3, 3, 5}}, window),
      make("convolution in groups", Op::conv, {{2, 9, 11, 6}, {4, 3, 2, 3}},
           {{"pads", pads}, {"strides", strides}, {"groups", std::int64_t{2}}}),
      make("dilated convolution", Op::conv, {{1, 10, 11, 3}, {20, 3, 3, 3}},
           {{"dilations", Ints{2, 3}}, {"pads", pads}}),
      make("one channel", Op::conv, {{2, 12, 13, 1}, {8, 5, 5, 1}}, {}),
      make("pointwise", Op::conv, {{2, 20, 20, 3}, {4, 1, 1, 3}}, {}),
      make("transposed convolution", Op::conv_transpose, {{1, 5, 6, 17}, {17, 3, 3, 4}}, window),
      make("many pixels", Op::conv, {{1, 130, 130, 2}, {70, 1, 2, 2}}, {{"strides", Ints{1, 2}}}, false),
  };
}

class GemmVariants : public testing::TestWithParam<OpCase> {};

TEST_P(GemmVariants, SharedMemoryAsOnAGpu) {
  const EditedTarget edited(like_a_gpu);
  check_op_case(GetParam());
}

void without_subgroups(gpu::Target& target) { ASSERT_TRUE(gpu::apply_caps_preset("plain", target).ok()); }

TEST_P(GemmVariants, ApartAsWithoutSubgroups) {
  const EditedTarget edited(without_subgroups);
  check_op_case(GetParam());
}

// The large tiles of narrow subgroups, which small problems do not get: as if they had been measured to be the fastest.
void with_tile(gpu::Target& target, std::string_view name) {
  using shaders::KernelId;
  const std::array<std::array<KernelId, 2>, 4> kernels = {
      std::array{KernelId::matmul__f32, KernelId::matmul__f32_shuffle},
      std::array{KernelId::conv__f32, KernelId::conv__f32_shuffle},
      std::array{KernelId::conv_grad_data__f32, KernelId::conv_grad_data__f32_shuffle},
      std::array{KernelId::conv_grad_weight__f32, KernelId::conv_grad_weight__f32_shuffle}};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const ChoiceShape shape = {1u << (i % 10), 1u << (i / 10 % 10), 1u << (i / 100)};
    for (const auto& offered : kernels) {
      for (const char* loads : {"..", ".k", ".x", "k.", "kk", "kx", "x.", "xk", "xx"}) {
        target.advice.tuned[choose(Family::gemm, target, shape, offered, loads).key] = name;
      }
    }
  }
}

class GemmTiles : public testing::TestWithParam<OpCase> {};

TEST_P(GemmTiles, ThirtyTwoRowsByEightColumns) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "shuffle 32x8"); });
  check_op_case(GetParam());
}

TEST_P(GemmTiles, ThirtyTwoRowsByFourColumns) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "shuffle 32x4"); });
  check_op_case(GetParam());
}

// Quads of rows that are no divisor of the lanes, which load four of them at once where A lies across k.
TEST(GemmOddTiles, TwentyEightRowsByFourColumns) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "shuffle 28x4"); });
  check_op_case(make("product", Op::matmul, {{36, 40}, {40, 44}}, {}));
}

TEST(GemmOddTiles, SixteenRowsByEightColumns) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "shuffle 16x8"); });
  check_op_case(make("product", Op::matmul, {{40, 36}, {40, 72}}, {{"trans_a", std::int64_t{1}}}));
}

TEST_P(GemmTiles, ThirtyTwoRowsByFourColumnsInTwoClusters) {
  const EditedTarget edited([](gpu::Target& target) {
    in_two_clusters(target);
    with_tile(target, "shuffle 32x4");
  });
  check_op_case(GetParam());
}

TEST_P(GemmTiles, ThirtyTwoRowsBySixteenColumnsApart) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "apart 8x4x32x16"); });
  check_op_case(GetParam());
}

TEST_P(GemmTiles, EightRowsByFourColumnsApart) {
  const EditedTarget edited([](gpu::Target& target) { with_tile(target, "apart 8x1x8x4"); });
  check_op_case(GetParam());
}

// A block is loaded while the one before is multiplied, where all comes in fours; odd sizes take the same tile without.
TEST_P(GemmTiles, SixtyFourBySixtyFourAhead) {
  const EditedTarget edited([](gpu::Target& target) {
    like_a_gpu(target);
    with_tile(target, "ahead 128x8x4x8");
  });
  check_op_case(GetParam());
}

TEST_P(GemmTiles, OneHundredAndTwentyEightColumnsAhead) {
  const EditedTarget edited([](gpu::Target& target) {
    like_a_gpu(target);
    with_tile(target, "ahead 128x16x8x8");
  });
  check_op_case(GetParam());
}

std::vector<OpCase> tile_cases() {
  return {
      make("product", Op::matmul, {{36, 72}, {72, 140}}, {}),
      make("odd product", Op::matmul, {{33, 70}, {70, 45}}, {}),
      make("transposed product", Op::matmul, {{68, 132}, {12, 68}},
           {{"trans_a", std::int64_t{1}}, {"trans_b", std::int64_t{1}}}),
      make("convolution", Op::conv, {{1, 9, 10, 8}, {72, 3, 3, 8}}, {{"pads", Ints{1, 0, 0, 1}}}),
      make("odd convolution", Op::conv, {{2, 9, 11, 5}, {7, 3, 3, 5}}, {{"strides", Ints{2, 3}}}),
  };
}
INSTANTIATE_TEST_SUITE_P(, GemmTiles, testing::ValuesIn(tile_cases()), op_case_name);

// Tensors larger than a binding: cut along images, rows, batches, or the sum. Few images are a multiple of
// 256 bytes, the coarsest alignment that Vulkan allows a device, so that every device can cut them.
void with_small_bindings(gpu::Target& target) { target.caps.max_storage_buffer_range = 8192; }

class GemmParts : public testing::TestWithParam<OpCase> {};

TEST_P(GemmParts, FitSmallBindings) {
  const EditedTarget edited(with_small_bindings);
  check_op_case(GetParam());
}

std::vector<OpCase> large_cases() {
  const Attrs window = {{"pads", Ints{1, 0, 0, 1}}, {"strides", Ints{2, 1}}};
  const Attrs depthwise = {{"groups", std::int64_t{8}}};
  const Attrs pool = {{"kernel", Ints{2, 2}}};
  std::vector<OpCase> all = {
      make("rows", Op::matmul, {{300, 24}, {24, 16}}, {}),
      make("rows transposed b and bias", Op::matmul, {{500, 8}, {9, 8}, {9}}, {{"trans_b", std::int64_t{1}}}),
      make("sum", Op::matmul, {{600, 8}, {600, 12}, {12}}, {{"trans_a", std::int64_t{1}}}),
      make("batches", Op::matmul, {{20, 16, 16}, {20, 16, 12}}, {}),
      make("batches of one a", Op::matmul, {{16, 16}, {20, 16, 12}}, {}),
      make("columns of a large b", Op::matmul, {{5, 24}, {24, 200}}, {}),
      make("rows of a large b and bias", Op::matmul, {{2, 3, 24}, {200, 24}, {200}}, {{"trans_b", std::int64_t{1}}}),
      make("images", Op::conv, {{7, 8, 8, 6}, {8, 3, 3, 6}, {8}}, window),
      make("transposed images", Op::conv_transpose, {{11, 6, 4, 8}, {8, 3, 3, 4}, {4}}, window),
      make("depthwise images", Op::conv, {{6, 8, 10, 8}, {8, 3, 3, 1}, {8}}, depthwise),
      make("average of images", Op::avg_pool, {{9, 8, 8, 8}}, pool),
      make("maximum of images", Op::max_pool, {{9, 8, 8, 8}}, pool),
  };
  // Gradients of what was broadcast are summed by reduce_sum, which has limits of its own.
  for (OpCase& c : all) {
    if (c.inputs.size() > 2) c.inputs[2].grad = false;
    if (c.name == "columns of a large b")
      c.low_precision_roundings = 0;  // of 16 bits, b is not cut into parts of so few rows
    if (c.name == "batches of one a") c.inputs[0].grad = false;
    // Its gradient alone is larger than a binding.
    if (c.name.find("large b") != std::string::npos) c.inputs[1].grad = false;
  }
  all.back().difference_step = 1e-6;  // so small that no maximum changes its place
  all.back().difference_tolerance = 1e-4;
  return all;
}
INSTANTIATE_TEST_SUITE_P(, GemmParts, testing::ValuesIn(large_cases()), op_case_name);

TEST(Parts, BeginWhereTheDeviceCanBind) {
  gpu::Caps caps;
  caps.storage_buffer_alignment = 256;
  caps.max_storage_buffer_range = 8192;  // 2048 words
  EXPECT_EQ(items_per_part(caps, 10, {100}, "items").value(), 10u);
  EXPECT_EQ(items_per_part(caps, 100, {100}, "items").value(), 16u);  // 16 * 100 words is a multiple of 64 words
  EXPECT_EQ(items_per_part(caps, 100, {64, 32}, "items").value(), 32u);
  EXPECT_EQ(items_per_part(caps, 0, {100}, "items").value(), 1u);
  EXPECT_FALSE(items_per_part(caps, 100, {2049}, "items").ok());
  EXPECT_FALSE(items_per_part(caps, 100, {101}, "items").ok());  // 64 at a time would not fit
}

INSTANTIATE_TEST_SUITE_P(, GemmVariants, testing::ValuesIn(cases()), op_case_name);

TEST(GemmTile, KeepsToTheBaseline) {
  gpu::Target target;
  for (const std::uint64_t m : {1, 16, 17, 4096}) {
    for (const std::uint64_t n : {1, 8, 33, 4096}) {
      const GemmTile tile = choose_gemm_tile(target, {.m = m, .n = n, .inner = 64, .outputs = m * n});
      ASSERT_EQ(tile.kernel, 0);
      const std::uint32_t threads = tile.specialization[0];
      EXPECT_LE(threads, target.caps.max_workgroup_invocations);
      // gemm_shared.glsl stages whole rows: its threads must cover a block of 16 steps of each side evenly.
      EXPECT_EQ(threads % tile.m, 0u);
      EXPECT_EQ(threads % tile.n, 0u);
      EXPECT_LE(16 * (tile.m + tile.n) * sizeof(float), 16384u);
    }
  }
}

TEST(GemmTile, ShufflesWithinWhatEverySubgroupOfACpuHolds) {
  const GemmProblem problem{.m = 64, .n = 64, .inner = 64, .outputs = 4096};
  gpu::Target target;
  target.caps.type = gpu::DeviceType::cpu;
  target.caps.subgroup_shuffle = true;
  struct {
    std::uint32_t subgroup, invocations, clusters;
  } const expected[] = {{4, 4, 1}, {8, 8, 1}, {16, 16, 1}, {32, 8, 1}, {128, 8, 1}};
  for (const auto& [subgroup, invocations, clusters] : expected) {
    target.caps.subgroup_size = subgroup;
    const GemmTile tile = choose_gemm_tile(target, problem);
    EXPECT_EQ(tile.kernel, 1) << subgroup;
    EXPECT_EQ(tile.specialization[0], invocations) << subgroup;
    EXPECT_EQ(tile.specialization[6], clusters) << subgroup;
    EXPECT_EQ(tile.m, clusters * tile.specialization[1]) << subgroup;
    EXPECT_EQ(tile.n, invocations / clusters * tile.specialization[2]) << subgroup;
  }
  target.caps.subgroup_size = 1;
  EXPECT_EQ(choose_gemm_tile(target, problem).kernel, 3) << "lanes apart";
  target.caps.subgroup_size = 8;
  target.caps.type = gpu::DeviceType::integrated;
  EXPECT_EQ(choose_gemm_tile(target, problem).kernel, 0);
}

TEST(GemmSplits, CoverALongSumEvenlyAndWithinMemory) {
  gpu::Target target;
  const GemmProblem problem{.m = 32, .n = 25, .outer = 64 * 24, .inner = 24, .outputs = 800};
  const auto fields = make_gemm_fields(target, problem);
  ASSERT_TRUE(fields.ok()) << fields.status().message();
  EXPECT_GT(fields->splits, 1u);
  EXPECT_EQ(fields->k_per_split % 24, 0u);
  EXPECT_GE(std::uint64_t{fields->splits} * fields->k_per_split, fields->k);
  EXPECT_LT(std::uint64_t{fields->splits - 1} * fields->k_per_split, fields->k);
  const GemmProblem wide{.m = 64, .n = 1 << 20, .inner = 4096, .outputs = 64u << 20};
  EXPECT_EQ(make_gemm_fields(target, wide)->splits, 1u);
}

TEST(GemmFields, RefuseWhatDoesNotFitThirtyTwoBits) {
  const gpu::Target target;
  const std::uint64_t big = std::uint64_t{1} << 33;
  EXPECT_FALSE(make_gemm_fields(target, {.m = big, .n = 1, .inner = 1, .outputs = big}).ok());
  EXPECT_FALSE(make_gemm_fields(target, {.m = 1, .n = 1, .outer = 1 << 20, .inner = 1 << 20, .outputs = 1}).ok());
}

}  // namespace
}  // namespace graft::test::gemm_test
