#include "runtime/session/folded_constants.h"

#include <cstring>

#include "runtime/reference/interpreter.h"

namespace graft {
namespace {

Result<RefTensor> read_weight(const Model& model, const Value& value) {
  const ValueId weight = model.graph.find_value(value.name);
  const auto bytes = weight.valid() ? model.weight(weight) : std::nullopt;
  RefTensor tensor{value.shape.values(), std::vector<double>(value.shape.elements(), 0.0)};
  if (!bytes && value.kind == ValueKind::state) return tensor;  // it starts as zeros
  if (!bytes || bytes->size() != tensor.data.size() * sizeof(float)) {
    return corrupt("The weight \"", value.name, "\" has no contents.");
  }
  for (std::size_t i = 0; i < tensor.data.size(); ++i) {
    float number = 0;
    std::memcpy(&number, bytes->data() + i * sizeof number, sizeof number);
    tensor.data[i] = number;
  }
  return tensor;
}

}  // namespace

Result<HostBuffer> contents_of(const passes::FoldedConstant& constant, const Model& model) {
  RefTensors tensors;
  for (const Value& value : constant.graph.values()) {
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(tensors[value.name], read_weight(model, value));
  }
  GRAFT_TRY(interpret(constant.graph, tensors).with_context(cat("While computing \"", constant.name, "\"")));
  const Value& result = constant.graph.value(constant.graph.outputs()[0].value);
  const std::vector<double>& data = tensors.find(result.name)->second.data;
  GRAFT_TRY_ASSIGN(HostBuffer contents, HostBuffer::create(data.size() * sizeof(float), "a folded constant"));
  for (std::size_t i = 0; i < data.size(); ++i) {
    const auto number = static_cast<float>(data[i]);
    std::memcpy(contents.data() + i * sizeof number, &number, sizeof number);
  }
  return contents;
}

}  // namespace graft
