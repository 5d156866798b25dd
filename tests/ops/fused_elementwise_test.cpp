// ctest: costly
// Fused nodes: a program of elementwise functions by itself, as the epilogue of another op, and norms of sums.
#include <gtest/gtest.h>

#include "runtime/core/op_id.gen.h"
#include "runtime/ops/fused_program.h"
#include "shaders/binary/binary_fn.h"
#include "shaders/unary/unary_fn.h"
#include "tests/support/op_case.h"

namespace graft::test::fused_elementwise_test {
namespace {

using Dims = std::vector<std::int64_t>;

Attrs with_program(Attrs attrs, const FusedProgram& program, std::int64_t nodes) {
  set_fused_program(attrs, program);
  attrs.set(kFusedNodes, nodes);
  return attrs;
}

Attrs shaped(const std::vector<Dims>& shapes) {
  Ints ints;
  for (const Dims& dims : shapes) {
    ints.push_back(static_cast<std::int64_t>(dims.size()));
    ints.insert(ints.end(), dims.begin(), dims.end());
  }
  return {{kFusedShapes, ints}};
}

constexpr std::uint32_t kFirst = fused_fn::inputs;  // register of the first step

/// tanh(x * row + column), and the sum that goes into it, in another shape.
OpCase broadcasts(std::uint32_t rows, std::uint32_t columns) {
  const std::uint64_t count = std::uint64_t{rows} * columns;
  const FusedProgram program{count,
                             {{1, rows * columns}, {1, columns}, {columns, rows}},
                             {{.kind = fused_fn::binary, .fn = binary_fn::mul, .a = 0, .b = 1},
                              {.kind = fused_fn::binary, .fn = binary_fn::add, .a = kFirst, .b = 2},
                              {.kind = fused_fn::unary, .fn = unary_fn::tanh, .a = kFirst + 1}},
                             {kFirst + 2, kFirst + 1}};
  return {.name = cat("broadcasts of ", rows, "x", columns),
          .op = Op::fused_elementwise,
          .inputs = {{.dims = {rows, columns}}, {.dims = {columns}}, {.dims = {rows}}},
          .attrs = with_program(shaped({{rows, columns}, {rows * columns}}), program, 3),
          .gradient = false};
}

/// dy * slope of x at it, where the functions have parameters.
OpCase slopes() {
  const FusedProgram program{35,
                             {{1, 35}, {1, 35}, {1, 1}},
                             {{.kind = fused_fn::slope, .fn = unary_fn::leaky_relu, .a = 0, .b = 1, .alpha = 0.25},
                              {.kind = fused_fn::slope, .fn = unary_fn::sigmoid, .a = 1, .b = kFirst},
                              {.kind = fused_fn::unary, .fn = unary_fn::affine, .a = kFirst + 1, .alpha = 3, .beta = 2},
                              {.kind = fused_fn::binary, .fn = binary_fn::maximum, .a = kFirst + 2, .b = 2}},
                             {kFirst + 3}};
  return {.name = "slopes",
          .op = Op::fused_elementwise,
          .inputs = {{.dims = {5, 7}}, {.dims = {5, 7}, .low = 0.1}, {.dims = {1}}},
          .attrs = with_program(shaped({{5, 7}}), program, 4),
          .gradient = false};
}

/// relu((main + whole) * row), and main itself, behind any op.
OpCase epilogue(std::string name, Op main, std::vector<OpInput> inputs, Attrs attrs, Dims out) {
  std::uint32_t count = 1;
  for (const std::int64_t dim : out) count *= static_cast<std::uint32_t>(dim);
  const auto columns = static_cast<std::uint32_t>(out.back());
  const FusedProgram program{count,
                             {{1, count}, {1, columns}},
                             {{.kind = fused_fn::source},
                              {.kind = fused_fn::binary, .fn = binary_fn::add, .a = kFirst, .b = 0},
                              {.kind = fused_fn::binary, .fn = binary_fn::mul, .a = kFirst + 1, .b = 1},
                              {.kind = fused_fn::unary, .fn = unary_fn::relu, .a = kFirst + 2}},
                             {kFirst + 3, kFirst}};
  attrs.set(kFusedMain, std::string(op_name(main)));
  inputs.push_back({.dims = out});
  inputs.push_back({.dims = {columns}});
  return {.name = std::move(name),
          .op = Op::fused_epilogue,
          .inputs = std::move(inputs),
          .attrs = with_program(std::move(attrs), program, 4),
          .gradient = false,
          .expect_dims = out};
}

OpCase add_norm(std::string name, Op main, std::vector<OpInput> others, Attrs attrs, Dims dims) {
  std::vector<OpInput> inputs = {{.dims = dims}};
  for (OpInput& other : others) inputs.push_back(std::move(other));
  inputs.push_back({.dims = dims});
  attrs.set(kFusedMain, std::string(op_name(main)));
  attrs.set(kFusedNodes, std::int64_t{2});
  return {.name = std::move(name),
          .op = Op::fused_add_norm,
          .inputs = std::move(inputs),
          .attrs = std::move(attrs),
          .gradient = false,
          .expect_dims = dims,
          .low_precision_roundings = 8};  // of the sum, and of what is made of it
}

std::vector<OpCase> cases() {
  const Attrs window = {{"strides", Ints{1, 1}}, {"pads", Ints{1, 1, 1, 1}}, {"groups", std::int64_t{1}}};
  return {
      broadcasts(6, 20),
      broadcasts(5, 7),
      broadcasts(33, 1024),
      slopes(),
      epilogue("product", Op::matmul, {{.dims = {9, 16}}, {.dims = {16, 20}}}, {}, {9, 20}),
      epilogue("split product", Op::matmul, {{.dims = {8, 4096}}, {.dims = {4096, 8}}}, {}, {8, 8}),
      epilogue("convolution", Op::conv, {{.dims = {2, 5, 5, 3}}, {.dims = {7, 3, 3, 3}}}, window, {2, 5, 5, 7}),
      // No kernel of these ends with an epilogue: it is done apart.
      epilogue("transpose", Op::transpose, {{.dims = {5, 6}}}, {{"perm", Ints{1, 0}}}, {6, 5}),
      epilogue("softmax", Op::softmax, {{.dims = {5, 6}}}, {{"axis", std::int64_t{1}}}, {5, 6}),
      add_norm("sum and rms_norm", Op::rms_norm, {{.dims = {24}}}, {}, {5, 24}),
      add_norm("sum and layer_norm", Op::layer_norm, {}, {{"axis", std::int64_t{1}}}, {3, 23}),
  };
}
GRAFT_OP_CASES(FusedElementwise, cases());

TEST(FusedElementwiseInfer, RefusesWhatIsNoProgram) {
  OpCase c = broadcasts(6, 20);
  c.attrs.set("fused_steps", Ints{0, 0, 9, 0, 0});  // reads what no step has given yet
  c.attrs.set("fused_parameters", Ints{0, 0});
  expect_infer_error(c, "no program of elementwise functions");
  c = broadcasts(6, 20);
  c.inputs[1].dims = {21};
  expect_infer_error(c, "20 elements are needed");
  c = broadcasts(6, 20);
  c.attrs.set(kFusedShapes, Ints{2, 6, 20, 1, 119});
  expect_infer_error(c, "not the same number of elements");
  c = add_norm("", Op::rms_norm, {}, {}, {5, 24});
  c.attrs.set(kFusedMain, std::string("fused_elementwise"));
  expect_infer_error(c, "no op that can be fused");
  c = add_norm("", Op::rms_norm, {}, {}, {5, 24});
  c.inputs[1].dims = {5, 23};
  expect_infer_error(c, "[5, 24] is needed");
}

}  // namespace
}  // namespace graft::test::fused_elementwise_test
