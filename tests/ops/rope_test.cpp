#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::rope_test {
namespace {

using Dims = std::vector<std::int64_t>;
constexpr const char* kReason = "an angle of up to 50 radians rounds to 2e-6; frequencies have a few ULP";

OpCase rope(std::string name, Dims dims, Attrs attrs = {}) {
  return {.name = std::move(name),
          .op = Op::rope,
          .inputs = {{.dims = std::move(dims)}},
          .attrs = std::move(attrs),
          .tolerance = 1e-5,
          .reason = kReason};
}

OpCase with_positions(OpCase c, Dims dims, double high = 50) {
  c.inputs.push_back({.dims = std::move(dims), .dtype = DType::i32, .low = 0, .high = high});
  return c;
}

OpCase with_frequencies(OpCase c, std::int64_t count) {
  if (c.inputs.size() == 1) c.inputs.push_back({.dims = {1}, .dtype = DType::i32, .missing = true});
  c.inputs.push_back({.dims = {count}, .low = 0, .high = 1, .grad = false});
  return c;
}

std::vector<OpCase> cases() {
  const std::int64_t one = 1;
  OpCase step = rope("position of the step", {1, 3, 2, 8}, {{"from_step", one}});
  step.step_state.position = 37;
  OpCase far = with_positions(rope("far positions", {1, 5, 2, 64}, {{"theta", 5e5}}), {5}, 4000);
  far.tolerance = 2e-3;
  far.reason = "an angle of 4000 radians rounds to 2.4e-4 and takes over the frequency's few ULP of as much each";
  return {
      rope("halves", {2, 7, 3, 8}),
      rope("interleaved", {2, 7, 3, 8}, {{"interleaved", one}}),
      rope("theta", {1, 9, 1, 64}, {{"theta", 1e6}}),
      rope("partly", {2, 5, 2, 12}, {{"rotated", std::int64_t{8}}}),
      rope("partly interleaved", {2, 5, 2, 12}, {{"rotated", std::int64_t{4}}, {"interleaved", one}}),
      rope("inverse", {1, 5, 2, 6}, {{"inverse", one}}),
      rope("magnitude", {1, 5, 2, 6}, {{"magnitude", 1.25}}),
      rope("rank 3", {40, 2, 4}),
      rope("empty", {0, 5, 2, 4}),
      with_positions(rope("positions of all", {2, 5, 3, 8}), {5}),
      with_positions(rope("positions each", {2, 5, 3, 8}, {{"interleaved", one}}), {2, 5}),
      with_frequencies(rope("frequencies", {2, 9, 3, 8}), 4),
      with_frequencies(with_positions(rope("both", {2, 5, 3, 8}, {{"rotated", std::int64_t{4}}}), {2, 5}), 2),
      step,
      far,
  };
}
GRAFT_OP_CASES(Rope, cases());

TEST(RopeInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(rope("bad", {3, 4}), "[.., seq, heads, dim]");
  expect_infer_error(rope("bad", {2, 3, 5}), "must be even");
  expect_infer_error(rope("bad", {2, 3, 4}, {{"rotated", std::int64_t{6}}}), "6 turn");
  expect_infer_error(rope("bad", {2, 3, 4}, {{"rotated", std::int64_t{-2}}}), "-2 turn");
  expect_infer_error(rope("bad", {2, 3, 4}, {{"theta", 0.0}}), "\"theta\" is 0");
  expect_infer_error(with_positions(rope("bad", {2, 3, 4}), {3}), "[2] is needed");
  expect_infer_error(with_frequencies(rope("bad", {2, 3, 4}), 3), "[2] is needed");
}

}  // namespace
}  // namespace graft::test::rope_test
