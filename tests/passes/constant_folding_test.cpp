// Batch norms that become part of the weights before them, and what is computed once from weights alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "platform/base/text.h"
#include "runtime/core/graph_text.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/constant_folding.h"
#include "runtime/reference/interpreter.h"
#include "runtime/session/session.h"
#include "tests/support/device_test.h"
#include "tests/support/gpu_device.h"
#include "tests/support/parse_graph.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_constant_folding_test {
namespace {

using passes::PassGraph;
using passes::PrepareOptions;

const std::vector<passes::Pass> kFold = {[](const PassGraph& graph, const PrepareOptions&) {
  return passes::fold_batch_norms(graph, {.inference = true, .fixed_weights = true});
}};
const std::vector<passes::Pass> kEvaluationInTraining = {
    [](const PassGraph& graph, const PrepareOptions&) { return passes::fold_batch_norms(graph, {.inference = true}); }};

constexpr std::string_view kNorm = R"(
    parameter scale: f32[2]
    parameter shift: f32[2]
    constant mean: f32[2] = 0.5, -0.25
    constant var: f32[2] = 0.5, 2.0
)";
constexpr std::string_view kConv = R"(
    input x: f32[1, 4, 4, 3]
    parameter w: f32[2, 3, 3, 3]
)";

TEST(PassesBatchNorm, IsPartOfTheConvolutionBeforeIt) {
  expect_rewritten(kFold, cat(kConv, kNorm, R"(
    c = conv(x, w) {pads=[1, 1, 1, 1]}
    y = batch_norm(c, scale, shift, mean, var) {epsilon=0.001}
    output y
  )"),
                   cat(kConv, kNorm, R"(
    affine = affine(var) {alpha=1.0, beta=0.001} -> f32[2]
    rsqrt = rsqrt(affine) -> f32[2]
    mul = mul(scale, rsqrt) -> f32[2]
    neg = neg(mean) -> f32[2]
    reshape = reshape(mul) {shape=shape[2, 1, 1, 1]} -> f32[2, 1, 1, 1]
    c/folded weight = mul(w, reshape) -> f32[2, 3, 3, 3]
    mul_1 = mul(neg, mul) -> f32[2]
    c/folded bias = add(mul_1, shift) -> f32[2]
    y = conv(x, c/folded weight, c/folded bias) {pads=[1, 1, 1, 1]} -> f32[1, 4, 4, 2]
    output y
  )"));
}

/// What the pass makes of a graph; its results and gradients must be as before. No batch norm is left in it.
void expect_folded(std::string_view text, Op product) {
  auto parsed = parse_graph(text);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  auto made = kFold[0](PassGraph(parsed->graph), {});
  ASSERT_TRUE(made.ok()) << made.status().message();
  EXPECT_EQ(made->graph.nodes().back().op, product) << graph_text(made->graph);
  expect_rewritten(kFold, text, graph_text(made->graph));
}

TEST(PassesBatchNorm, TheProductsOwnBiasIsMovedAndScaled) {
  expect_folded(cat(kConv, kNorm, R"(
    parameter b: f32[2]
    c = conv(x, w, b)
    y = batch_norm(c, scale, shift, mean, var)
    output y
  )"),
                Op::conv);
  expect_folded(cat(kNorm, R"(
    input x: f32[1, 4, 4, 3]
    parameter w: f32[3, 2, 2, 2]
    parameter b: f32[2]
    c = conv_transpose(x, w, b) {strides=[2, 2]}
    y = batch_norm(c, scale, shift, mean, var)
    output y
  )"),
                Op::conv_transpose);
  for (const std::string_view product : {R"(
    parameter w: f32[3, 2]
    c = matmul(x, w)
  )",
                                         R"(
    parameter w: f32[2, 3]
    parameter b: f32[2]
    c = matmul(x, w, b) {trans_b=1}
  )"}) {
    expect_folded(cat("input x: f32[5, 3]\n", kNorm, product, "y = batch_norm(c, scale, shift, mean, var)\noutput y\n"),
                  Op::matmul);
  }
}

