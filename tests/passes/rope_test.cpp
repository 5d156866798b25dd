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

// As YaRN stretches contexts: cosines and sines are multiplied by a number.
TEST(PassesRope, TablesWithAMagnitude) {
  const auto stretched = [](std::string_view name, double (*of)(double)) {
    std::string text;
    for (int i = 0; i < 3; ++i) {
      for (int k = 0; k < 4; ++k) {
        text += cat(text.empty() ? "" : ", ", std::to_string(1.25 * of(k % 2 == 0 ? i : i * 0.01)));
      }
    }
    return cat("constant ", name, ": f32[3, 1, 4] = ", text, "\n");
  };
  expect_rewritten(kPasses,
                   cat("input x: f32[2, 3, 2, 4]\n", stretched("c", cosine), stretched("s", sine), kTurned, kSum), R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {magnitude=1.25, theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);  // the table has six decimals
}

// The base of the angles is read off the second of two pairs.
TEST(PassesRope, TablesOfAnotherBase) {
  expect_rewritten(kPasses, cat("input x: f32[2, 3, 2, 4]\n", tables("[3, 1, 4]", 3, 0.1), kTurned, kSum), R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {theta=100.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
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

/// Cosines or sines of [3, 2], one for each pair.
std::string half_tables(std::string_view shape) {
  const auto of = [](double (*f)(double)) {
    std::string text;
    for (int i = 0; i < 3; ++i)
      text += cat(i == 0 ? "" : ", ", std::to_string(f(i)), ", ", std::to_string(f(i * 0.01)));
    return text;
  };
  return cat("constant c: f32", shape, " = ", of(cosine), "\nconstant s: f32", shape, " = ", of(sine), "\n");
}

// [a cos - b sin, a sin + b cos].
constexpr std::string_view kCrossed = R"(
  k = mul(a, c)
  l = mul(b, s)
  f = sub(k, l)
  n = mul(b, c)
  o = mul(s, a)
  g = add(n, o)
)";
constexpr std::string_view kHalves = R"(
  a = slice(x) {ends=[2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
  b = slice(x) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 2], steps=[1, 1, 1, 1]}
)";
constexpr std::string_view kNeighbours = R"(
  a = slice(x) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 0], steps=[1, 1, 1, 2]}
  b = slice(x) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 1], steps=[1, 1, 1, 2]}
)";
constexpr std::string_view kStacked = R"(
  d = reshape(f) {shape=shape[2, 3, 2, 2, 1]}
  e = reshape(g) {shape=shape[2, 3, 2, 2, 1]}
  h = concat(d, e) {axis=-1}
  y = reshape(h) {shape=shape[2, 3, 2, 4]}
  output y
)";
constexpr std::string_view kPlain = "input x: f32[2, 3, 2, 4]\n";

TEST(PassesRope, PartsOfEachPair) {
  expect_rewritten(kPasses,
                   cat(kPlain, half_tables("[3, 1, 2]"), kHalves, kCrossed, "y = concat(f, g) {axis=3}\noutput y\n"),
                   R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
  constexpr std::string_view kInterleaved = R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {interleaved=1, theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )";
  expect_rewritten(kPasses, cat(kPlain, half_tables("[3, 1, 2]"), kNeighbours, kCrossed, kStacked), kInterleaved, {},
                   1e-5);
  // Pairs on an axis of their own.
  expect_rewritten(kPasses,
                   cat(kPlain, half_tables("[1, 3, 1, 2]"), R"(
    p = reshape(x) {shape=shape[2, 3, 2, 2, 2]}
    q = slice(p) {ends=[2147483647, 2147483647, 2147483647, 2147483647, 1], starts=[0, 0, 0, 0, 0], steps=[1, 1, 1, 1, 1]}
    r = slice(p) {ends=[2147483647, 2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0, 1], steps=[1, 1, 1, 1, 1]}
    a = reshape(q) {shape=shape[2, 3, 2, 2]}
    b = reshape(r) {shape=shape[2, 3, 2, 2]}
  )",
                       kCrossed, kStacked),
                   kInterleaved, {}, 1e-5);
}

