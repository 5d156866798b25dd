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

OpCase narrow(const std::string& format, DType dtype, std::vector<double> values, bool saturate = true) {
  return {.name = cat(format, saturate ? "" : "_unsaturated"),
          .op = Op::narrow,
          .inputs = {{.dims = {static_cast<std::int64_t>(values.size())}, .dtype = dtype, .values = std::move(values)}},
          .attrs = {{"format", format}, {"saturate", std::int64_t{saturate}}},
          .tolerance = 0,
          .reason = "rounding by bits is exact",
          .gradient = false,  // straight through: not what differences of a staircase say
          .low_precision_roundings = 0};
}

std::vector<OpCase> narrow_cases() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  // Ties, denormal numbers of each format, the largest and beyond.
  std::vector<double> floats = {0.0,
                                -0.0,
                                1,
                                1.0625,
                                1.1875,
                                -1.0625,
                                0.001953125,
                                0.0009765625,
                                0.00146484375,
                                -3e-5,
                                1.5e-5,
                                447,
                                448,
                                463,
                                464,
                                465,
                                239,
                                247,
                                248,
                                57344,
                                61440,
                                61439,
                                65519,
                                65520,
                                -70000,
                                5,
                                7,
                                0.25,
                                0.75,
                                0.2499,
                                1e-8,
                                6e-8,
                                3e-8,
                                1e-40,
                                3.3e38,
                                3.4e38,
                                kInf,
                                -kInf,
                                std::numeric_limits<double>::quiet_NaN()};
  for (double& x : floats) x = static_cast<float>(x);
  std::vector<OpCase> all;
  for (const char* format : {"f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1"}) {
    all.push_back(narrow(format, DType::f32, floats));
    all.push_back(narrow(format, DType::f32, floats, false));
  }
  for (const char* rounding : {"up", "down", "nearest"}) {
    OpCase powers = narrow("f8e8m0", DType::f32, {1, 1.25, 1.5, 1.75, 3, 1e-40, 1.2e-38, 3e38, kInf, std::nan("")});
    powers.inputs[0].values[5] = static_cast<float>(1e-40);
    powers.inputs[0].values[6] = static_cast<float>(1.2e-38);
    powers.inputs[0].values[7] = static_cast<float>(3e38);
    powers.name += cat("_", rounding);
    powers.attrs.set("rounding", std::string(rounding));
    all.push_back(powers);
  }
  for (const char* format : {"i2", "u2", "i4", "u4", "i8", "u8", "i16", "u16"}) {
    all.push_back(narrow(format, DType::i32,
                         {0,   1,   -1,  2,    -2,   7,     8,     15,    16,    -8,         -9,           127,
                          128, 255, 256, -128, -129, 32767, 32768, 65535, 65536, 2147483647, -2147483648.0}));
  }
  return all;
}
GRAFT_OP_CASES(Narrow, narrow_cases());

TEST(CastErrors, UnknownFormats) {
  expect_infer_error(narrow("f7", DType::f32, {1}), "\"f7\"");
  expect_infer_error(narrow("i8", DType::f32, {1}), "i32 is needed");
  OpCase rounding = narrow("f8e8m0", DType::f32, {1});
  rounding.attrs.set("rounding", std::string("sideways"));
  expect_infer_error(rounding, "\"sideways\"");
}

TEST(CastErrors, UnknownTypes) {
  expect_infer_error(cast(DType::f32, DType::f16), "casts to f32 (0)");
  expect_infer_error(cast(DType::f16, DType::f32), "f16");
}

}  // namespace
}  // namespace graft::test::cast_test
