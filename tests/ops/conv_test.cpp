// ctest: costly
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/choice.h"
#include "shaders/kernels.gen.h"
#include "tests/support/op_case.h"
#include "tests/support/run_graph.h"

namespace graft::test::conv_test {
namespace {

constexpr const char* kSums =
    "f32 sums of up to 1000 products: about sqrt(1000) roundings of 6e-8, relative to the result's size";

struct Window {
  Ints strides = {1, 1};
  Ints pads = {0, 0, 0, 0};
  Ints dilations = {1, 1};
  std::int64_t groups = 1;

  Attrs attrs() const { return {{"strides", strides}, {"pads", pads}, {"dilations", dilations}, {"groups", groups}}; }
};
using Dims = std::vector<std::int64_t>;

OpCase make(std::string name, Op op, std::vector<Dims> inputs, Attrs attrs, Dims y = {-1}) {
  OpCase c{.name = std::move(name), .op = op, .attrs = std::move(attrs), .tolerance = 2e-5, .reason = kSums};
  for (Dims& dims : inputs) c.inputs.push_back({.dims = std::move(dims)});
  c.expect_dims = std::move(y);
  return c;
}

OpCase conv(std::string name, Dims x, Dims w, Window window, Dims y, bool bias = true) {
  std::vector<Dims> inputs = {std::move(x), w};
  if (bias) inputs.push_back({w[0]});
  return make(std::move(name), Op::conv, std::move(inputs), window.attrs(), std::move(y));
}

std::vector<OpCase> conv_cases() {
  std::vector<OpCase> all = {
      conv("one pixel", {1, 1, 1, 1}, {1, 1, 1, 1}, {}, {1, 1, 1, 1}),
      conv("3x3", {2, 7, 9, 5}, {6, 3, 3, 5}, {}, {2, 5, 7, 6}),
      conv("3x3 without bias", {2, 7, 9, 5}, {6, 3, 3, 5}, {}, {2, 5, 7, 6}, false),
      conv("1x1", {2, 5, 6, 7}, {9, 1, 1, 7}, {}, {2, 5, 6, 9}),
      conv("1x1 of whole fours", {2, 4, 5, 8}, {12, 1, 1, 8}, {}, {2, 4, 5, 12}),
      conv("1x1 in groups", {2, 4, 5, 6}, {4, 1, 1, 3}, {.groups = 2}, {2, 4, 5, 4}),
      conv("1x1 strided", {2, 5, 6, 7}, {9, 1, 1, 7}, {.strides = {2, 3}}, {2, 3, 2, 9}),
      conv("1x1 of stride 2", {2, 6, 8, 8}, {12, 1, 1, 8}, {.strides = {2, 2}}, {2, 3, 4, 12}),
      conv("lines that end amid four columns", {3, 6, 13, 8}, {12, 3, 3, 8}, {.strides = {1, 2}, .pads = {1, 0, 1, 2}},
           {3, 6, 7, 12}),
      conv("5x5 of one channel", {2, 12, 12, 1}, {33, 5, 5, 1}, {}, {2, 8, 8, 33}),
      conv("same padding", {1, 6, 6, 3}, {4, 3, 3, 3}, {.pads = {1, 1, 1, 1}}, {1, 6, 6, 4}),
      conv("asymmetric padding", {1, 6, 5, 3}, {4, 3, 2, 3}, {.pads = {0, 2, 1, 0}}, {1, 5, 6, 4}),
      conv("strided", {2, 9, 8, 3}, {5, 3, 3, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}}, {2, 5, 4, 5}),
      conv("strides differ and leave a rest", {1, 10, 11, 2}, {3, 3, 2, 2}, {.strides = {3, 2}}, {1, 3, 5, 3}),
      conv("stride beyond the kernel", {1, 9, 9, 2}, {3, 2, 2, 2}, {.strides = {4, 3}}, {1, 2, 3, 3}),
      conv("dilated", {1, 9, 10, 3}, {4, 3, 3, 3}, {.dilations = {2, 3}}, {1, 5, 4, 4}),
      conv("dilated and strided", {1, 11, 12, 2}, {3, 3, 3, 2},
           {.strides = {2, 3}, .pads = {2, 1, 0, 3}, .dilations = {2, 2}}, {1, 5, 4, 3}),
      conv("dilation and stride share a factor", {1, 12, 12, 2}, {3, 3, 3, 2},
           {.strides = {4, 6}, .pads = {1, 2, 3, 4}, .dilations = {2, 4}}, {1, 3, 2, 3}),
      conv("groups", {2, 6, 7, 6}, {9, 3, 3, 2}, {.pads = {1, 1, 1, 1}, .groups = 3}, {2, 6, 7, 9}),
      conv("groups strided and dilated", {1, 9, 9, 4}, {6, 3, 3, 2},
           {.strides = {2, 2}, .pads = {1, 1, 1, 1}, .dilations = {2, 2}, .groups = 2}, {1, 4, 4, 6}),
      conv("whole image", {3, 4, 5, 6}, {7, 4, 5, 6}, {}, {3, 1, 1, 7}),
      conv("kernel reaches into the padding alone", {1, 2, 2, 1}, {2, 2, 2, 1}, {.pads = {2, 2, 2, 2}}, {1, 5, 5, 2}),
      conv("depthwise", {2, 7, 9, 5}, {5, 3, 3, 1}, {.pads = {1, 1, 1, 1}, .groups = 5}, {2, 7, 9, 5}),
      conv("depthwise strided", {2, 9, 10, 4}, {4, 3, 3, 1}, {.strides = {2, 2}, .pads = {1, 0, 1, 1}, .groups = 4},
           {2, 5, 5, 4}),
      conv("depthwise with a multiplier", {1, 6, 7, 3}, {6, 3, 2, 1}, {.strides = {1, 2}, .groups = 3}, {1, 4, 3, 6}),
      conv("depthwise dilated", {1, 10, 9, 3}, {3, 3, 3, 1},
           {.strides = {1, 2}, .pads = {2, 2, 1, 0}, .dilations = {2, 3}, .groups = 3}, {1, 9, 3, 3}),
      conv("depthwise wide kernel", {1, 5, 12, 2}, {2, 1, 7, 1}, {.pads = {0, 3, 0, 3}, .groups = 2}, {1, 5, 12, 2},
           false),
      conv("depthwise in whole vectors", {2, 7, 9, 8}, {8, 3, 3, 1}, {.pads = {1, 1, 1, 1}, .groups = 8}, {2, 7, 9, 8}),
      conv("depthwise of uneven pads", {1, 6, 9, 4}, {4, 3, 5, 1}, {.pads = {2, 0, 1, 4}, .groups = 4}, {1, 7, 9, 4}),
      conv("depthwise padded beyond the kernel", {1, 3, 4, 4}, {4, 2, 2, 1}, {.pads = {3, 2, 3, 4}, .groups = 4},
           {1, 8, 9, 4}),
      conv("depthwise strided along one axis", {1, 7, 11, 4}, {4, 3, 2, 1},
           {.strides = {1, 2}, .pads = {1, 1, 0, 1}, .groups = 4}, {1, 6, 6, 4}),
      conv("depthwise in blocks of columns", {1, 5, 140, 4}, {4, 3, 3, 1}, {.groups = 4}, {1, 3, 138, 4}, false),
      conv("few pixels under a large weight", {1, 2, 2, 340}, {344, 3, 3, 340}, {.pads = {1, 1, 1, 1}}, {1, 2, 2, 344},
           false),
      conv("no images", {0, 5, 5, 2}, {3, 3, 3, 2}, {}, {0, 3, 3, 3}),
      conv("depthwise no images", {0, 5, 5, 2}, {2, 3, 3, 1}, {.groups = 2}, {0, 3, 3, 2}),
  };
  OpCase split = conv("weight gradient split", {4, 24, 24, 2}, {3, 3, 3, 2}, {}, {4, 22, 22, 3});
  split.tolerance = 5e-5;
  split.reason =
      "the weight gradient sums 1936 products in f32: about 44 roundings of 6e-8, less in size than each part";
  all.push_back(split);
  split = conv("channels split", {1, 2, 2, 512}, {3, 2, 2, 512}, {}, {1, 1, 1, 3});
  split.tolerance = 5e-5;
  split.reason = "f32 sums of 2048 products: about 45 roundings of 6e-8 in the walk";
  all.push_back(split);
  return all;
}

OpCase transposed(std::string name, Dims x, Dims w, Window window, Dims y, Ints output_padding = {0, 0}) {
  Attrs attrs = window.attrs();
  attrs.set("output_padding", std::move(output_padding));
  return make(std::move(name), Op::conv_transpose, {std::move(x), std::move(w), {y[3]}}, std::move(attrs), y);
}

std::vector<OpCase> transpose_cases() {
  return {
      transposed("transposed 3x3", {2, 4, 5, 3}, {3, 3, 3, 4}, {}, {2, 6, 7, 4}),
      transposed("transposed strided", {1, 4, 5, 3}, {3, 3, 3, 4}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}},
                 {1, 7, 9, 4}),
      transposed("transposed with output padding", {1, 4, 5, 3}, {3, 3, 3, 4},
                 {.strides = {2, 3}, .pads = {1, 1, 1, 1}}, {1, 8, 15, 4}, {1, 2}),
      transposed("transposed stride beyond the kernel", {1, 3, 3, 2}, {2, 2, 2, 3}, {.strides = {3, 4}}, {1, 8, 10, 3}),
      transposed("transposed 1x1 of stride 2", {2, 3, 5, 4}, {4, 1, 1, 6}, {.strides = {2, 2}}, {2, 6, 10, 6}, {1, 1}),
      transposed("transposed 1x1 of stride 2 in whole vectors", {2, 5, 6, 32}, {32, 1, 1, 64}, {.strides = {2, 2}},
                 {2, 10, 12, 64}, {1, 1}),
      transposed("transposed strided in whole vectors", {2, 5, 6, 32}, {32, 3, 3, 64},
                 {.strides = {2, 2}, .pads = {1, 1, 1, 1}}, {2, 9, 11, 64}),
      transposed("transposed dilated", {1, 4, 4, 2}, {2, 3, 3, 3}, {.pads = {0, 1, 2, 0}, .dilations = {2, 2}},
                 {1, 6, 7, 3}),
      transposed("transposed groups", {1, 4, 5, 4}, {4, 3, 3, 3}, {.strides = {2, 1}, .groups = 2}, {1, 9, 7, 6}),
      transposed("transposed depthwise", {2, 4, 5, 3}, {3, 3, 3, 1}, {.strides = {2, 2}, .groups = 3}, {2, 9, 11, 3}),
      transposed("transposed output padding of a whole stride", {1, 3, 3, 2}, {2, 2, 2, 2}, {.dilations = {3, 3}},
                 {1, 8, 7, 2}, {2, 1}),
  };
}

