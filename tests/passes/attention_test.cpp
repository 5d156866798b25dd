// Attention as exporters spell it becomes the op; masks are told apart by their contents.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_attention_test {
namespace {

const std::vector<passes::Pass> kPasses = {passes::canonicalise_attention, passes::merge_moves};

// Queries, keys and values [batch 2, heads 2, tokens 3, head 4] of tokens [2, 3, 2, 4].
constexpr std::string_view kOperands = R"(
  input a: f32[2, 3, 2, 4]
  input b: f32[2, 3, 2, 4]
  input c: f32[2, 3, 2, 4]
)";
constexpr std::string_view kHeads = R"(
  q = transpose(a) {perm=[0, 2, 1, 3]}
  k = transpose(b) {perm=[0, 2, 3, 1]}
  v = transpose(c) {perm=[0, 2, 1, 3]}
)";
constexpr std::string_view kMixed = R"(
  w = softmax(m) {axis=3}
  o = matmul(w, v)
  y = transpose(o) {perm=[0, 2, 1, 3]}
  output y
)";

/// The op on tokens, with nothing moved.
std::string whole(std::string_view more_inputs, std::string_view attrs) {
  return cat(kOperands, more_inputs, "y, o:1 = attention(a, b, c) {", attrs,
             "} -> f32[2, 3, 2, 4], f32[2, 3, 2]\noutput y\n");
}

void becomes(std::string_view constants, std::string_view scores, std::string_view attrs) {
  expect_rewritten(kPasses, cat(kOperands, constants, kHeads, scores, kMixed), whole("", attrs));
}

TEST(PassesAttention, ScalesOnEitherSide) {
  becomes("", "s = matmul(q, k)\nm = affine(s) {alpha=0.5, beta=0.0}\n", "causal=0, scale=0.5, window=0");
  becomes("", "h = affine(q) {alpha=0.25, beta=0.0}\nm = matmul(h, k)\n", "causal=0, scale=0.25, window=0");
  becomes("", R"(
    h = affine(q) {alpha=0.5, beta=0.0}
    i = affine(k) {alpha=0.5, beta=0.0}
    m = matmul(h, i)
  )",
          "causal=0, scale=0.25, window=0");
  becomes("", "m = matmul(q, k)\n", "causal=0, scale=1.0, window=0");
}

constexpr std::string_view kAdded = "constant t: f32[3, 3] = 0.0, -inf, -inf, 0.0, 0.0, -inf, 0.0, 0.0, 0.0\n";
constexpr std::string_view kScaled = "s = matmul(q, k)\nh = affine(s) {alpha=0.5, beta=0.0}\n";

TEST(PassesAttention, CausalMasks) {
  constexpr std::string_view kCausal = "causal=1, scale=0.5, window=0";
  becomes(kAdded, cat(kScaled, "m = add(h, t)\n"), kCausal);
  becomes(R"(
    constant t: boolean[1, 1, 3, 3] = 0, 1, 1, 0, 0, 1, 0, 0, 0
    constant f: f32[] = -10000.0
  )",
          cat(kScaled, "m = where(t, f, h)\n"), kCausal);
  becomes(R"(
    constant t: boolean[3, 3] = 1, 0, 0, 1, 1, 0, 1, 1, 1
    constant f: f32[] = -inf
  )",
          cat(kScaled, "m = where(t, h, f)\n"), kCausal);
  // OpenAI's GPT-2: scores * b - 1e4 * (1 - b).
  becomes(R"(
    constant t: f32[3, 3] = 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0
    constant f: f32[3, 3] = 0.0, 10000.0, 10000.0, 0.0, 0.0, 10000.0, 0.0, 0.0, 0.0
  )",
          cat(kScaled, "n = mul(h, t)\nm = sub(n, f)\n"), kCausal);
  // A part of a larger triangle, compared with 0, as networks of any length are exported.
  becomes(R"(
    constant t: f32[1, 4, 4] = 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0, 1.0, 1.0
    constant z: f32[] = 0.0
    constant f: f32[] = -inf
  )",
          cat(kScaled, R"(
    p = slice(t) {ends=[1, 3, 3], starts=[0, 0, 0], steps=[1, 1, 1]}
    e = equal(p, z)
    m = where(e, f, h)
  )"),
          kCausal);
  // As Trilu of a constant is imported.
  becomes(R"(
    constant t: boolean[3, 3] = 0, 1, 1, 0, 0, 1, 0, 0, 0
    constant i: f32[] = -inf
    constant z: f32[] = 0.0
  )",
          cat("u = where(t, i, z)\n", kScaled, "m = add(u, h)\n"), kCausal);
  // A part of a larger mask that begins neither at its first row nor at its first column, every second column of it.
  becomes(R"(
    constant t: f32[4, 6] = 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0, 0.0, 9.0, -inf, 9.0, -inf, 9.0, 0.0, 9.0, 0.0, 9.0, -inf, 9.0, 0.0, 9.0, 0.0, 9.0, 0.0
  )",
          cat(kScaled, R"(
    p = slice(t) {ends=[4, 6], starts=[1, 1], steps=[1, 2]}
    m = add(h, p)
  )"),
          kCausal);
  // Put together of parts beside each other, and below each other.
  becomes(R"(
    constant t: f32[2, 1] = 0.0, 0.0
    constant r: f32[2, 2] = -inf, -inf, 0.0, -inf
    constant l: f32[1, 3] = 0.0, 0.0, 0.0
  )",
          cat(kScaled, R"(
    p = concat(t, r) {axis=1}
    n = concat(p, l) {axis=0}
    m = add(h, n)
  )"),
          kCausal);
  // Numbers taken for booleans, and turned around.
  becomes(R"(
    constant t: f32[3, 3] = 2.0, 0.0, 0.0, -1.0, 0.5, 0.0, 1.0, 1.0, 3.0
    constant f: f32[] = -inf
  )",
          cat(kScaled, "p = cast(t) {to=2}\nm = where(p, h, f)\n"), kCausal);
  becomes(R"(
    constant t: f32[3, 3] = 2.0, 0.0, 0.0, -1.0, 0.5, 0.0, 1.0, 1.0, 3.0
    constant f: f32[] = -inf
  )",
          cat(kScaled, "p = cast(t) {to=2}\nn = logical_not(p)\nm = where(n, f, h)\n"), kCausal);
}

