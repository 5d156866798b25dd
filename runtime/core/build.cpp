#include "runtime/core/build.h"

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft {

void Builder::set_scope(std::string_view prefix, NodeId forward_of) {
  scope_ = prefix;
  forward_of_ = forward_of;
}

std::vector<ValueId> Builder::nodes(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string_view name) {
  if (!status_.ok()) return {};
  auto id = graph_.add_node(op, std::move(inputs), std::move(attrs), cat(scope_, name.empty() ? op_name(op) : name));
  if (!id.ok()) {
    fail(std::move(id).status());
    return {};
  }
  graph_.mutable_node(*id).forward_of = forward_of_;
  return graph_.node(*id).outputs;
}

ValueId Builder::node(Op op, std::vector<ValueId> inputs, Attrs attrs, std::string_view name) {
  const auto outputs = nodes(op, std::move(inputs), std::move(attrs), name);
  return outputs.empty() ? kNoValue : outputs[0];
}

ValueId Builder::add(ValueId a, ValueId b) { return node(Op::add, {a, b}); }
ValueId Builder::sub(ValueId a, ValueId b) { return node(Op::sub, {a, b}); }
ValueId Builder::mul(ValueId a, ValueId b) { return node(Op::mul, {a, b}); }
ValueId Builder::div(ValueId a, ValueId b) { return node(Op::div, {a, b}); }
ValueId Builder::neg(ValueId a) { return node(Op::neg, {a}); }

ValueId Builder::affine(ValueId a, double alpha, double beta) {
  return node(Op::affine, {a}, {{"alpha", alpha}, {"beta", beta}});
}

ValueId Builder::transpose(ValueId a, Ints perm) { return node(Op::transpose, {a}, {{"perm", std::move(perm)}}); }

ValueId Builder::reduce_sum(ValueId a, Ints axes, bool keepdims) {
  return node(Op::reduce_sum, {a}, {{"axes", std::move(axes)}, {"keepdims", std::int64_t{keepdims}}});
}

ValueId Builder::full(Shape shape, double value, DType dtype) {
  return node(Op::full, {},
              {{"shape", std::move(shape)}, {"value", value}, {"dtype", static_cast<std::int64_t>(dtype)}});
}

ValueId Builder::reshape(ValueId a, Shape shape) {
  if (!status_.ok() || this->shape(a) == shape) return a;
  return node(Op::reshape, {a}, {{"shape", std::move(shape)}});
}

ValueId Builder::expand(ValueId a, Shape shape) {
  if (!status_.ok() || this->shape(a) == shape) return a;
  return node(Op::expand, {a}, {{"shape", std::move(shape)}});
}

ValueId Builder::sum_to(ValueId a, const Shape& wanted) {
  if (!status_.ok() || shape(a) == wanted) return a;
  const Shape from = shape(a);
  if (from.rank() < wanted.rank()) {
    fail(internal_error("A gradient of shape ", from.text(), " cannot be summed to ", wanted.text(), "."));
    return kNoValue;
  }
  Ints axes;
  const std::size_t extra = from.rank() - wanted.rank();
  for (std::size_t axis = 0; axis < from.rank(); ++axis) {
    const bool summed = axis < extra || (wanted[axis - extra] == Dim(1) && from[axis] != Dim(1));
    if (summed) axes.push_back(static_cast<std::int64_t>(axis));
    if (!summed && from[axis] != wanted[axis - extra]) {
      fail(internal_error("A gradient of shape ", from.text(), " cannot be summed to ", wanted.text(), "."));
      return kNoValue;
    }
  }
  return reshape(axes.empty() ? a : reduce_sum(a, std::move(axes), true), wanted);
}

}  // namespace graft
