// A few operators of ai.onnx.ml that are arithmetic on tensors.
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import.h"

namespace graft::convert {
namespace {

std::vector<double> numbers_of(const NodeContext& c, std::string_view name) {
  const auto found = c.node.attrs.find(name);
  if (found == c.node.attrs.end()) return {};
  return {found->second.numbers.begin(), found->second.numbers.end()};
}

/// 1 above the threshold, 0 elsewhere.
Status binarizer(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const ValueId above = c.emit(Op::greater, {c.in(0), c.full(Shape{}, c.attr_number("threshold", 0))});
  c.out(0, c.cast(above, DType::f32));
  return {};
}

/// Columns by number.
Status array_feature_extractor(NodeContext& c) {
  if (!is_integer(c.type(1))) return corrupt("its indices are ", elem_name(c.type(1)));
  if (c.rank(0) == 0) return corrupt("its input has no axis");
  GRAFT_TRY_ASSIGN(const Dim count, c.shape(1).element_count());
  const auto last = static_cast<std::int64_t>(c.rank(0)) - 1;
  ValueId y = c.emit(Op::gather, {c.in(0), c.reshape(c.in(1), Shape{count})}, {{"axis", last}});
  if (c.rank(0) == 1) y = c.reshape(y, Shape{1, count});
  c.out(0, y);
  return {};
}

/// (x - offset) * scale, by column or by one number.
Status scaler(NodeContext& c) {
  const ElemType type = c.type(0);
  if (!is_float(type) && !is_integer(type)) return unsupported("its input is ", elem_name(type));
  const auto table = [&](std::string_view name, double fallback) -> ValueId {
    std::vector<double> values = numbers_of(c, name);
    if (values.empty()) values = {fallback};
    return c.constant(HostTensor::of_floats({std::ssize(values)}, {values.begin(), values.end()}));
  };
  const ValueId x = c.cast(c.in(0), DType::f32);
  c.out_typed(0, c.emit(Op::mul, {c.emit(Op::sub, {x, table("offset", 0)}), table("scale", 1)}), ElemType::f32);
  return {};
}

}  // namespace

const RuleEntry kMlRules[] = {
    {"ai.onnx.ml.Binarizer", 1, 1, binarizer},
    {"ai.onnx.ml.ArrayFeatureExtractor", 2, 2, array_feature_extractor},
    {"ai.onnx.ml.Scaler", 1, 1, scaler},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
