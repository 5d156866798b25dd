// Writes small ONNX files byte by byte, wrong ones too: a protobuf message is fields of (number, wire type, contents).
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace graft::test {

class Message {
 public:
  Message& integer(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    varint(value);
    return *this;
  }
  Message& text(int field, const std::string& value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& float32(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes_ += static_cast<char>(bits >> shift);
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_ += static_cast<char>(value | 128);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// TensorProto of float32.
inline Message float_tensor(const std::string& name, const std::vector<std::int64_t>& dims, const std::string& raw) {
  Message m;
  for (const std::int64_t dim : dims) m.integer(1, static_cast<std::uint64_t>(dim));
  return m.integer(2, 1).text(8, name).text(9, raw);
}

/// TensorProto whose contents lie in another file.
inline Message external_tensor(const std::string& name, const std::vector<std::int64_t>& dims,
                               const std::string& location, const std::string& offset, const std::string& length) {
  Message m;
  for (const std::int64_t dim : dims) m.integer(1, static_cast<std::uint64_t>(dim));
  m.integer(2, 1).text(8, name);
  m.message(13, Message().text(1, "location").text(2, location));
  if (!offset.empty()) m.message(13, Message().text(1, "offset").text(2, offset));
  if (!length.empty()) m.message(13, Message().text(1, "length").text(2, length));
  return m.integer(14, 1);
}

/// ValueInfoProto; a negative dimension is left open. 1: float32, 6: int32, 7: int64.
inline Message typed_value(const std::string& name, const std::vector<std::int64_t>& dims, std::uint64_t type) {
  Message shape;
  for (const std::int64_t dim : dims) {
    shape.message(1, dim < 0 ? Message() : Message().integer(1, static_cast<std::uint64_t>(dim)));
  }
  return Message().text(1, name).message(2, Message().message(1, Message().integer(1, type).message(2, shape)));
}
/// Of float32, with names for open dimensions.
inline Message named_value(const std::string& name, const std::vector<std::string>& dims) {
  Message shape;
  for (const std::string& dim : dims) {
    const bool number = dim[0] >= '0' && dim[0] <= '9';
    shape.message(1, number ? Message().integer(1, std::stoull(dim)) : Message().text(2, dim));
  }
  return Message().text(1, name).message(2, Message().message(1, Message().integer(1, 1).message(2, shape)));
}
inline Message float_value(const std::string& name, const std::vector<std::int64_t>& dims) {
  return typed_value(name, dims, 1);
}

inline Message onnx_node(const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs, const std::vector<Message>& attributes = {}) {
  Message m;
  for (const std::string& input : inputs) m.text(1, input);
  for (const std::string& output : outputs) m.text(2, output);
  m.text(3, op + "_node").text(4, op);
  for (const Message& attribute : attributes) m.message(5, attribute);
  return m;
}
inline Message ints_attribute(const std::string& name, const std::vector<std::int64_t>& values) {
  Message m;
  m.text(1, name);
  for (const std::int64_t v : values) m.integer(8, static_cast<std::uint64_t>(v));
  return m.integer(20, 7);
}
inline Message int_attribute(const std::string& name, std::int64_t value) {
  return Message().text(1, name).integer(3, static_cast<std::uint64_t>(value)).integer(20, 2);
}

struct OnnxParts {
  std::vector<Message> nodes, initializers, inputs, outputs;
  std::uint64_t opset = 13;
};

/// The bytes of a ModelProto.
inline std::string onnx_file(const OnnxParts& parts) {
  Message graph;
  for (const Message& node : parts.nodes) graph.message(1, node);
  graph.text(2, "graph");
  for (const Message& tensor : parts.initializers) graph.message(5, tensor);
  for (const Message& value : parts.inputs) graph.message(11, value);
  for (const Message& value : parts.outputs) graph.message(12, value);
  return Message().integer(1, 8).message(7, graph).message(8, Message().text(1, "").integer(2, parts.opset)).bytes();
}

}  // namespace graft::test
