// Integers by their bits, and numbers as narrower types hold them.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

struct Format {
  std::string_view name;
  std::int64_t type;   ///< as TensorProto counts them
  std::int64_t opset;  ///< the first that casts to it
};
constexpr Format kFormats[] = {{"i8", 3, 17},      {"u8", 2, 17},         {"i16", 5, 17},       {"u16", 4, 17},
                               {"f16", 10, 17},    {"bf16", 16, 17},      {"f8e4m3fn", 17, 19}, {"f8e4m3fnuz", 18, 19},
                               {"f8e5m2", 19, 19}, {"f8e5m2fnuz", 20, 19}};

/// There and back: what does not fit wraps around, or is rounded.
Status write_narrow(OnnxWriter& w, const Node& node) {
  const std::string name = node.attrs.text("format");
  for (const Format& format : kFormats) {
    if (format.name != name) continue;
    GRAFT_TRY(w.need_opset(format.opset));
    std::vector<OnnxWriter::Attr> attrs = {{"to", format.type}};
    if (format.opset >= 19) attrs.push_back({"saturate", std::int64_t{node.attrs.flag("saturate")}});
    const std::string there = w.add("Cast", {w.name(node.inputs[0])}, attrs);
    const bool floats = w.dtype(node.outputs[0]) == DType::f32;
    w.is(node.outputs[0], w.cast(there, floats ? onnx::TensorProto::FLOAT : onnx::TensorProto::INT32));
    return {};
  }
  return unsupported("ONNX Runtime and others do not cast to ", name);
}

/// ONNX shifts unsigned integers alone.
void write_shift(OnnxWriter& w, const Node& node, const char* direction) {
  const auto bits = [&](std::size_t i) { return w.cast(w.name(node.inputs[i]), onnx::TensorProto::UINT32); };
  const std::string y = w.add("BitShift", {bits(0), bits(1)}, {{"direction", std::string(direction)}});
  w.is(node.outputs[0], w.cast(y, onnx::TensorProto::INT32));
}

Status write_bitwise(OnnxWriter& w, const Node& node, const char* op) {
  GRAFT_TRY(w.need_opset(18));
  w.is(node.outputs[0], w.add(op, {w.name(node.inputs[0]), w.name(node.inputs[1])}));
  return {};
}

}  // namespace

Result<bool> write_integer(OnnxWriter& w, const Node& node) {
  switch (node.op) {
    case Op::narrow: GRAFT_TRY(write_narrow(w, node)); return true;
    case Op::shift_left: write_shift(w, node, "LEFT"); return true;
    case Op::shift_right: write_shift(w, node, "RIGHT"); return true;
    case Op::bitwise_and: GRAFT_TRY(write_bitwise(w, node, "BitwiseAnd")); return true;
    case Op::bitwise_or: GRAFT_TRY(write_bitwise(w, node, "BitwiseOr")); return true;
    case Op::bitwise_xor: GRAFT_TRY(write_bitwise(w, node, "BitwiseXor")); return true;
    default: return false;
  }
}

}  // namespace graft::convert
