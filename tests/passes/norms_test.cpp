// Layer, RMS, group and instance norm as exporters spell them.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_norms_test {
namespace {

const std::vector<passes::Pass> kNorms = {passes::canonicalise_norms};
const std::vector<passes::Pass> kGroupNorm = {passes::canonicalise_norms, passes::canonicalise_group_norm};

constexpr std::string_view kLayerNorm = R"(
  input x: f32[3, 5]
  parameter w: f32[5]
  parameter b: f32[5]
  m = reduce_mean(x) {axes=[-1], keepdims=1}
  c = sub(x, m)
  q = square(c)
  v = reduce_mean(q) {axes=[1], keepdims=1}
  e = affine(v) {alpha=1.0, beta=0.125}
  d = sqrt(e)
  n = div(c, d)
  s = mul(n, w)
  y = add(s, b)
)";

TEST(PassesNorms, LayerNormAsPyTorchExportsIt) {
  expect_rewritten(kNorms, cat(kLayerNorm, "output y\n"), R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    parameter b: f32[5]
    y, y:1, y:2 = layer_norm(x, w, b) {axis=1, epsilon=0.125} -> f32[3, 5], f32[3], f32[3]
    output y
  )");
}

TEST(PassesNorms, WithoutAnEpsilon) {
  expect_rewritten(kNorms, R"(
    input x: f32[3, 5]
    m = reduce_mean(x) {axes=[-1], keepdims=1}
    c = sub(x, m)
    q = square(c)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    d = sqrt(v)
    y = div(c, d)
    output y
  )",
                   R"(
    input x: f32[3, 5]
    y, y:1, y:2 = layer_norm(x) {axis=1, epsilon=0.0} -> f32[3, 5], f32[3], f32[3]
    output y
  )");
}

TEST(PassesNorms, OnlyWhatIsThereOfScaleAndShift) {
  // The normalised value is an output of its own: scale and shift stay outside.
  expect_rewritten(kNorms, cat(kLayerNorm, "output n\noutput y\n"), R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    parameter b: f32[5]
    n, n:1, n:2 = layer_norm(x) {axis=1, epsilon=0.125} -> f32[3, 5], f32[3], f32[3]
    s = mul(n, w) -> f32[3, 5]
    y = add(s, b) -> f32[3, 5]
    output n
    output y
  )");
}

TEST(PassesNorms, LayerNormOverSeveralAxesByRsqrt) {
  expect_rewritten(kNorms, R"(
    input x: f32[2, 3, 5]
    parameter w: f32[3, 5]
    m = reduce_mean(x) {axes=[1, 2], keepdims=1}
    c = sub(x, m)
    q = mul(c, c)
    v = reduce_mean(q) {axes=[1, 2], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    r = rsqrt(e)
    s = mul(w, c)
    y = mul(s, r)
    output y
  )",
                   R"(
    input x: f32[2, 3, 5]
    parameter w: f32[3, 5]
    y, y:1, y:2 = layer_norm(x, w) {axis=1, epsilon=0.125} -> f32[2, 3, 5], f32[2], f32[2]
    output y
  )");
}

TEST(PassesNorms, LayerNormOfChannelsThatStandSecond) {
  expect_rewritten(kNorms, R"(
    input x: f32[2, 5, 3, 2]
    parameter w: f32[5, 1, 1]
    m = reduce_mean(x) {axes=[1], keepdims=1}
    c = sub(x, m)
    q = square(c)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    n = div(c, d)
    y = mul(w, n)
    output y
  )",
                   R"(
    input x: f32[2, 5, 3, 2]
    parameter w: f32[5, 1, 1]
    transpose_2 = transpose(x) {perm=[0, 2, 3, 1]} -> f32[2, 3, 2, 5]
    reshape = reshape(w) {shape=shape[5]} -> f32[5]
    y~1, y:1, y:2 = layer_norm(transpose_2, reshape) {axis=3, epsilon=0.125} -> f32[2, 3, 2, 5], f32[2, 3, 2], f32[2, 3, 2]
    y = transpose(y~1) {perm=[0, 3, 1, 2]} -> f32[2, 5, 3, 2]
    output y
  )");
}