TEST(PassesAttention, BooleansThatBecomeNumbers) {
  becomes(R"(
    constant t: boolean[3, 3] = 1, 0, 0, 1, 1, 0, 1, 1, 1
  )",
          cat(kScaled, R"(
    n = logical_not(t)
    f = cast(n) {to=0}
    g = affine(f) {alpha=-10000.0, beta=0.0}
    m = add(h, g)
  )"),
          "causal=1, scale=0.5, window=0");
}

TEST(PassesAttention, AnAxisThatIsNotPartedIsTheBatch) {
  expect_rewritten(kPasses, R"(
    input q: f32[2, 3, 4]
    input k: f32[2, 5, 4]
    input v: f32[2, 5, 4]
    s = matmul(q, k) {trans_b=1}
    w = softmax(s) {axis=2}
    y = matmul(w, v)
    output y
  )",
                   R"(
    input q: f32[2, 3, 4]
    input k: f32[2, 5, 4]
    input v: f32[2, 5, 4]
    transpose = reshape(q) {shape=shape[2, 3, 1, 4]} -> f32[2, 3, 1, 4]
    transpose_1 = reshape(k) {shape=shape[2, 5, 1, 4]} -> f32[2, 5, 1, 4]
    transpose_2 = reshape(v) {shape=shape[2, 5, 1, 4]} -> f32[2, 5, 1, 4]
    y~1, y:1 = attention(transpose, transpose_1, transpose_2) {causal=0, scale=1.0, window=0} -> f32[2, 3, 1, 4], f32[2, 3, 1]
    y = reshape(y~1) {shape=shape[2, 3, 4]} -> f32[2, 3, 4]
    output y
  )");
}

TEST(PassesAttention, AWindowIsABand) {
  becomes("constant t: f32[3, 3] = 0.0, -inf, -inf, 0.0, 0.0, -inf, -inf, 0.0, 0.0\n", cat(kScaled, "m = add(h, t)\n"),
          "causal=1, scale=0.5, window=2");
}

