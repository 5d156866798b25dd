// Dimensions, shapes, broadcasting, axes.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "runtime/core/op_id.gen.h"
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

TEST(Dim, AddsUpInOneForm) {
  const Dim h = Dim::symbol("h");
  const Dim h2 = *add(h, Dim(2));
  EXPECT_EQ(h2.text(), "(h+2)");
  EXPECT_EQ(*subtract(h2, Dim(2)), h);
  EXPECT_EQ(subtract(h2, h2)->text(), "0");
  EXPECT_EQ(add(h2, h2)->text(), "2*(h+2)");
  EXPECT_EQ(*add(*multiply(Dim(2), h), Dim(4)), *multiply(Dim(2), h2)) << "the common divisor stands before the sum";
  EXPECT_EQ(add(*multiply(kBatch, h), *multiply(Dim(3), kSeq))->text(), "(batch*h+3*seq)");
  EXPECT_EQ(subtract(kSeq, h)->text(), "(-h+seq)");
  EXPECT_EQ(multiply(*multiply(kBatch, h2), Dim(5))->text(), "5*(h+2)*batch");
  EXPECT_FALSE(add(Dim(std::numeric_limits<std::int64_t>::max()), Dim(1)).has_value());
}

TEST(Dim, DividesDownInOneForm) {
  const Dim h = Dim::symbol("h");
  const auto half = [](const Dim& dim) { return *divide_floor(dim, 2); };
  EXPECT_EQ(half(h).text(), "(h//2)");
  EXPECT_EQ(half(*add(h, Dim(1))).text(), "((h+1)//2)");
  EXPECT_EQ(half(*add(h, Dim(4))).text(), "((h//2)+2)") << "what is divisible stands outside";
  EXPECT_EQ(half(*multiply(Dim(6), h)).text(), "3*h");
  EXPECT_EQ(half(*add(*multiply(Dim(2), h), kSeq)).text(), "((seq//2)+h)");
  EXPECT_EQ(half(*add(*multiply(Dim(2), h), Dim(-1))).text(), "(h-1)") << "down, not towards zero";
  EXPECT_EQ(half(half(h)), *divide_floor(h, 4)) << "a quotient of a quotient is one";
  EXPECT_EQ(half(half(*add(h, Dim(1)))).text(), "((h+1)//4)");
  EXPECT_EQ(divide_floor(*multiply(Dim(2), h), 4)->text(), "(h//2)");
  EXPECT_EQ(half(*multiply(Dim(-1), h)).text(), "-1*((h+1)//2)") << "taken away rounded down is added rounded up";
}

/// Whatever is put together, its value is that of the same steps in numbers, and its text reads back as the same.
TEST(Dim, SaysWhatNumbersSay) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const Bindings sizes = {{"h", 1 + random() % 9}, {"w", 1 + random() % 9}};
    std::vector<Dim> dims = {Dim::symbol("h"), Dim::symbol("w"), Dim(3)};
    std::vector<std::int64_t> values = {sizes.at("h"), sizes.at("w"), 3};
    for (int step = 0; step < 8; ++step) {
      const std::size_t a = random() % dims.size(), b = random() % dims.size();
      const auto n = static_cast<std::int64_t>(random() % 4 + 1);
      const std::int64_t floored = values[a] >= 0 ? values[a] / n : -((-values[a] + n - 1) / n);
      switch (random() % 4) {
        case 0: dims.push_back(add(dims[a], dims[b]).value()), values.push_back(values[a] + values[b]); break;
        case 1: dims.push_back(subtract(dims[a], dims[b]).value()), values.push_back(values[a] - values[b]); break;
        case 2: dims.push_back(multiply(dims[a], Dim(n)).value()), values.push_back(values[a] * n); break;
        default: dims.push_back(divide_floor(dims[a], n).value()), values.push_back(floored); break;
      }
      const Dim& last = dims.back();
      const auto bound = bind(last, sizes);
      ASSERT_TRUE(bound.ok());
      ASSERT_EQ(*bound, Dim(values.back())) << last.text();
      const auto read = Dim::parse(last.text());
      ASSERT_TRUE(read.ok()) << last.text();
      ASSERT_EQ(*read, last) << last.text();
      const auto least_value = least(last);
      ASSERT_TRUE(!least_value || *least_value <= values.back()) << last.text();
      if (last.text().size() > 150) break;
    }
  }
}

TEST(Dim, KnowsItsLeastValueAndItsNames) {
  const Dim h = Dim::symbol("h");
  EXPECT_EQ(least(*add(h, Dim(2))), 3);
  EXPECT_EQ(least(*add(h, Dim(-3))), std::nullopt) << "nothing says that it is not negative";
  EXPECT_EQ(least(*divide_floor(*add(h, Dim(3)), 4)), 1);
  EXPECT_EQ(least(*subtract(h, kSeq)), std::nullopt);
  const Dim rest = *subtract(h, *multiply(Dim(4), *divide_floor(h, 4)));
  EXPECT_EQ(least(rest), 0) << "what a quotient leaves";
  EXPECT_EQ(least(*subtract(Dim(4), rest)), 1);
  const Dim both = *multiply(kBatch, *add(*multiply(h, kSeq), *divide_floor(h, 2)));
  EXPECT_EQ(both.names(), (std::vector<std::string>{"batch", "h", "seq"}));
  EXPECT_TRUE(h.is_symbol());
  EXPECT_FALSE(both.is_symbol());
}

