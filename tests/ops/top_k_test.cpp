#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::top_k_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase top_k(std::string name, Dims dims, std::int64_t k, std::int64_t axis, bool smallest, DType dtype = DType::f32) {
  return {.name = std::move(name),
          .op = Op::top_k,
          .inputs = {{.dims = std::move(dims), .dtype = dtype, .low = -9, .high = 9}},
          .attrs = {{"k", k}, {"axis", axis}, {"smallest", std::int64_t{smallest}}},
          .tolerance = 0,
          .reason = "integers",
          .gradient = false,
          .low_precision_roundings = 0};  // rounded elements may be equal where the reference's differ
}

std::vector<OpCase> cases() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  OpCase special = top_k("special", {10}, 10, 0, false);
  special.inputs[0].values = {0.0, -0.0, kInf, std::nan(""), -kInf, 1, 1, -1, -1e-40, 1e-40};
  OpCase special_smallest = special;
  special_smallest.name = "special_smallest";
  special_smallest.attrs.set("smallest", std::int64_t{1});
  return {top_k("largest", {3, 50}, 4, 1, false),
          top_k("smallest", {3, 50}, 4, -1, true),
          top_k("middle_axis", {2, 9, 5}, 3, 1, false),
          top_k("equals", {4, 300}, 20, 1, false, DType::i32),
          top_k("integers_smallest", {4, 9}, 9, 1, true, DType::i32),
          top_k("none", {4, 9}, 0, 1, false),
          special,
          special_smallest};
}
GRAFT_OP_CASES(TopK, cases());

TEST(TopKInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(top_k("bad", {4, 9}, 10, 1, false), "\"k\" is 10");
  expect_infer_error(top_k("bad", {4, 9}, -1, 1, false), "\"k\" is -1");
  expect_infer_error(top_k("bad", {4, 9}, 1, 2, false), "axis 2 is out of range");
  OpCase truth = top_k("bad", {4}, 1, 0, false, DType::boolean);
  expect_infer_error(truth, "f32 or i32 is needed");
}

}  // namespace
}  // namespace graft::test::top_k_test
