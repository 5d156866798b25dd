#include "tools/graft/data_hints.h"

#include <nlohmann/json.hpp>

#include "runtime/core/source_order.h"

namespace graft::cli {

std::vector<std::string> classes_of(const Model& model) {
  std::vector<std::string> classes;
  const auto found = model.metadata.find(kMetaClasses);
  if (found == model.metadata.end()) return classes;
  const auto names = nlohmann::json::parse(found->second, nullptr, false);
  if (!names.is_array()) return classes;
  for (const auto& name : names) {
    if (!name.is_string()) return {};
    classes.push_back(name.get<std::string>());
  }
  return classes;
}

void keep_classes(const std::vector<std::string>* classes, Model& model) {
  if (classes == nullptr) return;
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;  // names of folders need not be UTF-8
  model.metadata[std::string(kMetaClasses)] = nlohmann::json(*classes).dump(-1, ' ', false, kReplace);
}

data::Hints training_hints_of(const Model& model) {
  data::Hints hints;
  for (const ValueId id : model.graph.inputs()) {
    const Value& value = model.graph.value(id);
    data::ModelInput input{value.name, value.dtype, {}};
    const Shape shape = source_shape(value);
    for (std::size_t axis = 1; axis < shape.rank(); ++axis) {
      input.dims.push_back(shape[axis].is_constant() ? shape[axis].value() : -1);
    }
    hints.inputs.push_back(std::move(input));
  }
  return hints;
}

data::Hints hints_of(const Model& model) {
  data::Hints hints = training_hints_of(model);
  hints.classes = classes_of(model);
  hints.augment = false;
  return hints;
}

}  // namespace graft::cli
