#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::quantization_test {
namespace {

using Dims = std::vector<std::int64_t>;

const char* const kExact = "the quotient is rounded as f32 is, and what follows is exact or one rounding (6e-8)";

OpInput scales(Dims dims, double low = 0.01, double high = 0.03) {
  return {.dims = std::move(dims), .low = low, .high = high, .grad = false};
}
OpInput zeros(Dims dims, double low, double high) {
  return {.dims = std::move(dims), .dtype = DType::i32, .low = low, .high = high, .grad = false};
}
Attrs attrs(const char* type, std::int64_t axis = 0, std::int64_t block = 0) {
  return {{"type", std::string(type)}, {"axis", axis}, {"block_size", block}};
}

/// Rounded to 16 bits, x would be another integer: no low-precision runs.
OpCase quantize(const char* type, Dims x, Dims scale, std::int64_t axis = 0, std::int64_t block = 0, bool zero = true,
                Op op = Op::quantize) {
  OpCase c{.name = cat(op_name(op), " ", type, Shape::of(x).text(), Shape::of(scale).text(), " ", axis, " ", block),
           .op = op,
           .inputs = {{.dims = std::move(x), .low = -5, .high = 5}, scales(scale)},
           .attrs = attrs(type, axis, block),
           .tolerance = 2e-7,
           .reason = kExact,
           .gradient = false,
           .low_precision_roundings = 0};
  if (zero) c.inputs.push_back(zeros(scale, -7, 7));
  return c;
}

OpCase with_values(OpCase c, const char* name, std::vector<double> x, double scale) {
  c.name = name;
  c.inputs[0].values = std::move(x);
  c.inputs[1].values = {scale};
  return c;
}

OpCase dequantize(const char* type, Dims dims, Dims scale, double low, double high, std::int64_t axis = 0,
                  std::int64_t block = 0) {
  OpCase c = quantize(type, std::move(dims), std::move(scale), axis, block, true, Op::dequantize);
  c.inputs[0].dtype = DType::i32;
  c.inputs[0].low = low;
  c.inputs[0].high = high;
  return c;
}

OpCase packed(const char* type, std::int64_t words, Shape shape, Dims scale, std::int64_t axis = 0,
              std::int64_t block = 0) {
  OpCase c = dequantize(type, {words}, std::move(scale), -0x1p31, 0x1p31 - 1, axis, block);
  c.name = cat("packed ", c.name, shape.text());
  c.attrs.set("shape", std::move(shape));
  return c;
}

OpCase fake_grad(Dims x, Dims scale, std::int64_t axis = 0) {
  OpCase c = quantize("int4", x, std::move(scale), axis, 0, true, Op::fake_quantize_grad);
  c.inputs.insert(c.inputs.begin(), {.dims = std::move(x)});
  return c;
}

std::vector<OpCase> cases() {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<OpCase> all = {
      quantize("int8", {3, 5, 7}, {}),
      quantize("uint8", {3, 5, 7}, {5}, 1),
      quantize("int16", {1031}, {}, 0, 0, false),
      quantize("uint16", {2, 9}, {9}, 1),
      quantize("int4", {4, 7, 3}, {4, 3, 3}, 1, 3),
      quantize("uint4", {6, 5}, {2, 5}, 0, 3),
      quantize("uint2", {9}, {1}),
      quantize("int8", {3, 5, 7}, {7}, 2, 0, true, Op::fake_quantize),
      dequantize("int8", {3, 5, 7}, {5}, -128, 127, 1),
      dequantize("uint16", {31}, {}, 0, 65535),
      dequantize("int4", {4, 8}, {4, 2}, -8, 7, 1, 4),
      packed("int8", 27, Shape{3, 5, 7}, {5}, 1),
      packed("uint8", 3, Shape{9}, {}),
      packed("int4", 5, Shape{3, 13}, {3, 4}, 1, 4),
      packed("uint4", 4, Shape{4, 8}, {4}, 0),
      packed("int16", 8, Shape{3, 5}, {}),
      packed("int2", 2, Shape{17}, {}),
      fake_grad({5, 9}, {}),
      fake_grad({5, 9}, {9}, 1),
      with_values(quantize("int8", {11}, {}), "ties go to even and what is beyond is limited",
                  {1, 3, 5, -1, -3, 0, 1000, -1000, kInf, -kInf, nan}, 2),
  };
  for (const char* type : {"float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz", "float4e2m1"}) {
    OpCase c = with_values(quantize(type, {16}, {}, 0, 0, false), type,
                           {0, 1, 1.0625, 1.1875, 1.75, 2.5, 5, 7, 449, 470, -250, 6e4, 1e-3, 3e-3, -2e-5, 0.3}, 1);
    all.push_back(c);
    c.name = cat(type, " without limits");
    c.attrs.set("saturate", std::int64_t{0});
    all.push_back(c);
    c.name = cat(type, " there and back");
    c.op = Op::fake_quantize;
    all.push_back(c);
  }
  return all;
}

GRAFT_OP_CASES(Quantization, cases());

TEST(QuantizationErrors, Shapes) {
  OpCase c = quantize("int8", {3, 5}, {4}, 1);
  expect_infer_error(c, "Its scale has the shape [4]");
  c = quantize("int3", {3, 5}, {});
  expect_infer_error(c, "no quantized type \"int3\"");
  c = quantize("int8", {3, 5}, {3, 2}, 1, 2);
  expect_infer_error(c, "does not fit [3, 5] in blocks of 2");
  c = packed("int8", 3, Shape{3, 5}, {});
  expect_infer_error(c, "instead of [4]");
  c = quantize("int8", {3, 5}, {5}, 2);
  expect_infer_error(c, "axis");
}

}  // namespace
}  // namespace graft::test::quantization_test
