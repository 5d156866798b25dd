#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::gather_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims data, Dims indices, std::int64_t axis, Dims out = {-1}, DType dtype = DType::f32) {
  const auto size = static_cast<double>(data[axis < 0 ? data.size() + axis : axis]);
  return {.name = std::move(name),
          .op = Op::gather,
          .inputs = {{.dims = std::move(data), .dtype = dtype, .low = -7, .high = 7},
                     {.dims = std::move(indices), .dtype = DType::i32, .low = -size, .high = size - 1}},
          .attrs = {{"axis", axis}},
          .tolerance = 1e-6,
          .reason = "forward is exact; the gradient adds up a few dozen numbers in f32",
          .gradient = dtype == DType::f32,
          .expect_dims = std::move(out)};
}

OpCase with_indices(OpCase c, std::vector<double> values) {
  c.inputs[1].values = std::move(values);
  return c;
}

OpCase without_gradient(OpCase c) {
  c.gradient = false;
  return c;
}

/// A table that goes on in another from row `first` on.
OpCase with_rows(std::string name, Dims data, std::int64_t first, std::int64_t rows, Dims indices,
                 DType dtype = DType::f32) {
  const std::int64_t columns = data[1];
  OpCase c = one(std::move(name), std::move(data), std::move(indices), 0, {-1}, dtype);
  const auto all = static_cast<double>(first + rows);
  c.inputs[0].grad = false;
  c.inputs[1].low = -all;
  c.inputs[1].high = all - 1;
  c.inputs.push_back({.dims = {rows, columns}, .low = -7, .high = 7});
  c.attrs.set("first_row", first);
  c.gradient = true;
  if (dtype != DType::f32) c.reason = "scale times code: two roundings of 6e-8";
  return c;
}

std::vector<OpCase> quantized_cases() {
  std::vector<OpCase> all;
  for (const DType dtype :
       {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k, DType::q5_k, DType::q6_k}) {
    OpCase c = one(cat("table of ", dtype_name(dtype)), {40, 512}, {2, 9}, 0, {2, 9, 512}, dtype);
    c.reason = "scale times code, and a minimum: two roundings of 6e-8";
    all.push_back(c);
  }
  all.push_back(with_rows("quantized table that goes on", {20, 64}, 18, 5, {3, 30}, DType::q8_0));
  all.push_back(with_indices(one("out of range of a quantized table", {4, 64}, {4}, -2, {4, 64}, DType::q8_0),
                             {0, 4, -5, 2147483647}));
  return all;
}
GRAFT_OP_CASES(GatherQuantized, quantized_cases());

std::vector<OpCase> cases() {
  return {
      one("rows", {5, 3}, {4}, 0, {4, 3}),
      one("columns", {5, 3}, {4}, 1, {5, 4}),
      one("scalar index", {5, 3}, {}, 0, {3}),
      one("from a vector", {7}, {2, 3}, 0, {2, 3}),
      one("axis from the end", {2, 5, 3}, {2, 2}, -2, {2, 2, 2, 3}),
      one("embedding", {50, 16}, {3, 40}, 0, {3, 40, 16}),
      one("large table", {1000, 6}, {7}, 0, {7, 6}),
      one("wide rows", {6, 1300}, {150}, 0, {150, 1300}),
      one("wide rows of a large table", {900, 600}, {20}, 0, {20, 600}),
      one("middle axis", {3, 300, 5}, {9}, 1, {3, 9, 5}),
      with_indices(one("always the same", {9, 4}, {300}, 0), std::vector<double>(300, -2)),
      with_indices(one("repeats in a large table", {1000, 5}, {6}, 0), {7, -1, 7, 999, 7, -993}),
      // NaN would spoil the differences; the device's NaN and zeros are compared with the reference's.
      without_gradient(with_indices(one("out of range", {4, 3}, {5}, 0), {0, 4, -5, 2147483647, -2147483648.0})),
      with_indices(one("out of range integers", {4, 3}, {4}, 0, {4, 3}, DType::i32), {0, 4, -5, 2147483647}),
      without_gradient(with_indices(one("of nothing", {0, 3}, {2}, 0, {2, 3}), {0, -1})),
      one("no indices", {4, 3}, {0}, 0, {0, 3}),
      one("rank 8", {2, 1, 2, 3, 2, 1}, {2, 1, 2}, 3, {2, 1, 2, 2, 1, 2, 2, 1}),
      one("booleans", {6}, {9}, 0, {9}, DType::boolean),
      // Gradients of so many are summed from sorted indices: short buckets, long ones, and a few axes.
      one("sorted, short", {1500, 2}, {1300}, 0),
      one("sorted, long", {70, 1}, {20000}, 0),
      one("sorted, of a middle axis", {2, 300, 3}, {7, 700}, 1),
      with_indices(one("sorted, one of all", {1200, 3}, {1111}, 0), std::vector<double>(1111, 1199)),
      with_rows("sorted, goes on", {900, 2}, 700, 1000, {1200}),
      with_rows("goes on", {9, 6}, 9, 3, {40}),
      with_rows("goes on before its end", {9, 5}, 4, 7, {2, 30}),
      with_rows("goes on before its end, shorter", {9, 4}, 2, 3, {11}),
      with_rows("nothing but what goes on", {9, 4}, 0, 300, {3}),
      with_rows("few of many rows that go on", {9, 7}, 9, 200, {5}),
      without_gradient(
          with_indices(with_rows("goes on, out of range", {4, 3}, 4, 2, {6}), {0, 5, 6, -6, -7, 2147483647})),
      {.name = "gradient with indices out of range",
       .op = Op::gather_grad,
       .inputs = {{.dims = {5}, .dtype = DType::i32, .values = {3, 4, -5, 3, -2147483648.0}}, {.dims = {5, 2}}},
       .attrs = {{"shape", Shape{4, 2}}},
       .tolerance = 1e-6,
       .reason = "two numbers are added up",
       .gradient = false,
       .expect_dims = {4, 2}},
      {.name = "gradient with indices out of range of a large table",
       .op = Op::gather_grad,
       .inputs = {{.dims = {5}, .dtype = DType::i32, .values = {70, 100, -101, -30, 2147483647}}, {.dims = {5, 2}}},
       .attrs = {{"shape", Shape{100, 2}}},
       .tolerance = 1e-6,
       .reason = "two numbers are added up",
       .gradient = false},
      {.name = "gradient of the gradient",
       .op = Op::gather_grad,
       .inputs = {{.dims = {5}, .dtype = DType::i32, .low = -4, .high = 3}, {.dims = {2, 5, 3}}},
       .attrs = {{"shape", Shape{2, 4, 3}}, {"axis", std::int64_t{1}}},
       .tolerance = 1e-6,
       .reason = "a few numbers are added up"},
  };
}
GRAFT_OP_CASES(Gather, cases());

