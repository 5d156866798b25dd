#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::gated_test {
namespace {

OpCase one(const std::string& activation, std::vector<std::int64_t> dims, double reach) {
  return {.name = cat(activation, " of ", dims.size(), " axes up to ", reach),
          .op = Op::gated,
          .inputs = {{.dims = dims, .low = -reach, .high = reach}, {.dims = dims}},
          .attrs = {{"activation", activation}},
          .tolerance = 5e-6,
          .reason = "an exponential or an error function in f32, accurate to a few units in the last place",
          .expect_dims = dims};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  for (const char* activation : {"silu", "gelu", "gelu_tanh"}) {
    all.push_back(one(activation, {3, 7, 13}, 3));
    all.push_back(one(activation, {2050}, 12));
  }
  all.push_back(one("silu", {0, 4}, 1));
  return all;
}
GRAFT_OP_CASES(Gated, cases());

TEST(GatedInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(one("relu", {3}, 1), "must be silu, gelu or gelu_tanh");
  OpCase c = one("silu", {3}, 1);
  c.inputs[1].dims = {4};
  expect_infer_error(c, "[3] is needed");
}

}  // namespace
}  // namespace graft::test::gated_test
