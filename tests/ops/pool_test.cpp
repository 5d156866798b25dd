#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::pool_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase pool(std::string name, Op op, Dims x, Dims y, Attrs attrs) {
  OpCase c{.name = std::move(name), .op = op, .inputs = {{.dims = std::move(x)}}, .attrs = std::move(attrs)};
  c.tolerance = op == Op::max_pool ? 1e-6 : 2e-6;
  c.reason = op == Op::max_pool ? "the forward is exact; a gradient adds up to 9 numbers in f32"
                                : "f32 sums of up to 30 numbers, and a division";
  c.difference_step = 1e-6;  // so small that no maximum changes its place
  c.difference_tolerance = 1e-4;
  c.expect_dims = std::move(y);
  return c;
}

std::vector<OpCase> max_cases() {
  const auto max = [](std::string name, Dims x, Dims y, Attrs attrs) {
    return pool("max " + name, Op::max_pool, std::move(x), std::move(y), std::move(attrs));
  };
  std::vector<OpCase> all = {
      max("2x2", {2, 6, 8, 5}, {2, 3, 4, 5}, {{"kernel", Ints{2, 2}}}),
      max("2x2 leaving a rest", {1, 7, 9, 3}, {1, 3, 4, 3}, {{"kernel", Ints{2, 2}}}),
      max("overlapping", {1, 9, 8, 3}, {1, 4, 3, 3}, {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}}),
      max("every position", {1, 5, 6, 2}, {1, 5, 6, 2},
          {{"kernel", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}}),
      max("asymmetric", {2, 7, 6, 2}, {2, 4, 6, 2},
          {{"kernel", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{0, 1, 2, 0}}}),
      max("dilated", {1, 9, 10, 2}, {1, 3, 6, 2},
          {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 1}}, {"dilations", Ints{2, 2}}}),
      max("dilated and padded", {1, 9, 10, 2}, {1, 4, 4, 2},
          {{"kernel", Ints{2, 3}}, {"strides", Ints{3, 3}}, {"dilations", Ints{3, 2}}, {"pads", Ints{1, 2, 3, 2}}}),
      max("ceil", {1, 7, 8, 2}, {1, 4, 4, 2},
          {{"kernel", Ints{2, 3}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}}),
      max("ceil of less than a window", {1, 1, 5, 2}, {1, 1, 3, 2},
          {{"kernel", Ints{2, 2}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}}),
      max("ceil drops a window in the padding", {1, 5, 5, 1}, {1, 2, 2, 1},
          {{"kernel", Ints{2, 2}},
           {"strides", Ints{3, 3}},
           {"pads", Ints{1, 1, 1, 1}},
           {"ceil_mode", std::int64_t{1}}}),
      max("stride beyond the kernel", {1, 9, 9, 2}, {1, 3, 3, 2}, {{"kernel", Ints{2, 2}}, {"strides", Ints{3, 3}}}),
      max("whole vectors of channels", {2, 4, 6, 8}, {2, 2, 3, 8}, {{"kernel", Ints{2, 2}}}),
      max("runs of pixels", {1, 5, 39, 12}, {1, 3, 20, 12},
          {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}}),
      max("one channel in runs", {1, 3, 37, 1}, {1, 2, 36, 1}, {{"kernel", Ints{2, 2}}, {"strides", Ints{1, 1}}}),
      max("no images", {0, 4, 4, 2}, {0, 2, 2, 2}, {{"kernel", Ints{2, 2}}}),
  };
  OpCase alone = max("window in the padding alone", {1, 3, 3, 2}, {1, 3, 3, 2},
                     {{"kernel", Ints{1, 1}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  alone.gradient = false;  // minus infinity has no central differences
  all.push_back(alone);
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  OpCase special = max("NaN and infinities", {1, 4, 4, 1}, {1, 2, 2, 1}, {{"kernel", Ints{2, 2}}});
  special.inputs[0].values = {1,        nan, -infinity, -infinity, nan, 5, -infinity, -infinity,
                              infinity, 2,   3,         3,         1,   2, 3,         nan};
  special.gradient = false;
  all.push_back(special);
  OpCase fours = special;
  fours.name = "NaN and infinities by fours";
  fours.inputs = {{.dims = {1, 4, 4, 4}}};
  for (const double value : special.inputs[0].values) {
    for (const int channel : {0, 1, 2, 3}) fours.inputs[0].values.push_back(channel % 2 != 0 ? -value : value);
  }
  fours.expect_dims = {1, 2, 2, 4};
  all.push_back(fours);
  special.name = "max ties go to the first";
  special.inputs[0].values = {1, 1, 2, 3, 1, 1, 3, 3, -0.0, 0, 5, 4, 0, -0.0, 4, 5};
  all.push_back(special);
  // Only where the gradient goes shows which of the equals was taken.
  OpCase tie = special;
  tie.name = "max ties send the gradient to the first";
  tie.op = Op::max_pool_grad;
  tie.attrs.set("shape", Shape{1, 4, 4, 1});
  tie.inputs = {{.dims = {1, 2, 2, 1}}, {.dims = {1, 2, 2, 1}, .dtype = DType::i32, .values = {0, 3, 9, -1}}};
  tie.expect_dims = {1, 4, 4, 1};
  all.push_back(tie);
  return all;
}

std::vector<OpCase> average_cases() {
  const auto average = [](std::string name, Dims x, Dims y, Attrs attrs) {
    return pool("average " + name, Op::avg_pool, std::move(x), std::move(y), std::move(attrs));
  };
  const auto both = [&](std::vector<OpCase>& all, const std::string& name, const Dims& x, const Dims& y, Attrs attrs) {
    all.push_back(average(name, x, y, attrs));
    attrs.set("count_include_pad", std::int64_t{1});
    all.push_back(average(name + " counting padding", x, y, attrs));
  };
  std::vector<OpCase> all = {
      average("2x2", {2, 6, 8, 5}, {2, 3, 4, 5}, {{"kernel", Ints{2, 2}}}),
      average("2x2 leaving a rest", {1, 7, 9, 3}, {1, 3, 4, 3}, {{"kernel", Ints{2, 2}}}),
      average("stride beyond the kernel", {1, 9, 9, 2}, {1, 3, 3, 2},
              {{"kernel", Ints{2, 2}}, {"strides", Ints{3, 3}}}),
      average("whole vectors of channels", {2, 4, 6, 8}, {2, 2, 3, 8}, {{"kernel", Ints{2, 2}}}),
      average("no images", {0, 4, 4, 2}, {0, 2, 2, 2}, {{"kernel", Ints{2, 2}}}),
  };
  both(all, "padded", {1, 5, 6, 2}, {1, 5, 6, 2},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}});
  both(all, "runs of pixels", {1, 5, 39, 4}, {1, 3, 20, 4},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 1, 1, 1}}});
  both(all, "asymmetric", {1, 7, 6, 2}, {1, 4, 6, 2},
       {{"kernel", Ints{3, 2}}, {"strides", Ints{2, 1}}, {"pads", Ints{0, 1, 2, 0}}});
  both(all, "ceil", {1, 7, 8, 2}, {1, 4, 4, 2},
       {{"kernel", Ints{3, 3}}, {"strides", Ints{2, 2}}, {"pads", Ints{1, 0, 0, 0}}, {"ceil_mode", std::int64_t{1}}});
  both(all, "ceil of less than a window", {1, 2, 1, 2}, {1, 1, 1, 2},
       {{"kernel", Ints{3, 2}}, {"strides", Ints{2, 2}}, {"ceil_mode", std::int64_t{1}}});
  both(all, "ceil past the padding", {1, 6, 6, 1}, {1, 3, 3, 1},
       {{"kernel", Ints{4, 4}}, {"strides", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"ceil_mode", std::int64_t{1}}});
  return all;
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all = max_cases();
  for (OpCase& c : average_cases()) all.push_back(std::move(c));
  OpCase grad = pool("average gradient of a gradient", Op::avg_pool_grad, {1, 3, 3, 2}, {1, 6, 7, 2},
                     {{"kernel", Ints{2, 3}}, {"strides", Ints{2, 2}}, {"shape", Shape{1, 6, 7, 2}}});
  all.push_back(grad);
  return all;
}
GRAFT_OP_CASES(Pool, cases());

TEST(PoolInfer, RefusesWhatDoesNotFit) {
  const auto refuse = [](Dims x, Attrs attrs, const std::string& part) {
    expect_infer_error(pool("bad", Op::max_pool, std::move(x), {-1}, std::move(attrs)), part);
  };
  refuse({4, 4, 2}, {{"kernel", Ints{2, 2}}}, "[N, H, W, C]");
  refuse({1, 1, 4, 2}, {{"kernel", Ints{2, 2}}}, "The padded height is 1, less than the 2");
  refuse({1, 4, 4, 2}, {{"kernel", Ints{0, 2}}}, "\"kernel\" holds 0");
  refuse({1, 4, 4, 2}, {{"kernel", Ints{2, 2}}, {"strides", Ints{0, 1}}}, "\"strides\" holds 0");
  refuse({1, 4, 4, 2}, {{"kernel", Ints{2, 2}}, {"pads", Ints{0, 0, 0}}}, "must hold 4 numbers");
  refuse({1, 4, 4, 2}, {}, "kernel");
}

}  // namespace
}  // namespace graft::test::pool_test
