#include "runtime/core/op_id.gen.h"
#include "tests/support/op_case.h"

namespace graft::test::matmul_test {
namespace {

constexpr const char* kSums =
    "f32 sums of up to 300 products: about sqrt(K) roundings of 6e-8, relative to the result's size";

std::vector<OpCase> cases() {
  using Dims = std::vector<std::int64_t>;
  const auto one = [](std::string name, Dims a, Dims b, Dims y, std::int64_t trans_a = 0, std::int64_t trans_b = 0) {
    return OpCase{.name = std::move(name),
                  .op = Op::matmul,
                  .inputs = {{.dims = std::move(a)}, {.dims = std::move(b)}},
                  .attrs = {{"trans_a", trans_a}, {"trans_b", trans_b}},
                  .tolerance = 1e-5,
                  .reason = kSums,
                  .expect_dims = std::move(y)};
  };
  const auto biased = [&](std::string name, Dims a, Dims b, Dims y) {
    OpCase c = one(std::move(name), std::move(a), std::move(b), y);
    c.inputs.push_back({.dims = {y.back()}});
    return c;
  };
  OpCase by_rows = biased("two rows of a transposed b and a bias", {2, 100}, {11, 100}, {2, 11});
  by_rows.attrs.set("trans_b", std::int64_t{1});
  std::vector<OpCase> all = {
      by_rows,
      one("one by one", {1, 1}, {1, 1}, {1, 1}),
      one("odd sizes", {17, 19}, {19, 37}, {17, 37}),
      one("whole tiles", {32, 16}, {16, 64}, {32, 64}),
      one("just past tiles", {33, 17}, {17, 65}, {33, 65}),
      one("trans a", {19, 17}, {19, 37}, {17, 37}, 1, 0),
      one("trans b", {17, 19}, {37, 19}, {17, 37}, 0, 1),
      one("trans both", {19, 17}, {37, 19}, {17, 37}, 1, 1),
      one("one row", {1, 70}, {70, 90}, {1, 90}),
      one("four rows", {4, 70}, {90, 70}, {4, 90}, 0, 1),
      one("one row, whole vectors", {1, 72}, {72, 36}, {1, 36}),
      one("three rows of a transposed b", {3, 76}, {45, 76}, {3, 45}, 0, 1),
      one("one transposed row", {68, 1}, {68, 12}, {1, 12}, 1, 0),
      one("two rows, long sums", {2, 1000}, {1000, 16}, {2, 16}),
      biased("four rows and a bias", {4, 64}, {64, 600}, {4, 600}),
      biased("one row, long sums and a bias", {1, 2000}, {2000, 8}, {1, 8}),
      one("one column", {90, 70}, {70, 1}, {90, 1}),
      one("eight columns", {33, 21}, {21, 8}, {33, 8}),
      one("outer product", {20, 1}, {1, 30}, {20, 30}),
      one("batch", {3, 5, 7}, {3, 7, 9}, {3, 5, 9}),
      one("batch trans a", {3, 7, 5}, {3, 7, 9}, {3, 5, 9}, 1, 0),
      one("batch trans both", {2, 3, 7, 5}, {2, 3, 9, 7}, {2, 3, 5, 9}, 1, 1),
      one("one b for the batch", {3, 4, 5, 7}, {7, 9}, {3, 4, 5, 9}),
      one("one b transposed for the batch", {3, 5, 7}, {9, 7}, {3, 5, 9}, 0, 1),
      one("one b for transposed a", {3, 7, 5}, {7, 9}, {3, 5, 9}, 1, 0),
      one("one a for the batch", {5, 7}, {3, 7, 9}, {3, 5, 9}),
      one("crossed batches", {2, 1, 5, 7}, {1, 3, 7, 9}, {2, 3, 5, 9}),
      one("batches of size one", {1, 5, 7}, {3, 1, 7, 9}, {3, 1, 5, 9}),
      one("alternating batches", {2, 1, 2, 1, 2, 1, 3, 2}, {1, 2, 1, 2, 1, 2, 2, 3}, {2, 2, 2, 2, 2, 2, 3, 3}),
      one("dot", {40}, {40}, {}),
      one("vector by matrix", {19}, {19, 37}, {37}),
      one("matrix by vector", {17, 19}, {19}, {17}),
      one("vector by batch", {7}, {3, 7, 9}, {3, 9}),
      one("batch by vector", {3, 5, 7}, {7}, {3, 5}),
      one("vectors ignore trans", {7}, {3, 9, 7}, {3, 9}, 1, 1),
      biased("bias", {17, 19}, {19, 37}, {17, 37}),
      biased("bias under a batch", {2, 5, 7}, {2, 7, 9}, {2, 5, 9}),
      biased("bias and vector", {19}, {19, 37}, {37}),
      one("no rows", {0, 5}, {5, 3}, {0, 3}),
      one("nothing to sum", {4, 0}, {0, 3}, {4, 3}),
      one("empty batch", {0, 2, 3}, {3, 4}, {0, 2, 4}),
  };
  // k long and the output small: k is split and a second pass adds the parts (with the bias).
  OpCase split = biased("split k", {7, 4100}, {4100, 21}, {7, 21});
  split.tolerance = 4e-5;
  split.reason = "f32 sums of 4100 products: about 64 roundings of 6e-8 in the walk";
  all.push_back(split);
  split = one("split k transposed", {3001, 6}, {3001, 10}, {6, 10}, 1, 0);
  split.tolerance = 4e-5;
  split.reason = "f32 sums of 3001 products: about 55 roundings of 6e-8 in the walk";
  all.push_back(split);
  return all;
}
GRAFT_OP_CASES(Matmul, cases());

// Quantized weights: forward and the gradient with respect to x, which dequantizes the same blocks the other way.
std::vector<OpCase> quantized_cases() {
  using Dims = std::vector<std::int64_t>;
  const auto one = [](std::string name, DType dtype, Dims x, Dims w, std::int64_t trans_b = 1) {
    return OpCase{.name = cat(name, " ", dtype_name(dtype)),
                  .op = Op::matmul,
                  .inputs = {{.dims = std::move(x)}, {.dims = std::move(w), .dtype = dtype}},
                  .attrs = {{"trans_b", trans_b}},
                  .tolerance = 2e-5,
                  .reason = "f32 sums of up to 544 products of a dequantized number (two roundings) each"};
  };
  std::vector<OpCase> all;
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1}) {
    all.push_back(one("odd sizes", dtype, {2, 19, 96}, {37, 96}));
  }
  for (const DType dtype : {DType::q4_k, DType::q5_k, DType::q6_k}) {
    all.push_back(one("odd sizes", dtype, {19, 512}, {37, 512}));
  }
  // Weights that end with a whole vector of four words; pairs of runs begin at any word.
  for (const DType dtype : {DType::q8_0, DType::q4_0}) {
    all.push_back(one("one row, whole vectors", dtype, {1, 192}, {48, 192}));
    all.push_back(one("three rows, whole vectors", dtype, {3, 64}, {40, 64}));
  }
  all.push_back(one("one row", DType::q8_0, {1, 32}, {5, 32}));
  all.push_back(one("a vector", DType::q4_0, {32}, {50, 32}));
  all.push_back(one("not transposed", DType::q8_0, {33, 21}, {21, 64}, 0));
  all.push_back(one("split sums", DType::q8_0, {3, 1088}, {6, 1088}));
  all.push_back(one("split sums", DType::q6_k, {5, 1300}, {1300, 256}, 0));
  OpCase biased = one("bias", DType::q5_1, {40, 64}, {70, 64});
  biased.inputs.push_back({.dims = {70}});
  all.push_back(biased);
  biased = one("bias of split sums", DType::q8_0, {3, 1088}, {6, 1088});
  biased.inputs.push_back({.dims = {6}});
  all.push_back(biased);
  biased = one("bias, not transposed", DType::q4_1, {7, 21}, {21, 64}, 0);
  biased.inputs.push_back({.dims = {64}});
  all.push_back(biased);
  all.push_back(one("no rows", DType::q8_0, {0, 32}, {3, 32}));
  return all;
}
GRAFT_OP_CASES(MatmulQuantized, quantized_cases());

