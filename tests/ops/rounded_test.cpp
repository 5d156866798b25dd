// Products whose f32 operands may be rounded: integer dot products on a device that has them, taken for a GPU. What
// matrix units do is tested by GRAFT_TEST_CAPS=rounded on a device that has them, with all tests of ops.
#include "platform/gpu/presets.h"
#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::rounded_test {
namespace {

void as_rounding_gpu(gpu::Target& target) {
  target.caps.type = gpu::DeviceType::discrete;
  target.policy.matmul_precision = gpu::MatmulPrecision::medium;
  target.caps.cooperative_matrix = false;
  target.caps.matrix_shapes.clear();
}

OpCase product(std::string name, DType dtype, std::int64_t m, std::int64_t n, std::int64_t k, bool bias = false) {
  OpCase c{.name = std::move(name), .op = Op::matmul};
  c.inputs = {{.dims = {m, k}}, {.dims = {n, k}, .dtype = dtype, .grad = false}};
  if (bias) c.inputs.push_back({.dims = {n}});
  c.attrs = {{"trans_b", std::int64_t{1}}};
  c.tolerance = kIntegerDotTolerance;
  c.reason = "rows are rounded to 8 bits: see the constant";
  return c;
}

std::vector<OpCase> cases() {
  return {
      product("one row of q8_0", DType::q8_0, 1, 70, 256, true),
      product("an odd number of runs", DType::q8_0, 3, 33, 96),
      product("q4_0", DType::q4_0, 2, 40, 128),
      product("q4_0 and an odd number of runs", DType::q4_0, 1, 40, 160, true),
      product("more rows than registers hold", DType::q8_0, 19, 24, 64),
      product("one run", DType::q8_0, 9, 8, 32),
  };
}

class Rounded : public testing::TestWithParam<OpCase> {};

TEST_P(Rounded, IntegerDotsMatchTheReferenceAsFarAsRoundingLets) {
  const EditedTarget edited(as_rounding_gpu);
  const auto target = test_target();
  if (!target.ok()) GTEST_SKIP() << target.status().message();
  if (!target->caps.integer_dot) GTEST_SKIP() << "\"" << target->caps.device_name << "\" has no integer dot products.";
  check_op_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(, Rounded, testing::ValuesIn(cases()), op_case_name);

}  // namespace
}  // namespace graft::test::rounded_test
