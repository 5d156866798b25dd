#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::lora_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims rows, std::int64_t from, std::int64_t to, std::int64_t rank, double scale) {
  Dims x = rows;
  x.push_back(from);
  Dims base = rows;
  base.push_back(to);
  return {.name = std::move(name),
          .op = Op::lora,
          .inputs = {{.dims = base}, {.dims = x}, {.dims = {rank, from}}, {.dims = {to, rank}}},
          .attrs = {{"scale", scale}},
          .tolerance = 1e-5,
          .reason = "two f32 products in a row, of up to 70 terms",
          .expect_dims = base};
}

GRAFT_OP_CASES(Lora, (std::vector<OpCase>{
                         one("one", {1}, 1, 1, 1, 1),
                         one("odd sizes", {2, 19}, 37, 21, 3, 2),
                         one("whole tiles", {32}, 64, 64, 8, 0.5),
                         one("larger rank than width", {5}, 6, 7, 16, 1.5),
                         one("no scale", {20}, 70, 9, 4, 0),
                         one("no rows", {0}, 6, 7, 2, 1),
                     }));

TEST(LoraInfer, RefusesWhatDoesNotFit) {
  OpCase c = one("rank", {3}, 4, 5, 2, 1);
  c.inputs[3].dims = {5, 3};
  expect_infer_error(c, "[5, 2] is needed");
  c = one("base", {3}, 4, 5, 2, 1);
  c.inputs[0].dims = {3, 6};
  expect_infer_error(c, "[3, 5] is needed");
}

}  // namespace
}  // namespace graft::test::lora_test
