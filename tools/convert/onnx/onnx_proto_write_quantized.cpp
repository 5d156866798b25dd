// QuantizeLinear and DequantizeLinear of 8-bit integers.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/onnx_proto_writer.h"

namespace graft::convert {
namespace {

std::string cast(OnnxWriter& w, const std::string& x, onnx::TensorProto::DataType to) {
  return w.add("Cast", {x}, {{"to", static_cast<std::int64_t>(to)}});
}

/// Scale and zero point, which says ONNX the type.
Result<std::vector<std::string>> scales(OnnxWriter& w, const Node& node, onnx::TensorProto::DataType type) {
  const bool zero_point = node.inputs.size() > 2 && node.inputs[2].valid();
  if (w.shape(node.inputs[1]).rank() > 1 || node.attrs.integer("block_size", 0) != 0) {
    return unsupported("its scales lie over blocks, which opset 17 does not have");
  }
  std::string zero = zero_point ? w.name(node.inputs[2]) : w.number(0, DType::i32);
  if (!zero_point && w.shape(node.inputs[1]).rank() == 1) {
    GRAFT_TRY_ASSIGN(const std::string sizes, w.sizes(w.shape(node.inputs[1])));
    zero = w.add("Expand", {zero, sizes});
  }
  return std::vector<std::string>{w.name(node.inputs[1]), cast(w, zero, type)};
}

}  // namespace

Result<bool> write_quantized(OnnxWriter& w, const Node& node) {
  if (node.op != Op::quantize && node.op != Op::dequantize && node.op != Op::fake_quantize) return false;
  const std::string name = node.attrs.text("type");
  const auto type = name == "int8" ? onnx::TensorProto::INT8 : onnx::TensorProto::UINT8;
  if (name != "int8" && name != "uint8") return unsupported("opset 17 does not quantize to ", name);
  if (node.attrs.has("shape")) {
    return unsupported("its weights are packed; with --source FILE.onnx they go into the original's graph");
  }
  GRAFT_TRY_ASSIGN(const auto by, scales(w, node, type));
  const std::vector<OnnxWriter::Attr> attrs = {{"axis", node.attrs.integer("axis", -1)}};
  std::string x = w.name(node.inputs[0]);
  if (node.op == Op::dequantize) {
    x = cast(w, x, type);
  } else {
    x = w.add("QuantizeLinear", {x, by[0], by[1]}, attrs);
  }
  w.is(node.outputs[0], node.op == Op::quantize ? cast(w, x, onnx::TensorProto::INT32)
                                                : w.add("DequantizeLinear", {x, by[0], by[1]}, attrs));
  return true;
}

}  // namespace graft::convert