TEST(PassesNorms, TensorFlowsOrder) {
  expect_rewritten(kNorms, R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    parameter b: f32[5]
    m = reduce_mean(x) {axes=[1], keepdims=1}
    c = sub(x, m)
    q = square(c)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    r = rsqrt(e)
    i = mul(r, w)
    p = mul(x, i)
    o = mul(m, i)
    f = sub(b, o)
    y = add(p, f)
    output y
  )",
                   R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    parameter b: f32[5]
    y, y:1, y:2 = layer_norm(x, w, b) {axis=1, epsilon=0.125} -> f32[3, 5], f32[3], f32[3]
    output y
  )");
}

TEST(PassesNorms, RmsNorm) {
  constexpr std::string_view kHead = R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    q = square(x)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    r = rsqrt(e)
    n = mul(x, r)
  )";
  expect_rewritten(kNorms, cat(kHead, "y = mul(w, n)\noutput y\n"), R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    y, y:1 = rms_norm(x, w) {axis=1, epsilon=0.125} -> f32[3, 5], f32[3]
    output y
  )");
  // Gemma: 1 + w.
  expect_rewritten(kNorms, cat(kHead, "u = affine(w) {alpha=1.0, beta=1.0}\ny = mul(n, u)\noutput y\n"), R"(
    input x: f32[3, 5]
    parameter w: f32[5]
    y, y:1 = rms_norm(x, w) {add_unit=1, axis=1, epsilon=0.125} -> f32[3, 5], f32[3]
    output y
  )");
  // x / |x|: the root of the mean is that of the sum over the root of the count.
  expect_rewritten(kNorms, R"(
    input x: f32[3, 4]
    l = reduce_l2(x) {axes=[1], keepdims=1}
    y = div(x, l)
    output y
  )",
                   R"(
    input x: f32[3, 4]
    y~1, y:1 = rms_norm(x) {axis=1, epsilon=0.0} -> f32[3, 4], f32[3]
    y = affine(y~1) {alpha=0.5, beta=0.0} -> f32[3, 4]
    output y
  )");
}

TEST(PassesNorms, WhatOnlyLooksLikeANorm) {
  // Epsilon outside of the root.
  expect_kept(kNorms, R"(
    input x: f32[3, 5]
    q = square(x)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    d = sqrt(v)
    e = affine(d) {alpha=1.0, beta=0.125}
    y = div(x, e)
    output y
  )");
  // The mean of another axis: the root of the mean of squares is all that is left.
  expect_rewritten(kNorms, R"(
    input x: f32[5, 5]
    m = reduce_mean(x) {axes=[0], keepdims=1}
    c = sub(x, m)
    q = square(c)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    y = div(c, d)
    output y
  )",
                   R"(
    input x: f32[5, 5]
    m = reduce_mean(x) {axes=[0], keepdims=1} -> f32[1, 5]
    c = sub(x, m) -> f32[5, 5]
    y, y:1 = rms_norm(c) {axis=1, epsilon=0.125} -> f32[5, 5], f32[5]
    output y
  )");
  // The deviation of another value.
  expect_kept(kNorms, R"(
    input x: f32[3, 5]
    input z: f32[3, 5]
    q = square(z)
    v = reduce_mean(q) {axes=[1], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    r = rsqrt(e)
    y = mul(x, r)
    output y
  )");
  // The variance is an output, and the statistics a gradient is asked of.
  expect_kept(kNorms, cat(kLayerNorm, "output y\noutput v\n"));
  expect_kept(kNorms, cat(kLayerNorm, "output y\n"), {"m"});
}

TEST(PassesNorms, GroupNormAsPyTorchExportsIt) {
  // An instance norm of the groups as channels, in graft's order of axes.
  expect_rewritten(kGroupNorm, R"(
    input x: f32[2, 4, 3, 2]
    constant one: f32[2] = 1.0, 1.0
    constant zero: f32[2] = 0.0, 0.0
    parameter w: f32[4, 1, 1]
    parameter b: f32[4, 1, 1]
    g = reshape(x) {shape=shape[2, 2, 12]}
    l = transpose(g) {perm=[0, 2, 1]}
    n, n1, n2 = group_norm(l, one, zero) {epsilon=0.125, groups=2}
    t = transpose(n) {perm=[0, 2, 1]}
    r = reshape(t) {shape=shape[2, 4, 3, 2]}
    s = mul(r, w)
    y = add(s, b)
    output y
  )",
                   R"(
    input x: f32[2, 4, 3, 2]
    parameter w: f32[4, 1, 1]
    parameter b: f32[4, 1, 1]
    transpose_4 = transpose(x) {perm=[0, 2, 3, 1]} -> f32[2, 3, 2, 4]
    reshape_1 = reshape(w) {shape=shape[4]} -> f32[4]
    reshape_2 = reshape(b) {shape=shape[4]} -> f32[4]
    y~1, y:1, y:2 = group_norm(transpose_4, reshape_1, reshape_2) {epsilon=0.125, groups=2} -> f32[2, 3, 2, 4], f32[2, 2], f32[2, 2]
    y = transpose(y~1) {perm=[0, 3, 1, 2]} -> f32[2, 4, 3, 2]
    output y
  )");
}

