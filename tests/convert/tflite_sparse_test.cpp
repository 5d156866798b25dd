// Sparse tensors and halves of TensorFlow Lite files, and an op that is none of the format's own.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>

#include "tests/support/files/temporary_folder.h"
#include "tests/support/files/tflite_run.h"
#include "tests/support/files/tflite_writer.h"
#include "tools/convert/tflite/export_tflite.h"

namespace graft::test::convert_tflite_sparse_test {
namespace {

using namespace tflite_run;
using B = tfl::BuiltinOperator;

std::unique_ptr<tfl::DimensionMetadataT> dense(int size) {
  auto made = std::make_unique<tfl::DimensionMetadataT>();
  made->dense_size = size;
  return made;
}

template <class Vector>
std::unique_ptr<tfl::DimensionMetadataT> sparse(std::vector<int> segments, std::vector<int> indices) {
  auto made = std::make_unique<tfl::DimensionMetadataT>();
  made->format = tfl::DimensionType::SPARSE_CSR;
  Vector a, b;
  a.values.assign(segments.begin(), segments.end());
  b.values.assign(indices.begin(), indices.end());
  made->array_segments.Set(std::move(a));
  made->array_indices.Set(std::move(b));
  return made;
}

/// y = x + DENSIFY(w); w has these dims and, of its elements, these values.
struct SparseFile {
  TfliteWriter writer;
  int in = 0, out = 0;
  tfl::SparsityParametersT* sparsity = nullptr;

