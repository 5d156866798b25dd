#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::loss_scale_test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

OpCase of(Op op, std::string name, std::vector<OpInput> inputs, Attrs attrs = {}) {
  OpCase c{.name = std::move(name), .op = op, .inputs = std::move(inputs), .attrs = std::move(attrs)};
  c.gradient = false;
  c.low_precision_roundings = 0;  // it is never kept in 16 bits
  c.tolerance = 1e-6;
  c.reason = "a few roundings of f32; expm1 of own polynomials";
  return c;
}

OpInput state(std::vector<double> values) {
  return {.dims = {4}, .values = std::move(values), .kind = ValueKind::state};
}

OpInput number(double value) { return {.dims = {}, .values = {value}}; }

Attrs adam(double max_norm = 0) {
  return {{"interval", 3.0}, {"corrections", std::int64_t{1}}, {"beta1", 0.9}, {"beta2", 0.999}, {"max_norm", max_norm}};
}

std::vector<OpCase> cases() {
  const auto step = [](std::string name, std::vector<double> before, double overflow, Attrs attrs = adam()) {
    return of(Op::loss_scale_step, std::move(name), {state(std::move(before)), number(overflow)}, std::move(attrs));
  };
  std::vector<OpCase> all = {
      of(Op::loss_scale, "before the first step", {number(0.25), state({0, 0, 0, 0})}),
      of(Op::loss_scale, "later", {number(0.25), state({128, 2, 9, 1})}),
      of(Op::overflow_count, "all finite", {{.dims = {3, 700}}, {.dims = {5}}}),
      of(Op::overflow_count, "infinite and no numbers",
         {{.dims = {4}, .values = {1, kInf, -3e38, 0}}, {.dims = {3}, .values = {kNan, -kInf, 1e-40}}}),
      step("first step", {0, 0, 0, 0}, 0),
      step("the first overflows", {0, 0, 0, 0}, 3),
      step("overflow", {1024, 2, 700, 1}, 1),
      step("growth", {1024, 2, 700, 1}, 0),
      step("no growth yet", {1024, 1, 700, 1}, 0),
      step("beyond which nothing grows", {0x1p127, 2, 700, 1}, 0),
      step("the third overflow in a row", {1024, -2, 700, 3}, 1),
      step("good after overflows", {1024, -2, 700, 3}, 0),
      step("no moments", {1024, 1, 700, 1}, 0, {{"interval", 3.0}}),
      step("corrections of adafactor", {1024, 1, 700, 1}, 0,
           {{"corrections", std::int64_t{2}}, {"beta2_decay", -0.8}}),
      step("the count of steps", {1024, 1, 700, 1}, 0, {{"corrections", std::int64_t{3}}}),
  };
  OpCase clipped = step("clipped", {1024, 1, 700, 1}, 0, adam(2));
  clipped.inputs.push_back(number(9.0 * 1024 * 1024));  // a norm of 3 without the scale
  all.push_back(clipped);
  clipped.name = "clipped after the scale was taken out";
  clipped.attrs.set("unscaled", std::int64_t{1});
  all.push_back(clipped);
  for (const double loss : {kNan, -kInf, 3e38}) {
    OpCase c = step(cat("a loss of ", loss), {1024, 2, 700, 1}, loss < 0 ? 5 : 0);
    c.inputs.push_back({.dims = {}, .missing = true});
    c.inputs.push_back(number(loss));
    all.push_back(c);
  }
  for (OpCase& c : all) c.name += cat(" ", op_name(c.op));
  return all;
}

GRAFT_OP_CASES(LossScale, cases());

TEST(LossScaleErrors, Are) {
  expect_infer_error(of(Op::loss_scale, "short", {number(1), {.dims = {3}, .kind = ValueKind::state}}), "[4]");
  expect_infer_error(of(Op::loss_scale_step, "norm", {state({1, 0, 0, 0}), number(0)}, adam(1)), "squared norm");
  expect_infer_error(of(Op::loss_scale_step, "interval", {state({1, 0, 0, 0}), number(0)}, {{"interval", 0.0}}),
                     "interval");
}

}  // namespace
}  // namespace graft::test::loss_scale_test
