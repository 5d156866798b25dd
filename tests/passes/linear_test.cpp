// Linear layers, gated MLPs, arithmetic with numbers, and nodes that are there twice.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_linear_test {
namespace {

const std::vector<passes::Pass> kLinear = {passes::canonicalise_linear};
const std::vector<passes::Pass> kGated = {passes::canonicalise_gated};
const std::vector<passes::Pass> kArithmetic = {passes::constant_arithmetic};
const std::vector<passes::Pass> kShared = {passes::share_equal};

TEST(PassesLinear, ABiasIsTheProductsOwn) {
  expect_rewritten(kLinear, R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    p = matmul(x, w)
    y = add(b, p)
    output y
  )",
                   R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    y = matmul(x, w, b) -> f32[2, 3, 5]
    output y
  )");
}

TEST(PassesLinear, RowsNeedNoFlattening) {
  // TensorFlow's dense layer on three axes, with a bias and without.
  constexpr std::string_view kDense = R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    f = reshape(x) {shape=shape[6, 4]}
    p = matmul(f, w)
    r = reshape(p) {shape=shape[2, 3, 5]}
  )";
  expect_rewritten(kLinear, cat(kDense, "y = add(r, b)\noutput y\n"), R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    y = matmul(x, w, b) -> f32[2, 3, 5]
    output y
  )");
  expect_rewritten(kLinear, cat(kDense, "output r\n"), R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    r = matmul(x, w) -> f32[2, 3, 5]
    output r
  )");
  // Seen with other leading axes than before.
  expect_kept(kLinear, R"(
    input x: f32[2, 3, 4]
    parameter w: f32[4, 5]
    f = reshape(x) {shape=shape[6, 4]}
    p = matmul(f, w)
    y = reshape(p) {shape=shape[3, 2, 5]}
    output y
  )");
}

TEST(PassesLinear, TransposesOfTheLastTwoAxes) {
  expect_rewritten(kLinear, R"(
    input x: f32[3, 4]
    parameter w: f32[5, 4]
    t = transpose(w) {perm=[1, 0]}
    y = matmul(x, t) {trans_a=0, trans_b=0}
    output y
  )",
                   R"(
    input x: f32[3, 4]
    parameter w: f32[5, 4]
    y = matmul(x, w) {trans_a=0, trans_b=1} -> f32[3, 5]
    output y
  )");
  // Another order of axes is no transposed matrix; a gradient is asked of the transposed one.
  expect_kept(kLinear, R"(
    input x: f32[2, 3, 4]
    input z: f32[4, 2, 5]
    t = transpose(z) {perm=[1, 0, 2]}
    y = matmul(x, t)
    output y
  )");
  expect_kept(kLinear, R"(
    input x: f32[3, 4]
    parameter w: f32[5, 4]
    t = transpose(w) {perm=[1, 0]}
    y = matmul(x, t)
    output y
  )",
              {"t"});
}

TEST(PassesLinear, SumsOfSpreadProductsAreMatrixProducts) {
  // Einsum "bhij,bjhd->bihd" as it is imported: weights times values, with the heads in the middle.
  expect_rewritten({passes::canonicalise_contractions, passes::merge_moves}, R"(
    input w: f32[2, 3, 4, 5]
    input v: f32[2, 5, 3, 6]
    a = transpose(w) {perm=[0, 2, 1, 3]}
    a1 = reshape(a) {shape=shape[2, 4, 3, 1, 5]}
    b = transpose(v) {perm=[0, 2, 3, 1]}
    b1 = reshape(b) {shape=shape[2, 1, 3, 6, 5]}
    p = mul(a1, b1)
    y = reduce_sum(p) {axes=[4], keepdims=0}
    output y
  )",
                   R"(
    input w: f32[2, 3, 4, 5]
    input v: f32[2, 5, 3, 6]
    reshape_1 = transpose(v) {perm=[0, 2, 1, 3]} -> f32[2, 3, 5, 6]
    y~1 = matmul(w, reshape_1) {trans_a=0, trans_b=0} -> f32[2, 3, 4, 6]
    y = transpose(y~1) {perm=[0, 2, 1, 3]} -> f32[2, 4, 3, 6]
    output y
  )");
  // A weighted sum along one tensor; products that something else reads.
  expect_kept({passes::canonicalise_contractions}, R"(
    input x: f32[2, 3, 4]
    input w: f32[2, 3, 1]
    p = mul(x, w)
    y = reduce_sum(p) {axes=[1], keepdims=0}
    output y
  )");
  expect_kept({passes::canonicalise_contractions}, R"(
    input x: f32[2, 1, 4]
    input w: f32[1, 3, 4]
    p = mul(x, w)
    y = reduce_sum(p) {axes=[2], keepdims=0}
    output y
    output p
  )");
}

TEST(PassesLinear, WhatIsNoBias) {
  // A column, the product read twice, a product that has one already.
  expect_kept(kLinear, R"(
    input x: f32[5, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5, 1]
    p = matmul(x, w)
    y = add(p, b)
    output y
  )");
  constexpr std::string_view kLayer = R"(
    input x: f32[3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    p = matmul(x, w)
    y = add(p, b)
    output y
  )";
  expect_kept(kLinear, cat(kLayer, "output p\n"));
  expect_kept(kLinear, kLayer, {"p"});
  expect_kept(kLinear, R"(
    input x: f32[3, 4]
    parameter w: f32[4, 5]
    parameter b: f32[5]
    p = matmul(x, w, b)
    y = add(p, b)
    output y
  )");
}

