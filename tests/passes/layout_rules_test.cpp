// What a reshape makes of an order of axes, against the elements themselves.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "runtime/core/op_id.gen.h"
#include "runtime/passes/layout_rules.h"
#include "tests/support/plan_checks.h"

namespace graft::passes::passes_layout_rules_test {
namespace {

using Sizes = std::vector<std::int64_t>;

/// The elements of a value of this shape, numbered as the graph names them, in the order in which they lie when it is
/// held in `order`.
std::vector<std::int64_t> held(const Sizes& sizes, const Order& order) {
  std::int64_t count = 1;
  for (const std::int64_t size : sizes) count *= size;
  std::vector<std::int64_t> elements(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Sizes at(sizes.size());
    std::int64_t rest = i;
    for (std::size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) at[axis] = rest % sizes[axis];
    std::int64_t place = 0;
    for (const std::uint8_t axis : order) place = place * sizes[axis] + at[axis];
    elements[static_cast<std::size_t>(place)] = i;
  }
  return elements;
}

/// Two shapes of the same elements: prime factors dealt out twice, with some axes of size 1.
std::pair<Sizes, Sizes> reshaped(std::mt19937& random) {
  Sizes factors(1 + random() % 4);
  for (std::int64_t& f : factors) f = random() % 3 == 0 ? 3 : 2;
  const auto deal = [&] {
    Sizes sizes = {1};
    for (const std::int64_t f : factors) {
      if (random() % 2 == 0) sizes.push_back(1);
      sizes.back() *= f;
    }
    if (sizes.size() < 4 && random() % 3 == 0) {
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(random() % (sizes.size() + 1)), 1);
    }
    return sizes;
  };
  return {deal(), deal()};
}

Shape shape_of(const Sizes& sizes) { return Shape(std::vector<Dim>(sizes.begin(), sizes.end())); }

TEST(LayoutRules, AReshapeLeavesTheElementsWhereTheyAre) {
  std::mt19937 random(3);
  std::size_t allowed = 0, refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    const auto [from, to] = reshaped(random);
    test::GraphMaker g;
    g.output("y", g.add(Op::reshape, {g.input("x", shape_of(from))}, {{"shape", shape_of(to)}}));
    const Node& node = g.graph.nodes()[0];
    const LayoutRules rules(g.graph);
    Order order = same_order(from.size());
    do {
      const auto lying = held(from, order);
      SCOPED_TRACE(testing::Message() << shape_of(from).text() << " in " << testing::PrintToString(order) << " to "
                                      << shape_of(to).text());
      // By trying all: the orders of the result that have its elements where they lie.
      std::vector<Order> fitting;
      Order other = same_order(to.size());
      do {
        if (held(to, other) == lying) fitting.push_back(other);
      } while (std::next_permutation(other.begin(), other.end()));
      if (!rules.allows(node, order)) {
        ++refused;
        EXPECT_TRUE(fitting.empty()) << "refused, though " << testing::PrintToString(fitting) << " would do";
        continue;
      }
      ++allowed;
      const Order out = rules.output_order(node, order, 0);
      EXPECT_NE(std::find(fitting.begin(), fitting.end(), out), fitting.end()) << testing::PrintToString(out);
      EXPECT_EQ(rules.attrs(node, order).shape("shape"), ordered(shape_of(to), out));
      // And back from there: an arrangement whose result is held so, or none.
      if (const auto back = rules.arrange_output(node, 0, out)) {
        EXPECT_EQ(rules.output_order(node, *back, 0), out);
      }
    } while (std::next_permutation(order.begin(), order.end()));
  }
  EXPECT_GT(allowed, 300u);
  EXPECT_GT(refused, 100u);
}

}  // namespace
}  // namespace graft::passes::passes_layout_rules_test
