// What inputs must be by who reads them, and sessions that refuse what they are not.
#include "runtime/passes/input_rules.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "platform/base/text.h"
#include "runtime/session/session.h"
#include "tests/support/device_test.h"
#include "tests/support/parse_graph.h"

namespace graft::test::passes_input_rules_test {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinite = std::numeric_limits<float>::infinity();

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& numbers) {
  return std::as_bytes(std::span(numbers));
}

/// The rule of the input "x" of a graph, nullopt where it has none.
std::optional<passes::InputRule> rule(std::string_view text) {
  auto parsed = parse_graph(text);
  EXPECT_TRUE(parsed.ok()) << parsed.status().message();
  for (passes::InputRule& rule : passes::input_rules(parsed->graph)) {
    if (rule.input == "x") return rule;
  }
  return std::nullopt;
}

/// Of an i32 input: "least..most, ignored".
std::string range(std::string_view text) {
  const auto found = rule(text);
  if (!found) return "none";
  return cat(found->least, "..", found->most, found->ignored ? cat(", ", *found->ignored) : "");
}

TEST(InputRules, IndicesNameRowsAndClasses) {
  EXPECT_EQ(range("input x: i32[2, 3]\nparameter t: f32[7, 4]\ny = gather(t, x) {axis=0}\noutput y\n"), "-7..6");
  EXPECT_EQ(range("input x: i32[2, 3]\nparameter t: f32[7, 4]\ny = gather(t, x) {axis=-1}\noutput y\n"), "-4..3");
  EXPECT_EQ(range("input x: i32[2]\ninput z: f32[2, 5]\ny = cross_entropy(z, x) {ignore_index=-1}\noutput y\n"),
            "0..4, -1");
  EXPECT_EQ(range("input x: i32[2]\ninput z: f32[2, 3]\nparameter w: f32[5, 3]\n"
                  "y = linear_cross_entropy(z, w, x)\noutput y\n"),
            "0..4, -100");
  // Views hold the same numbers; of two readers the narrower counts.
  EXPECT_EQ(
      range("input x: i32[2, 3]\nparameter t: f32[7, 4]\nparameter s: f32[5, 4]\nr = reshape(x) {shape=shape[6]}\n"
            "a = gather(t, r) {axis=0}\nb = gather(s, r) {axis=0}\ny = add(a, b)\noutput y\n"),
      "-5..4");
  // What is computed with first may be anything.
  EXPECT_EQ(range("input x: i32[2]\ninput k: i32[2]\nparameter t: f32[7, 4]\ns = add(x, k)\ny = gather(t, s) {axis=0}\n"
                  "output y\n"),
            "none");
}

TEST(InputRules, NumbersAreFiniteExceptMasks) {
  const auto plain = rule("input x: f32[2]\ny = exp(x)\noutput y\n");
  ASSERT_TRUE(plain);
  EXPECT_FALSE(plain->infinity);
  const auto mask = rule("input x: f32[2, 3]\ninput s: f32[2, 3]\na = add(s, x)\ny = softmax(a) {axis=1}\noutput y\n");
  ASSERT_TRUE(mask);
  EXPECT_TRUE(mask->infinity);
  EXPECT_FALSE(rule("input x: f32[2]\ny = is_nan(x)\noutput y\n"));

  const std::vector<float> numbers = {0, -3e38F, -kInfinite, kNan};
  EXPECT_EQ(passes::find_offence(*plain, bytes_of(numbers)), 2u);
  EXPECT_EQ(passes::find_offence(*mask, bytes_of(numbers)), 3u);
  EXPECT_EQ(passes::offence_text(*plain, bytes_of(numbers), 2, {2, 2}),
            "holds -inf at [1, 0], but numbers must be finite.");
}

TEST(InputRules, EveryPlaceIsLookedAt) {
  const auto found = rule("input x: i32[9000]\nparameter t: f32[7, 4]\ny = gather(t, x) {axis=0}\noutput y\n");
  ASSERT_TRUE(found);
  std::vector<std::int32_t> indices(9000, 6);
  EXPECT_FALSE(passes::find_offence(*found, bytes_of(indices)));
  for (const std::size_t i : {0, 4095, 4096, 8999}) {  // the ends of the blocks that are looked at together
    for (const std::int32_t wrong : {7, -8, INT32_MAX, INT32_MIN}) {
      indices[i] = wrong;
      EXPECT_EQ(passes::find_offence(*found, bytes_of(indices)), i);
    }
    indices[i] = -7;
  }
  EXPECT_FALSE(passes::find_offence(*found, bytes_of(indices)));
  indices[5000] = 7;
  EXPECT_EQ(passes::offence_text(*found, bytes_of(indices), 5000, {9000}), "holds 7 at [5000], but \"t\" has 7 rows.");
}

TEST(InputRules, OfNoRowsNoneIsTaken) {
  const auto found = rule("input x: i32[2]\nparameter t: f32[0, 4]\ny = gather(t, x) {axis=0}\noutput y\n");
  ASSERT_TRUE(found);
  EXPECT_EQ(passes::find_offence(*found, bytes_of(std::vector<std::int32_t>{0, 0})), 0u);
}

class RefusedInputs : public DeviceTest {
 protected:
  RefusedInputs() {
    auto parsed = parse_graph(
        "input ids: i32[3]\ninput x: f32[3, 2]\nparameter table: f32[4, 2]\ng = gather(table, ids) {axis=0}\n"
        "y = add(g, x)\noutput y\n");
    EXPECT_TRUE(parsed.ok()) << parsed.status().message();
    model_.graph = std::move(parsed->graph);
    EXPECT_TRUE(model_.copy_weight(model_.graph.find_value("table"), bytes_of(std::vector<float>(8, 1))).ok());
  }
  Model model_;
};

TEST_F(RefusedInputs, AreNamedAndChangeNothing) {
  auto session = Session::create(*device_, model_, {});
  ASSERT_TRUE(session.ok()) << session.status().message();
  const std::vector<std::int32_t> ids = {0, 3, -1}, wrong_ids = {0, 4, 0};
  const std::vector<float> x = {1, 2, 3, 4, 5, 6}, wrong_x = {0, 0, 0, kNan, 0, 0};
  ASSERT_TRUE((*session)->set_input("ids", bytes_of(ids)).ok());
  ASSERT_TRUE((*session)->set_input("x", bytes_of(x)).ok());
  EXPECT_EQ((*session)->set_input("ids", bytes_of(wrong_ids)).message(),
            "The input \"ids\" holds 4 at [1], but \"table\" has 4 rows.");
  EXPECT_EQ((*session)->set_input("x", bytes_of(wrong_x)).message(),
            "The input \"x\" holds nan at [1, 1], but numbers must be finite.");
  ASSERT_TRUE((*session)->run().ok());
  const auto y = (*session)->output("y");
  ASSERT_EQ(y.size(), 24u);
  const float* numbers = reinterpret_cast<const float*>(y.data());
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(numbers[i], x[i] + 1);
}

TEST_F(RefusedInputs, AreTakenWhereThatIsAskedFor) {
  auto session = Session::create(*device_, model_, {.allow_non_finite = true});
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE((*session)->set_input("x", bytes_of(std::vector<float>(6, kNan))).ok());
  EXPECT_FALSE((*session)->set_input("ids", bytes_of(std::vector<std::int32_t>{0, 0, 9})).ok());
}

}  // namespace
}  // namespace graft::test::passes_input_rules_test