OpCase bad(std::vector<std::vector<std::int64_t>> dims) {
  OpCase c{.name = "bad", .op = Op::matmul};
  for (auto& d : dims) c.inputs.push_back({.dims = std::move(d)});
  return c;
}

TEST(MatmulInfer, RefusesWhatDoesNotFit) {
  expect_infer_error(bad({{2, 3}, {4, 5}}), "sums over 3 elements of the first and 4 of the second");
  expect_infer_error(bad({{}, {4, 5}}), "rank 1 or more");
  expect_infer_error(bad({{2, 3, 4}, {3, 4, 5}}), "broadcast");
  expect_infer_error(bad({{2, 3}, {3, 5}, {4}}), "[5]");
  expect_infer_error(bad({{2, 3}, {3}, {1}}), "no bias");
  OpCase integers = bad({{2, 3}, {3, 5}});
  integers.inputs[0].dtype = DType::i32;
  expect_infer_error(integers, "i32");
}

TEST(MatmulInfer, TakesSymbols) {
  Graph graph;
  const Dim batch = Dim::symbol("batch");
  const auto a = graph.add_value("a", DType::f32, {batch, 3, 4}, ValueKind::input);
  const auto b = graph.add_value("b", DType::f32, {4, 5}, ValueKind::input);
  ASSERT_TRUE(a.ok() && b.ok());
  const auto node = graph.add_node(Op::matmul, {*a, *b});
  ASSERT_TRUE(node.ok()) << node.status().message();
  EXPECT_EQ(graph.value(graph.node(*node).outputs[0]).shape.text(), "[batch, 3, 5]");
}

}  // namespace
}  // namespace graft::test::matmul_test