std::vector<OpCase> grad_cases() {
  const auto shaped = [](Window window, const Dims& shape) {
    Attrs attrs = window.attrs();
    attrs.set("shape", Shape::of(shape));
    return attrs;
  };
  const Window strided = {.strides = {2, 2}, .pads = {1, 0, 1, 1}};
  const Window depthwise = {.pads = {1, 1, 1, 1}, .groups = 3};
  return {
      make("data gradient", Op::conv_grad_data, {{2, 4, 4, 5}, {5, 3, 3, 3}}, shaped(strided, {2, 8, 8, 3}),
           {2, 8, 8, 3}),
      make("weight gradient", Op::conv_grad_weight, {{2, 8, 8, 3}, {2, 4, 4, 5}}, shaped(strided, {5, 3, 3, 3}),
           {5, 3, 3, 3}),
      make("depthwise data gradient", Op::conv_grad_data, {{1, 5, 6, 3}, {3, 3, 3, 1}}, shaped(depthwise, {1, 5, 6, 3}),
           {1, 5, 6, 3}),
      make("depthwise weight gradient", Op::conv_grad_weight, {{1, 5, 6, 3}, {1, 5, 6, 3}},
           shaped(depthwise, {3, 3, 3, 1}), {3, 3, 3, 1}),
  };
}