TEST(PassesNorms, GroupNormByHandAndInstanceNormOfSpace) {
  expect_rewritten(kGroupNorm, R"(
    input x: f32[2, 4, 3]
    parameter w: f32[1, 4, 1]
    g = reshape(x) {shape=shape[2, 2, 6]}
    m = reduce_mean(g) {axes=[2], keepdims=1}
    c = sub(g, m)
    q = square(c)
    v = reduce_mean(q) {axes=[2], keepdims=1}
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    n = div(c, d)
    r = reshape(n) {shape=shape[2, 4, 3]}
    y = mul(w, r)
    output y
  )",
                   R"(
    input x: f32[2, 4, 3]
    parameter w: f32[1, 4, 1]
    transpose = transpose(x) {perm=[0, 2, 1]} -> f32[2, 3, 4]
    reshape = reshape(w) {shape=shape[4]} -> f32[4]
    y~1, y:1, y:2 = group_norm(transpose, reshape) {epsilon=0.125, groups=2} -> f32[2, 3, 4], f32[2, 2], f32[2, 2]
    y = transpose(y~1) {perm=[0, 2, 1]} -> f32[2, 4, 3]
    output y
  )");
}

TEST(PassesNorms, RowsWithoutAScaleStayRows) {
  expect_kept({passes::canonicalise_group_norm}, R"(
    input x: f32[2, 4, 3]
    g = reshape(x) {shape=shape[2, 2, 6]}
    n, n1, n2 = layer_norm(g) {axis=2, epsilon=0.125}
    y = reshape(n) {shape=shape[2, 4, 3]}
    output y
  )");
  // A scale for each column is none for each channel; groups that the reshape takes across channels are none either.
  expect_kept({passes::canonicalise_group_norm}, R"(
    input x: f32[2, 4, 3]
    parameter w: f32[3]
    g = reshape(x) {shape=shape[2, 2, 6]}
    n, n1, n2 = layer_norm(g) {axis=2, epsilon=0.125}
    r = reshape(n) {shape=shape[2, 4, 3]}
    y = mul(r, w)
    output y
  )");
  expect_kept({passes::canonicalise_group_norm}, R"(
    input x: f32[2, 4, 3]
    parameter w: f32[4, 1]
    g = reshape(x) {shape=shape[2, 3, 4]}
    n, n1, n2 = layer_norm(g) {axis=2, epsilon=0.125}
    r = reshape(n) {shape=shape[2, 4, 3]}
    y = mul(r, w)
    output y
  )");
}

TEST(PassesNorms, AScaleThatIsTrainedIsNoOne) {
  expect_kept(kGroupNorm, R"(
    input x: f32[2, 4, 3, 2]
    parameter one: f32[2]
    constant zero: f32[2] = 0.0, 0.0
    g = reshape(x) {shape=shape[2, 2, 12]}
    l = transpose(g) {perm=[0, 2, 1]}
    n, n1, n2 = group_norm(l, one, zero) {epsilon=0.125, groups=2}
    t = transpose(n) {perm=[0, 2, 1]}
    y = reshape(t) {shape=shape[2, 4, 3, 2]}
    output y
  )");
}

constexpr std::string_view kChannels = R"(
  input x: f32[2, 3, 2]
  parameter w: f32[3, 1]
  parameter b: f32[3, 1]
  constant m: f32[3, 1] = 0.5, -1.0, 2.0
  constant v: f32[3, 1] = 1.0, 0.25, 4.0
)";
constexpr std::string_view kBatchNormOp = R"(
  input x: f32[2, 3, 2]
  parameter w: f32[3, 1]
  parameter b: f32[3, 1]
  constant m: f32[3, 1] = 0.5, -1.0, 2.0
  constant v: f32[3, 1] = 1.0, 0.25, 4.0
  transpose = transpose(x) {perm=[0, 2, 1]} -> f32[2, 2, 3]
  reshape = reshape(w) {shape=shape[3]} -> f32[3]
  reshape_1 = reshape(b) {shape=shape[3]} -> f32[3]
  reshape_2 = reshape(m) {shape=shape[3]} -> f32[3]
  reshape_3 = reshape(v) {shape=shape[3]} -> f32[3]
  y~1 = batch_norm(transpose, reshape, reshape_1, reshape_2, reshape_3) {epsilon=0.125} -> f32[2, 2, 3]
  y = transpose(y~1) {perm=[0, 2, 1]} -> f32[2, 3, 2]
  output y
)";

