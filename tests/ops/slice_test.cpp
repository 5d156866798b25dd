#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::slice_test {
namespace {

constexpr std::int64_t kToEnd = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kToBegin = std::numeric_limits<std::int32_t>::min();
using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims dims, Ints starts, Ints ends, Ints steps, Dims out = {-1}, DType dtype = DType::f32) {
  return {.name = std::move(name),
          .op = Op::slice,
          .inputs = {{.dims = std::move(dims), .dtype = dtype, .low = -7, .high = 7}},
          .attrs = {{"starts", std::move(starts)}, {"ends", std::move(ends)}, {"steps", std::move(steps)}},
          .tolerance = 0,
          .reason = "elements are moved, not computed",
          .gradient = dtype == DType::f32,
          .expect_dims = std::move(out)};
}

std::vector<OpCase> cases() {
  return {
      one("scalar", {}, {}, {}, {}, {}),
      one("middle", {10}, {2}, {7}, {1}, {5}),
      one("whole", {3, 4}, {0, 0}, {kToEnd, kToEnd}, {1, 1}, {3, 4}),
      one("explicit end", {3, 4}, {0, 0}, {3, 4}, {1, 1}, {3, 4}),
      one("steps", {9, 7}, {1, 0}, {9, kToEnd}, {3, 2}, {3, 4}),
      one("reversed", {6}, {5}, {kToBegin}, {-1}, {6}),
      one("backwards by two", {4, 7}, {0, 5}, {4, 0}, {1, -2}, {4, 3}),
      one("backwards to the start", {7}, {6}, {-1}, {-3}, {3}),
      one("empty forwards", {5}, {3}, {2}, {1}, {0}),
      one("empty backwards", {5}, {2}, {3}, {-1}, {0}),
      one("past the end", {5}, {5}, {kToEnd}, {1}, {0}),
      one("of nothing", {0, 3}, {0, 1}, {kToEnd, 3}, {1, 1}, {0, 2}),
      one("nothing backwards", {0}, {-1}, {kToBegin}, {-1}, {0}),
      one("large step", {5}, {1}, {5}, {kToEnd}, {1}),
      one("rank 8", {2, 3, 2, 3, 2, 3, 2, 3}, {0, 1, 1, 2, 0, 0, 1, 2}, {2, 3, 2, kToBegin, 2, 3, 2, 0},
          {1, 1, 1, -1, 1, 2, 1, -1}, {2, 2, 1, 3, 2, 2, 1, 2}),
      one("integers", {10}, {9}, {2}, {-2}, {4}, DType::i32),
      {.name = "gradient of the gradient",
       .op = Op::slice_grad,
       .inputs = {{.dims = {3, 2}}},
       .attrs = {{"shape", Shape{6, 5}}, {"starts", Ints{0, 4}}, {"ends", Ints{kToEnd, 0}}, {"steps", Ints{2, -3}}},
       .tolerance = 0,
       .reason = "elements are moved, not computed",
       .expect_dims = {6, 5}},
  };
}
GRAFT_OP_CASES(Slice, cases());

TEST(SliceInfer, RefusesBadAttributes) {
  const auto bad = [](std::int64_t start, std::int64_t end, std::int64_t step, const std::string& part) {
    expect_infer_error(one("bad", {5}, {start}, {end}, {step}), part);
  };
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  bad(0, 5, 0, "step 0");
  bad(4, kToBegin, kMin, "fit 32 bits");
  bad(0, 5, kMax, "fit 32 bits");
  bad(-1, 5, 1, "starts at -1");
  bad(6, 6, 1, "starts at 6");
  bad(5, 0, -1, "starts at 5");
  bad(-2, -1, -1, "starts at -2");
  bad(kMin, 5, 1, "starts at");
  bad(0, 6, 1, "ends at 6");
  bad(0, -3, 1, "ends at -3");
  bad(4, -2, -1, "ends at -2");
  bad(0, kMin, 1, "ends at");
  expect_infer_error(one("bad", {5}, {0, 0}, {5}, {1}), "have 2, 1 and 1 entries");
}

TEST(SliceInfer, KeepsSymbolsOpen) {
  Graph graph;
  const auto x = graph.add_value("x", DType::f32, {Dim::symbol("batch"), 8}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto slice = [&](Ints starts, Ints ends) {
    return graph.add_node(Op::slice, {*x}, {{"starts", starts}, {"ends", ends}, {"steps", Ints{1, 1}}});
  };
  const auto good = slice({0, 2}, {kToEnd, 5});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(graph.value(graph.node(*good).outputs[0]).shape.text(), "[batch, 3]");
  const auto shorter = slice({1, 2}, {kToEnd, 5});
  ASSERT_TRUE(shorter.ok()) << shorter.status().message();
  EXPECT_EQ(graph.value(graph.node(*shorter).outputs[0]).shape.text(), "[(batch-1), 3]");
}

}  // namespace
}  // namespace graft::test::slice_test