std::vector<OpCase> cases() {
  std::vector<OpCase> all = conv_cases();
  for (OpCase& c : transpose_cases()) all.push_back(std::move(c));
  for (OpCase& c : grad_cases()) all.push_back(std::move(c));
  return all;
}
GRAFT_OP_CASES(Conv, cases());

// Lanes of eight channels, which small convolutions do not get: as if they had been measured to be the fastest.
void in_pairs(gpu::Target& target) {
  using shaders::KernelId;
  for (const KernelId kernel : {KernelId::conv_depthwise__f32, KernelId::conv_depthwise_grad_data__f32,
                                KernelId::conv_depthwise_grad_weight__f32}) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const ChoiceShape shape = {1u << (i % 10), 1u << (i / 10 % 10), 1u << (i / 100)};
      target.advice.tuned[choose(Family::depthwise, target, shape, {{kernel}}).key] = "window of pairs";
    }
  }
}

class DepthwisePairs : public testing::TestWithParam<OpCase> {};

TEST_P(DepthwisePairs, EightChannelsOfEachLane) {
  const EditedTarget edited(in_pairs);
  check_op_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    , DepthwisePairs,
    testing::Values(conv("one strip", {2, 7, 9, 8}, {8, 3, 3, 1}, {.pads = {1, 1, 1, 1}, .groups = 8}, {2, 7, 9, 8}),
                    conv("strided", {1, 9, 10, 24}, {24, 3, 2, 1},
                         {.strides = {2, 1}, .pads = {1, 0, 2, 1}, .groups = 24}, {1, 5, 10, 24}, false),
                    conv("whole vectors, but no pairs of them", {1, 5, 6, 12}, {12, 3, 3, 1}, {.groups = 12},
                         {1, 3, 4, 12})),
    op_case_name);