TEST(PassesAttention, BatchAndHeadsAsOneAxis) {
  // fairseq: reshaped after heads came first.
  expect_rewritten(kPasses, cat(kOperands, R"(
    q = transpose(a) {perm=[0, 2, 1, 3]}
    k = transpose(b) {perm=[0, 2, 1, 3]}
    v = transpose(c) {perm=[0, 2, 1, 3]}
    d = reshape(q) {shape=shape[4, 3, 4]}
    e = reshape(k) {shape=shape[4, 3, 4]}
    f = reshape(v) {shape=shape[4, 3, 4]}
    s = matmul(d, e) {trans_b=1}
    w = softmax(s) {axis=2}
    p = matmul(w, f)
    o = reshape(p) {shape=shape[2, 2, 3, 4]}
    y = transpose(o) {perm=[0, 2, 1, 3]}
    output y
  )"),
                   cat(kOperands, R"(
    y, p:1 = attention(a, b, c) {causal=0, scale=1.0, window=0} -> f32[2, 3, 2, 4], f32[2, 3, 2]
    output y
  )"));
  // nn.MultiheadAttention: tokens first, so that all heads of all items are heads of one.
  expect_rewritten(kPasses, R"(
    input a: f32[3, 4, 4]
    q = transpose(a) {perm=[1, 0, 2]}
    k = transpose(a) {perm=[1, 2, 0]}
    s = matmul(q, k)
    w = softmax(s) {axis=2}
    o = matmul(w, q)
    y = transpose(o) {perm=[1, 0, 2]}
    output y
  )",
                   R"(
    input a: f32[3, 4, 4]
    transpose = reshape(a) {shape=shape[1, 3, 4, 4]} -> f32[1, 3, 4, 4]
    transpose_1 = reshape(a) {shape=shape[1, 3, 4, 4]} -> f32[1, 3, 4, 4]
    transpose_2 = reshape(a) {shape=shape[1, 3, 4, 4]} -> f32[1, 3, 4, 4]
    o~1, o:1 = attention(transpose, transpose_1, transpose_2) {causal=0, scale=1.0, window=0} -> f32[1, 3, 4, 4], f32[1, 3, 4]
    y = reshape(o~1) {shape=shape[3, 4, 4]} -> f32[3, 4, 4]
    output y
  )");
}

TEST(PassesAttention, SeveralQueryHeadsReadOneKeyHead) {
  expect_rewritten(kPasses, R"(
    input a: f32[2, 3, 4, 4]
    input b: f32[2, 3, 2, 4]
    q = transpose(a) {perm=[0, 2, 1, 3]}
    k = transpose(b) {perm=[0, 2, 1, 3]}
    i = reshape(k) {shape=shape[2, 2, 1, 3, 4]}
    e = expand(i) {shape=shape[2, 2, 2, 3, 4]}
    r = reshape(e) {shape=shape[2, 4, 3, 4]}
    f = expand(i) {shape=shape[2, 2, 2, 3, 4]}
    v = reshape(f) {shape=shape[2, 4, 3, 4]}
    s = matmul(q, r) {trans_b=1}
    w = softmax(s) {axis=3}
    o = matmul(w, v)
    y = transpose(o) {perm=[0, 2, 1, 3]}
    output y
  )",
                   R"(
    input a: f32[2, 3, 4, 4]
    input b: f32[2, 3, 2, 4]
    y, o:1 = attention(a, b, b) {causal=0, scale=1.0, window=0} -> f32[2, 3, 4, 4], f32[2, 3, 4]
    output y
  )");
}

TEST(PassesAttention, AMaskThatIsDataIsAnInput) {
  // BERT: 1 for tokens, 0 for padding.
  constexpr std::string_view kPadding = "input p: i32[2, 1, 1, 3]\n";
  constexpr std::string_view kMask = "f = cast(p) {to=0}\nt = affine(f) {alpha=10000.0, beta=-10000.0}\n";
  expect_rewritten({passes::canonicalise_attention, passes::merge_moves},
                   cat(kOperands, kPadding, kHeads, kMask, kScaled, "m = add(h, t)\n", kMixed),
                   cat(kOperands, kPadding, R"(
    f = cast(p) {to=0} -> f32[2, 1, 1, 3]
    t = affine(f) {alpha=10000.0, beta=-10000.0} -> f32[2, 1, 1, 3]
    y, o:1 = attention(a, b, c, _, t) {causal=0, scale=0.5, window=0} -> f32[2, 3, 2, 4], f32[2, 3, 2]
    output y
  )"));
}

// Every query sees one key at least.
constexpr std::string_view kSeen = R"(
  constant n: boolean[1, 1, 3, 3] = 1, 0, 0, 0, 1, 0, 0, 0, 1
  input p: boolean[2, 1, 3, 3]
)";