TEST(PassesRope, HeadsThatAreMergedBeforeAndAfter) {
  expect_rewritten({passes::canonicalise_rope, passes::merge_moves},
                   cat("input x: f32[2, 3, 8]\n", half_tables("[3, 1, 2]"), R"(
    p = reshape(x) {shape=shape[2, 3, 2, 2, 2]}
    q = slice(p) {ends=[2147483647, 2147483647, 2147483647, 2147483647, 1], starts=[0, 0, 0, 0, 0], steps=[1, 1, 1, 1, 1]}
    r = slice(p) {ends=[2147483647, 2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0, 1], steps=[1, 1, 1, 1, 1]}
    a = reshape(q) {shape=shape[2, 3, 2, 2]}
    b = reshape(r) {shape=shape[2, 3, 2, 2]}
  )",
                       kCrossed, R"(
    d = reshape(f) {shape=shape[2, 3, 2, 2, 1]}
    e = reshape(g) {shape=shape[2, 3, 2, 2, 1]}
    h = concat(d, e) {axis=4}
    y = reshape(h) {shape=shape[2, 3, 8]}
    output y
  )"),
                   R"(
    input x: f32[2, 3, 8]
    reshape = reshape(x) {shape=shape[2, 3, 2, 4]} -> f32[2, 3, 2, 4]
    y~1 = rope(reshape) {interleaved=1, theta=10000.0} -> f32[2, 3, 2, 4]
    y = reshape(y~1) {shape=shape[2, 3, 8]} -> f32[2, 3, 8]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, NeighboursTurnedByTablesOfTheirWidth) {
  // GPT-J: each cosine twice in a row, [-b, a] stacked.
  expect_rewritten(kPasses,
                   cat(kPlain, half_tables("[3, 1, 2]"), R"(
    u = reshape(c) {shape=shape[3, 1, 2, 1]}
    w = expand(u) {shape=shape[3, 1, 2, 2]}
    v = reshape(w) {shape=shape[3, 1, 4]}
    i = reshape(s) {shape=shape[3, 1, 2, 1]}
    j = expand(i) {shape=shape[3, 1, 2, 2]}
    t = reshape(j) {shape=shape[3, 1, 4]}
  )",
                       kNeighbours, R"(
    m = neg(b)
    d = reshape(m) {shape=shape[2, 3, 2, 2, 1]}
    e = reshape(a) {shape=shape[2, 3, 2, 2, 1]}
    h = concat(d, e) {axis=4}
    r = reshape(h) {shape=shape[2, 3, 2, 4]}
    k = mul(x, v)
    l = mul(r, t)
    y = add(k, l)
    output y
  )"),
                   R"(
    input x: f32[2, 3, 2, 4]
    y = rope(x) {interleaved=1, theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, HalfTablesByPositionOrOfAngles) {
  // As the RotaryEmbedding node of ONNX is imported.
  expect_rewritten(kPasses,
                   cat(kPlain, "input p: i32[1, 3]\n", half_tables("[3, 2]"), R"(
    t = gather(c, p) {axis=0}
    u = gather(s, p) {axis=0}
    v = reshape(t) {shape=shape[1, 3, 1, 2]}
    w = reshape(u) {shape=shape[1, 3, 1, 2]}
  )",
                       kHalves, R"(
    k = mul(a, v)
    l = mul(b, w)
    f = sub(k, l)
    n = mul(b, v)
    o = mul(a, w)
    g = add(n, o)
    y = concat(f, g) {axis=3}
    output y
  )"),
                   R"(
    input x: f32[2, 3, 2, 4]
    input p: i32[1, 3]
    reshape = reshape(p) {shape=shape[3]} -> i32[3]
    y = rope(x, reshape) {theta=10000.0} -> f32[2, 3, 2, 4]
    output y
  )",
                   {}, 1e-5);
  // transformers: frequencies times positions, then transposed.
  expect_rewritten(kPasses,
                   cat(kPlain, "input p: i32[2, 3]\nconstant q: f32[2] = 1.0, 0.125\n", R"(
    q1 = reshape(q) {shape=shape[1, 2, 1]}
    q2 = expand(q1) {shape=shape[2, 2, 1]}
    p1 = reshape(p) {shape=shape[2, 1, 3]}
    p2 = cast(p1) {to=0}
    t = matmul(q2, p2)
    u = transpose(t) {perm=[0, 2, 1]}
    d = concat(u, u) {axis=2}
    e = cos(d)
    i = sin(d)
    e1 = affine(e) {alpha=1.5, beta=0.0}
    i1 = affine(i) {alpha=1.5, beta=0.0}
    c = reshape(e1) {shape=shape[2, 3, 1, 4]}
    s = reshape(i1) {shape=shape[2, 3, 1, 4]}
  )",
                       kTurned, kSum),
                   R"(
    input x: f32[2, 3, 2, 4]
    input p: i32[2, 3]
    constant q: f32[2] = 1.0, 0.125
    y = rope(x, p, q) {magnitude=1.5} -> f32[2, 3, 2, 4]
    output y
  )");
}

