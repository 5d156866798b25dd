// Chains of reshapes, transposes and slices.
#include <gtest/gtest.h>

#include "tests/support/pass_case.h"

namespace graft::test::passes_moves_test {
namespace {

const std::vector<passes::Pass> kMoves = {passes::merge_moves};

TEST(PassesMoves, PairsGoAndChainsBecomeOne) {
  expect_rewritten(kMoves, R"(
    input x: f32[2, 3, 4]
    a = transpose(x) {perm=[0, 2, 1]}
    b = transpose(a) {perm=[0, 2, 1]}
    y = exp(b)
    output y
  )",
                   "input x: f32[2, 3, 4]\ny = exp(x) -> f32[2, 3, 4]\noutput y\n");
  expect_rewritten(kMoves, R"(
    input x: f32[2, 3, 4]
    a = transpose(x) {perm=[1, 2, 0]}
    b = transpose(a) {perm=[1, 0, 2]}
    r = reshape(b) {shape=shape[12, 2]}
    y = reshape(r) {shape=shape[24]}
    output y
  )",
                   R"(
    input x: f32[2, 3, 4]
    b = transpose(x) {perm=[2, 1, 0]} -> f32[4, 3, 2]
    y = reshape(b) {shape=shape[24]} -> f32[24]
    output y
  )");
}

TEST(PassesMoves, AViewBetweenTwoTransposes) {
  // nn.MultiheadAttention: tokens first, then batch and heads as one axis.
  expect_rewritten(kMoves, R"(
    input x: f32[5, 6, 4]
    a = transpose(x) {perm=[1, 0, 2]}
    r = reshape(a) {shape=shape[2, 3, 5, 4]}
    b = transpose(r) {perm=[2, 0, 1, 3]}
    y = exp(b)
    output y
  )",
                   R"(
    input x: f32[5, 6, 4]
    b = reshape(x) {shape=shape[5, 2, 3, 4]} -> f32[5, 2, 3, 4]
    y = exp(b) -> f32[5, 2, 3, 4]
    output y
  )");
  // Two of three axes stay swapped, as one transpose of a view.
  expect_rewritten(kMoves, R"(
    input x: f32[2, 3, 4, 5]
    a = transpose(x) {perm=[0, 2, 1, 3]}
    r = reshape(a) {shape=shape[8, 15]}
    y = transpose(r) {perm=[1, 0]}
    output y
  )",
                   R"(
    input x: f32[2, 3, 4, 5]
    transpose = transpose(x) {perm=[1, 3, 0, 2]} -> f32[3, 5, 2, 4]
    y = reshape(transpose) {shape=shape[15, 8]} -> f32[15, 8]
    output y
  )");
}

TEST(PassesMoves, AViewThatCutsAcrossAxesStays) {
  expect_kept(kMoves, R"(
    input x: f32[4, 6]
    a = transpose(x) {perm=[1, 0]}
    r = reshape(a) {shape=shape[8, 3]}
    y = transpose(r) {perm=[1, 0]}
    output y
  )");
  // A gradient is asked of what stands between.
  expect_kept(kMoves, R"(
    input x: f32[4, 6]
    a = transpose(x) {perm=[1, 0]}
    y = transpose(a) {perm=[1, 0]}
    output y
  )",
              {"a"});
  expect_kept(kMoves, R"(
    input x: f32[4, 6]
    a = transpose(x) {perm=[1, 0]}
    r = reshape(a) {shape=shape[6, 2, 2]}
    y = transpose(r) {perm=[1, 2, 0]}
    output y
  )",
              {"a"});
}

TEST(PassesMoves, SlicesComeFirst) {
  expect_rewritten({passes::slices_first, passes::merge_moves}, R"(
    input x: f32[2, 3, 4]
    a = transpose(x) {perm=[1, 0, 2]}
    s = slice(a) {ends=[1, 2, 4], starts=[0, 0, 1], steps=[1, 1, 1]}
    r = slice(a) {ends=[2, 2, 4], starts=[1, 0, 0], steps=[1, 1, 2]}
    y = reshape(s) {shape=shape[6]}
    z = exp(r)
    output y
    output z
  )",
                   R"(
    input x: f32[2, 3, 4]
    s~1 = slice(x) {ends=[2, 1, 4], starts=[0, 0, 1], steps=[1, 1, 1]} -> f32[2, 1, 3]
    r~1 = slice(x) {ends=[2, 2, 4], starts=[0, 1, 0], steps=[1, 1, 2]} -> f32[2, 1, 2]
    r = reshape(r~1) {shape=shape[1, 2, 2]} -> f32[1, 2, 2]
    y = reshape(s~1) {shape=shape[6]} -> f32[6]
    z = exp(r) -> f32[1, 2, 2]
    output y
    output z
  )");
  // Something else reads the whole.
  expect_kept({passes::slices_first}, R"(
    input x: f32[2, 3, 4]
    a = transpose(x) {perm=[1, 0, 2]}
    y = slice(a) {ends=[1, 2, 4], starts=[0, 0, 0], steps=[1, 1, 1]}
    z = exp(a)
    output y
    output z
  )");
}

TEST(PassesMoves, ViewsAroundAnActivation) {
  constexpr std::string_view kGate = R"(
    input x: f32[2, 1, 1, 3]
    a = transpose(x) {perm=[0, 3, 1, 2]}
    r = relu(a)
    b = transpose(r) {perm=[0, 2, 3, 1]}
    y = exp(b)
    output y
  )";
  expect_rewritten(kMoves, kGate, R"(
    input x: f32[2, 1, 1, 3]
    b = relu(x) -> f32[2, 1, 1, 3]
    y = exp(b) -> f32[2, 1, 1, 3]
    output y
  )");
  // Something else reads what is between, or another shape comes out.
  constexpr std::string_view kKept = R"(
    a = reshape(x) {shape=shape[2, 3, 1, 1]} -> f32[2, 3, 1, 1]
    r = relu(a) -> f32[2, 3, 1, 1]
    b = reshape(r) {shape=shape[2, 1, 1, 3]} -> f32[2, 1, 1, 3]
    y = exp(b) -> f32[2, 1, 1, 3]
    output y
    output r
  )";
  expect_rewritten(kMoves, std::string(kGate) + "output r\n", "input x: f32[2, 1, 1, 3]\n" + std::string(kKept));
  expect_kept(kMoves, R"(
    input x: f32[2, 3]
    a = reshape(x) {shape=shape[6]}
    r = relu(a)
    y = reshape(r) {shape=shape[3, 2]}
    output y
  )");
}

}  // namespace
}  // namespace graft::test::passes_moves_test