TEST(PassesNorms, BatchNormWithStatisticsOfTheFile) {
  const std::vector<passes::Pass> run = {passes::canonicalise_batch_norm};
  expect_rewritten(run, cat(kChannels, R"(
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    c = sub(x, m)
    n = div(c, d)
    s = mul(n, w)
    y = add(s, b)
    output y
  )"),
                   kBatchNormOp);
  // torchvision's frozen batch norm.
  expect_rewritten(run, cat(kChannels, R"(
    e = affine(v) {alpha=1.0, beta=0.125}
    d = rsqrt(e)
    k = mul(w, d)
    o = mul(m, k)
    q = sub(b, o)
    s = mul(x, k)
    y = add(s, q)
    output y
  )"),
                   kBatchNormOp);
}

TEST(PassesNorms, BatchNormBehindChannelsThatStoodLast) {
  std::string given(kChannels), made(kBatchNormOp);
  given.replace(given.find("input x: f32[2, 3, 2]"), 21, "input u: f32[2, 2, 3]");
  made.replace(made.find("input x: f32[2, 3, 2]"), 21, "input u: f32[2, 2, 3]");
  const std::string moved = "transpose = transpose(x) {perm=[0, 2, 1]} -> f32[2, 2, 3]\n";
  const auto at = made.find(moved);
  ASSERT_NE(at, std::string::npos);
  made.erase(at, moved.size());
  made.replace(made.find("batch_norm(transpose,"), 21, "batch_norm(u,");
  expect_rewritten({passes::canonicalise_batch_norm}, cat(given, R"(
    x = transpose(u) {perm=[0, 2, 1]}
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    c = sub(x, m)
    n = div(c, d)
    s = mul(n, w)
    y = add(s, b)
    output y
  )"),
                   made);
}

TEST(PassesNorms, BatchNormsThatAreNone) {
  const auto stays = [](std::string_view nodes) {
    expect_kept({passes::canonicalise_batch_norm}, cat(kChannels, nodes, "output y\n"));
  };
  constexpr std::string_view kDivided = R"(
    e = affine(v) {alpha=1.0, beta=0.125}
    d = sqrt(e)
    c = sub(x, m)
    n = div(c, d)
  )";
  // No weight, a weight that x gives, no epsilon, weights of another axis, a divided value that is an output.
  stays(cat(kDivided, "y = add(n, b)\n"));
  stays(cat(kDivided, "a = reduce_mean(x) {axes=[0, 2], keepdims=1}\ns = mul(n, a)\ny = add(s, b)\n"));
  stays("d = sqrt(v)\nc = sub(x, m)\nn = div(c, d)\ns = mul(n, w)\ny = add(s, b)\n");
  stays(cat("parameter u: f32[2]\n", kDivided, "s = mul(n, u)\ny = add(s, b)\n"));
  stays(cat(kDivided, "s = mul(n, w)\ny = add(s, b)\noutput n\n"));
}

TEST(PassesNorms, NormsOfVectors) {
  constexpr std::string_view kNorm = R"(
    input x: f32[3, 5]
    y = reduce_l2(x) {axes=[1], keepdims=0} -> f32[3]
    output y
  )";
  const auto spelled = [](std::string_view square) {
    return cat("input x: f32[3, 5]\n", square, "\ns = reduce_sum(q) {axes=[1], keepdims=0}\ny = sqrt(s)\noutput y\n");
  };
  expect_rewritten(kNorms, spelled("q = mul(x, x)"), kNorm);
  expect_rewritten(kNorms, spelled("q = square(x)"), kNorm);
  expect_rewritten(kNorms, spelled("a = abs(x)\nq = square(a)"), kNorm);
  // Another power, other operands, and a sum that is an output.
  expect_kept(kNorms, spelled("a = abs(x)\nq = sqrt(a)"));
  expect_kept(kNorms, spelled("a = exp(x)\nq = mul(x, a)"));
  expect_kept(kNorms, cat(spelled("q = square(x)"), "output s\n"));
}

}  // namespace
}  // namespace graft::test::passes_norms_test
