#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::softmax_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

OpCase softmax(Op op, std::vector<std::int64_t> dims, std::int64_t axis, double size = 4) {
  return {.name = cat(op_def(op).name, Shape::of(dims).text(), "_axis_", axis),
          .op = op,
          .inputs = {{.dims = dims, .low = -size, .high = size}},
          .attrs = {{"axis", axis}},
          .tolerance = 5e-6,
          .reason = "x - max rounds to 6e-8 of its size (up to 8), the sum of up to 5000 terms in slices to a few ULP",
          .difference_step = 1e-5,
          .difference_tolerance = 1e-5,
          .expect_dims = dims};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const Op op : {Op::softmax, Op::log_softmax}) {
    all.push_back(softmax(op, {5, 10}, -1));
    all.push_back(softmax(op, {3, 200}, 1));
    all.push_back(softmax(op, {2, 5000}, 1));
    all.push_back(softmax(op, {3, 40, 7}, 1));
    all.push_back(softmax(op, {33, 3}, 0));
    all.push_back(softmax(op, {2, 3, 1}, 2));
    all.push_back(softmax(op, {9}, 0));
    all.push_back(softmax(op, {0, 4}, 1));
    all.push_back(softmax(op, {4, 0}, 1));
    OpCase large = softmax(op, {4, 3}, 1);
    large.name += "_large";
    large.inputs[0].values = {1e4, 1e4, 1e4 - 1, -1e4, -1e4 + 1, -1e4, 1e38, -1e38, 0, -kInf, 0, 1};
    large.gradient = false;
    all.push_back(large);
    // Rows of whole vectors, next to each other: each row's maximum is its own.
    OpCase apart = softmax(op, {3, 16}, 1);
    apart.name += "_rows_far_apart";
    for (int i = 0; i < 48; ++i) apart.inputs[0].values.push_back(i % 5 + (i < 16 ? -300 : i < 32 ? 300 : 0));
    apart.gradient = false;
    all.push_back(apart);
    OpCase nan = softmax(op, {3, 3}, 1);
    nan.name += "_not_a_number";
    nan.inputs[0].values = {1, kNan, 2, -kInf, -kInf, -kInf, 1, 2, 3};
    nan.gradient = false;
    all.push_back(nan);
  }
  // softmax_grad as a function of its own: the second derivative of softmax.
  for (const std::int64_t log : {0, 1}) {
    OpCase c = softmax(Op::softmax_grad, {4, 33}, 1);
    c.attrs.set("log", log);
    c.inputs.push_back({.dims = {4, 33}});
    c.inputs[0].low = log ? -3 : 0;
    c.inputs[0].high = log ? -1 : 0.2;
    c.name += log ? "_log" : "";
    all.push_back(c);
  }
  return all;
}

GRAFT_OP_CASES(Softmax, cases());

TEST(SoftmaxErrors, AxisAndType) {
  expect_infer_error(softmax(Op::softmax, {2, 3}, 2), "out of range");
  expect_infer_error(softmax(Op::softmax, {}, 0), "out of range");
  OpCase c = softmax(Op::softmax, {3}, 0);
  c.inputs[0].dtype = DType::i32;
  expect_infer_error(c, "f32 is needed");
}

}  // namespace
}  // namespace graft::test::softmax_test
