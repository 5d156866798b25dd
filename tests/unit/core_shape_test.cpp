// Dimensions as monomials, shapes, broadcasting, axes.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/core/shape.h"
#include "runtime/passes/bind.h"

namespace graft::core_shape_test {
namespace {

const Dim kBatch = Dim::symbol("batch");
const Dim kSeq = Dim::symbol("seq");

TEST(Dim, MultipliesAndDividesSymbols) {
  const Dim product = *multiply(*multiply(Dim(4), kSeq), kBatch);
  EXPECT_EQ(product.text(), "4*batch*seq");
  EXPECT_EQ(divide_exactly(product, *multiply(Dim(2), kSeq))->text(), "2*batch");
  EXPECT_FALSE(divide_exactly(product, Dim(3)).has_value());
  EXPECT_FALSE(divide_exactly(Dim(8), kBatch).has_value());
  EXPECT_FALSE(divide_exactly(product, Dim(0)).has_value());
  EXPECT_EQ(divide_exactly(*multiply(kBatch, kBatch), kBatch)->text(), "batch");
}

TEST(Dim, SeesOverflow) { EXPECT_FALSE(multiply(Dim(std::int64_t{1} << 40), Dim(std::int64_t{1} << 40)).has_value()); }

TEST(Dim, TextRoundTrips) {
  for (const char* text : {"7", "batch", "4*batch*seq", "batch*batch"}) {
    const auto dim = Dim::parse(text);
    ASSERT_TRUE(dim.ok()) << dim.status().message();
    EXPECT_EQ(dim->text(), text);
  }
  EXPECT_EQ(Dim::parse("seq*3*batch")->text(), "3*batch*seq");
  for (const char* text : {"", "4 batch", "a-b", "9223372036854775807*3", "2x", "*"}) {
    EXPECT_FALSE(Dim::parse(text).ok()) << text;
  }
}

TEST(Shape, CountsElementsAndRefusesTooMany) {
  EXPECT_EQ(Shape({2, 3, 4}).element_count()->value(), 24);
  EXPECT_EQ(Shape().element_count()->value(), 1);
  EXPECT_EQ(Shape({5, 0, 3}).element_count()->value(), 0);
  EXPECT_EQ(Shape({kBatch, 3}).element_count()->text(), "3*batch");
  const std::int64_t big = std::int64_t{1} << 62;
  EXPECT_FALSE(Shape({big, 2}).element_count().ok());
  EXPECT_FALSE(Shape({big, 0, 4}).element_count().ok()) << "a zero must not hide an overflow";
  EXPECT_FALSE(Shape({-1}).element_count().ok());
}

TEST(Shape, BroadcastsLikeNumPy) {
  EXPECT_EQ(broadcast(Shape({kBatch, 1, 5}), Shape({4, 1}))->text(), "[batch, 4, 5]");
  EXPECT_EQ(broadcast(Shape(), Shape({3}))->text(), "[3]");
  EXPECT_EQ(broadcast(Shape({1}), Shape({0}))->text(), "[0]");
  const auto failed = broadcast(Shape({2, 3}), Shape({kBatch, 3}));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find("2 meets batch"), std::string::npos) << failed.status().message();
}

TEST(Shape, BindsSymbols) {
  const Shape shape({*multiply(Dim(2), kBatch), kSeq, 3});
  EXPECT_EQ(bind(shape, {{"batch", 4}, {"seq", 5}})->text(), "[8, 5, 3]");
  EXPECT_EQ(bind(shape, {{"batch", 4}})->text(), "[8, seq, 3]");
  EXPECT_FALSE(bind(Shape({*multiply(Dim(std::int64_t{1} << 40), kBatch)}), {{"batch", std::int64_t{1} << 40}}).ok());
}

TEST(Shape, NormalizesAxes) {
  EXPECT_EQ(*normalize_axis(-1, 3), 2u);
  EXPECT_EQ(*normalize_axis(0, 3), 0u);
  EXPECT_FALSE(normalize_axis(3, 3).ok());
  EXPECT_FALSE(normalize_axis(-4, 3).ok());
  EXPECT_FALSE(normalize_axis(std::numeric_limits<std::int64_t>::min(), 3).ok());
}

}  // namespace
}  // namespace graft::core_shape_test
