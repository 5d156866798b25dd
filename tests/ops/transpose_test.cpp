#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::transpose_test {
namespace {

constexpr const char* kExact = "elements are moved, not computed";

std::vector<OpCase> cases() {
  const auto one = [](std::string name, std::vector<std::int64_t> dims, Ints perm, DType dtype = DType::f32) {
    return OpCase{.name = std::move(name),
                  .op = Op::transpose,
                  .inputs = {{.dims = std::move(dims), .dtype = dtype, .low = -5, .high = 5}},
                  .attrs = {{"perm", std::move(perm)}},
                  .tolerance = 0,
                  .reason = kExact,
                  .gradient = dtype == DType::f32};
  };
  return {one("scalar", {}, {}),
          one("rank 1", {7}, {0}),
          one("matrix in tiles", {37, 50}, {1, 0}),
          one("matrix in blocks of four", {36, 72}, {1, 0}),
          one("batch in blocks of four", {3, 40, 4}, {0, 2, 1}),
          one("matrix of one tile", {16, 16}, {1, 0}),
          one("narrow matrix", {3, 40}, {1, 0}),
          one("NCHW to NHWC", {2, 5, 9, 7}, {0, 2, 3, 1}),
          one("NHWC to NCHW", {3, 4, 6, 19}, {0, 3, 1, 2}),
          one("heads", {2, 3, 4, 8}, {0, 2, 1, 3}),
          one("identity", {2, 3, 4}, {0, 1, 2}),
          one("reversal of rank 3", {3, 4, 5}, {2, 1, 0}),
          one("reversal of rank 8", {2, 3, 2, 2, 3, 2, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0}),
          one("axes of one", {1, 4, 1, 5}, {3, 2, 0, 1}),
          one("empty", {4, 0, 3}, {2, 1, 0}),
          one("integers", {6, 5}, {1, 0}, DType::i32),
          one("booleans", {6, 5, 2}, {2, 0, 1}, DType::boolean)};
}
GRAFT_OP_CASES(Transpose, cases());

OpCase bad(Ints perm) {
  return {.name = "bad", .op = Op::transpose, .inputs = {{.dims = {2, 3, 4}}}, .attrs = {{"perm", std::move(perm)}}};
}

TEST(TransposeInfer, RefusesWhatIsNoPermutation) {
  expect_infer_error(bad({0, 1}), "has 2 entries");
  expect_infer_error(bad({0, 1, 1}), "the axis 1 twice");
  expect_infer_error(bad({0, 1, 3}), "holds 3");
  expect_infer_error(bad({0, 1, -1}), "holds -1");
  expect_infer_error(bad({0, 1, std::numeric_limits<std::int64_t>::min()}), "no axis");
}

TEST(TransposeInfer, MovesSymbols) {
  Graph graph;
  const auto x = graph.add_value("x", DType::f32, {Dim::symbol("batch"), 3, Dim::symbol("seq")}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto node = graph.add_node(Op::transpose, {*x}, {{"perm", Ints{2, 0, 1}}});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[seq, batch, 3]");
}

}  // namespace
}  // namespace graft::test::transpose_test
