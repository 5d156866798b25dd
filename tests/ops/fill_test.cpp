#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::fill_test {
namespace {

OpCase full(Shape shape, double value, DType dtype) {
  return {.name = cat("full", shape.text(), dtype_name(dtype)),
          .op = Op::full,
          .attrs = {{"shape", shape}, {"value", value}, {"dtype", static_cast<std::int64_t>(dtype)}},
          .tolerance = 1e-7,
          .reason = "rounding of the value to f32",
          .gradient = false,
          .expect_dims = shape.values()};
}

OpCase step_scalar(const std::string& field) {
  OpCase c = {.name = "step_scalar_" + field,
              .op = Op::step_scalar,
              .attrs = {{"field", field}},
              .tolerance = 1e-7,
              .reason = "rounding of the value to f32",
              .gradient = false,
              .expect_dims = {}};
  c.step_state.loss_weight = 0.125;
  c.step_state.loss_scale = 4096;
  c.step_state.inverse_loss_scale = 0.1;
  c.step_state.clip_norm = 1.5;
  return c;
}

std::vector<OpCase> cases() {
  return {full({}, 0.1, DType::f32),       full({3, 50}, -2.75, DType::f32),
          full({0, 5}, 1, DType::f32),     full({129}, -2147483648.0, DType::i32),
          full({2, 2}, 1, DType::boolean), step_scalar("loss_weight"),
          step_scalar("loss_scale"),       step_scalar("inverse_loss_scale"),
          step_scalar("clip_norm")};
}

GRAFT_OP_CASES(Fill, cases());

TEST(FillErrors, ValuesAndFields) {
  expect_infer_error(full({2}, 0.5, DType::i32), "no 32-bit integer");
  expect_infer_error(full({2}, 2, DType::boolean), "0 or 1");
  expect_infer_error(full({2}, 2, DType::f16), "can be filled");
  expect_infer_error(full({-2}, 2, DType::f32), "negative dimension");
  expect_infer_error(step_scalar("seed"), "\"seed\"");
}

}  // namespace
}  // namespace graft::test::fill_test