// Few channels, which small images leave to the product.
void in_lines(gpu::Target& target) {
  for (std::uint64_t i = 0; i < 1000; ++i) {
    const ChoiceShape shape = {1u << (i % 10), 1u << (i / 10 % 10), 1u << (i / 100)};
    const std::string key = choose(Family::few_channels, target, shape, {{shaders::KernelId::conv_grad_data__f32}}).key;
    target.advice.tuned[key] = "pixels across lanes";
  }
  for (const auto kernel : {shaders::KernelId::conv__f32, shaders::KernelId::conv_grad_data__f32,
                            shaders::KernelId::conv_grad_weight__f32}) {
    for (std::uint64_t i = 0; i < 4096; ++i) {
      const ChoiceShape shape = {1u << (i % 16), 1u << (i / 16 % 16), 1u << (i / 256)};
      target.advice.tuned[choose(Family::held_weights, target, shape, {{kernel}}).key] = "channels across lanes";
    }
  }
}

class FewChannels : public testing::TestWithParam<OpCase> {};

TEST_P(FewChannels, KernelsOfTheirOwn) {
  const EditedTarget edited(in_lines);
  check_op_case(GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    , FewChannels,
    testing::Values(
        conv("one channel", {2, 12, 12, 1}, {8, 5, 5, 1}, {}, {2, 8, 8, 8}),
        conv("two tiles of channels by fours", {1, 6, 20, 1}, {36, 5, 5, 1}, {.pads = {2, 1, 0, 3}}, {1, 4, 20, 36}),
        conv("three, by fours", {2, 5, 12, 3}, {12, 3, 3, 3}, {.pads = {1, 1, 1, 1}}, {2, 5, 12, 12}, false),
        conv("strips by fours", {2, 5, 20, 3}, {28, 3, 3, 3}, {.pads = {1, 1, 1, 1}}, {2, 5, 20, 28}),
        conv("strips in pieces", {1, 40, 8, 1}, {32, 3, 3, 1}, {.pads = {0, 1, 2, 1}}, {1, 40, 8, 32}, false),
        conv("strips of two tiles of channels", {1, 4, 8, 2}, {64, 3, 3, 2}, {.pads = {1, 2, 0, 0}}, {1, 3, 8, 64}),
        conv("more lines of weights than are held at once", {1, 12, 16, 3}, {9, 9, 5, 3}, {.pads = {0, 2, 0, 2}},
             {1, 4, 16, 9}),
        conv("three, in lines of no whole fours", {1, 5, 19, 3}, {4, 3, 3, 3}, {.pads = {1, 1, 1, 1}}, {1, 5, 19, 4}),
        conv("stride 2", {2, 10, 24, 3}, {4, 7, 7, 3}, {.strides = {2, 2}, .pads = {3, 3, 3, 3}}, {2, 5, 12, 4}),
        conv("strides differ", {1, 9, 18, 2}, {12, 3, 4, 2}, {.strides = {3, 2}, .pads = {1, 0, 0, 2}}, {1, 3, 9, 12}),
        conv("stride beyond the kernel", {1, 9, 17, 4}, {4, 2, 2, 4}, {.strides = {4, 4}}, {1, 2, 4, 4}),
        conv("wide padding above", {1, 3, 8, 1}, {4, 3, 3, 1}, {.pads = {4, 1, 3, 1}}, {1, 8, 8, 4}),
        transposed("transposed to three", {1, 4, 9, 8}, {8, 4, 4, 3}, {.strides = {2, 2}, .pads = {1, 1, 1, 1}},
                   {1, 8, 18, 3}),
        transposed("transposed to a line of four", {2, 3, 5, 4}, {4, 3, 3, 2}, {.pads = {1, 0, 1, 0}}, {2, 3, 7, 2})),
    op_case_name);

OpCase bad(Dims x, Dims w, Attrs attrs) {
  return make("bad", Op::conv, {std::move(x), std::move(w)}, std::move(attrs));
}

TEST(ConvInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(bad({1, 5, 5}, {4, 3, 3, 2}, {}), "rank");
  expect_infer_error(bad({1, 5, 5, 3}, {4, 3, 3, 2}, {}), "takes 2 channels per group");
  expect_infer_error(bad({1, 2, 5, 2}, {4, 3, 3, 2}, {}), "The padded height is 2, less than the 3");
  expect_infer_error(bad({1, 5, 5, 2}, {4, 3, 3, 2}, {{"strides", Ints{0, 1}}}), "\"strides\" holds 0");
  expect_infer_error(bad({1, 5, 5, 2}, {4, 3, 3, 2}, {{"strides", Ints{1}}}), "must hold 2 numbers");
  expect_infer_error(bad({1, 5, 5, 2}, {4, 3, 3, 2}, {{"pads", Ints{0, -1, 0, 0}}}), "\"pads\" holds -1");
  expect_infer_error(bad({1, 5, 5, 2}, {4, 3, 3, 2}, {{"dilations", Ints{std::int64_t{1} << 40, 1}}}), "dilations");
  expect_infer_error(bad({1, 5, 5, 2}, {4, 3, 3, 1}, {{"groups", std::int64_t{0}}}), "\"groups\" is 0");
  expect_infer_error(bad({1, 5, 5, 4}, {3, 3, 3, 2}, {{"groups", std::int64_t{2}}}), "groups");
  OpCase bias = bad({1, 5, 5, 2}, {4, 3, 3, 2}, {});
  bias.inputs.push_back({.dims = {3}});
  expect_infer_error(bias, "[4]");
}

TEST(ConvInfer, RefusesWrongTransposedSizes) {
  const auto refuse = [](Attrs attrs, const std::string& part) {
    expect_infer_error(make("bad", Op::conv_transpose, {{1, 2, 2, 2}, {2, 2, 2, 3}}, std::move(attrs)), part);
  };
  refuse({{"output_padding", Ints{1, 0}}}, "\"output_padding\" holds 1");
  refuse({{"pads", Ints{2, 0, 1, 0}}}, "would give 0 positions");
  refuse({{"groups", std::int64_t{3}}}, "in 3 groups");
}

TEST(ConvInfer, TakesASymbolicBatch) {
  Graph graph;
  const auto x = graph.add_value("x", DType::f32, {Dim::symbol("batch"), 8, 8, 3}, ValueKind::input);
  const auto w = graph.add_value("w", DType::f32, {4, 3, 3, 3}, ValueKind::parameter);
  ASSERT_TRUE(x.ok() && w.ok());
  const auto node = graph.add_node(Op::conv, {*x, *w});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[batch, 6, 6, 4]");
}

}  // namespace
}  // namespace graft::test::conv_test
