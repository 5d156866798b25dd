#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::concat_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, std::vector<Dims> shapes, std::int64_t axis, Dims out = {-1}, DType dtype = DType::f32) {
  OpCase c{.name = std::move(name),
           .op = Op::concat,
           .attrs = {{"axis", axis}},
           .tolerance = 0,
           .reason = "elements are moved, not computed",
           .gradient = dtype == DType::f32,
           .expect_dims = std::move(out)};
  for (Dims& dims : shapes) c.inputs.push_back({.dims = std::move(dims), .dtype = dtype, .low = -7, .high = 7});
  return c;
}

std::vector<OpCase> cases() {
  return {
      one("single", {{2, 3}}, 1, {2, 3}),
      one("rows", {{2, 3}, {4, 3}}, 0, {6, 3}),
      one("columns", {{2, 3}, {2, 1}, {2, 130}}, 1, {2, 134}),
      one("from the end", {{2, 3, 4}, {2, 5, 4}}, -2, {2, 8, 4}),
      one("empty piece", {{2, 3}, {2, 0}, {2, 2}}, 1, {2, 5}),
      one("all empty", {{0, 3}, {0, 2}}, 1, {0, 5}),
      one("rank 8", {{1, 2, 1, 2, 2, 1, 2, 2}, {1, 2, 1, 2, 3, 1, 2, 2}}, 4, {1, 2, 1, 2, 5, 1, 2, 2}),
      one("many", std::vector<Dims>(20, {3, 2}), 1, {3, 40}),
      one("integers", {{4}, {3}}, 0, {7}, DType::i32),
      one("booleans", {{2, 2}, {2, 2}}, 0, {4, 2}, DType::boolean),
  };
}
GRAFT_OP_CASES(Concat, cases());

TEST(ConcatInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(one("bad", {{2, 3}, {2, 3}}, 2), "axis 2 is out of range");
  expect_infer_error(one("bad", {{}, {}}, 0), "out of range for rank 0");
  expect_infer_error(one("bad", {{2, 3}, {3, 3}}, 1), "differs from [2, 3] in axis 0");
  expect_infer_error(one("bad", {{2, 3}, {2}}, 0), "rank 2 is needed");
  OpCase types = one("bad", {{2}, {2}}, 0);
  types.inputs[1].dtype = DType::i32;
  expect_infer_error(types, "f32 is needed");
}

TEST(ConcatInfer, TakesSymbolsBesideAndAlongTheAxis) {
  Graph graph;
  const Dim batch = Dim::symbol("batch");
  const auto a = graph.add_value("a", DType::f32, {batch, 3}, ValueKind::input);
  const auto b = graph.add_value("b", DType::f32, {batch, 4}, ValueKind::input);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto good = graph.add_node(Op::concat, {*a, *b}, {{"axis", std::int64_t{1}}});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(graph.value(graph.node(*good).outputs[0]).shape.text(), "[batch, 7]");
  const auto twice = graph.add_node(Op::concat, {*a, *a}, {{"axis", std::int64_t{0}}});
  ASSERT_TRUE(twice.ok()) << twice.status().message();
  EXPECT_EQ(graph.value(graph.node(*twice).outputs[0]).shape.text(), "[2*batch, 3]");
}

// Adding sizes must not overflow: shapes may hold up to 2^62 elements each.
TEST(ConcatInfer, SeesOverflow) {
  Graph graph;
  const auto a = graph.add_value("a", DType::f32, {std::int64_t{1} << 62}, ValueKind::input);
  ASSERT_TRUE(a.ok());
  const auto two = graph.add_node(Op::concat, {*a, *a}, {{"axis", std::int64_t{0}}});
  ASSERT_FALSE(two.ok());
  EXPECT_NE(two.status().message().find("2^6"), std::string::npos) << two.status().message();
}

}  // namespace
}  // namespace graft::test::concat_test
