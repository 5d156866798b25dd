// ctest: slow
// The kernels that lesser devices, and GPUs, choose: each preset of capabilities over a case of every family of kernels
// that chooses.
#include "platform/gpu/presets.h"

#include <algorithm>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::presets_test {
namespace {

OpCase make(std::string name, Op op, std::vector<std::vector<std::int64_t>> inputs, Attrs attrs = {}) {
  OpCase c{.name = std::move(name), .op = op, .attrs = std::move(attrs), .tolerance = 5e-5};
  c.reason = "f32 sums of up to 2000 terms: about sqrt(K) roundings of 6e-8, relative to the result's size";
  for (auto& dims : inputs) c.inputs.push_back({.dims = std::move(dims)});
  return c;
}

Attrs window(std::int64_t groups) {
  return {{"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{1, 1}}, {"dilations", Ints{1, 1}}, {"groups", groups}};
}

std::vector<OpCase> cases() {
  const Attrs last = {{"axis", std::int64_t{1}}};
  const Attrs rows = {{"axes", Ints{1}}, {"keepdims", std::int64_t{0}}};
  const Attrs turned = {{"trans_b", std::int64_t{1}}};
  OpCase integers = make("transpose", Op::transpose, {{36, 40}}, {{"perm", Ints{1, 0}}});
  OpCase layer_norm = make("layer norm", Op::layer_norm, {{9, 260}, {260}, {260}}, {{"axis", std::int64_t{1}}});
  OpCase rms_norm = make("rms norm", Op::rms_norm, {{9, 260}, {260}});
  layer_norm.cotangents = rms_norm.cotangents = 1;  // the statistics have no gradient
  integers.tolerance = 0;
  integers.reason = "elements are moved, not computed";
  return {
      make("product", Op::matmul, {{33, 72}, {72, 44}}),
      make("product with a transposed b", Op::matmul, {{33, 72}, {44, 72}, {44}}, turned),
      make("one row", Op::matmul, {{1, 260}, {48, 260}, {48}}, turned),
      make("three rows", Op::matmul, {{3, 260}, {260, 48}, {48}}),
      make("convolution", Op::conv, {{2, 7, 9, 8}, {12, 3, 3, 8}, {12}}, window(1)),
      make("depthwise", Op::conv, {{2, 7, 9, 8}, {8, 3, 3, 1}, {8}}, window(8)),
      make("softmax", Op::softmax, {{9, 260}}, last),
      layer_norm,
      rms_norm,
      make("sum of rows", Op::reduce_sum, {{9, 260}}, rows),
      make("sum broadcast", Op::add, {{9, 260}, {260}}),
      integers,
  };
}

class Presets : public testing::TestWithParam<OpCase> {};

// Of real GPUs the strictest: the others take the same kernels as one of these seven.
constexpr std::string_view kNames[] = {"small",   "plain", "subgroup4",     "subgroup128",
                                       "rounded", "gpu",   "raspberry-pi-4"};

TEST_P(Presets, GiveTheSameResults) {
  std::size_t checked = 0;
  for (const gpu::CapsPreset& preset : gpu::caps_presets()) {
    if (std::ranges::find(kNames, preset.name) == std::end(kNames)) continue;
    SCOPED_TRACE(preset.name);
    const EditedTarget edited(preset.apply);
    check_op_case(GetParam());
    ++checked;
  }
  EXPECT_EQ(checked, std::size(kNames));
}

INSTANTIATE_TEST_SUITE_P(, Presets, testing::ValuesIn(cases()), op_case_name);

TEST(PresetNames, AreToldWhereThereIsNone) {
  gpu::Target target;
  EXPECT_TRUE(gpu::apply_caps_preset("small", target).ok());
  const Status status = gpu::apply_caps_preset("large", target);
  EXPECT_NE(std::string(status.message()).find("small, plain, buffers4, subgroup4"), std::string::npos)
      << status.message();
}

}  // namespace
}  // namespace graft::test::presets_test