TEST(PassesAttention, BooleansThatAreData) {
  constexpr std::string_view kEither = "g = logical_or(p, n)\n";
  const auto one = [&](std::string_view scores, std::string_view affine) {
    expect_rewritten(kPasses, cat(kOperands, kSeen, "constant i: f32[] = -inf\n", kHeads, kScaled, scores, kMixed),
                     cat(kOperands, kSeen, R"(
    g = logical_or(p, n) -> boolean[2, 1, 3, 3]
  )",
                         affine, R"(
    y, o:1 = attention(a, b, c, _, affine) {causal=0, scale=0.5, window=0} -> f32[2, 3, 2, 4], f32[2, 3, 2]
    output y
  )"));
  };
  one(cat(kEither, "m = where(g, h, i)\n"), R"(
    cast = cast(g) {to=0} -> f32[2, 1, 3, 3]
    affine = affine(cast) {alpha=3.4028234663852886e+38, beta=-3.4028234663852886e+38} -> f32[2, 1, 3, 3]
  )");
  one(cat(kEither, "j = logical_not(g)\nm = where(j, i, h)\n"), R"(
    j = logical_not(g) -> boolean[2, 1, 3, 3]
    cast = cast(j) {to=0} -> f32[2, 1, 3, 3]
    affine = affine(cast) {alpha=-3.4028234663852886e+38, beta=0.0} -> f32[2, 1, 3, 3]
  )");
}

constexpr std::string_view kBias = "constant u: f32[3, 3] = 0.5, 1.0, -1.0, 0.25, 0.0, 2.0, -0.5, 1.5, 1.0\n";

TEST(PassesAttention, PaddingAndABias) {
  // Keys that are padding for all queries, a bias for each pair of tokens, and a triangle.
  expect_rewritten(
      kPasses,
      cat(kOperands, kAdded, "input p: boolean[2, 1, 1, 3]\n", kBias,
          "constant n: boolean[1, 1, 1, 3] = 1, 0, 0\nconstant i: f32[] = -1e9\n", kHeads, kScaled, R"(
    g = logical_or(p, n)
    e = add(h, u)
    d = add(e, t)
    m = where(g, d, i)
  )",
          kMixed),
      cat(kOperands, "input p: boolean[2, 1, 1, 3]\n", kBias, "constant n: boolean[1, 1, 1, 3] = 1, 0, 0\n", R"(
    g = logical_or(p, n) -> boolean[2, 1, 1, 3]
    cast = cast(g) {to=0} -> f32[2, 1, 1, 3]
    affine = affine(cast) {alpha=1e+09, beta=-1e+09} -> f32[2, 1, 1, 3]
    add = add(u, affine) -> f32[2, 1, 3, 3]
    y, o:1 = attention(a, b, c, _, add) {causal=1, scale=0.5, window=0} -> f32[2, 3, 2, 4], f32[2, 3, 2]
    output y
  )"));
}

void stays(std::string_view constants, std::string_view scores, std::string_view after = "",
           const std::vector<std::string>& pinned = {}) {
  expect_kept({passes::canonicalise_attention}, cat(kOperands, constants, kHeads, scores, kMixed, after), pinned);
}

TEST(PassesAttention, WhatItIsNot) {
  // A mask that a step may change, a gradient asked of one, one that was scaled with the scores, a softmax over
  // queries.
  stays("parameter t: f32[3, 3]\n", cat(kScaled, "m = add(h, t)\n"));
  stays("input t: f32[3, 3]\n", cat(kScaled, "m = add(h, t)\n"), "", {"t"});
  stays("input t: f32[3, 3]\n", "s = matmul(q, k)\nh = add(s, t)\nm = affine(h) {alpha=0.5, beta=0.0}\n");
  // A number in the place of scores that queries do not all hide: one that sees no key would weigh all alike. A number
  // that hides nothing.
  stays("constant t: boolean[3, 3] = 1, 1, 1, 0, 1, 1, 0, 0, 1\nconstant f: f32[] = -1e9\n",
        cat(kScaled, "m = where(t, h, f)\n"));
  stays("input t: boolean[2, 1, 3, 3]\nconstant f: f32[] = -1e9\n", cat(kScaled, "m = where(t, h, f)\n"));
  stays("input t: boolean[2, 1, 1, 3]\nconstant f: f32[] = -8.0\n", cat(kScaled, "m = where(t, h, f)\n"));
  expect_kept({passes::canonicalise_attention}, cat(kOperands, kHeads, R"(
    m = matmul(q, k)
    w = softmax(m) {axis=2}
    y = matmul(w, v)
    output y
  )"));
}

TEST(PassesAttention, WeightsThatAreAskedForStay) {
  stays("", cat(kScaled, "m = affine(h) {alpha=1.0, beta=0.0}\n"), "output w\n");
  stays(kAdded, cat(kScaled, "m = add(h, t)\n"), "", {"h"});
  stays(kAdded, cat(kScaled, "m = add(h, t)\n"), "z = exp(w)\noutput z\n");
}

}  // namespace
}  // namespace graft::test::passes_attention_test
