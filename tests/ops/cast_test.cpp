#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::cast_test {
namespace {

OpCase cast(DType from, DType to, std::vector<std::int64_t> dims = {3, 43}) {
  return {.name = cat(dtype_name(from), " to ", dtype_name(to), Shape::of(dims).text()),
          .op = Op::cast,
          .inputs = {{.dims = dims,
                      .dtype = from,
                      .low = from == DType::boolean ? 0.0 : -3.0,
                      .high = from == DType::boolean ? 1.0 : 3.0}},
          .attrs = {{"to", static_cast<std::int64_t>(to)}},
          .tolerance = 0,
          .reason = "small integers and truth values are exact in every type",
          .gradient = from == DType::f32 && to == DType::f32,
          .expect_dims = dims};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const DType from : {DType::f32, DType::i32, DType::boolean}) {
    for (const DType to : {DType::f32, DType::i32, DType::boolean}) all.push_back(cast(from, to));
  }
  all.push_back(cast(DType::f32, DType::i32, {}));
  all.push_back(cast(DType::i32, DType::f32, {4, 0}));
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const std::vector<double> ends = {
      0.0,          -0.0,          0.999, -0.999, 2.5,  -2.5,  2147483520.0,
      2147483648.0, -2147483648.0, 1e20,  -1e20,  kInf, -kInf, std::numeric_limits<double>::quiet_NaN()};
  for (const DType to : {DType::i32, DType::boolean}) {
    OpCase c = cast(DType::f32, to, {static_cast<std::int64_t>(ends.size())});
    c.name += " of extremes";
    c.inputs[0].values = ends;
    for (double& x : c.inputs[0].values) x = static_cast<float>(x);
    all.push_back(c);
  }
  OpCase large = cast(DType::i32, DType::f32, {4});
  large.inputs[0].values = {2147483647, -2147483648.0, 16777217, -16777219};
  large.name = "integers beyond 24 bits round";
  large.tolerance = 6e-8;
  large.low_precision_roundings = 0;  // beyond the range of f16
  large.reason = "f32 has 24 bits: half a ULP";
  all.push_back(large);
  return all;
}

GRAFT_OP_CASES(Cast, cases());

TEST(CastErrors, UnknownTypes) {
  expect_infer_error(cast(DType::f32, DType::f16), "casts to f32 (0)");
  expect_infer_error(cast(DType::f16, DType::f32), "f16");
}

}  // namespace
}  // namespace graft::test::cast_test