TEST(PassesBatchNorm, LooksThroughViewsThatKeepTheChannelsApart) {
  const std::string image = cat(kConv, kNorm, "c = conv(x, w)\n");  // [1, 2, 2, 2]
  expect_rewritten(kFold, cat(image, R"(
    r = reshape(c) {shape=shape[4, 2]}
    y = batch_norm(r, scale, shift, mean, var)
    output y
  )"),
                   cat(kConv, kNorm, R"(
    affine = affine(var) {alpha=1.0, beta=1e-05} -> f32[2]
    rsqrt = rsqrt(affine) -> f32[2]
    mul = mul(scale, rsqrt) -> f32[2]
    neg = neg(mean) -> f32[2]
    reshape = reshape(mul) {shape=shape[2, 1, 1, 1]} -> f32[2, 1, 1, 1]
    c/folded weight = mul(w, reshape) -> f32[2, 3, 3, 3]
    mul_1 = mul(neg, mul) -> f32[2]
    c/folded bias = add(mul_1, shift) -> f32[2]
    c = conv(x, c/folded weight, c/folded bias) -> f32[1, 2, 2, 2]
    y = reshape(c) {shape=shape[4, 2]} -> f32[4, 2]
    output y
  )"));
  // Channels first, the pixels as one axis, and back: as a network of one dimension is written.
  expect_folded(cat(image, R"(
    f = transpose(c) {perm=[0, 3, 1, 2]}
    r = reshape(f) {shape=shape[1, 2, 4]}
    l = transpose(r) {perm=[0, 2, 1]}
    y = batch_norm(l, scale, shift, mean, var)
    output y
  )"),
                Op::transpose);
  // The norm's axis is not the channels', or holds pixels as well.
  expect_kept(kFold, cat(image, R"(
    f = transpose(c) {perm=[0, 3, 1, 2]}
    y = batch_norm(f, scale, shift, mean, var)
    output y
  )"));
  expect_kept(kFold, cat(kConv, R"(
    parameter scale: f32[4]
    parameter shift: f32[4]
    constant mean: f32[4] = 0.5, -0.25, 0.125, 0.75
    constant var: f32[4] = 0.5, 2.0, 1.0, 0.25
    c = conv(x, w)
    r = reshape(c) {shape=shape[2, 4]}
    y = batch_norm(r, scale, shift, mean, var)
    output y
  )"));
}

TEST(PassesBatchNorm, StaysWhereItIsNoPartOfAWeight) {
  const std::string folds = cat(kConv, kNorm, R"(
    c = conv(x, w)
    y = batch_norm(c, scale, shift, mean, var)
    output y
  )");
  expect_kept(kEvaluationInTraining, folds);     // the weights change from step to step
  expect_kept(kFold, cat(folds, "output c\n"));  // somebody asks for the product
  expect_kept(kFold, folds, {"c"});              // or for a gradient with respect to it
  expect_kept(kFold, cat(kConv, kNorm, R"(
    c = conv(x, w)
    a = relu(c)
    y = batch_norm(a, scale, shift, mean, var)
    output y
  )"));
  expect_kept(kFold, cat(kConv, R"(
    input scale: f32[2]
    parameter shift: f32[2]
    constant mean: f32[2] = 0.5, -0.25
    constant var: f32[2] = 0.5, 2.0
    c = conv(x, w)
    y = batch_norm(c, scale, shift, mean, var)
    output y
  )"));
  // Each group's filters end in the same axis: no broadcast scales them apart.
  expect_kept(kFold, cat(kNorm, R"(
    input x: f32[1, 4, 4, 4]
    parameter w: f32[4, 2, 2, 1]
    c = conv_transpose(x, w) {groups=2, strides=[2, 2]}
    y = batch_norm(c, scale, shift, mean, var)
    output y
  )"));
}

passes::FoldedGraph folded(std::string_view text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  auto made = passes::fold_constants(parsed->graph);
  EXPECT_TRUE(made.ok()) << made.status().message();
  EXPECT_TRUE(validate(made->graph).ok());
  return std::move(*made);
}

TEST(ConstantFolding, PartsWhatIsComputedOnceFromWhatRuns) {
  const passes::FoldedGraph made = folded(R"(
    input x: f32[2, 3]
    parameter v: f32[3, 4]
    parameter g: f32[1, 4]
    n = reduce_l2(v) {axes=[0], keepdims=1}
    d = div(v, n)
    w = mul(d, g)
    y = matmul(x, w)
    output y
  )");
  EXPECT_EQ(graph_text(made.graph),
            "input x: f32[2, 3]\nconstant w: f32[3, 4]\ny = matmul(x, w) -> f32[2, 4]\noutput y\n");
  ASSERT_EQ(made.constants.size(), 1u);
  EXPECT_EQ(made.constants[0].name, "w");
  EXPECT_EQ(graph_text(made.constants[0].graph), R"(parameter v: f32[3, 4]
parameter g: f32[1, 4]
n = reduce_l2(v) {axes=[0], keepdims=1} -> f32[1, 4]
d = div(v, n) -> f32[3, 4]
w = mul(d, g) -> f32[3, 4]
output w
)");
}

TEST(ConstantFolding, LeavesWhatWouldTakeMoreMemoryOrMayChange) {
  for (const std::string_view text : {
           // A view costs nothing.
           "input x: f32[2, 3]\nparameter v: f32[12]\nw = reshape(v) {shape=shape[3, 4]}\ny = matmul(x, w)\noutput y\n",
           // Larger than the weights that it is made of.
           "input x: f32[2, 3]\nparameter v: f32[1, 4]\ne = expand(v) {shape=shape[3, 4]}\nw = exp(e)\n"
           "y = matmul(x, w)\noutput y\n",
           // The weight must stay for another reader.
           "input x: f32[3, 3]\nparameter v: f32[3, 3]\nw = exp(v)\na = matmul(x, w)\ny = matmul(a, v)\noutput y\n",
           // A number, and not made of weights.
           "input x: f32[2]\nc = full() {shape=shape[2], value=2.0}\ne = exp(c)\ny = mul(x, e)\noutput "
           "y\n",
       }) {
    auto parsed = parse_graph(text);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message() << text;
    EXPECT_TRUE(folded(text).constants.empty()) << text;
    EXPECT_EQ(graph_text(folded(text).graph), graph_text(parsed->graph));
  }
}

// A convolution with its batch norm, and a product with a matrix that is computed of a weight.
constexpr std::string_view kNetwork = R"(
    input x: f32[1, 4, 4, 3]
    parameter w: f32[64, 3, 3, 3]
    parameter b: f32[64]
    parameter scale: f32[64]
    parameter shift: f32[64]
    parameter mean: f32[64]
    parameter var: f32[64]
    parameter v: f32[64, 5]
    c = conv(x, w, b) {pads=[1, 1, 1, 1]}
    n = batch_norm(c, scale, shift, mean, var)
    a = relu(n)
    f = softplus(v)
    y = matmul(a, f)
    output y
)";

class FoldedSession : public DeviceTest {
 protected:
  FoldedSession() {
    auto parsed = parse_graph(kNetwork);
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    model_.graph = std::move(parsed->graph);
    std::mt19937 random(5);
    for (std::uint32_t v = 0; v < model_.graph.values().size(); ++v) {
      const Value& value = model_.graph.values()[v];
      if (value.kind == ValueKind::temporary) continue;
      std::vector<float> numbers(value.shape.elements());
      for (float& x : numbers) x = std::uniform_real_distribution<float>(value.name == "var" ? 0.5F : -1.0F, 1)(random);
      tensors_[value.name].data.assign(numbers.begin(), numbers.end());
      const auto bytes = std::as_bytes(std::span(numbers));
      if (value.kind == ValueKind::input) {
        input_.assign(bytes.begin(), bytes.end());
      } else {
        EXPECT_TRUE(model_.copy_weight({v}, bytes).ok());
      }
    }
    EXPECT_TRUE(interpret(model_.graph, tensors_).ok());
  }

  /// The largest error of the session's output.
  double run(const SessionOptions& options, bool streams) {
    auto session = Session::create(*device_, model_, options);
    EXPECT_TRUE(session.ok()) << session.status().message();
    if (!session.ok()) return 1e9;
    EXPECT_EQ(!(*session)->streaming().empty(), streams);
    EXPECT_FALSE((*session)->graph().find_value("var").valid());
    EXPECT_EQ((*session)->graph().find_node("n").valid(), false);
    EXPECT_TRUE((*session)->set_input("x", input_).ok());
    EXPECT_TRUE((*session)->run().ok());
    const auto output = (*session)->output("y");
    const std::vector<double>& want = tensors_["y"].data;
    EXPECT_EQ(output.size(), want.size() * sizeof(float));
    double worst = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      float number = 0;
      std::memcpy(&number, output.data() + i * sizeof number, sizeof number);
      worst = std::max(worst, std::abs(number - want[i]));
    }
    return worst;
  }

  Model model_;
  RefTensors tensors_;
  std::vector<std::byte> input_;
};

// Sums of 64 terms of about 1, each a sum of 27: some 1e-6 in f32; a hundred times 2^-8 in bf16 at worst.
TEST_F(FoldedSession, RunsWithWeightsThatAreComputedOnce) {
  SessionOptions options;
  EXPECT_LT(run(options, false), 1e-4);
  options.precision = DType::bf16;
  EXPECT_LT(run(options, false), 0.4);
}

TEST_F(FoldedSession, StreamsThemWithinABudget) {
  auto whole = Session::create(*device_, model_, {});
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  if (!device_->caps().unified_memory) GTEST_SKIP() << "Staging takes more here than streaming so few weights saves.";
  SessionOptions options;
  options.plan.budget = (*whole)->plan().memory.total() - 64;
  EXPECT_LT(run(options, true), 1e-4);
}

}  // namespace
}  // namespace graft::test::passes_constant_folding_test
