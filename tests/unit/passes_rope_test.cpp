// Rotary position embedding spelled out.
#include <gtest/gtest.h>

#include <cmath>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_rope_test {
namespace {

const std::vector<passes::Pass> kPasses = {passes::share_equal, passes::canonicalise_rope};

/// Cosines and sines of [tokens, 4] angles position * {1, second}, twice in a row.
std::string table(double (*of)(double), int tokens, double second) {
  std::string text;
  for (int i = 0; i < tokens; ++i) {
    for (int k = 0; k < 4; ++k) {
      text += cat(text.empty() ? "" : ", ", std::to_string(of(k % 2 == 0 ? i : i * second)));
    }
  }
  return text;
}
double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

std::string tables(std::string_view shape, int tokens, double second = 0.01) {
  return cat("constant c: f32", shape, " = ", table(cosine, tokens, second), "\nconstant s: f32", shape, " = ",
             table(sine, tokens, second), "\n");
}

// rotate_half() of LLaMA's code.
constexpr std::string_view kTurned = R"(
  l = slice(x) {ends=[2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
  h = slice(x) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 2], steps=[1, 1, 1, 1]}
  n = neg(h)
  r = concat(n, l) {axis=3}
)";
constexpr std::string_view kSum = "a = mul(x, c)\nb = mul(r, s)\ny = add(a, b)\noutput y\n";

TEST(PassesRope, TablesOfTokensBehindHeads) {
  expect_rewritten(kPasses, cat("input x: f32[2, 2, 3, 4]\n", tables("[1, 1, 3, 4]", 3), kTurned, kSum), R"(
    input x: f32[2, 2, 3, 4]
    transpose = transpose(x) {perm=[0, 2, 1, 3]} -> f32[2, 3, 2, 4]
    y~1 = rope(transpose) {theta=10000.0} -> f32[2, 3, 2, 4]
    y = transpose(y~1) {perm=[0, 2, 1, 3]} -> f32[2, 2, 3, 4]
    output y
  )",
                   {}, 1e-5);  // the table above has six decimals
}

TEST(PassesRope, TablesOfTokensBeforeHeads) {
  expect_rewritten(kPasses, cat("input x: f32[2, 3, 2, 4]\n", tables("[3, 1, 4]", 3), kTurned, kSum), R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, TablesByPosition) {
  expect_rewritten(kPasses,
                   cat("input x: f32[2, 3, 2, 4]\ninput p: i32[2, 3]\n", tables("[4, 4]", 4), R"(
    g = gather(c, p) {axis=0}
    i = gather(s, p) {axis=0}
    e = reshape(g) {shape=shape[2, 3, 1, 4]}
    f = reshape(i) {shape=shape[2, 3, 1, 4]}
  )",
                       kTurned, "a = mul(x, e)\nb = mul(f, r)\ny = add(b, a)\noutput y\n"),
                   R"(
    input x: f32[2, 3, 2, 4]
    input p: i32[2, 3]
    y = rope(x, p) {theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, AnglesOfPositions) {
  expect_rewritten(kPasses,
                   cat("input x: f32[2, 3, 2, 4]\ninput p: i32[2, 3]\nconstant w: f32[1, 1, 2] = 1.0, 0.125\n", R"(
    u = reshape(p) {shape=shape[2, 3, 1]}
    f = cast(u) {to=0}
    t = matmul(f, w)
    d = concat(t, t) {axis=2}
    g = cos(d)
    i = sin(d)
    e = reshape(g) {shape=shape[2, 3, 1, 4]}
    j = reshape(i) {shape=shape[2, 3, 1, 4]}
  )",
                       kTurned, "a = mul(x, e)\nb = mul(r, j)\ny = add(a, b)\noutput y\n"),
                   R"(
    input x: f32[2, 3, 2, 4]
    input p: i32[2, 3]
    constant w: f32[1, 1, 2] = 1.0, 0.125
    reshape = reshape(w) {shape=shape[2]} -> f32[2]
    y = rope(x, p, reshape) -> f32[2, 3, 2, 4]
    output y
  )");
}

TEST(PassesRope, OtherTablesAndTurns) {
  constexpr std::string_view kX = "input x: f32[2, 3, 2, 4]\n";
  // A table that ends elsewhere than its angles say; a turn the other way; halves that do not meet.
  std::string other = tables("[3, 1, 4]", 3);
  other.replace(other.rfind("0."), 4, "0.51");
  expect_kept({passes::canonicalise_rope}, cat(kX, other, kTurned, kSum));
  expect_kept({passes::canonicalise_rope},
              cat(kX, tables("[3, 1, 4]", 3), kTurned, "a = mul(x, c)\nb = mul(r, s)\ny = sub(a, b)\noutput y\n"));
  expect_kept({passes::canonicalise_rope}, cat(kX, tables("[3, 1, 4]", 3), R"(
    l = slice(x) {ends=[2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
    h = slice(x) {ends=[2147483647, 2147483647, 2147483647, 3], starts=[0, 0, 0, 1], steps=[1, 1, 1, 1]}
    n = neg(h)
    r = concat(n, l) {axis=3}
  )",
                                               kSum));
  // The turned half is an output.
  expect_kept({passes::canonicalise_rope}, cat(kX, tables("[3, 1, 4]", 3), kTurned, kSum, "output r\n"));
}

}  // namespace
}  // namespace graft::test::passes_rope_test
