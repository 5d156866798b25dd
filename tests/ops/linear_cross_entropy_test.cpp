// ctest: costly
#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::linear_cross_entropy_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims rows, std::int64_t width, std::int64_t vocabulary, DType dtype = DType::f32) {
  Dims hidden = rows;
  hidden.push_back(width);
  OpCase c{.name = std::move(name), .op = Op::linear_cross_entropy};
  c.inputs = {{.dims = hidden, .low = -2, .high = 2},
              {.dims = {vocabulary, width}, .dtype = dtype},
              {.dims = rows, .dtype = DType::i32, .low = 0, .high = static_cast<double>(vocabulary - 1)}};
  c.tolerance = 2e-5;
  c.reason = "logits are f32 sums of up to 64 products, sums of exponentials of up to 700 terms";
  c.cotangents = 1;
  c.expect_dims = rows;
  return c;
}

OpCase labels(OpCase c, std::vector<double> values) {
  c.inputs[2].values = std::move(values);
  return c;
}

std::vector<double> every_third_ignored(std::int64_t rows, std::int64_t vocabulary) {
  std::vector<double> values;
  for (std::int64_t r = 0; r < rows; ++r) {
    values.push_back(r % 3 == 1 ? -100 : static_cast<double>(r * 37 % vocabulary));
  }
  return values;
}

/// The weight goes on in another of `rows` from `first` on.
OpCase goes_on(OpCase c, std::int64_t first, std::int64_t rows) {
  c.inputs[1].grad = false;
  c.inputs.push_back({.dims = {rows, c.inputs[1].dims[1]}});
  c.attrs.set("first_row", first);
  return c;
}

std::vector<OpCase> cases_that_go_on() {
  std::vector<OpCase> all = {
      goes_on(labels(one("goes on", {19}, 7, 33), every_third_ignored(19, 36)), 33, 3),
      goes_on(labels(one("goes on before its end", {2, 8}, 7, 33), every_third_ignored(16, 40)), 30, 10),
      goes_on(labels(one("goes on before its end, shorter", {16}, 7, 33), every_third_ignored(16, 23)), 20, 3),
      goes_on(labels(one("nothing but what goes on", {5}, 4, 6), {0, 6, 2, 5, 1}), 0, 7),
      goes_on(labels(one("goes on, chunks of both", {2048}, 2, 520), every_third_ignored(2048, 1060)), 520, 540),
      goes_on(labels(one("blocks that go on", {21}, 64, 50, DType::q8_0), every_third_ignored(21, 55)), 50, 5),
  };
  OpCase capped = goes_on(labels(one("goes on, smoothed and capped", {19}, 7, 33), every_third_ignored(19, 37)), 33, 4);
  capped.attrs.set("softcap", 1.5);
  capped.attrs.set("label_smoothing", 0.1);
  all.push_back(capped);
  OpCase frozen = goes_on(labels(one("goes on, frozen", {19}, 7, 33), every_third_ignored(19, 37)), 33, 4);
  frozen.inputs[3].grad = false;
  all.push_back(frozen);
  OpCase outside = goes_on(labels(one("goes on, labels out of range", {4}, 4, 6), {0, 8, -1, 7}), 6, 2);
  outside.gradient = false;
  all.push_back(outside);
  return all;
}
GRAFT_OP_CASES(LinearCrossEntropyRows, cases_that_go_on());

std::vector<OpCase> cases() {
  std::vector<OpCase> all = {
      one("one row", {1}, 4, 5),
      one("sequences", {2, 9}, 16, 40),
      labels(one("odd sizes with ignored rows", {19}, 7, 33), every_third_ignored(19, 33)),
      // 2048 rows leave room for 512 columns of logits at once.
      labels(one("two chunks with ignored rows", {2048}, 2, 520), every_third_ignored(2048, 520)),
      labels(one("all ignored", {6}, 8, 9), std::vector<double>(6, -100)),
      labels(one("only the last row counts", {140}, 8, 9),
             [] {
               std::vector<double> values(140, -100);
               values.back() = 8;
               return values;
             }()),
      labels(one("quantized weight", {21}, 64, 50, DType::q8_0), every_third_ignored(21, 50)),
      one("no rows", {0}, 4, 5),
  };
  OpCase frozen = labels(one("frozen weight with ignored rows", {40}, 12, 90), every_third_ignored(40, 90));
  frozen.inputs[1].grad = false;
  all.push_back(frozen);
  frozen = labels(one("frozen weight in chunks", {2000}, 2, 530), every_third_ignored(2000, 530));
  frozen.inputs[1].grad = false;
  all.push_back(frozen);
  OpCase quantized =
      labels(one("quantized weight in chunks", {2048}, 32, 530, DType::q4_0), every_third_ignored(2048, 530));
  quantized.gradient = false;  // it takes the reference long
  all.push_back(quantized);
  OpCase other = labels(one("another index is ignored", {5}, 4, 6), {3, 2, 3, 5, 0});
  other.attrs = {{"ignore_index", std::int64_t{3}}};
  all.push_back(other);
  OpCase smooth = labels(one("smoothed, with ignored rows", {19}, 7, 33), every_third_ignored(19, 33));
  smooth.attrs = {{"label_smoothing", 0.1}};
  all.push_back(smooth);
  smooth = labels(one("smoothed, two chunks with ignored rows", {2048}, 2, 520), every_third_ignored(2048, 520));
  smooth.attrs = {{"label_smoothing", 0.3}};
  all.push_back(smooth);
  OpCase capped = labels(one("capped, with ignored rows", {19}, 7, 33), every_third_ignored(19, 33));
  capped.attrs = {{"softcap", 1.5}};
  all.push_back(capped);
  capped = labels(one("capped, two chunks with ignored rows", {2048}, 2, 520), every_third_ignored(2048, 520));
  capped.attrs = {{"softcap", 0.5}, {"label_smoothing", 0.1}};
  all.push_back(capped);
  // NaN would spoil the differences; the device's NaN is compared with the reference's.
  OpCase outside = labels(one("labels out of range", {5}, 4, 6), {0, 6, -1, 5, 2147483647});
  outside.gradient = false;
  all.push_back(outside);
  OpCase large = one("large logits", {8}, 16, 30);
  large.inputs[0].low = -60;
  large.inputs[0].high = 60;
  large.tolerance = 2e-4;
  large.reason = "logits of up to 500 carry errors of 1e-5 or so into exponentials";
  large.difference_tolerance = 1e-4;
  all.push_back(large);
  return all;
}
GRAFT_OP_CASES(LinearCrossEntropy, cases());

TEST(LinearCrossEntropyInfer, RefusesWhatDoesNotFit) {
  OpCase c = one("width", {3}, 4, 5);
  c.inputs[1].dims = {5, 6};
  expect_infer_error(c, "must end with the same axis");
  c = one("smoothing", {3}, 4, 5);
  c.attrs = {{"label_smoothing", 1.5}};
  expect_infer_error(c, "\"label_smoothing\" is 1.5");
  expect_infer_error(goes_on(one("rows", {3}, 4, 5), 6, 2), "from row 6 on");
  c = one("labels", {3}, 4, 5);
  c.inputs[2].dims = {4};
  expect_infer_error(c, "[3] is needed");
}

}  // namespace
}  // namespace graft::test::linear_cross_entropy_test
