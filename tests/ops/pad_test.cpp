#include <cmath>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::pad_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims dims, Ints pads, std::string mode, Dims out = {-1}, DType dtype = DType::f32,
           double value = 2.5) {
  return {.name = std::move(name),
          .op = Op::pad,
          .inputs = {{.dims = std::move(dims), .dtype = dtype, .low = -7, .high = 7}},
          .attrs = {{"pads", std::move(pads)}, {"mode", std::move(mode)}, {"value", value}},
          .tolerance = 1e-6,
          .reason = "forward is exact; the gradient adds up at most 30 numbers in f32",
          .gradient = dtype == DType::f32,
          .expect_dims = std::move(out)};
}

std::vector<OpCase> cases() {
  return {
      one("scalar", {}, {}, "constant", {}),
      one("nothing", {3, 4}, {0, 0, 0, 0}, "constant", {3, 4}),
      one("constant", {3, 4}, {1, 2, 0, 3}, "constant", {4, 9}),
      one("constant NHWC", {2, 4, 5, 3}, {0, 1, 1, 0, 0, 2, 1, 0}, "constant", {2, 7, 7, 3}),
      one("constant crop", {5, 6}, {-1, 2, -2, -3}, "constant", {2, 5}),
      one("constant crop to nothing", {5}, {-2, -3}, "constant", {0}),
      one("constant around nothing", {0, 2}, {1, 0, 2, 0}, "constant", {3, 2}),
      one("constant of rank 8", {2, 1, 2, 1, 2, 1, 2, 1}, {1, 0, 0, 1, 0, 1, -1, 1, 0, 1, 0, 0, 1, 0, 0, 0}, "constant",
          {3, 2, 2, 2, 3, 2, 1, 2}),
      one("reflect", {5}, {4, 3}, "reflect", {12}),
      one("reflect NHWC", {2, 4, 5, 3}, {0, 1, 2, 0, 0, 3, 4, 0}, "reflect", {2, 8, 11, 3}),
      one("reflect and crop", {6, 4}, {-2, 1, 3, -1}, "reflect", {7, 4}),
      one("reflect nothing", {2, 3}, {0, 0, 0, 0}, "reflect", {2, 3}),
      one("edge", {3}, {6, 5}, "edge", {14}),
      one("edge of one", {1, 2}, {2, 0, 3, 1}, "edge", {6, 3}),
      one("edge NHWC", {2, 3, 2, 3}, {0, 2, 1, 0, 0, 0, 3, 0}, "edge", {2, 5, 6, 3}),
      one("edge and crop", {6, 4}, {-2, 1, 3, -1}, "edge", {7, 4}),
      one("edge of rank 8", {2, 1, 2, 1, 2, 1, 2, 1}, {1, 0, 0, 1, 0, 1, -1, 1, 0, 1, 0, 0, 1, 0, 0, 0}, "edge",
          {3, 2, 2, 2, 3, 2, 1, 2}),
      one("edge empty beside", {3, 0}, {1, 0, 1, 0}, "edge", {5, 0}),
      one("integers", {3, 2}, {1, 1, 0, 1}, "constant", {4, 4}, DType::i32, -9),
      one("booleans", {3, 2}, {1, 1, 0, 1}, "edge", {4, 4}, DType::boolean, 1),
      {.name = "gradient of the gradient",
       .op = Op::pad_grad,
       .inputs = {{.dims = {5, 6}}},
       .attrs = {{"shape", Shape{3, 4}}, {"pads", Ints{1, 0, 1, 2}}, {"mode", std::string("reflect")}},
       .tolerance = 1e-6,
       .reason = "at most nine numbers are added up in f32",
       .expect_dims = {3, 4}},
  };
}
GRAFT_OP_CASES(Pad, cases());

TEST(PadInfer, RefusesBadAttributes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  expect_infer_error(one("bad", {3}, {1}, "constant"), "has 1 entries");
  expect_infer_error(one("bad", {3}, {1, 1}, "wrap"), "\"wrap\"");
  expect_infer_error(one("bad", {3}, {kMax, 1}, "constant"), "the limit is");
  expect_infer_error(one("bad", {3}, {1, std::numeric_limits<std::int64_t>::min()}, "constant"), "the limit is");
  expect_infer_error(one("bad", {3}, {-4, 0}, "constant"), "crop more than the 3");
  expect_infer_error(one("bad", {3}, {-4, 9}, "constant"), "crop more than the 3");
  expect_infer_error(one("bad", {3}, {3, 0}, "reflect"), "too large for the 3");
  expect_infer_error(one("bad", {3}, {-1, 2}, "reflect"), "too large for the 2");
  expect_infer_error(one("bad", {0}, {1, 0}, "edge"), "too large for the 0");
  expect_infer_error(one("bad", {3}, {1, 0}, "constant", {-1}, DType::i32, 0.5), "which is no i32");
  expect_infer_error(one("bad", {3}, {1, 0}, "constant", {-1}, DType::i32, 1e30), "which is no i32");
  expect_infer_error(one("bad", {3}, {1, 0}, "constant", {-1}, DType::boolean, 2), "which is no boolean");
  expect_infer_error(one("bad", {3}, {1, 0}, "constant", {-1}, DType::i32, std::nan("")), "which is no i32");
}

TEST(PadInfer, KeepsSymbolsOpen) {
  Graph graph;
  const auto x = graph.add_value("x", DType::f32, {Dim::symbol("batch"), 8}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto good = graph.add_node(Op::pad, {*x}, {{"pads", Ints{0, 1, 0, 1}}});
  ASSERT_TRUE(good.ok()) << good.status().message();
  EXPECT_EQ(graph.value(graph.node(*good).outputs[0]).shape.text(), "[batch, 10]");
  const auto longer = graph.add_node(Op::pad, {*x}, {{"pads", Ints{0, 1, 1, 1}}});
  ASSERT_TRUE(longer.ok()) << longer.status().message();
  EXPECT_EQ(graph.value(graph.node(*longer).outputs[0]).shape.text(), "[(batch+1), 10]");
}

}  // namespace
}  // namespace graft::test::pad_test
