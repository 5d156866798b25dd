#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::expand_test {
namespace {

std::vector<OpCase> cases() {
  const auto one = [](std::string name, std::vector<std::int64_t> from, std::vector<std::int64_t> to,
                      DType dtype = DType::f32) {
    return OpCase{.name = std::move(name),
                  .op = Op::expand,
                  .inputs = {{.dims = std::move(from), .dtype = dtype, .low = -5, .high = 5}},
                  .attrs = {{"shape", Shape::of(to)}},
                  .tolerance = 1e-5,
                  .reason = "forward is exact; the gradient adds up to 64 numbers in f32",
                  .gradient = dtype == DType::f32,
                  .expect_dims = to};
  };
  return {one("scalar", {}, {3, 4}),
          one("same", {3, 4}, {3, 4}),
          one("rows", {4}, {5, 4}),
          one("columns", {5, 1}, {5, 4}),
          one("middle", {2, 1, 3}, {2, 6, 3}),
          one("alternating", {2, 1, 3, 1}, {4, 2, 5, 3, 2}),
          one("rank 8", {2, 1, 2, 1, 2, 1, 2, 1}, {2, 2, 2, 2, 2, 2, 2, 2}),
          one("to empty", {1, 3}, {0, 3}),
          one("integers", {1, 3}, {4, 3}, DType::i32)};
}
GRAFT_OP_CASES(Expand, cases());

OpCase bad(std::vector<std::int64_t> dims, Shape to) {
  return {.name = "bad", .op = Op::expand, .inputs = {{.dims = std::move(dims)}}, .attrs = {{"shape", std::move(to)}}};
}

TEST(ExpandInfer, RefusesWhatDoesNotBroadcast) {
  expect_infer_error(bad({2, 3}, {3}), "cannot be expanded");
  expect_infer_error(bad({2, 3}, {2, 4}), "cannot be expanded");
  expect_infer_error(bad({1}, {-4}), "negative");
  expect_infer_error(bad({1}, {Dim(std::int64_t{1} << 40), Dim(std::int64_t{1} << 40)}), "2^62");
}

TEST(ExpandInfer, TakesSymbols) {
  Graph graph;
  const Dim batch = Dim::symbol("batch");
  const auto x = graph.add_value("x", DType::f32, {1, 3}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto node = graph.add_node(Op::expand, {*x}, {{"shape", Shape{batch, 3}}});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[batch, 3]");
}

}  // namespace
}  // namespace graft::test::expand_test
