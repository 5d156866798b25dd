// QuantizeLinear and DequantizeLinear of integers.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

struct Quantized {
  std::string_view name;
  int type;  ///< as TensorProto counts them
  std::uint64_t bits;
  std::int64_t opset;  ///< the first that quantizes to it
};
constexpr Quantized kQuantized[] = {{"int8", 3, 8, 17},    {"uint8", 2, 8, 17}, {"int16", 5, 16, 21},
                                    {"uint16", 4, 16, 21}, {"int4", 22, 4, 21}, {"uint4", 21, 4, 21}};

const Quantized* find_quantized(const std::string& name) {
  for (const Quantized& type : kQuantized) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

bool has_zero_point(const Node& node) { return node.inputs.size() > 2 && node.inputs[2].valid(); }

std::vector<OnnxWriter::Attr> quantization_attrs(const Node& node) {
  std::vector<OnnxWriter::Attr> attrs = {{"axis", node.attrs.integer("axis")}};
  if (const auto block = node.attrs.integer("block_size"); block != 0) attrs.push_back({"block_size", block});
  return attrs;
}

/// Scale and zero point, which says ONNX the type.
Result<std::vector<std::string>> scales(OnnxWriter& w, const Node& node, const Quantized& type) {
  GRAFT_TRY(w.need_opset(node.attrs.integer("block_size") != 0 ? 21 : type.opset));
  const Shape& shape = w.shape(node.inputs[1]);
  std::string zero = has_zero_point(node) ? w.name(node.inputs[2]) : w.number(0, DType::i32);
  if (!has_zero_point(node) && shape.rank() > 0) {
    GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(shape));
    zero = w.add("Expand", {zero, sizes});
  }
  return std::vector<std::string>{w.name(node.inputs[1]), w.cast(zero, type.type)};
}

/// Elements that are kept several to a word, as a tensor of their own: the bytes are the same.
Result<std::string> unpacked(OnnxWriter& w, const Node& node, const Quantized& type) {
  const Shape shape = node.attrs.shape("shape");
  const auto contents = w.contents(node.inputs[0]);
  const std::uint64_t bytes = shape.is_constant() ? (shape.elements() * type.bits + 7) / 8 : 0;
  if (!shape.is_constant() || !contents || contents->size() < bytes) {
    return unsupported("its packed weights have no contents");
  }
  return w.raw(type.type, shape.values(), std::string_view(reinterpret_cast<const char*>(contents->data()), bytes));
}

}  // namespace

bool is_packed_weight(const Graph& graph, ValueId v) {
  bool read = false;
  for (const Node& node : graph.nodes()) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != v) continue;
      if (node.op != Op::dequantize || i != 0 || !node.attrs.has("shape")) return false;
      if (find_quantized(node.attrs.text("type")) == nullptr) return false;
      read = true;
    }
  }
  return read;
}

Result<bool> write_quantized(OnnxWriter& w, const Node& node) {
  if (node.op != Op::quantize && node.op != Op::dequantize && node.op != Op::fake_quantize) return false;
  const std::vector<OnnxWriter::Attr> attrs = quantization_attrs(node);
  const bool packed = node.attrs.has("shape");
  const std::string name = node.attrs.text("type");
  if (name == "int16" && node.op == Op::dequantize && !packed && !has_zero_point(node)) {
    if (attrs.size() > 1) GRAFT_TRY(w.need_opset(21));  // of up to 32 bits, as biases are, which each opset knows
    w.is(node.outputs[0], w.add("DequantizeLinear", {w.name(node.inputs[0]), w.name(node.inputs[1])}, attrs));
    return true;
  }
  const Quantized* type = find_quantized(name);
  if (type == nullptr) return unsupported("what ONNX Runtime and others quantize to are integers, not ", name);
  GRAFT_TRY_ASSIGN(const auto by, scales(w, node, *type));
  std::string x;
  if (packed) {
    GRAFT_TRY_ASSIGN(x, unpacked(w, node, *type));
  } else if (node.op == Op::dequantize) {
    x = w.cast(w.name(node.inputs[0]), type->type);
  } else {
    x = w.add("QuantizeLinear", {w.name(node.inputs[0]), by[0], by[1]}, attrs);
  }
  w.is(node.outputs[0], node.op == Op::quantize ? w.cast(x, onnx::TensorProto::INT32)
                                                : w.add("DequantizeLinear", {x, by[0], by[1]}, attrs));
  return true;
}

}  // namespace graft::convert
