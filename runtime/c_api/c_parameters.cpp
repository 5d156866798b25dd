// graft/parameters.h of models: weights by name, metadata.
#include "graft/parameters.h"

#include "runtime/c_api/c_parameters.h"
#include "runtime/model/format.h"

namespace graft::c_api {

Result<std::span<const std::byte>> weight_of(const Model& model, ValueId id) {
  const auto held = model.weight(id);
  if (!held) return error(Code::not_found, "\"", model.graph.value(id).name, "\" has no contents: it starts as zeros.");
  return *held;
}

Result<std::vector<std::byte>> contents_for(const graft_model& model, const char* name, const void* data,
                                            std::size_t bytes) {
  if (name == nullptr || data == nullptr) return invalid("The name of the parameter or its contents are NULL.");
  const Graph& graph = model.model.graph;
  GRAFT_TRY_ASSIGN(const ValueId id, find_weight(graph, name));
  return weight_from_source(graph.value(id), {static_cast<const std::byte*>(data), bytes}, model.stores_non_finite);
}

}  // namespace graft::c_api

using namespace graft;
using namespace graft::c_api;

graft_status graft_model_read(const graft_model* model, const char* name, void* data, size_t bytes,
                              graft_tensor_info* info) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(need_contents(*model));
    return read_weight(model->model.graph, name, data, bytes, info,
                       [&](ValueId id) { return weight_of(model->model, id); });
  });
}

graft_status graft_model_write(graft_model* model, const char* name, const void* data, size_t bytes) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(need_contents(*model));
    GRAFT_TRY_ASSIGN(const auto contents, contents_for(*model, name, data, bytes));
    GRAFT_TRY(check_unused(*model, "its parameters can be written"));
    const ValueId id = model->model.graph.find_value(name);
    const ValueId below = model->base ? model->base->graph.find_value(name) : ValueId{};
    if (!below.valid()) return model->model.copy_weight(id, contents, model->context->allocator);
    // Of the model below the adapters, which lends it.
    GRAFT_TRY(model->base->copy_weight(below, contents, model->context->allocator));
    return model->model.borrow_weight(id, *model->base, below);
  });
}

size_t graft_model_metadata_count(const graft_model* model) {
  return model == nullptr ? 0 : model->model.metadata.size();
}

graft_status graft_model_metadata_at(const graft_model* model, size_t index, const char** key, const char** value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    const Metadata& metadata = model->model.metadata;
    if (index >= metadata.size()) {
      return error(Code::not_found, "There are ", metadata.size(), " keys; number ", index, " is not one.");
    }
    const auto entry = std::next(metadata.begin(), static_cast<std::ptrdiff_t>(index));
    if (key != nullptr) *key = entry->first.c_str();
    if (value != nullptr) *value = entry->second.c_str();
    return ok_status();
  });
}

graft_status graft_model_metadata(const graft_model* model, const char* key, const char** value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (key == nullptr) return invalid("The key of the metadata is NULL.");
    const auto found = model->model.metadata.find(key);
    if (found == model->model.metadata.end())
      return error(Code::not_found, "The model's metadata has no \"", key, "\".");
    if (value != nullptr) *value = found->second.c_str();
    return ok_status();
  });
}

graft_status graft_model_set_metadata(graft_model* model, const char* key, const char* value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (key == nullptr) return invalid("The key of the metadata is NULL.");
    GRAFT_TRY(model_format::check_name(key, "A key of the metadata"));
    if (value != nullptr && !model_format::is_text(value, true)) {
      return invalid("The metadata \"", key, "\" is not UTF-8 without control characters.");
    }
    for (Model* owner : {&model->model, model->base.get()}) {
      if (owner == nullptr) continue;
      if (value == nullptr) {
        owner->metadata.erase(key);
      } else {
        owner->metadata[key] = value;
      }
    }
    return ok_status();
  });
}
