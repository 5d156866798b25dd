#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::reshape_test {
namespace {

constexpr const char* kExact = "elements are moved, not computed";

std::vector<OpCase> cases() {
  const auto one = [](std::string name, std::vector<std::int64_t> from, std::vector<std::int64_t> to) {
    return OpCase{.name = std::move(name),
                  .op = Op::reshape,
                  .inputs = {{.dims = std::move(from)}},
                  .attrs = {{"shape", Shape::of(to)}},
                  .tolerance = 0,
                  .reason = kExact,
                  .expect_dims = to};
  };
  return {one("flatten", {2, 3, 4}, {2, 12}),
          one("same", {5}, {5}),
          one("to scalar", {1, 1}, {}),
          one("from scalar", {}, {1, 1, 1}),
          one("rank 8", {2, 3, 4, 5}, {2, 1, 3, 1, 4, 1, 5, 1}),
          one("empty", {0, 3}, {4, 0, 2}),
          {.name = "integers",
           .op = Op::reshape,
           .inputs = {{.dims = {4, 2}, .dtype = DType::i32, .low = -9, .high = 9}},
           .attrs = {{"shape", Shape{2, 4}}},
           .tolerance = 0,
           .reason = kExact,
           .gradient = false}};
}
GRAFT_OP_CASES(Reshape, cases());

OpCase bad(Shape to) {
  return {.name = "bad", .op = Op::reshape, .inputs = {{.dims = {2, 3}}}, .attrs = {{"shape", std::move(to)}}};
}

TEST(ReshapeInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(bad({5}), "which cannot become [5]");
  expect_infer_error(bad({-2, -3}), "negative");
  expect_infer_error(bad({Dim(std::int64_t{1} << 62), 2}), "2^62");
  expect_infer_error(bad({1, 1, 1, 1, 1, 1, 1, 2, 3}), "rank 9");
  expect_infer_error(bad({Dim::symbol("n"), 6}), "cannot become");
}

TEST(ReshapeInfer, MovesSymbols) {
  Graph graph;
  const Dim batch = Dim::symbol("batch");
  const auto x = graph.add_value("x", DType::f32, {batch, 3, 4}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto node = graph.add_node(Op::reshape, {*x}, {{"shape", Shape{*multiply(batch, 3), 4}}});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[3*batch, 4]");
}

}  // namespace
}  // namespace graft::test::reshape_test