/// What is made can be read again: the limits of both are the same.
TEST(Dim, EndsWhereItsTextWouldNotBeRead) {
  Dim dim = Dim::symbol("h");
  bool ended = false;
  for (int i = 0; i < 200 && !ended; ++i) {
    const auto more = add(*multiply(dim, Dim::symbol("w")), Dim(1));
    const auto next = more ? divide_floor(*more, 3) : std::nullopt;
    ended = !next;
    if (ended) break;
    dim = *next;
    const auto read = Dim::parse(dim.text());
    ASSERT_TRUE(read.ok()) << dim.text();
    EXPECT_EQ(*read, dim);
  }
  EXPECT_TRUE(ended);
  const std::int64_t least_number = std::numeric_limits<std::int64_t>::min();
  EXPECT_FALSE(add(Dim::symbol("h"), Dim(least_number)).has_value());
  EXPECT_FALSE(divide_floor(*multiply(Dim(least_number), Dim::symbol("h")), 6).has_value());
  EXPECT_FALSE(Dim::parse("((-9223372036854775808*h+1)//6)").ok());
}

TEST(Dim, RefusesTextsThatAreNone) {
  for (const char* text :
       {"(h", "h)", "(h+)", "((h+1)/2)", "(h//0)", "(h//-2)", "(h//w)", "()", "(h++1)", "(h+1)(w+1)", "+", "h+1"}) {
    EXPECT_FALSE(Dim::parse(text).ok()) << text;
  }
  std::string deep = "h";
  for (int i = 0; i < 20; ++i) deep = "((w*" + deep + "+1)//3)";
  EXPECT_FALSE(Dim::parse(deep).ok());
  EXPECT_FALSE(Dim::parse(std::string(100000, '(')).ok());
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
  const auto failed = broadcast(Shape({2, 3}), Shape({4, 3}));
  ASSERT_FALSE(failed.ok());
  EXPECT_NE(failed.status().message().find("2 meets 4"), std::string::npos) << failed.status().message();
  // Open sizes may turn out to be one.
  EXPECT_EQ(broadcast(Shape({2, 3}), Shape({kBatch, 3}))->text(), "[2, 3]");
  EXPECT_EQ(broadcast(Shape({*multiply(Dim(2), kBatch), 3}), Shape({kSeq, 3}))->text(), "[seq, 3]");
  EXPECT_FALSE(one_size(Dim(2), Dim(3)).has_value());
  EXPECT_TRUE(one_shape(Shape({kBatch, 3}), Shape({kSeq, 3})));
  EXPECT_FALSE(one_shape(Shape({kBatch, 3}), Shape({kBatch, 4})) || one_shape(Shape({3}), Shape({3, 1})));
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

// The second of two open sizes that the model takes for one: where a feature map meets a smaller one, enlarged.
TEST(Shape, OpenSizesThatMeetAreOneOnceTheyAreBound) {
  Graph graph;
  const auto input = [&](const char* name, const Dim& rows) {
    return *graph.add_value(name, DType::f32, {rows, 3}, ValueKind::input);
  };
  const ValueId a = input("a", Dim::symbol("m")), b = input("b", *multiply(Dim(2), Dim::symbol("n")));
  const auto sum = graph.add_node(Op::add, {a, b}, {}, "sum");
  ASSERT_TRUE(sum.ok()) << sum.status().message();
  const auto joined = graph.add_node(Op::concat, {a, b}, {{"axis", std::int64_t{1}}}, "joined");
  ASSERT_TRUE(joined.ok()) << joined.status().message();
  EXPECT_EQ(graph.value(graph.node(*joined).outputs[0]).shape.text(), "[m, 6]");
  graph.add_output("y", graph.node(*sum).outputs[0]);
  const auto fits = bind(graph, {{"m", 4}, {"n", 2}});
  ASSERT_TRUE(fits.ok()) << fits.status().message();
  EXPECT_EQ(fits->value(fits->outputs()[0].value).shape.text(), "[4, 3]");
  EXPECT_NE(bind(graph, {{"m", 4}, {"n", 3}}).status().message().find("4 meets 6"), std::string::npos);
  // A 1 would broadcast, but the model says that the result has m rows.
  const auto one = bind(graph, {{"m", 1}, {"n", 3}});
  ASSERT_FALSE(one.ok());
  EXPECT_NE(one.status().message().find("are 1 and 6"), std::string::npos) << one.status().message();
}

}  // namespace
}  // namespace graft::core_shape_test