  SparseFile(const std::vector<int>& dims, const std::vector<float>& values) {
    const int w = writer.floats("w", dims, values);
    writer.graph().tensors.back()->sparsity = std::make_unique<tfl::SparsityParametersT>();
    sparsity = writer.graph().tensors.back()->sparsity.get();
    in = writer.tensor("x", dims);
    out = writer.tensor("y", dims);
    const int made = writer.tensor("dense", dims);
    writer.op(B::DENSIFY, {w}, {made});
    writer.op(B::ADD, {in, made}, {out}, tfl::AddOptionsT());
  }
  std::string file() { return writer.file({in}, {out}); }
};

template <class Vector>
SparseFile rows() {
  SparseFile f({3, 4}, {5, 6, 7});
  f.sparsity->traversal_order = {0, 1};
  f.sparsity->dim_metadata.push_back(dense(3));
  f.sparsity->dim_metadata.push_back(sparse<Vector>({0, 2, 2, 3}, {1, 3, 0}));
  return f;
}

TEST(ConvertTfliteSparse, RowsWithTheColumnsThatAreThere) {
  const Floats wanted = {0, 5, 0, 6, 0, 0, 0, 0, 7, 0, 0, 0};
  EXPECT_EQ(run(rows<tfl::Int32VectorT>().file(), {{"x", Floats(12, 0)}}), wanted);
  EXPECT_EQ(run(rows<tfl::Uint16VectorT>().file(), {{"x", Floats(12, 0)}}), wanted);
  EXPECT_EQ(run(rows<tfl::Uint8VectorT>().file(), {{"x", Floats(12, 0)}}), wanted);
}

TEST(ConvertTfliteSparse, ColumnsFirstAndBlocks) {
  // Columns, and in each the rows that are there.
  SparseFile columns({3, 4}, {5, 6, 7});
  columns.sparsity->traversal_order = {1, 0};
  columns.sparsity->dim_metadata.push_back(dense(4));
  columns.sparsity->dim_metadata.push_back(sparse<tfl::Int32VectorT>({0, 1, 1, 3, 3}, {2, 0, 1}));
  EXPECT_EQ(run(columns.file(), {{"x", Floats(12, 0)}}), (Floats{0, 0, 6, 0, 0, 0, 7, 0, 5, 0, 0, 0}));
  // Two rows of blocks of 2 by 2; the second block of the first and the first of the second are there.
  SparseFile blocks({4, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  blocks.sparsity->traversal_order = {0, 1, 2, 3};
  blocks.sparsity->block_map = {0, 1};
  blocks.sparsity->dim_metadata.push_back(dense(2));
  blocks.sparsity->dim_metadata.push_back(sparse<tfl::Uint8VectorT>({0, 1, 2}, {1, 0}));
  blocks.sparsity->dim_metadata.push_back(dense(2));
  blocks.sparsity->dim_metadata.push_back(dense(2));
  EXPECT_EQ(run(blocks.file(), {{"x", Floats(16, 0)}}), (Floats{0, 0, 1, 2, 0, 0, 3, 4, 5, 6, 0, 0, 7, 8, 0, 0}));
}

TEST(ConvertTfliteSparse, NewWeightsAreNotWrittenThere) {
  TemporaryFolder folder;
  const std::string bytes = rows<tfl::Int32VectorT>().file();
  const std::string source = folder.write("in.tflite", bytes);
  const auto result = converted(bytes);
  ASSERT_TRUE(result.ok());
  const auto report = convert::export_tflite(os::system_files(), folder.file("out.tflite"), result->model, source);
  ASSERT_FALSE(report.ok());
  EXPECT_NE(report.status().message().find("sparse in the file"), std::string::npos) << report.status().message();
}

TEST(ConvertTfliteSparse, WhatContradictsItselfIsRefused) {
  const auto refused = [](SparseFile f, const std::function<void(tfl::SparsityParametersT&)>& damage,
                          const char* says) {
    damage(*f.sparsity);
    const auto result = converted(f.file());
    ASSERT_FALSE(result.ok()) << says;
    EXPECT_NE(result.status().message().find(says), std::string::npos) << result.status().message();
  };
  using V = tfl::Int32VectorT;
  const auto level = [](std::vector<int> segments, std::vector<int> indices) {
    return [=](tfl::SparsityParametersT& s) { s.dim_metadata[1] = sparse<V>(segments, indices); };
  };
  refused(rows<V>(), level({0, 2, 2}, {1, 3, 0}), "too few segments");
  refused(rows<V>(), level({0, 2, 2, 4}, {1, 3, 0}), "none of its indices");
  refused(rows<V>(), level({0, 2, 1, 3}, {1, 3, 0}), "none of its indices");
  refused(rows<V>(), level({-1, 2, 2, 3}, {1, 3, 0}), "none of its indices");
  refused(rows<V>(), level({0, 2, 2, 3}, {1, 4, 0}), "out of order");
  refused(rows<V>(), level({0, 2, 2, 3}, {3, 3, 0}), "out of order");
  refused(rows<V>(), level({0, 2, 2, 2}, {1, 3}), "more elements");
  refused(rows<V>(), level({0, 2, 3, 4}, {1, 3, 0, 0}), "fewer elements");
  refused(
      rows<V>(),
      [](auto& s) {
        s.traversal_order = {0, 0};
      },
      "order of traversal");
  refused(
      rows<V>(), [](auto& s) { s.traversal_order = {0}; }, "levels");
  refused(
      rows<V>(), [](auto& s) { s.dim_metadata[0] = dense(1 << 30); }, "another size");
  refused(
      rows<V>(), [](auto& s) { s.dim_metadata.pop_back(); }, "levels");
  // A few bytes that name a huge tensor.
  SparseFile bomb({1 << 20, 1 << 20}, {1});
  bomb.sparsity->traversal_order = {0, 1};
  bomb.sparsity->dim_metadata.push_back(dense(1 << 20));
  bomb.sparsity->dim_metadata.push_back(sparse<V>({0, 1}, {0}));
  refused(
      std::move(bomb), [](auto&) {}, "dense it would have");
}

TEST(ConvertTfliteCustom, TransposedConvolutionWithABias) {
  // 2 by 2 windows that do not overlap: pixel (2 i + a, 2 j + b) is bias + x[i, j] * k[a, b].
  TfliteWriter w;
  const int in = w.tensor("x", {1, 2, 3, 1}), out = w.tensor("y", {1, 4, 6, 2});
  const int weight = w.floats("w", {2, 2, 2, 1}, {1, 2, 3, 4, 10, 20, 30, 40}), bias = w.floats("b", {2}, {0.5, -0.5});
  w.op(B::CUSTOM, {in, weight, bias}, {out});
  w.model().operator_codes.back()->custom_code = "Convolution2DTransposeBias";
  const auto options = [&](std::vector<std::int32_t> numbers) {
    auto& bytes = w.graph().operators.back()->custom_options;
    bytes.resize(numbers.size() * sizeof numbers[0]);
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    return w.file({in}, {out});
  };
  const Floats x = {1, 2, 3, 4, 5, 6};
  Floats wanted;
  for (int row = 0; row < 4; ++row) {
    for (int column = 0; column < 6; ++column) {
      const double pixel = x[static_cast<std::size_t>(3 * (row / 2) + column / 2)];
      const int k = 1 + 2 * (row % 2) + column % 2;
      wanted.insert(wanted.end(), {pixel * k + 0.5, pixel * 10 * k - 0.5});
    }
  }
  EXPECT_EQ(run(options({1, 2, 2}), {{"x", x}}), wanted);
  EXPECT_EQ(run(options({2, 2, 2}), {{"x", x}}), wanted);
  for (const std::vector<std::int32_t>& bad : {std::vector<std::int32_t>{1, 2}, {0, 2, 2}, {3, 2, 2}, {1, 0, 2}}) {
    EXPECT_FALSE(converted(options(bad)).ok());
  }
}

TEST(ConvertTfliteSparse, HalvesThatAreDequantizedServeEveryOperator) {
  const std::vector<std::uint16_t> halves = {0x3c00, 0xc000, 0x3800};  // 1, -2, 0.5
  for (const B op : {B::ADD, B::MUL, B::SUB, B::PRELU, B::MAXIMUM, B::SQUARED_DIFFERENCE, B::CONCATENATION}) {
    const bool joined = op == B::CONCATENATION;
    TfliteWriter w;
    const int x = w.tensor("x", {2, 3}), y = w.tensor("y", {joined ? 4 : 2, 3}), f = w.tensor("f", {3}),
              g = w.tensor("g", {2, 3});
    const int h = w.constant("h", {3}, tfl::TensorType::FLOAT16, halves);
    const std::vector<std::uint16_t> twice = {0x3c00, 0xc000, 0x3800, 0x3c00, 0xc000, 0x3800};
    const int table = w.constant("table", {2, 3}, tfl::TensorType::FLOAT16, twice);
    w.op(B::DEQUANTIZE, {h}, {f});
    w.op(B::DEQUANTIZE, {table}, {g});
    w.op(op, {x, joined ? g : f}, {y});
    const Floats in = {1, -2, 0.25, -0.5, 3, -4};
    const Floats got = run(w.file({x}, {y}), {{"x", in}});
    ASSERT_EQ(got.size(), joined ? 12u : 6u) << tfl::EnumNameBuiltinOperator(op);
    const double numbers[] = {1, -2, 0.5};
    for (std::size_t i = 0; i < got.size(); ++i) {
      const double a = in[i % 6], b = numbers[i % 3];
      const double wanted = op == B::ADD                  ? a + b
                            : op == B::MUL                ? a * b
                            : op == B::SUB                ? a - b
                            : op == B::PRELU              ? (a < 0 ? a * b : a)
                            : op == B::MAXIMUM            ? std::max(a, b)
                            : op == B::SQUARED_DIFFERENCE ? (a - b) * (a - b)
                            : i < 6                       ? a
                                                          : b;
      EXPECT_NEAR(got[i], wanted, 1e-6) << tfl::EnumNameBuiltinOperator(op) << ' ' << i;
    }
  }
  TfliteWriter w;
  const int x = w.tensor("x", {2, 3}, tfl::TensorType::FLOAT16), f = w.tensor("f", {2, 3}), y = w.tensor("y", {2, 3});
  const int one = w.floats("one", {1}, {1});
  w.op(B::DEQUANTIZE, {x}, {f});
  w.op(B::ADD, {f, one}, {y}, tfl::AddOptionsT{});
  EXPECT_EQ(run(w.file({x}, {y}), {{"x", Floats{1, 2, 3, 4, 5, 6}}}), (Floats{2, 3, 4, 5, 6, 7}));
}

}  // namespace
}  // namespace graft::test::convert_tflite_sparse_test
