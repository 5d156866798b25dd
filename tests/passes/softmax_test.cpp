// Softmax and log softmax as exponentials and sums.
#include <gtest/gtest.h>

#include "platform/base/text.h"
#include "tests/support/pass_case.h"

namespace graft::test::passes_softmax_test {
namespace {

const std::vector<passes::Pass> kPasses = {passes::share_equal, passes::canonicalise_softmax};

void becomes(std::string_view body, std::string_view op) {
  expect_rewritten(kPasses, cat("input x: f32[3, 5, 2]\n", body, "output y\n"),
                   cat("input x: f32[3, 5, 2]\ny = ", op, " -> f32[3, 5, 2]\noutput y\n"));
}

TEST(PassesSoftmax, WithAndWithoutTheMaximum) {
  becomes(R"(
    m = reduce_max(x) {axes=[1], keepdims=1}
    u = sub(x, m)
    e = exp(u)
    s = reduce_sum(e) {axes=[1], keepdims=1}
    y = div(e, s)
  )",
          "softmax(x) {axis=1}");
  // Each exponential written out anew.
  becomes(R"(
    e = exp(x)
    f = exp(x)
    s = reduce_sum(f) {axes=[-1], keepdims=1}
    y = div(e, s)
  )",
          "softmax(x) {axis=2}");
}

TEST(PassesSoftmax, Logarithms) {
  becomes("s = softmax(x) {axis=2}\ny = log(s)\n", "log_softmax(x) {axis=2}");
  becomes("l = reduce_logsumexp(x) {axes=[2], keepdims=1}\ny = sub(x, l)\n", "log_softmax(x) {axis=2}");
  becomes(R"(
    m = reduce_max(x) {axes=[2], keepdims=1}
    u = sub(x, m)
    e = exp(u)
    s = reduce_sum(e) {axes=[2], keepdims=1}
    l = log(s)
    y = sub(u, l)
  )",
          "log_softmax(x) {axis=2}");
}

TEST(PassesSoftmax, WhatOnlyLooksLikeIt) {
  // The sum of another axis than the maximum: the difference is a constant along the sum no longer.
  expect_rewritten(kPasses, R"(
    input x: f32[3, 5]
    m = reduce_max(x) {axes=[0], keepdims=1}
    u = sub(x, m)
    e = exp(u)
    s = reduce_sum(e) {axes=[1], keepdims=1}
    y = div(e, s)
    output y
  )",
                   R"(
    input x: f32[3, 5]
    m = reduce_max(x) {axes=[0], keepdims=1} -> f32[1, 5]
    u = sub(x, m) -> f32[3, 5]
    y = softmax(u) {axis=1} -> f32[3, 5]
    output y
  )");
  constexpr std::string_view kSoftmax = R"(
    input x: f32[3, 5]
    e = exp(x)
    s = reduce_sum(e) {axes=[1], keepdims=1}
    y = div(e, s)
    output y
  )";
  expect_kept(kPasses, cat(kSoftmax, "output s\n"));
  expect_kept(kPasses, kSoftmax, {"e"});
  // More is added than the logarithm is taken of.
  expect_kept(kPasses, R"(
    input x: f32[3, 5]
    input z: f32[3, 5]
    e = exp(x)
    s = reduce_sum(e) {axes=[1], keepdims=1}
    l = log(s)
    a = add(x, z)
    y = sub(a, l)
    output y
  )");
  expect_kept(kPasses, R"(
    input x: f32[3, 5]
    e = exp(x)
    s = reduce_sum(e) {axes=[1], keepdims=1}
    l = log(s)
    a = add(x, x)
    y = sub(a, l)
    output y
  )");
  // Over two axes there is no such op.
  expect_kept(kPasses, R"(
    input x: f32[3, 5]
    e = exp(x)
    s = reduce_sum(e) {axes=[0, 1], keepdims=1}
    y = div(e, s)
    output y
  )");
}

}  // namespace
}  // namespace graft::test::passes_softmax_test
