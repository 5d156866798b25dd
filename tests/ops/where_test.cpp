#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::where_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase where(Dims cond, Dims a, Dims b, DType dtype = DType::f32) {
  return {
      .name = cat("where", Shape::of(cond).text(), Shape::of(a).text(), Shape::of(b).text(), dtype_name(dtype)),
      .op = Op::where,
      .inputs = {{.dims = std::move(cond), .dtype = DType::boolean, .low = 0, .high = 1},
                 {.dims = std::move(a), .dtype = dtype, .low = -5, .high = 5},
                 {.dims = std::move(b), .dtype = dtype, .low = -5, .high = 5}},
      .tolerance = 4e-6,
      .reason = "values are copied; a gradient's sum over up to 1031 values takes about sqrt(1031) roundings of 6e-8"};
}

std::vector<OpCase> cases() {
  OpCase nan = where({4}, {4}, {4});
  nan.name = "a not chosen NaN does not come through";
  nan.gradient = false;
  nan.inputs[0].values = {1, 0, 1, 0};
  nan.inputs[1].values = {1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 4};
  nan.inputs[2].values = {std::numeric_limits<double>::quiet_NaN(), 2, 3, 4};
  return {where({}, {}, {}),
          where({1031}, {1031}, {1031}),
          where({1031}, {}, {1}),
          where({5, 8}, {8}, {5, 1}),
          where({5, 7}, {7}, {5, 1}),
          where({5, 1}, {5, 8}, {}),
          where({0, 3}, {3}, {}),
          where({2, 1, 3, 1, 2, 1, 3, 1}, {1, 2, 1, 3, 1, 2, 1, 2}, {2, 2, 1, 1, 2, 2, 1, 1}),
          where({31}, {31}, {31}, DType::i32),
          where({9}, {1}, {9}, DType::i32),
          nan};
}

GRAFT_OP_CASES(Where, cases());

TEST(WhereErrors, Types) {
  OpCase c = where({3}, {3}, {3});
  c.inputs[0].dtype = DType::f32;
  expect_infer_error(c, "boolean is needed");
  c = where({3}, {3}, {3});
  c.inputs[2].dtype = DType::i32;
  expect_infer_error(c, "f32 and i32");
  expect_infer_error(where({3}, {4}, {4}), "cannot be broadcast");
}

}  // namespace
}  // namespace graft::test::where_test
