#include <cmath>

#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::resize_test {
namespace {

using Dims = std::vector<std::int64_t>;

OpCase one(std::string name, Dims dims, Ints sizes, Attrs attrs = {}) {
  attrs.set("sizes", std::move(sizes));
  return {.name = std::move(name),
          .op = Op::resize,
          .inputs = {{.dims = std::move(dims)}},
          .attrs = std::move(attrs),
          .tolerance = 1e-5,
          .reason = "interpolation rounds a few times in f32; gradients add up some dozen numbers"};
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all;
  const std::vector<Ints> sizes = {{8, 6}, {2, 9}, {3, 5}, {7, 1}, {4, 3}};
  const auto add = [&](const std::string& what, const Attrs& attrs) {
    for (const Ints& size : sizes) {
      all.push_back(one(cat(what, " to ", size[0], " by ", size[1]), {2, 4, 3, 2}, size, attrs));
    }
  };
  for (const char* coordinates : {"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"}) {
    const std::string c = coordinates;
    add("linear " + c, {{"mode", std::string("linear")}, {"coordinates", c}});
    for (const char* nearest : {"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"}) {
      add(cat(nearest, " ", c), {{"coordinates", c}, {"nearest", std::string(nearest)}});
    }
  }
  // Ratios that are not exact in binary, with coordinates that fall on whole numbers and halves.
  for (const char* nearest : {"round_prefer_floor", "floor", "ceil", "round_prefer_ceil"}) {
    all.push_back(one(cat("thirds ", nearest), {1, 15, 10, 1}, {9, 6},
                      {{"coordinates", std::string("asymmetric")}, {"nearest", std::string(nearest)}}));
    all.push_back(one(cat("f32 scales ", nearest), {1, 10, 10, 1}, {6, 8},
                      {{"coordinates", std::string("asymmetric")},
                       {"nearest", std::string(nearest)},
                       {"scale_h", static_cast<double>(0.6F)},
                       {"scale_w", static_cast<double>(0.8F)}}));
  }
  all.push_back(one("linear with scales", {1, 7, 5, 3}, {4, 12},
                    {{"mode", std::string("linear")}, {"scale_h", 0.6}, {"scale_w", 2.5}}));
  all.push_back(one("linear with an odd scale", {1, 7, 5, 3}, {9, 7},
                    {{"mode", std::string("linear")}, {"scale_h", 1.3717}, {"scale_w", 1.41421356}}));
  all.push_back(one("one pixel", {1, 1, 1, 2}, {5, 4}, {{"mode", std::string("linear")}}));
  all.push_back(one("many channels", {1, 3, 3, 40}, {6, 6}, {{"mode", std::string("linear")}}));
  all.push_back(one("no images", {0, 3, 3, 2}, {6, 6}));
  all.push_back({.name = "gradient of the gradient",
                 .op = Op::resize_grad,
                 .inputs = {{.dims = {1, 6, 6, 2}}},
                 .attrs = {{"sizes", Ints{6, 6}}, {"mode", std::string("linear")}, {"shape", Shape{1, 3, 4, 2}}},
                 .tolerance = 1e-5,
                 .reason = "a few roundings of f32"});
  for (OpCase& c : all) {
    // The odd scales are replaced by nearby ratios, off by up to 1e-7.
    if (c.name == "linear with an odd scale") c.reason = "scales become ratios within 1e-7, at positions up to 9";
  }
  return all;
}
GRAFT_OP_CASES(Resize, cases());

TEST(ResizeInfer, RefusesBadAttributes) {
  const auto bad = [](Attrs attrs, const std::string& part) {
    expect_infer_error(one("bad", {1, 4, 4, 1}, {8, 8}, std::move(attrs)), part);
  };
  bad({{"mode", std::string("cubic")}}, "\"cubic\"");
  bad({{"coordinates", std::string("tf_crop_and_resize")}}, "\"tf_crop_and_resize\"");
  bad({{"nearest", std::string("up")}}, "\"up\"");
  bad({{"scale_h", -2.0}}, "\"scale_h\" is -2");
  bad({{"scale_w", std::nan("")}}, "\"scale_w\" is nan");
  bad({{"scale_w", INFINITY}}, "\"scale_w\" is inf");
  expect_infer_error(one("bad", {1, 4, 4, 1}, {8}), "has 1 entries");
  expect_infer_error(one("bad", {1, 4, 4, 1}, {0, 8}), "from 4 to 0");
  expect_infer_error(one("bad", {1, 4, 4, 1}, {8, -1}), "from 4 to -1");
  expect_infer_error(one("bad", {1, 4, 4, 1}, {8, std::int64_t{1} << 62}), "from 4 to 4611686018427387904");
  expect_infer_error(one("bad", {1, 4, 4, 1}, {8, 1000000007}), "the limit is");
  expect_infer_error(one("bad", {1, 0, 4, 1}, {8, 8}), "from 0 to 8");
  expect_infer_error(one("bad", {4, 4, 1}, {8, 8}), "rank 4 is needed");
}

TEST(ResizeInfer, TakesASymbolicBatch) {
  Graph graph;
  const auto x = graph.add_value("x", DType::f32, {Dim::symbol("batch"), 4, 4, 3}, ValueKind::input);
  ASSERT_TRUE(x.ok());
  const auto node = graph.add_node(Op::resize, {*x}, {{"sizes", Ints{8, 2}}});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[batch, 8, 2, 3]");
}

}  // namespace
}  // namespace graft::test::resize_test
