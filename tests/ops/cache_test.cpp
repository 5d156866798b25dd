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

/// A cache of q8_0.
OpCase append_blocks(std::vector<std::int64_t> cache, std::vector<std::int64_t> x, std::uint32_t position) {
  OpCase c = append(std::move(cache), std::move(x), position);
  c.name += "_blocks";
  c.inputs[0].dtype = DType::q8_0;
  c.low_precision_roundings = 0;  // a rounding more may take a number to the next code
  return c;
}

/// Into a cache that forgets what is `window` away; `furthest`: of runs before.
OpCase forgetting(OpCase c, std::int64_t window, std::uint32_t furthest) {
  c.name += cat("_forgets_", window, "_after_", furthest);
  c.attrs = {{"window", window}};
  c.step_state.step = furthest;
  return c;
}

/// Rows of places: (slot, furthest, 0, position) of each item.
OpCase placed(OpCase c, std::vector<double> places) {
  c.name += "_placed";
  c.inputs.resize(2);
  c.inputs.push_back(
      {.dims = {static_cast<std::int64_t>(places.size() / 4), 4}, .dtype = DType::i32, .values = places});
  return c;
}

OpCase append_number(double x) {
  OpCase c = append_blocks({1, 3, 64}, {1, 1, 64}, 1);
  c.name = cat("append_number_", x);
  for (int i = 0; i < 64; ++i) c.inputs[1].values.push_back(i == 5 ? x : i % 7 - 3);
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

OpCase placed_positions() {
  OpCase c = positions({3, 2}, true, 9);
  c.name += "_placed";
  c.inputs = {{.dims = {3, 4}, .dtype = DType::i32, .values = {1, 0, 0, 5, 0, 0, 0, -1, 2, 0, 0, 130}}};
  return c;
}

std::vector<OpCase> cases() {
  return {append({1, 8, 2, 4}, {1, 1, 2, 4}, 0),
          append({2, 9, 3}, {2, 4, 3}, 3),
          append({2, 9, 3}, {2, 4, 3}, 7),            // the last two rows do not fit
          append({1, 4, 5}, {1, 2, 5}, 4294967295u),  // nothing fits, and nothing wraps around
          append({1, 300, 33}, {1, 200, 33}, 100),
          append_blocks({1, 8, 2, 32}, {1, 1, 2, 32}, 3),
          append_blocks({1, 8, 2, 16}, {1, 1, 2, 16}, 0),  // blocks of two heads; a block that shares its last word
          append_blocks({1, 8, 2, 16}, {1, 3, 2, 16}, 3),  // and one that shares its first
          append_blocks({1, 9, 3, 32}, {1, 4, 3, 32}, 7),  // the last two rows do not fit
          append_blocks({1, 4, 32}, {1, 2, 32}, 4294967295u),
          append_blocks({1, 60, 5, 64}, {1, 40, 5, 64}, 13),
          forgetting(append({2, 384, 3}, {2, 4, 3}, 120), 5, 119),  // nothing is forgotten yet
          forgetting(append({2, 384, 3}, {2, 4, 3}, 270), 5, 250),  // one move
          forgetting(append({1, 640, 33}, {1, 40, 33}, 600), 250, 470),
          forgetting(append({1, 640, 33}, {1, 40, 33}, 700), 250, 340),  // two at once
          forgetting(append({1, 384, 8}, {1, 4, 8}, 290), 5, 300),       // back, within what there is
          forgetting(append({1, 384, 8}, {1, 4, 8}, 20), 5, 300),        // and beyond it
          forgetting(append({1, 384, 8}, {1, 4, 8}, 900), 5, 0),         // nothing is left
          forgetting(append_blocks({1, 384, 2, 16}, {1, 3, 2, 16}, 271), 5, 250),
          forgetting(append_blocks({1, 512, 3, 32}, {1, 4, 3, 32}, 420), 150, 390),
          append_blocks({2, 10, 32}, {2, 3, 32}, 3),
          placed(append({4, 9, 3}, {2, 4, 3}, 0), {3, 0, 0, 2, 1, 0, 0, 7}),
          placed(append({4, 9, 3}, {3, 1, 3}, 0), {2, 0, 0, 8, 0, 0, 0, -1, 3, 0, 0, 9}),  // two are left out
          placed(append_blocks({3, 8, 2, 16}, {2, 3, 2, 16}, 0), {2, 0, 0, 1, 0, 0, 0, 6}),
          placed(append_blocks({3, 8, 5, 32}, {3, 1, 5, 32}, 0), {2, 0, 0, 1, 0, 0, 0, -1, 1, 0, 0, 7}),
          placed(forgetting(append({3, 384, 3}, {3, 4, 3}, 0), 5, 0), {2, 250, 0, 270, 0, 0, 0, -1, 1, 119, 0, 120}),
          placed(forgetting(append_blocks({2, 384, 2, 16}, {2, 3, 2, 16}, 0), 5, 0), {1, 250, 0, 271, 0, 0, 0, 3}),
          append_number(0.001),
          append_number(1e6),
          append_number(0),
          positions({5}, false, 9),
          positions({2, 130}, true, 9),
          placed_positions()};
}

GRAFT_OP_CASES(Cache, cases());

TEST(CacheErrors, ShapesMustAgree) {
  expect_infer_error(append({1, 8, 4}, {1, 2, 5}, 0), "[1, 2, 4] is needed");
  expect_infer_error(append({2, 8, 4}, {1, 2, 4}, 0), "[2, 2, 4] is needed");
  expect_infer_error(append({8, 4}, {2, 4}, 0), "must be [batch, tokens, ..]");
  expect_infer_error(append_blocks({1, 8, 33}, {1, 2, 33}, 0), "rows of a multiple of 32");
  expect_infer_error(append_blocks({2, 7, 32}, {2, 2, 32}, 0), "a cache of type q8_0 is [texts, tokens, ..]");
  expect_infer_error(append_blocks({1, 8, 32}, {1, 2, 64}, 0), "[1, 2, 32] is needed");
  expect_infer_error(forgetting(append({1, 256, 4}, {1, 128, 4}, 0), 5, 0), "cannot forget what is 5 tokens away");
  expect_infer_error(forgetting(append({1, 300, 4}, {1, 1, 4}, 0), 5, 0), "cannot forget");
  expect_infer_error(positions({}, false, 0), "no axis");
  expect_infer_error(placed(append({4, 8, 4}, {2, 1, 4}, 0), {0, 0, 0, 1}), "[2, 4] is needed");
  expect_infer_error(placed(append_blocks({2, 7, 32}, {1, 1, 32}, 0), {0, 0, 0, 1}), "an even number of blocks");
}

}  // namespace
}  // namespace graft::test::cache_test
