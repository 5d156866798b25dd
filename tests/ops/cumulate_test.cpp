#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::cumulate_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Op op, Dims dims, std::int64_t axis, bool exclusive, bool reverse,
           DType dtype = DType::f32) {
  const bool product = op == Op::cumprod;
  return {
      .name = std::move(name),
      .op = op,
      .inputs = {{.dims = std::move(dims), .dtype = dtype, .low = product ? 0.9 : -2.0, .high = product ? 1.1 : 2.0}},
      .attrs = {{"axis", axis}, {"exclusive", std::int64_t{exclusive}}, {"reverse", std::int64_t{reverse}}},
      .tolerance = 1e-5,
      .reason = "a few hundred sums or factors of size 1, each rounded to 6e-8",
      .gradient = dtype == DType::f32 && !product,
      .low_precision_roundings = product ? 400.0 : 20.0};  // every factor of a product is rounded
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const bool exclusive : {false, true}) {
    for (const bool reverse : {false, true}) {
      const std::string how = cat(exclusive ? "exclusive" : "inclusive", reverse ? "_reverse" : "");
      all.push_back(one("short_" + how, Op::cumsum, {3, 7, 2}, 1, exclusive, reverse));
      all.push_back(one("long_" + how, Op::cumsum, {2, 300}, -1, exclusive, reverse));
      all.push_back(one("product_" + how, Op::cumprod, {2, 150, 2}, 1, exclusive, reverse));
    }
  }
  all.push_back(one("integers", Op::cumsum, {130, 3}, 0, false, false, DType::i32));
  OpCase wraps = one("integers_product", Op::cumprod, {5}, 0, true, false, DType::i32);
  wraps.inputs[0].values = {3, -2, 5, 7, 11};
  all.push_back(wraps);
  all.push_back(one("nothing", Op::cumsum, {0, 3}, 0, false, false));
  all.push_back(one("exactly_a_run", Op::cumsum, {128}, 0, true, false));
  return all;
}
GRAFT_OP_CASES(Cumulate, cases());

TEST(CumulateInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(one("bad", Op::cumsum, {3}, 1, false, false), "axis 1 is out of range");
  expect_infer_error(one("bad", Op::cumsum, {3}, 0, false, false, DType::boolean), "f32 or i32 is needed");
}

}  // namespace
}  // namespace graft::test::cumulate_test