TEST(PassesRope, ALeadingPartOfEachHead) {
  constexpr std::string_view kPart = R"(
    input z: f32[2, 3, 2, 6]
    x = slice(z) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
  )";
  const std::string turned =
      cat(kPart, tables("[3, 1, 4]", 3), kTurned, "a = mul(x, c)\nb = mul(r, s)\nt = add(a, b)\n");
  expect_rewritten(kPasses, cat(turned, R"(
    o = slice(z) {ends=[2147483647, 2147483647, 2147483647, 6], starts=[0, 0, 0, 4], steps=[1, 1, 1, 1]}
    y = concat(t, o) {axis=-1}
    output y
  )"),
                   R"(
    input z: f32[2, 3, 2, 6]
    y = rope(z) {rotated=4, theta=10000.0} -> f32[2, 3, 2, 6]
    output y
  )",
                   {}, 1e-5);
  // What follows is not what follows in it: only the part is a rotation.
  expect_rewritten(kPasses, cat(turned, R"(
    o = slice(z) {ends=[2147483647, 2147483647, 2147483647, 5], starts=[0, 0, 0, 3], steps=[1, 1, 1, 1]}
    y = concat(t, o) {axis=-1}
    output y
  )"),
                   R"(
    input z: f32[2, 3, 2, 6]
    x = slice(z) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]} -> f32[2, 3, 2, 4]
    t = rope(x) {theta=10000.0} -> f32[2, 3, 2, 4]
    o = slice(z) {ends=[2147483647, 2147483647, 2147483647, 5], starts=[0, 0, 0, 3], steps=[1, 1, 1, 1]} -> f32[2, 3, 2, 2]
    y = concat(t, o) {axis=-1} -> f32[2, 3, 2, 6]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, PartsThatAreMovedOneByOne) {
  // As many heads as tokens, so that a part that is moved otherwise still fits.
  constexpr std::string_view kParts = R"(
    u = slice(x) {ends=[2147483647, 2147483647, 2147483647, 2], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
    v = slice(x) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 2], steps=[1, 1, 1, 1]}
    a = transpose(u) {perm=[0, 2, 1, 3]}
  )";
  constexpr std::string_view kMoved = "b = transpose(v) {perm=[0, 2, 1, 3]}\n",
                             kUnmoved = "b = reshape(v) {shape=shape[2, 3, 3, 2]}\n";
  const std::string x = cat("input x: f32[2, 3, 3, 4]\n", half_tables("[3, 1, 2]"));
  constexpr std::string_view kJoined = "y = concat(f, g) {axis=3}\noutput y\n";
  expect_rewritten(kPasses, cat(x, kParts, kMoved, kCrossed, kJoined), R"(
    input x: f32[2, 3, 3, 4]
    transpose = transpose(x) {perm=[0, 2, 1, 3]} -> f32[2, 3, 3, 4]
    y = rope(transpose) {theta=10000.0} -> f32[2, 3, 3, 4]
    output y
  )",
                   {}, 1e-5);
  expect_kept({passes::canonicalise_rope}, cat(x, kParts, kUnmoved, kCrossed, kJoined));
  // A leading part, moved, and what follows it, moved as it is or not at all.
  const std::string leading = cat("input z: f32[2, 3, 3, 6]\n", half_tables("[3, 1, 2]"), R"(
    x = slice(z) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]}
  )",
                                  kParts, kMoved, kCrossed, R"(
    t = concat(f, g) {axis=3}
    w = slice(z) {ends=[2147483647, 2147483647, 2147483647, 6], starts=[0, 0, 0, 4], steps=[1, 1, 1, 1]}
  )");
  expect_rewritten(kPasses, cat(leading, "q = transpose(w) {perm=[0, 2, 1, 3]}\ny = concat(t, q) {axis=3}\noutput y\n"),
                   R"(
    input z: f32[2, 3, 3, 6]
    transpose_1 = transpose(z) {perm=[0, 2, 1, 3]} -> f32[2, 3, 3, 6]
    y = rope(transpose_1) {rotated=4, theta=10000.0} -> f32[2, 3, 3, 6]
    output y
  )",
                   {}, 1e-5);
  expect_rewritten(kPasses, cat(leading, "y = concat(t, w) {axis=3}\noutput y\n"), R"(
    input z: f32[2, 3, 3, 6]
    x = slice(z) {ends=[2147483647, 2147483647, 2147483647, 4], starts=[0, 0, 0, 0], steps=[1, 1, 1, 1]} -> f32[2, 3, 3, 4]
    transpose = transpose(x) {perm=[0, 2, 1, 3]} -> f32[2, 3, 3, 4]
    t = rope(transpose) {theta=10000.0} -> f32[2, 3, 3, 4]
    w = slice(z) {ends=[2147483647, 2147483647, 2147483647, 6], starts=[0, 0, 0, 4], steps=[1, 1, 1, 1]} -> f32[2, 3, 3, 2]
    y = concat(t, w) {axis=3} -> f32[2, 3, 3, 6]
    output y
  )",
                   {}, 1e-5);
}

TEST(PassesRope, PairsThatAreNone) {
  const auto stays = [](std::string_view parts, std::string_view crossed, std::string_view joined) {
    expect_kept({passes::canonicalise_rope}, cat(kPlain, half_tables("[3, 1, 2]"), parts, crossed, joined));
  };
  constexpr std::string_view kBehind = "y = concat(f, g) {axis=3}\noutput y\n";
  // Halves that are stacked, neighbours that are not, a turn the other way, one that is an output.
  stays(kHalves, kCrossed, kStacked);
  stays(kNeighbours, kCrossed, kBehind);
  stays(kHalves, R"(
    k = mul(a, c)
    l = mul(b, s)
    f = add(k, l)
    n = mul(b, c)
    o = mul(s, a)
    g = sub(n, o)
  )",
        kBehind);
  stays(kHalves, kCrossed, cat(kBehind, "output f\n"));
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
