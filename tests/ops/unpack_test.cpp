#include <algorithm>
#include <random>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::unpack_test {
namespace {

constexpr const char* kKinds[] = {"u8", "i8", "f16", "bf16"};

/// Random words; 16-bit numbers between 2^-7 and 2^7, as a tensor's root mean square is what tolerances are measured
/// by.
OpCase unpack(std::int64_t kind, const std::vector<std::int64_t>& dims, std::int64_t channels = 0,
              std::int64_t axis = 0) {
  std::int64_t elements = 1;
  for (const std::int64_t dim : dims) elements *= dim;
  const std::int64_t per_word = kind < 2 ? 4 : 2;
  OpInput words{.dims = {(elements + per_word - 1) / per_word}, .dtype = DType::i32};
  std::mt19937 random(static_cast<std::uint32_t>(elements * 4 + kind));
  for (std::int64_t i = 0; i < words.dims[0]; ++i) {
    std::uint32_t word = random();
    if (kind == 2) word = (word & 0x83ff83ffu) | (word % 14 + 8) << 10 | (word / 14 % 14 + 8) << 26;
    if (kind == 3) word = (word & 0x807f807fu) | (word % 14 + 120) << 7 | (word / 14 % 14 + 120) << 23;
    words.values.push_back(static_cast<std::int32_t>(word));
  }
  Attrs attrs{{"shape", Shape::of(dims)}, {"kind", kind}, {"channels", channels}, {"axis", axis}};
  for (std::int64_t c = 0; c < std::min<std::int64_t>(channels, 4); ++c) {
    attrs.set(cat("scale", c), 0.25 * static_cast<double>(c + 1));
    attrs.set(cat("offset", c), 3.0 - static_cast<double>(c));
  }
  return {.name = cat(kKinds[kind], " ", Shape::of(dims).text(), " of ", channels, " channels on ", axis),
          .op = Op::fused_unpack,
          .inputs = {words},
          .attrs = attrs,
          .tolerance = channels == 0 ? 0 : 1e-6,
          .reason = channels == 0 ? "every number is exact in f32" : "a product and a sum of f32 (6e-8 each)",
          .gradient = false,
          .expect_dims = dims,
          .low_precision_roundings = channels == 0 && kind != 3 ? 1.0 : 2.0};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (std::int64_t kind = 0; kind < 4; ++kind) {
    all.push_back(unpack(kind, {3, 43}));
    all.push_back(unpack(kind, {2, 3, 5, 7}, 3, 1));
    all.push_back(unpack(kind, {2, 5, 7, 3}, 3, 3));
  }
  all.push_back(unpack(0, {1}));
  all.push_back(unpack(1, {6}, 1));
  all.push_back(unpack(0, {2, 4, 600}, 4, 1));
  OpCase ends = unpack(2, {8});  // zeros, subnormal numbers, the largest
  ends.name = "f16 at its ends";
  ends.inputs[0].values = {static_cast<double>(static_cast<std::int32_t>(0x80000000u)), 0x83ff0001 - 4294967296.0,
                           0x7bff0400, 0x3c00fbff};
  ends.low_precision_roundings = 0;
  all.push_back(ends);
  return all;
}

GRAFT_OP_CASES(Unpack, cases());

TEST(UnpackErrors, WordsKindsAndChannels) {
  OpCase c = unpack(0, {9});
  c.attrs.set("kind", std::int64_t{4});
  expect_infer_error(c, "no kind 4");
  c = unpack(0, {9});
  c.inputs[0].dims = {2};
  expect_infer_error(c, "instead of [3]");
  expect_infer_error(unpack(0, {2, 5}, 5, 1), "at most 4");
  expect_infer_error(unpack(0, {2, 5}, 3, 1), "does not have 3 channels");
  c = unpack(0, {9});
  c.inputs[0].dtype = DType::f32;
  expect_infer_error(c, "instead of i32");
}

}  // namespace
}  // namespace graft::test::unpack_test
