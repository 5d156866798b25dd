// Activations as exporters spell them become ops; what only looks like one stays.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_activations_test {
namespace {

using passes::canonicalise_activations;
using passes::constant_arithmetic;
const std::vector<passes::Pass> kPasses = {constant_arithmetic, canonicalise_activations};

void becomes(std::string_view body, std::string_view op) {
  expect_rewritten(kPasses, cat("input x: f32[3, 5]\n", body, "output y\n"),
                   cat("input x: f32[3, 5]\ny = ", op, " -> f32[3, 5]\noutput y\n"));
}

TEST(PassesActivations, GeluByErf) {
  // PyTorch's exporter; x * 0.5 first; the half within.
  becomes(R"(
    d = affine(x) {alpha=0.70710678, beta=0.0}
    e = erf(d)
    s = affine(e) {alpha=1.0, beta=1.0}
    p = mul(x, s)
    y = affine(p) {alpha=0.5, beta=0.0}
  )",
          "gelu(x) {approximate=\"none\"}");
  becomes(R"(
    h = affine(x) {alpha=0.5, beta=0.0}
    r = full() {shape=shape[], value=1.4142135}
    d = div(x, r)
    e = erf(d)
    s = affine(e) {alpha=1.0, beta=1.0}
    y = mul(h, s)
  )",
          "gelu(x) {approximate=\"none\"}");
  becomes(R"(
    d = affine(x) {alpha=0.70710678, beta=0.0}
    e = erf(d)
    s = affine(e) {alpha=0.5, beta=0.5}
    y = mul(s, x)
  )",
          "gelu(x) {approximate=\"none\"}");
}

TEST(PassesActivations, GeluByTanh) {
  becomes(R"(
    three = full() {shape=shape[], value=3.0}
    c = pow(x, three)
    k = affine(c) {alpha=0.044715, beta=0.0}
    a = add(x, k)
    u = affine(a) {alpha=0.7978845608, beta=0.0}
    t = tanh(u)
    s = affine(t) {alpha=1.0, beta=1.0}
    h = affine(x) {alpha=0.5, beta=0.0}
    y = mul(h, s)
  )",
          "gelu(x) {approximate=\"tanh\"}");
  // As products: x * k * (1 + 0.044715 * x * x).
  becomes(R"(
    a = affine(x) {alpha=0.79788456, beta=0.0}
    b = affine(x) {alpha=0.044715, beta=0.0}
    q = mul(b, x)
    o = affine(q) {alpha=1.0, beta=1.0}
    u = mul(a, o)
    t = tanh(u)
    s = affine(t) {alpha=1.0, beta=1.0}
    h = affine(x) {alpha=0.5, beta=0.0}
    y = mul(h, s)
  )",
          "gelu(x) {approximate=\"tanh\"}");
}

TEST(PassesActivations, SiluAndItsGate) {
  becomes("g = sigmoid(x)\ny = mul(g, x)\n", "silu(x)");
  becomes("n = neg(x)\ne = exp(n)\no = affine(e) {alpha=1.0, beta=1.0}\ny = div(x, o)\n", "silu(x)");
  becomes("n = neg(x)\ne = exp(n)\no = affine(e) {alpha=1.0, beta=1.0}\ny = reciprocal(o)\n", "sigmoid(x)");
}

TEST(PassesActivations, HardSwishAndHardSigmoid) {
  becomes(R"(
    a = affine(x) {alpha=1.0, beta=3.0}
    c = clip(a) {max=6.0, min=0.0}
    p = mul(x, c)
    y = affine(p) {alpha=0.16666667, beta=0.0}
  )",
          "hard_swish(x)");
  becomes("c = hard_sigmoid(x) {alpha=0.16666667, beta=0.5}\ny = mul(x, c)\n", "hard_swish(x)");
  becomes(R"(
    a = affine(x) {alpha=0.5, beta=2.0}
    c = clip(a) {max=4.0, min=0.0}
    y = affine(c) {alpha=0.25, beta=0.0}
  )",
          "hard_sigmoid(x) {alpha=0.125, beta=0.5}");
}

TEST(PassesActivations, MishAndSoftplus) {
  becomes("p = softplus(x)\nt = tanh(p)\ny = mul(x, t)\n", "mish(x)");
  becomes("e = exp(x)\no = affine(e) {alpha=1.0, beta=1.0}\nl = log(o)\nt = tanh(l)\ny = mul(x, t)\n", "mish(x)");
  becomes("e = exp(x)\no = affine(e) {alpha=1.0, beta=1.0}\ny = log(o)\n", "softplus(x)");
  becomes("e = exp(x)\ny = log1p(e)\n", "softplus(x)");
}

void stays(std::string_view body, std::string_view more_outputs = "", const std::vector<std::string>& pinned = {}) {
  expect_kept(kPasses, cat("input x: f32[3, 5]\n", body, "output y\n", more_outputs), pinned);
}

TEST(PassesActivations, OtherNumbersAreOtherFunctions) {
  // CLIP's quick GELU: x * sigmoid(1.702 x).
  stays("a = affine(x) {alpha=1.702, beta=0.0}\ng = sigmoid(a)\ny = mul(x, g)\n");
  // The square root of 2 to four digits only.
  stays(R"(
    d = affine(x) {alpha=0.7071, beta=0.0}
    e = erf(d)
    s = affine(e) {alpha=0.5, beta=0.5}
    y = mul(x, s)
  )");
  // Another cubic term.
  stays(R"(
    c = square(x)
    k = mul(c, x)
    m = affine(k) {alpha=0.0044715, beta=0.0}
    a = add(x, m)
    u = affine(a) {alpha=0.7978845608, beta=0.0}
    t = tanh(u)
    s = affine(t) {alpha=0.5, beta=0.5}
    y = mul(x, s)
  )");
  // A gate of another value.
  stays("n = neg(x)\ng = sigmoid(n)\ny = mul(x, g)\n");
  stays("e = exp(x)\no = affine(e) {alpha=1.0, beta=2.0}\ny = log(o)\n");
  stays("c = hard_sigmoid(x) {alpha=0.2, beta=0.5}\ny = mul(x, c)\n");
}

constexpr std::string_view kGelu = R"(
    d = affine(x) {alpha=0.70710678, beta=0.0}
    e = erf(d)
    s = affine(e) {alpha=0.5, beta=0.5}
    y = mul(x, s)
)";

TEST(PassesActivations, WhatSomebodyWantsIsNotTakenAway) {
  stays(kGelu, "output e\n");
  stays(kGelu, "", {"e"});
  stays(cat(kGelu, "z = square(e)\n"), "output z\n");
}

TEST(PassesActivations, APinnedInputOrResultIsNoHindrance) {
  expect_rewritten(kPasses, cat("input x: f32[3, 5]\n", kGelu, "z = square(y)\noutput z\n"), R"(
    input x: f32[3, 5]
    y = gelu(x) {approximate="none"} -> f32[3, 5]
    z = square(y) -> f32[3, 5]
    output z
  )",
                   {"x", "y"});
}

}  // namespace
}  // namespace graft::test::passes_activations_test