TEST(PassesLinear, TheGateOfAnMlp) {
  expect_rewritten(kGated, R"(
    input g: f32[3, 4]
    input u: f32[3, 4]
    a = silu(g)
    y = mul(u, a)
    output y
  )",
                   R"(
    input g: f32[3, 4]
    input u: f32[3, 4]
    y = gated(g, u) {activation="silu"} -> f32[3, 4]
    output y
  )");
  expect_rewritten(kGated, R"(
    input g: f32[3, 4]
    input u: f32[3, 4]
    a = gelu(g) {approximate="tanh"}
    y = mul(a, u)
    output y
  )",
                   R"(
    input g: f32[3, 4]
    input u: f32[3, 4]
    y = gated(g, u) {activation="gelu_tanh"} -> f32[3, 4]
    output y
  )");
  // Squeeze and excitation: one number per channel. Another activation.
  expect_kept(kGated, "input g: f32[3, 4]\ninput u: f32[3, 1]\na = silu(g)\ny = mul(a, u)\noutput y\n");
  expect_kept(kGated, "input g: f32[3, 4]\ninput u: f32[3, 4]\na = relu(g)\ny = mul(a, u)\noutput y\n");
}

TEST(PassesArithmetic, AChainOfNumbersIsOneAffine) {
  expect_rewritten(kArithmetic, R"(
    input x: f32[3]
    constant two: f32[] = 2.0
    constant one: f32[1] = 1.0
    a = mul(two, x)
    b = sub(one, a)
    c = neg(b)
    y = div(c, two)
    output y
  )",
                   R"(
    input x: f32[3]
    y = affine(x) {alpha=1.0, beta=-0.5} -> f32[3]
    output y
  )");
}

TEST(PassesArithmetic, PowersByTheirNames) {
  expect_rewritten(kArithmetic, R"(
    input x: f32[3]
    constant one: f32[] = 1.0
    constant two: f32[] = 2.0
    q = pow(x, two)
    e = affine(q) {alpha=1.0, beta=0.5}
    r = sqrt(e)
    y = div(one, r)
    output y
  )",
                   R"(
    input x: f32[3]
    q = square(x) -> f32[3]
    e = affine(q) {alpha=1.0, beta=0.5} -> f32[3]
    y = rsqrt(e) -> f32[3]
    output y
  )");
}

TEST(PassesArithmetic, WhatIsNoNumberOrMeansInfinity) {
  // A parameter may be trained; a larger shape would be lost; an infinity is a mask.
  expect_kept(kArithmetic, "input x: f32[3]\nparameter s: f32[]\ny = mul(x, s)\noutput y\n");
  expect_kept(kArithmetic, "input x: f32[3]\nconstant s: f32[1, 1] = 2.0\ny = mul(x, s)\noutput y\n");
  expect_kept(kArithmetic, "input x: f32[3]\nconstant s: f32[] = -inf\ny = add(x, s)\noutput y\n");
  // The value between is an output.
  expect_kept(kArithmetic, R"(
    input x: f32[3]
    a = affine(x) {alpha=2.0, beta=0.0}
    y = affine(a) {alpha=1.0, beta=1.0}
    output y
    output a
  )");
}

TEST(PassesArithmetic, DropoutThatIsOffGoes) {
  expect_rewritten(kArithmetic, R"(
    input x: f32[3]
    a = exp(x)
    d = dropout(a) {p=0.5, training=0}
    y = square(d)
    output y
  )",
                   "input x: f32[3]\na = exp(x) -> f32[3]\ny = square(a) -> f32[3]\noutput y\n");
  expect_kept(kArithmetic, "input x: f32[3]\na = exp(x)\ny = dropout(a) {p=0.5, stream=1, training=1}\noutput y\n");
}

TEST(PassesShared, EqualNodesAndConstantsAreOne) {
  expect_rewritten(kShared, R"(
    input x: f32[3]
    constant a: f32[3] = 1.0, 2.0, 3.0
    constant b: f32[3] = 1.0, 2.0, 3.0
    p = mul(x, a)
    q = mul(x, b)
    y = add(p, q)
    output y
  )",
                   R"(
    input x: f32[3]
    constant a: f32[3] = 1.0, 2.0, 3.0
    p = mul(x, a) -> f32[3]
    y = add(p, p) -> f32[3]
    output y
  )");
}

TEST(PassesShared, WhatIsAskedForStaysApart) {
  constexpr std::string_view kTwice = R"(
    input x: f32[3]
    p = exp(x)
    q = exp(x)
    y = mul(p, q)
    output y
  )";
  expect_kept(kShared, kTwice, {"q"});
  expect_kept(kShared, cat(kTwice, "output q\n"));
  // Random numbers of two streams; other attributes.
  expect_kept(kShared, R"(
    input x: f32[3]
    p = dropout(x) {p=0.5, stream=1, training=1}
    q = dropout(x) {p=0.5, stream=1, training=1}
    y = add(p, q)
    output y
  )");
  expect_kept(kShared, R"(
    input x: f32[3, 3]
    p = softmax(x) {axis=0}
    q = softmax(x) {axis=1}
    y = add(p, q)
    output y
  )");
}

}  // namespace
}  // namespace graft::test::passes_linear_test
