#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::cache_test {
namespace {

OpCase append(std::vector<std::int64_t> cache, std::vector<std::int64_t> x, std::uint32_t position) {
  OpCase c = {.name = cat("append_", x[1], "_at_", position, "_of_", cache[1]),
              .op = Op::cache_append,
              .inputs = {{.dims = cache, .kind = ValueKind::state}, {.dims = x}},
              .tolerance = 1e-7,
              .reason = "rounding of the input to f32",
              .gradient = false,
              .expect_dims = cache};
  c.step_state.position = position;
  return c;
}

OpCase positions(Shape shape, bool from_step, std::uint32_t position) {
  OpCase c = {.name = cat("positions_", shape.rank(), from_step ? "_from_" : "_not_from_", position),
              .op = Op::positions,
              .attrs = {{"shape", shape}, {"from_step", std::int64_t{from_step}}},
              .tolerance = 1e-7,
              .reason = "integers",
              .gradient = false,
              .expect_dims = shape.values()};
  c.step_state.position = position;
  return c;
}

std::vector<OpCase> cases() {
  return {append({1, 8, 2, 4}, {1, 1, 2, 4}, 0),
          append({2, 9, 3}, {2, 4, 3}, 3),
          append({2, 9, 3}, {2, 4, 3}, 7),            // the last two rows do not fit
          append({1, 4, 5}, {1, 2, 5}, 4294967295u),  // nothing fits, and nothing wraps around
          append({1, 300, 33}, {1, 200, 33}, 100),
          positions({5}, false, 9),
          positions({2, 130}, true, 9)};
}

GRAFT_OP_CASES(Cache, cases());

TEST(CacheErrors, ShapesMustAgree) {
  expect_infer_error(append({1, 8, 4}, {1, 2, 5}, 0), "[1, 2, 4] is needed");
  expect_infer_error(append({2, 8, 4}, {1, 2, 4}, 0), "[2, 2, 4] is needed");
  expect_infer_error(append({8, 4}, {2, 4}, 0), "must be [batch, tokens, ..]");
  expect_infer_error(positions({}, false, 0), "no axis");
}

}  // namespace
}  // namespace graft::test::cache_test
