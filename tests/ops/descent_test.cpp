#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::descent_test {
namespace {

constexpr const char* kFewRoundings = "a few roundings of f32 (6e-8 each) per element";
constexpr auto kState = ValueKind::state;
constexpr auto kParameter = ValueKind::parameter;
using Dims = std::vector<std::int64_t>;

RefStepState step_state() {
  RefStepState state;
  state.step = 3;
  for (int group = 0; group < 16; ++group) {
    state.learning_rate[group] = 0.125 * (group + 1);
    state.bias_correction1[group] = 0.3;
  }
  return state;
}

/// A parameter, its gradient, states of the same shape (missing ones are left out), and the factor.
OpCase step(std::string name, Op op, Dims dims, const std::vector<bool>& states, Attrs attrs,
            std::vector<double> factor = {}) {
  OpCase c{.name = std::move(name),
           .op = op,
           .inputs = {{.dims = dims, .kind = kParameter}, {.dims = dims}},
           .attrs = std::move(attrs),
           .tolerance = 2e-6,
           .reason = kFewRoundings,
           .gradient = false,
           .step_state = step_state()};
  for (const bool given : states) {
    c.inputs.push_back({.dims = dims, .low = 0.01, .high = 1, .kind = kState, .missing = !given});
  }
  const bool has_factor = !factor.empty();
  const Dims factor_dims = factor.size() > 1 ? Dims{static_cast<std::int64_t>(factor.size())} : Dims{};
  c.inputs.push_back(
      {.dims = factor_dims, .values = has_factor ? std::move(factor) : std::vector<double>{0}, .missing = !has_factor});
  return c;
}

OpCase moment(std::string name, Dims dims, Attrs attrs, std::vector<double> factor = {}) {
  OpCase c = step(std::move(name), Op::moment_update, dims, {}, std::move(attrs), std::move(factor));
  c.inputs[0].kind = kState;
  return c;
}

OpCase apply(std::string name, Dims dims, Attrs attrs, bool scale, std::vector<double> factor = {}) {
  OpCase c = step(std::move(name), Op::apply_update, dims, {}, std::move(attrs), std::move(factor));
  c.inputs.push_back({.values = {0.7}, .missing = !scale});
  return c;
}

const std::vector<double> kFactor = {0.37};
const std::vector<double> kSkip = {std::nan("")};
const std::vector<double> kControl = {0.37, 0.25, 1, 0};

std::vector<OpCase> cases() {
  const std::int64_t on = 1;
  const Attrs group = {{"group", std::int64_t{2}}, {"weight_decay", 0.1}, {"rate_scale", 0.5}};
  return {
      step("lion", Op::lion_step, {5, 7}, {true}, {}),
      step("lion with decay and factor", Op::lion_step, {301}, {true}, group, kFactor),
      step("lion skipped", Op::lion_step, {9}, {true}, {}, kSkip),
      step("rmsprop", Op::rmsprop_step, {5, 7}, {true, false, false}, {}),
      step("rmsprop with momentum", Op::rmsprop_step, {130}, {true, true, false}, {{"momentum", 0.9}}, kFactor),
      // The mean of squares is above the square of the mean, as it is in a run.
      step("rmsprop centered", Op::rmsprop_step, {130}, {true, true, true},
           {{"momentum", 0.9}, {"alpha", 0.5}, {"epsilon", 0.1}, {"weight_decay", 0.1}}),
      step("rmsprop skipped", Op::rmsprop_step, {9}, {true, false, false}, {}, kSkip),
      step("adagrad", Op::adagrad_step, {5, 7}, {true}, {}),
      step("adagrad with all", Op::adagrad_step, {130}, {true},
           {{"lr_decay", 0.1}, {"initial", 0.2}, {"epsilon", 0.01}, {"weight_decay", 0.1}, {"rate_scale", 0.5}},
           kFactor),
      step("adagrad skipped", Op::adagrad_step, {9}, {true}, {}, kSkip),
      step("adagrad counts the steps that were taken", Op::adagrad_step, {130}, {true}, {{"lr_decay", 0.5}}, kControl),
      moment("mean", {5, 7}, {{"decay", 0.9}, {"weight", 0.1}}),
      moment("mean of squares", {130}, {{"decay", 0.9}, {"weight", 0.1}, {"squared", on}}, kFactor),
      moment("mean from one to the other", {130}, {{"weight", 0.1}, {"lerp", on}}),
      moment("mean by the step", {130}, {{"from_step", on}, {"lerp", on}, {"group", std::int64_t{15}}}),
      moment("mean by the steps that were taken", {130}, {{"from_step", on}, {"lerp", on}}, kControl),
      moment("mean skipped", {9}, {{"decay", 0.9}, {"weight", 0.1}}, kSkip),
      apply("along a direction", {5, 7}, {}, false),
      apply("scaled", {130}, group, true, kFactor),
      apply("by an absolute rate", {130}, {{"absolute", on}, {"weight_decay", 0.1}}, true),
      apply("not applied", {9}, {}, false, kSkip),
  };
}

GRAFT_OP_CASES(Descent, cases());

TEST(DescentErrors, AttributesAndShapes) {
  expect_infer_error(step("", Op::lion_step, {4}, {true}, {{"beta1", 1.0}}), "\"beta1\"");
  expect_infer_error(step("", Op::rmsprop_step, {4}, {true, false, false}, {{"momentum", 0.5}}), "momentum buffer");
  expect_infer_error(step("", Op::adagrad_step, {4}, {true}, {{"epsilon", -1.0}}), "\"epsilon\"");
  expect_infer_error(step("", Op::lion_step, {4}, {true}, {{"group", std::int64_t{16}}}), "\"group\"");
  OpCase other = apply("", {4}, {}, false);
  other.inputs[1].dims = {5};
  expect_infer_error(other, "[4]");
}

}  // namespace
}  // namespace graft::test::descent_test
