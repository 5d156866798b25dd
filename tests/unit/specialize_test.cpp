// Kernels with plain constants in place of specialization constants.
#include "runtime/core/op_id.gen.h"
#include "runtime/kernels/specialize.h"

#include <gtest/gtest.h>

#include "runtime/kernels/shuffle_kernel.h"
#include "runtime/kernels/spirv_module.h"
#include "shaders/kernels.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::specialize_test {
namespace {

constexpr std::uint16_t kSpecConstantTrue = 48, kSpecConstantComposite = 51;
constexpr std::uint32_t kSpecId = 1;

std::size_t specialized_instructions(std::span<const std::uint32_t> words) {
  std::size_t count = 0;
  EXPECT_TRUE(spirv::for_each_instruction(words, [&](const spirv::Instruction& i) {
    const bool constant = i.op >= kSpecConstantTrue && i.op <= kSpecConstantComposite;
    const bool id = i.op == spirv::kDecorate && i[2] == kSpecId;
    count += constant || id || i.op == spirv::kSpecConstantOp ? 1 : 0;
  }));
  return count;
}

TEST(Specialize, LeavesNothingToADriverInAnyKernel) {
  std::size_t with = 0;
  for (std::uint16_t k = 0; k < static_cast<std::uint16_t>(shaders::KernelId::count_); ++k) {
    const auto& info = shaders::kernel_info(static_cast<shaders::KernelId>(k));
    if (!info.built()) continue;
    SCOPED_TRACE(info.name);
    with += specialized_instructions(info.spirv()) > 0 ? 1 : 0;
    EXPECT_EQ(specialized_instructions(specialize(info.spirv(), {})), 0u) << "of defaults";
  }
  EXPECT_GT(with, 10u);
}

TEST(Specialize, GivesBackWhatIsNoModule) {
  const std::vector<std::uint32_t> words = {1, 2, 3};
  EXPECT_EQ(specialize(words, {}), words);
  const std::vector<std::uint32_t> cut = {0x07230203, 0, 0, 1, 0, 5u << 16 | 50u, 1};
  EXPECT_EQ(specialize(cut, {}), cut);
}

constexpr std::uint16_t kConstant = 43, kBroadcast = 337, kShuffle = 345, kShuffleXor = 346, kQuadSwap = 366;

std::map<std::uint16_t, std::size_t> handing_operations(const std::vector<std::uint32_t>& words) {
  std::map<std::uint16_t, std::size_t> counts;
  EXPECT_TRUE(spirv::for_each_instruction(words, [&](const spirv::Instruction& i) {
    if (i.op >= kBroadcast && i.op <= kQuadSwap) ++counts[i.op];
  }));
  return counts;
}

// A product in lanes that shuffle: as many in as many clusters.
std::vector<std::uint32_t> product_kernel(std::uint32_t lanes, std::uint32_t clusters, bool swaps = false) {
  const auto& info = shaders::kernel_info(shaders::KernelId::matmul__f32_shuffle);
  return specialize(info.spirv(), {{lanes, 8, 4, 1, 0, 1, clusters, 0, 4, swaps ? 1u : 0u}});
}

TEST(Shuffles, AreBroadcastsWhereThereIsOneCluster) {
  auto before = handing_operations(product_kernel(8, 1)),
       after = handing_operations(cheaper_shuffles(product_kernel(8, 1)));
  EXPECT_GT(before[kShuffle], 0u);
  EXPECT_EQ(after[kShuffle], 0u);
  EXPECT_EQ(after[kBroadcast], before[kShuffle]);
  before = handing_operations(product_kernel(8, 2));
  after = handing_operations(cheaper_shuffles(product_kernel(8, 2)));
  EXPECT_EQ(after[kShuffle], before[kShuffle]) << "each cluster has a lane of its own to ask";
  EXPECT_EQ(after[kBroadcast], 0u);
}

TEST(Shuffles, ByABitAreSwapsInAConstantDirection) {
  const std::vector<std::uint32_t> before = product_kernel(4, 1, true), after = cheaper_shuffles(before);
  auto operations = handing_operations(after);
  EXPECT_EQ(operations[kShuffleXor], 0u);
  EXPECT_EQ(operations[kQuadSwap], handing_operations(before)[kShuffleXor]);
  std::map<std::uint32_t, std::uint32_t> constants, masks;  // values by id, and masks by the swap's id
  spirv::for_each_instruction(before, [&](const spirv::Instruction& i) {
    if (i.op == kConstant && i.size() == 4) constants[i[2]] = i[3];
    if (i.op == kShuffleXor) masks[i[2]] = constants.at(i[5]);
  });
  constants.clear();
  std::size_t swaps = 0;
  spirv::for_each_instruction(after, [&](const spirv::Instruction& i) {
    if (i.op == kConstant && i.size() == 4) constants[i[2]] = i[3];
    if (i.op != kQuadSwap) return;
    ASSERT_TRUE(constants.contains(i[5])) << "a direction is a constant, and stands before";
    EXPECT_EQ(constants.at(i[5]) + 1, masks.at(i[2]));
    EXPECT_LT(i[5], after[3]) << "ids are below the bound";
    ++swaps;
  });
  EXPECT_GE(swaps, 3u);
}

TEST(Shuffles, GiveBackWhatIsNoModule) {
  const std::vector<std::uint32_t> words = {1, 2, 3};
  EXPECT_EQ(cheaper_shuffles(words), words);
}

void like_swiftshader(gpu::Target& target) { target.caps.vendor_id = 0x1ae0; }

OpCase make(std::string name, Op op, std::vector<std::vector<std::int64_t>> inputs, Attrs attrs = {}) {
  OpCase c{.name = std::move(name), .op = op, .attrs = std::move(attrs), .tolerance = 5e-5};
  c.reason = "f32 sums of up to 2000 terms: about sqrt(K) roundings of 6e-8, relative to the result's size";
  for (auto& dims : inputs) c.inputs.push_back({.dims = std::move(dims)});
  return c;
}

class Specialized : public testing::TestWithParam<OpCase> {};

TEST_P(Specialized, ComputesTheSame) {
  const EditedTarget edited(like_swiftshader);
  check_op_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, Specialized,
                         testing::Values(make("product", Op::matmul, {{33, 72}, {72, 44}}),
                                         make("softmax", Op::softmax, {{9, 260}}, {{"axis", std::int64_t{1}}}),
                                         make("sum", Op::reduce_sum, {{9, 260}},
                                              {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}})),
                         op_case_name);

}  // namespace
}  // namespace graft::test::specialize_test