class GatherParts : public testing::TestWithParam<OpCase> {};

// A table larger than a binding, whose rows have gradients each, or few of them.
TEST_P(GatherParts, FitSmallBindings) {
  const EditedTarget edited([](gpu::Target& target) { target.caps.max_storage_buffer_range = 8192; });
  check_op_case(GetParam());
}

std::vector<OpCase> large_cases() {
  std::vector<double> many, few;
  for (int i = 0; i < 80; ++i) many.push_back((i * 37) % 150);
  for (int i = 0; i < 20; ++i) few.push_back((i * 137) % 200 - (i % 3 == 0 ? 200 : 0));
  return {with_indices(one("many of a large table", {150, 24}, {80}, 0), many),
          with_indices(one("few of a large table", {200, 24}, {20}, 0), few),
          with_indices(with_rows("large tables one behind the other", {110, 24}, 101, 99, {20}), few)};
}
INSTANTIATE_TEST_SUITE_P(, GatherParts, testing::ValuesIn(large_cases()), op_case_name);

TEST(GatherInfer, RefusesWhatDoesNotFit) {
  const auto bad_axis = [](std::int64_t axis) {
    OpCase c = one("bad", {4, 3}, {2}, 0);
    c.attrs.set("axis", axis);
    return c;
  };
  expect_infer_error(bad_axis(2), "axis 2 is out of range");
  expect_infer_error(bad_axis(-3), "axis -3 is out of range");
  OpCase types = one("bad", {4, 3}, {2}, 0);
  types.inputs[1].dtype = DType::f32;
  expect_infer_error(types, "i32 is needed");
  expect_infer_error(with_rows("bad", {4, 3}, 5, 2, {2}), "from row 5 on");
  OpCase narrow = with_rows("bad", {4, 3}, 4, 2, {2});
  narrow.inputs[2].dims = {2, 4};
  expect_infer_error(narrow, "[2, 3] is needed");
  expect_infer_error(one("bad", {2, 2, 2, 2, 2}, {2, 2, 2, 2, 2}, 0), "rank 9");
}

TEST(GatherInfer, TakesSymbols) {
  Graph graph;
  const auto table = graph.add_value("table", DType::f32, {100, 16}, ValueKind::parameter);
  const Shape ids_shape = {Dim::symbol("batch"), Dim::symbol("seq")};
  const auto ids = graph.add_value("ids", DType::i32, ids_shape, ValueKind::input);
  ASSERT_TRUE(table.ok() && ids.ok());
  const auto node = graph.add_node(Op::gather, {*table, *ids}, {});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[batch, seq, 16]");
}

}  // namespace
}  // namespace graft::test::gather_test
