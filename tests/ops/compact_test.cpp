#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::compact_test {
namespace {

OpCase compact(std::string name, std::vector<double> totals) {
  return {.name = std::move(name),
          .op = Op::compact,
          .inputs = {{.dims = {static_cast<std::int64_t>(totals.size())}, .dtype = DType::i32, .values = totals}},
          .tolerance = 0,
          .reason = "integers",
          .gradient = false};
}

std::vector<OpCase> cases() {
  std::vector<double> sparse, dense;
  for (int i = 0; i < 300; ++i) {
    sparse.push_back((i + 6) / 7);  // 1, 8, 15, ...
    dense.push_back(i + 1);
  }
  return {compact("some", {0, 1, 1, 2, 2, 2, 3}),
          compact("first_and_last", {1, 1, 1, 2}),
          compact("none", {0, 0, 0}),
          compact("single", {1}),
          compact("sparse", sparse),
          compact("all", dense),
          compact("no_running_count", {2147483647, -2147483648.0, 2147483647, 5})};
}
GRAFT_OP_CASES(Compact, cases());

TEST(CompactInfer, RefusesWhatDoesNotFit) {
  OpCase floats = compact("bad", {1});
  floats.inputs[0].dtype = DType::f32;
  expect_infer_error(floats, "i32");
  OpCase matrix = compact("bad", {1});
  matrix.inputs[0].dims = {1, 1};
  expect_infer_error(matrix, "rank 1");
}

}  // namespace
}  // namespace graft::test::compact_test
