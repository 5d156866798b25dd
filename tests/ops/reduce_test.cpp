#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::reduce_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Dims = std::vector<std::int64_t>;

OpCase reduce(Op op, Dims dims, Ints axes, std::int64_t keepdims = 0) {
  std::string over;
  for (const std::int64_t axis : axes) over += cat("_", axis);
  Attrs attrs = {{"axes", axes}, {"keepdims", keepdims}};
  if (op == Op::arg_max || op == Op::arg_min) attrs = {{"axis", axes[0]}, {"keepdims", keepdims}};
  const bool arg = op == Op::arg_max || op == Op::arg_min;
  return {.name = cat(op_def(op).name, Shape::of(dims).text(), over, keepdims ? "_kept" : ""),
          .op = op,
          .inputs = {{.dims = std::move(dims), .low = -1, .high = 1}},
          .attrs = std::move(attrs),
          .tolerance = arg ? 0 : 5e-6,
          .reason = arg ? "indices are exact"
                        : "up to 2048 additions in one run, then a tree: random roundings of 6e-8 grow as the root of "
                          "their number, relative to sums that cancel",
          .gradient = !arg,
          .difference_step = 1e-5,
          .difference_tolerance = 1e-5};
}

OpCase values(Op op, Dims dims, Ints axes, std::vector<double> numbers, bool gradient = false) {
  OpCase c = reduce(op, std::move(dims), std::move(axes));
  c.inputs[0].values = std::move(numbers);
  c.gradient = gradient;
  c.name += gradient ? "_chosen" : "_special";
  return c;
}

OpCase integers(Op op) {
  OpCase c = reduce(op, {5, 37}, {1});
  c.inputs[0].dtype = DType::i32;
  c.inputs[0].low = op == Op::reduce_prod ? -1 : -1000;
  c.inputs[0].high = op == Op::reduce_prod ? 2 : 1000;
  c.gradient = false;
  c.tolerance = 0;
  c.reason = "integers are exact";
  c.name += "_i32";
  return c;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  // Shapes and axes once over, with a sum: rows, columns, all, none but size 1, interleaved, rank 8, scalars, empty.
  const std::vector<std::pair<Dims, Ints>> shapes = {
      {{7, 10}, {1}},
      {{3, 129}, {-1}},
      {{2, 5000}, {1}},
      {{70000}, {}},
      {{7, 10}, {0}},
      {{301, 6}, {0}},
      {{4000, 3}, {0}},
      {{2, 33, 5}, {1}},
      {{3, 4, 5}, {}},
      {{3, 4, 5}, {0, 2}},
      {{2, 3, 2, 5}, {1, 3}},
      {{2, 3, 2, 5}, {0, 2}},
      {{2, 3, 1, 2, 3, 2, 1, 3}, {0, 3, 5, 7}},
      {{4, 1, 3}, {1}},
      {{}, {}},
      {{1}, {0}},
      {{3, 0}, {1}},
      {{0, 3}, {1}},
      {{0}, {}},
  };
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    all.push_back(reduce(Op::reduce_sum, shapes[i].first, shapes[i].second, i % 2));
  }
  for (const Op op : {Op::reduce_mean, Op::reduce_max, Op::reduce_min, Op::reduce_prod, Op::reduce_l1, Op::reduce_l2,
                      Op::reduce_logsumexp}) {
    all.push_back(reduce(op, {3, 37}, {1}));
    if (op == Op::reduce_prod) all.back().low_precision_roundings = 0;  // products of 37 lie below the range of f16
    all.push_back(reduce(op, {5, 8}, {0}, 1));
    all.push_back(reduce(op, {2, 3, 4, 5}, {1, 3}));
    all.push_back(values(op, {2, 3}, {1}, {1, kNan, 2, kInf, 3, -1}));
  }
  for (const Op op : {Op::reduce_mean, Op::reduce_max, Op::reduce_logsumexp}) all.push_back(reduce(op, {2, 9000}, {1}));
  for (const Op op : {Op::reduce_max, Op::reduce_min, Op::reduce_prod, Op::reduce_logsumexp}) {
    all.push_back(values(op, {2, 0}, {1}, {}));
  }
  for (const Op op : {Op::arg_max, Op::arg_min}) {
    for (const std::int64_t last : {0, 1}) {
      for (OpCase c : {reduce(op, {4, 37}, {1}), reduce(op, {6, 5}, {0}, 1), reduce(op, {2, 5000}, {1}),
                       values(op, {3, 5}, {1}, {2, 7, 7, 1, 1, kInf, -kInf, kInf, -kInf, 0, 1, kNan, 9, kNan, -9})}) {
        c.attrs.set("select_last", last);
        c.name += last ? "_last" : "_first";
        all.push_back(c);
      }
    }
    all.push_back(integers(op));
  }
  for (const Op op : {Op::reduce_sum, Op::reduce_max, Op::reduce_min, Op::reduce_prod}) all.push_back(integers(op));
  // Two ties: central differences give a half to each, as the rule does. Three: the device against the reference alone.
  all.push_back(values(Op::reduce_max, {2, 3}, {1}, {1, 1, 0, 2, 3, 3}, true));
  all.push_back(values(Op::reduce_min, {3, 2}, {0}, {1, 4, 1, 2, 5, 2}, true));
  OpCase ties = values(Op::reduce_max, {2, 4}, {1}, {3, 3, 1, 3, kNan, 1, kNan, 2});
  ties.name = "three ties";
  ties.op = Op::reduce_grad;
  ties.inputs.push_back({.dims = {2}, .values = {3, kNan}});
  ties.inputs.push_back({.dims = {2}});
  ties.attrs.set("fn", static_cast<std::int64_t>(Op::reduce_max));
  ties.attrs.set("shape", Shape{2, 4});
  all.push_back(ties);
  // Products with one zero, with two, and with none.
  all.push_back(values(Op::reduce_prod, {3, 4}, {1}, {1, 0, 2, 3, 0, 4, 0, 5, 1, 2, 3, 4}, true));
  all.push_back(values(Op::reduce_l2, {2, 3}, {1}, {3, 4, 0, 1, 1, 1}, true));
  all.push_back(values(Op::reduce_logsumexp, {2, 3}, {1}, {100, 99, 98, -100, -101, -102}, true));
  all.back().tolerance = 2e-5;
  all.back().reason =
      "the result, near 100, is rounded to 8e-6, and the gradient is the exponential of a difference to it";
  for (std::size_t i = 0; i < all.size(); ++i) all[i].name = cat(i, "_", all[i].name);
  return all;
}

GRAFT_OP_CASES(Reduce, cases());

TEST(ReduceErrors, AxesAndTypes) {
  expect_infer_error(reduce(Op::reduce_sum, {2, 3}, {2}), "out of range");
  expect_infer_error(reduce(Op::reduce_sum, {2, 3}, {1, -1}), "named twice");
  expect_infer_error(reduce(Op::arg_max, {2, 0}, {1}), "no elements");
  OpCase c = integers(Op::reduce_mean);
  expect_infer_error(c, "f32 is needed");
}

}  // namespace
}  // namespace graft::test::reduce_test
