// The walker: sums over uses, undone broadcasting, targets with cotangents, gradients of any value, and reasons.
#include "runtime/autodiff/autodiff.h"

#include <gtest/gtest.h>

#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/reference/interpreter.h"

namespace graft::autodiff_test {
namespace {

class AutodiffTest : public testing::Test {
 protected:
  ValueId input(const char* name, Shape shape, DType dtype = DType::f32, ValueKind kind = ValueKind::input) {
    auto id = graph_.add_value(name, dtype, std::move(shape), kind);
    EXPECT_TRUE(id.ok()) << id.status().message();
    return id.ok() ? *id : kNoValue;
  }

  std::vector<ValueId> gradients(const std::vector<Target>& targets, const std::vector<ValueId>& wrt) {
    EXPECT_TRUE(b_.status().ok()) << b_.status().message();
    auto result = add_gradients(graph_, targets, wrt);
    EXPECT_TRUE(result.ok()) << result.status().message();
    EXPECT_TRUE(validate(graph_).ok()) << validate(graph_).message();
    return result.ok() ? *result : std::vector<ValueId>();
  }

  std::vector<double> value(ValueId id, RefTensors feeds) {
    const Status status = interpret(graph_, feeds);
    EXPECT_TRUE(status.ok()) << status.message();
    return feeds[graph_.value(id).name].data;
  }

  std::string refusal(const std::vector<Target>& targets, const std::vector<ValueId>& wrt) {
    const auto result = add_gradients(graph_, targets, wrt);
    EXPECT_FALSE(result.ok());
    return result.ok() ? "" : result.status().message();
  }

  Graph graph_;
  Builder b_{graph_};
};

TEST_F(AutodiffTest, AddsUpEveryUse) {
  const ValueId x = input("x", {2});
  // y = x * x + x: dy/dx = 2x + 1.
  const ValueId y = b_.reduce_sum(b_.add(b_.mul(x, x), x), {}, false);
  const auto g = gradients({{y, kNoValue}}, {x});
  ASSERT_EQ(g.size(), 1u);
  EXPECT_EQ(value(g[0], {{"x", {{2}, {3, -1}}}}), (std::vector<double>{7, -1}));
}

TEST_F(AutodiffTest, UndoesBroadcasting) {
  const ValueId x = input("x", {2, 3});
  const ValueId bias = input("bias", {3}, DType::f32, ValueKind::parameter);
  const ValueId scale = input("scale", {2, 1}, DType::f32, ValueKind::parameter);
  const ValueId y = b_.reduce_sum(b_.mul(b_.add(x, bias), scale), {}, false);
  const auto g = gradients({{y, kNoValue}}, {bias, scale});
  ASSERT_EQ(g.size(), 2u);
  const RefTensors feeds = {
      {"x", {{2, 3}, {1, 2, 3, 4, 5, 6}}}, {"bias", {{3}, {1, 1, 1}}}, {"scale", {{2, 1}, {10, 100}}}};
  EXPECT_EQ(graph_.value(g[0]).shape.text(), "[3]");
  EXPECT_EQ(graph_.value(g[1]).shape.text(), "[2, 1]");
  EXPECT_EQ(value(g[0], feeds), (std::vector<double>{110, 110, 110}));
  EXPECT_EQ(value(g[1], feeds), (std::vector<double>{9, 18}));
}

TEST_F(AutodiffTest, TakesCotangentsSeveralTargetsAndIntermediateValues) {
  const ValueId x = input("x", {2});
  const ValueId seed = input("seed", {2});
  const ValueId middle = b_.mul(x, x);
  const ValueId top = b_.scale(middle, 3);
  const auto g = gradients({{top, seed}, {middle, seed}}, {middle, x});
  ASSERT_EQ(g.size(), 2u);
  const RefTensors feeds = {{"x", {{2}, {5, 7}}}, {"seed", {{2}, {1, 10}}}};
  EXPECT_EQ(value(g[0], feeds), (std::vector<double>{4, 40}));
  EXPECT_EQ(value(g[1], feeds), (std::vector<double>{40, 560}));
}

TEST_F(AutodiffTest, BackwardNodesRememberTheirForwardNode) {
  const ValueId x = input("x", {2});
  const ValueId y = b_.node(Op::exp, {x}, {}, "layer");
  const NodeId layer = graph_.find_node("layer");
  const std::size_t forward = graph_.nodes().size();
  gradients({{b_.reduce_sum(y, {}, false), kNoValue}}, {x});
  bool found = false;
  for (std::size_t i = forward; i < graph_.nodes().size(); ++i) found |= graph_.nodes()[i].forward_of == layer;
  EXPECT_TRUE(found);
}

TEST_F(AutodiffTest, LeavesOutWhatNobodyAskedFor) {
  const ValueId x = input("x", {64, 64});
  const ValueId w = input("w", {64, 64}, DType::f32, ValueKind::parameter);
  const ValueId y = b_.reduce_sum(b_.mul(x, w), {}, false);
  const std::size_t before = graph_.nodes().size();
  gradients({{y, kNoValue}}, {w});
  // The seed, the reduction's expansion and one product: none for x.
  std::size_t products = 0;
  for (std::size_t i = before; i < graph_.nodes().size(); ++i) products += graph_.nodes()[i].op == Op::mul;
  EXPECT_EQ(products, 1u);
}

TEST_F(AutodiffTest, SaysWhyThereIsNone) {
  const ValueId x = input("x", {2});
  const ValueId apart = input("apart", {2});
  const ValueId labels = input("labels", {2}, DType::i32);
  const ValueId y = b_.reduce_sum(b_.mul(x, x), {}, false);
  const ValueId rough = b_.reduce_sum(
      b_.node(Op::cast, {b_.node(Op::less, {apart, x}, {}, "compare")}, {{"to", std::int64_t{0}}}), {}, false);
  ASSERT_TRUE(b_.status().ok()) << b_.status().message();
  EXPECT_TRUE(differentiable(graph_, {{y, kNoValue}})[x.index]);
  EXPECT_FALSE(differentiable(graph_, {{y, kNoValue}})[apart.index]);
  EXPECT_FALSE(differentiable(graph_, {{rough, kNoValue}})[x.index]);
  EXPECT_NE(refusal({{y, kNoValue}}, {apart}).find("does not depend on it"), std::string::npos);
  EXPECT_NE(refusal({{y, kNoValue}}, {labels}).find("type i32"), std::string::npos);
  EXPECT_NE(refusal({{rough, kNoValue}}, {apart}).find("compare"), std::string::npos);
  EXPECT_NE(refusal({{x, kNoValue}}, {x}).find("needs a cotangent"), std::string::npos);
  EXPECT_NE(refusal({}, {x}).find("nothing to differentiate"), std::string::npos);
}

}  // namespace
}  // namespace graft::autodiff_test
