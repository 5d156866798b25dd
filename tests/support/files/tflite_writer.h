// Writes small TensorFlow Lite files.
#pragma once

#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schema/tflite_generated.h"

namespace graft::test {

class TfliteWriter {
 public:
  TfliteWriter() {
    model_.version = 3;
    model_.subgraphs.push_back(std::make_unique<tfl::SubGraphT>());
    model_.buffers.push_back(std::make_unique<tfl::BufferT>());  // the empty one
  }

  /// A tensor that is computed or given; its number. A negative size is left open, and 1 in the shape.
  int tensor(const std::string& name, const std::vector<int>& dims, tfl::TensorType type = tfl::TensorType::FLOAT32) {
    auto t = std::make_unique<tfl::TensorT>();
    t->name = name;
    t->type = type;
    for (const int dim : dims) t->shape.push_back(dim < 0 ? 1 : dim);
    t->shape_signature = dims;
    graph().tensors.push_back(std::move(t));
    return static_cast<int>(graph().tensors.size()) - 1;
  }
  template <class T>
  int constant(const std::string& name, const std::vector<int>& dims, tfl::TensorType type,
               const std::vector<T>& values) {
    const int index = tensor(name, dims, type);
    auto buffer = std::make_unique<tfl::BufferT>();
    buffer->data.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(buffer->data.data(), values.data(), buffer->data.size());
    model_.buffers.push_back(std::move(buffer));
    graph().tensors.back()->buffer = static_cast<std::uint32_t>(model_.buffers.size()) - 1;
    return index;
  }
  int floats(const std::string& name, const std::vector<int>& dims, const std::vector<float>& values) {
    return constant(name, dims, tfl::TensorType::FLOAT32, values);
  }
  int ints(const std::string& name, const std::vector<std::int32_t>& values) {
    return constant(name, {static_cast<int>(values.size())}, tfl::TensorType::INT32, values);
  }
  void quantize(int tensor, std::vector<float> scale, std::vector<std::int64_t> zero, int axis = 0) {
    auto q = std::make_unique<tfl::QuantizationParametersT>();
    q->scale = std::move(scale);
    q->zero_point = std::move(zero);
    q->quantized_dimension = axis;
    graph().tensors[static_cast<std::size_t>(tensor)]->quantization = std::move(q);
  }

  template <class Options>
  void op(tfl::BuiltinOperator code, std::vector<int> inputs, std::vector<int> outputs, Options options) {
    op(code, std::move(inputs), std::move(outputs));
    graph().operators.back()->builtin_options.Set(std::move(options));
  }
  void op(tfl::BuiltinOperator code, std::vector<int> inputs, std::vector<int> outputs) {
    auto entry = std::make_unique<tfl::OperatorCodeT>();
    entry->builtin_code = code;
    entry->deprecated_builtin_code =
        static_cast<std::int8_t>(static_cast<int>(code) < 127 ? static_cast<int>(code) : 127);
    model_.operator_codes.push_back(std::move(entry));
    auto node = std::make_unique<tfl::OperatorT>();
    node->opcode_index = static_cast<std::uint32_t>(model_.operator_codes.size()) - 1;
    node->inputs = std::move(inputs);
    node->outputs = std::move(outputs);
    graph().operators.push_back(std::move(node));
  }

  tfl::ModelT& model() { return model_; }
  tfl::SubGraphT& graph() { return *model_.subgraphs[0]; }

  std::string file(std::vector<int> inputs, std::vector<int> outputs) {
    graph().inputs = std::move(inputs);
    graph().outputs = std::move(outputs);
    flatbuffers::FlatBufferBuilder builder;
    tfl::FinishModelBuffer(builder, tfl::Model::Pack(builder, &model_));
    return {reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize()};
  }

 private:
  tfl::ModelT model_;
};

}  // namespace graft::test
