// Small models with trained weights of every kind that a delta holds, and adapters.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "platform/base/half.h"
#include "runtime/core/build.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/data/random.h"
#include "runtime/lora/adapter.h"
#include "runtime/model/model.h"

namespace graft::test {

/// Normal-like numbers.
inline std::vector<float> some_numbers(std::size_t count, std::uint64_t seed, double scale = 1) {
  data::Random random(seed);
  std::vector<float> numbers(count);
  for (float& x : numbers) x = static_cast<float>(scale * random.bell());
  return numbers;
}

inline std::vector<std::byte> as_dtype(const std::vector<float>& numbers, DType dtype) {
  std::vector<std::byte> bytes(numbers.size() * dtype_size(dtype));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint16_t bits = dtype == DType::f16 ? float_to_half(numbers[i]) : float_to_bfloat(numbers[i]);
    if (dtype == DType::f32) {
      std::memcpy(&bytes[4 * i], &numbers[i], 4);
    } else {
      std::memcpy(&bytes[2 * i], &bits, 2);
    }
  }
  return bytes;
}

/// y = x W in f32, with a running mean, a bias in f16, a scale in bf16, and a constant that no training touches.
inline Model delta_model(std::uint64_t seed, double scale = 1) {
  Model model;
  Builder b(model.graph);
  const ValueId x = *model.graph.add_value("x", DType::f32, {2, 30}, ValueKind::input);
  const auto add = [&](const char* name, DType dtype, const Shape& shape, ValueKind kind, std::uint64_t its) {
    const ValueId id = *model.graph.add_value(name, dtype, shape, kind);
    EXPECT_TRUE(model.copy_weight(id, as_dtype(some_numbers(shape.elements(), its, scale), dtype)).ok());
    return id;
  };
  const ValueId w = add("fc.weight", DType::f32, {30, 20}, ValueKind::parameter, seed);
  add("fc.half", DType::f16, {7}, ValueKind::parameter, seed + 1);
  add("fc.brain", DType::bf16, {300}, ValueKind::parameter, seed + 2);
  add("norm.mean", DType::f32, {20}, ValueKind::state, seed + 3);
  add("mask", DType::f32, {4}, ValueKind::constant, 77);
  model.graph.add_output("y", b.node(Op::matmul, {x, w}));
  return model;
}

/// The numbers of a weight.
inline std::vector<float> numbers_in(const Model& model, const std::string& name) {
  const ValueId id = model.graph.find_value(name);
  const Value& value = model.graph.value(id);
  const auto bytes = *model.weight(id);
  std::vector<float> out(value.shape.elements());
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t bits = 0;
    if (value.dtype == DType::f32) {
      std::memcpy(&out[i], &bytes[4 * i], 4);
    } else {
      std::memcpy(&bits, &bytes[2 * i], 2);
      out[i] = value.dtype == DType::f16 ? half_to_float(bits) : bfloat_to_float(bits);
    }
  }
  return out;
}

/// Two linear layers, [12, 9] and [8, 12], and adapters for them with contents.
inline Model two_layers() {
  Model model;
  Builder b(model.graph);
  const ValueId x = *model.graph.add_value("x", DType::f32, {2, 12}, ValueKind::input);
  const ValueId w1 = *model.graph.add_value("a.weight", DType::f32, {12, 9}, ValueKind::parameter);
  const ValueId w2 = *model.graph.add_value("b.weight", DType::f32, {9, 8}, ValueKind::parameter);
  EXPECT_TRUE(model.copy_weight(w1, as_dtype(some_numbers(108, 1), DType::f32)).ok());
  EXPECT_TRUE(model.copy_weight(w2, as_dtype(some_numbers(72, 2), DType::f32)).ok());
  model.graph.add_output("y", b.node(Op::matmul, {b.node(Op::matmul, {x, w1}), w2}));
  return model;
}

inline Model adapters_for(const Model& base, std::int64_t rank, double alpha, std::uint64_t seed) {
  LoraOptions options;
  options.rank = rank;
  options.alpha = alpha;
  options.targets = {"a", "b"};
  auto adapted = with_lora(base, options, static_cast<std::uint32_t>(seed));
  EXPECT_TRUE(adapted.ok()) << adapted.status().message();
  Model adapters = std::move(adapter_of(*adapted)).value();
  for (const ValueId id : adapters.graph.of_kind(ValueKind::parameter)) {
    const auto numbers = some_numbers(adapters.graph.value(id).shape.elements(), seed * 10 + id.index);
    EXPECT_TRUE(adapters.copy_weight(id, as_dtype(numbers, DType::f32)).ok());
  }
  return adapters;
}

}  // namespace graft::test
