#include "runtime/run_state/data_hints.h"

#include <algorithm>

#include "platform/base/json.h"
#include "runtime/core/source_order.h"
#include "runtime/passes/packed_sequences.h"
#include "runtime/run_state/resize_head.h"
#include "runtime/train/step/training_graph.h"

namespace graft {

std::vector<std::string> classes_of(const Model& model) {
  std::vector<std::string> classes;
  const auto found = model.metadata.find(kMetaClasses);
  if (found == model.metadata.end()) return classes;
  const auto names = json::parse(found->second);
  if (!names.ok()) return classes;
  for (const json::Value& name : names->items()) {
    if (!name.is_string()) return {};
    classes.push_back(name.text());
  }
  return classes;
}

void keep_classes(const std::vector<std::string>* classes, Model& model) {
  if (classes == nullptr) return;
  std::string list = "[";
  for (const std::string& name : *classes) list += (list.size() > 1 ? "," : "") + json::quoted(name);
  model.metadata[std::string(kMetaClasses)] = list + "]";
}

data::Hints training_hints_of(const Model& model) {
  data::Hints hints;
  const auto symbol = train::batch_symbol(model.graph);
  for (const ValueId id : model.graph.inputs()) {
    const Value& value = model.graph.value(id);
    data::ModelInput input{value.name, value.dtype, {}};
    const Shape shape = source_shape(value);
    const std::size_t batch = train::batch_axis(value, symbol.ok() ? *symbol : "").value_or(shape.rank());
    for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
      if (axis == batch) continue;
      input.dims.push_back(shape[axis].is_constant() ? shape[axis].value() : -1);
    }
    hints.inputs.push_back(std::move(input));
  }
  // Classes that were added have their numbers behind those of the others, whatever the order of names.
  if (model.metadata.contains(kMetaHead)) hints.classes = classes_of(model);
  return hints;
}

data::Hints hints_of(const Model& model) {
  data::Hints hints = training_hints_of(model);
  hints.classes = classes_of(model);
  hints.augment = false;
  return hints;
}

bool has_packed_sequences(const data::Source& source) {
  return std::ranges::any_of(source.fields(),
                             [](const data::Field& field) { return field.name == passes::kSequenceStartsInput; });
}

void bind_length(const data::Source& source, const Model& model, Bindings& bindings) {
  const data::Field& first = source.fields().front();
  const auto symbols = model.graph.symbols();
  const auto symbol = train::batch_symbol(model.graph);
  const bool text = first.dtype == DType::i32 && first.shape.rank() == 1;
  if (text && std::ranges::find(symbols, "seq") != symbols.end()) bindings.emplace("seq", first.shape[0].value());
  const auto inputs = model.graph.inputs();
  for (const data::Field& field : source.fields()) {
    if (field.role != data::Role::feature) continue;
    const ValueId named = model.graph.find_value(field.name);
    if (!named.valid() && (field.exact || &field != &first || inputs.empty())) continue;
    const Value& value = model.graph.value(named.valid() ? named : inputs.front());
    const Shape shape = source_shape(value);
    if (value.kind != ValueKind::input || shape.rank() != field.shape.rank() + 1) continue;
    const std::size_t batch = train::batch_axis(value, symbol.ok() ? *symbol : "").value_or(0);
    for (std::size_t axis = 0, of_sample = 0; axis < shape.rank(); ++axis) {
      if (axis == batch) continue;
      const Dim& dim = shape[axis];
      if (dim.is_symbol() && dim != shape[batch]) bindings.emplace(dim.symbols(), field.shape[of_sample].value());
      ++of_sample;
    }
  }
}

}  // namespace graft
