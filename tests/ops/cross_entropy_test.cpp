#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::cross_entropy_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase loss(Dims rows, std::int64_t classes, Attrs attrs = {}, double size = 5) {
  Dims logits = rows;
  logits.push_back(classes);
  return {
      .name = cat("rows", Shape::of(rows).text(), "_classes_", classes),
      .op = Op::cross_entropy,
      .inputs = {{.dims = logits, .low = -size, .high = size},
                 {.dims = rows, .dtype = DType::i32, .low = 0, .high = static_cast<double>(classes - 1)}},
      .attrs = std::move(attrs),
      .tolerance = 3e-6,
      .reason = "x - max rounds to 6e-8 of its size (up to 10), exp and log to a few ULP, the sum in slices likewise",
      .difference_step = 1e-5,
      .difference_tolerance = 1e-5,
      .expect_dims = rows};
}

OpCase labelled(OpCase c, std::string name, std::vector<double> labels, bool gradient = true) {
  c.name = std::move(name);
  c.inputs[1].values = std::move(labels);
  c.gradient = gradient;
  return c;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all = {
      loss({7}, 10),
      loss({300}, 10),
      loss({}, 4),
      loss({2, 3}, 65),
      loss({3}, 5000),
      loss({3}, 1),
      loss({0}, 5),
      labelled(loss({4}, 6), "ignored rows", {1, -100, 5, -100}),
      labelled(loss({4}, 6, {{"ignore_index", std::int64_t{2}}}), "ignored class", {1, 2, 5, 2}),
      labelled(loss({4}, 6), "labels out of range", {1, 6, -1, 2147483647}, false),
  };
  for (const double smoothing : {0.1, 1.0}) {
    all.push_back(loss({5}, 40, {{"label_smoothing", smoothing}}));
    all.back().name += cat("_smoothing_", smoothing);
  }
  OpCase large = loss({3}, 3);
  large.name = "large logits";
  large.gradient = false;
  large.inputs[0].values = {1e4, 0, -1e4, 3e38, 3e38, -3e38, -std::numeric_limits<double>::infinity(), 0, 1};
  large.inputs[1].values = {2, 0, 1};
  all.push_back(large);
  OpCase nan = loss({2}, 3);
  nan.name = "not a number stays in its row";
  nan.gradient = false;
  nan.inputs[0].values = {1, std::numeric_limits<double>::quiet_NaN(), 2, 1, 2, 3};
  nan.inputs[1].values = {0, 0};
  all.push_back(nan);
  // The gradient of rows that the reference's differences cannot reach: labels out of range.
  OpCase bad = loss({3}, 4);
  bad.op = Op::cross_entropy_grad;
  bad.name = "gradient of labels out of range";
  bad.inputs[1].values = {4, -100, 1};
  bad.inputs.push_back({.dims = {3}});
  bad.gradient = false;
  bad.expect_dims = {3, 4};
  all.push_back(bad);
  return all;
}

GRAFT_OP_CASES(CrossEntropy, cases());

TEST(CrossEntropyErrors, ShapesTypesAndAttributes) {
  OpCase c = loss({4}, 6);
  c.inputs[1].dims = {5};
  expect_infer_error(c, "[4] is needed");
  c = loss({4}, 6);
  c.inputs[1].dtype = DType::f32;
  expect_infer_error(c, "i32 is needed");
  expect_infer_error(loss({4}, 6, {{"label_smoothing", 1.5}}), "[0, 1]");
  c = loss({4}, 0);
  c.inputs[1].high = 0;
  expect_infer_error(c, "no classes");
}

}  // namespace
}  // namespace graft::test::cross_entropy_test
