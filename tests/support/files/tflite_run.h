// Converts a TensorFlow Lite file that a test wrote, and runs it by the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/passes/bind.h"
#include "runtime/reference/interpreter.h"
#include "tests/support/model_tensors.h"
#include "tools/convert/tflite/convert_tflite.h"

namespace graft::test::tflite_run {

using Floats = std::vector<double>;

inline Result<convert::Converted> converted(const std::string& file, const convert::TfliteOptions& options = {},
                                            convert::Report* report = nullptr) {
  // FlatBuffers wants its bytes aligned, as files and mappings are.
  std::vector<std::uint64_t> aligned((file.size() + 7) / 8);
  if (!file.empty()) std::memcpy(aligned.data(), file.data(), file.size());
  const auto bytes = std::as_bytes(std::span(aligned)).first(file.size());
  GRAFT_TRY_ASSIGN(convert::OnnxGraph graph, convert::read_tflite(bytes, options));
  return convert::convert_onnx(std::move(graph), "test.tflite", {}, report);
}

/// The first output for these inputs, all symbols being `batch`.
inline Floats output_of(const Model& model, const std::map<std::string, Floats>& inputs, std::int64_t batch = 1) {
  Bindings bindings;
  for (const std::string& symbol : model.graph.symbols()) bindings[symbol] = batch;
  auto bound = graft::bind(model.graph, bindings);
  EXPECT_TRUE(bound.ok()) << bound.status().message();
  RefTensors tensors = weights_of(model);
  for (const ValueId id : bound->inputs()) {
    const Value& value = bound->value(id);
    const auto given = inputs.find(value.name);
    EXPECT_NE(given, inputs.end()) << value.name;
    if (given == inputs.end()) return {};
    tensors[value.name] = RefTensor{value.shape.values(), given->second};
  }
  const Status status = interpret(*bound, tensors);
  EXPECT_TRUE(status.ok()) << status.message();
  const Value& out = bound->value(bound->outputs()[0].value);
  return status.ok() ? tensors[out.name].data : Floats{};
}

inline Floats run(const std::string& file, const std::map<std::string, Floats>& inputs,
                  const convert::TfliteOptions& options = {}) {
  const auto result = converted(file, options);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? output_of(result->model, inputs) : Floats{};
}

}  // namespace graft::test::tflite_run
