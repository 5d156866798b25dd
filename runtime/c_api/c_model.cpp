#include "runtime/c_api/c_source.h"

namespace graft::c_api {

namespace {

bool is_kind(graft_tensor_kind kind) { return static_cast<unsigned>(kind) <= GRAFT_CONSTANTS; }

ValueKind kind_of(graft_tensor_kind kind) {
  switch (kind) {
    case GRAFT_INPUTS: return ValueKind::input;
    case GRAFT_BUFFERS: return ValueKind::state;
    case GRAFT_CONSTANTS: return ValueKind::constant;
    default: return ValueKind::parameter;
  }
}

std::vector<NamedValue> values_of(const Graph& graph, graft_tensor_kind kind) {
  std::vector<NamedValue> values;
  if (kind == GRAFT_OUTPUTS) {
    for (const Output& output : graph.outputs()) values.push_back({output.name.c_str(), output.value});
  } else {
    const auto ids = kind == GRAFT_INPUTS ? graph.inputs() : graph.of_kind(kind_of(kind));
    for (const ValueId id : ids) values.push_back({graph.value(id).name.c_str(), id});
  }
  return values;
}

/// load(options) gives the model.
template <typename Load>
graft_status open_model(graft_context* context, const graft_model_options* given, graft_model** model, Load load) {
  return guarded(context, [&]() -> Status {
    if (model == nullptr) return invalid("A model is loaded to a place, which is NULL.");
    *model = nullptr;
    if (!context->deviceless && !context->device) GRAFT_TRY(device_of(*context).status());
    GRAFT_TRY_ASSIGN(const graft_model_options given_options, read_options(given, "graft_model_options"));
    GRAFT_TRY_ASSIGN(const LoadOptions options, load_options(given_options));
    if (options.shapes_only && context->device && !context->plans_only) {
      return invalid(
          "Models without contents need a context for plans alone: with plans_only, or the device \"none\".");
    }
    GRAFT_TRY_ASSIGN(Model loaded, load(options));
    *model = new graft_model{context, std::move(loaded), given_options.allow_non_finite != 0,
                             given_options.allow_non_finite == 1, options.shapes_only};
    return ok_status();
  });
}

}  // namespace

Result<NamedValue> tensor_of(const graft_model& model, graft_tensor_kind kind, std::size_t index) {
  if (!is_kind(kind)) return invalid("There is no kind of tensors number ", static_cast<unsigned>(kind), ".");
  const auto values = values_of(model.model.graph, kind);
  if (index >= values.size()) {
    return error(Code::not_found, "There are ", values.size(), " such tensors; number ", index, " is not one.");
  }
  return values[index];
}

}  // namespace graft::c_api

using namespace graft;
using namespace graft::c_api;

graft_status graft_model_load(graft_context* context, const char* path, graft_model** model) {
  return graft_model_open(context, path, nullptr, model);
}

graft_status graft_model_open(graft_context* context, const char* path, const graft_model_options* given,
                              graft_model** model) {
  return open_model(context, given, model, [&](const LoadOptions& options) -> Result<Model> {
    if (path == nullptr) return invalid("A model is loaded from a path, which is NULL.");
    return load_model(*context->files, path, options);
  });
}

graft_status graft_model_open_source(graft_context* context, const graft_source* source,
                                     const graft_model_options* given, graft_model** model) {
  return open_model(context, given, model,
                    [&](const LoadOptions& options) { return load_source(*context, source, options); });
}

void graft_model_destroy(graft_model* model) {
  if (model != nullptr) destroy<graft_context>(model->context, model);
}

graft_status graft_model_save(graft_model* model, const char* path) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (path == nullptr) return invalid("graft_model_save needs a path.");
    GRAFT_TRY(need_contents(*model));
    if (!model->allow_non_finite) GRAFT_TRY(model->model.check_finite().with_context("Nothing was saved"));
    return save_model(*model->context->files, path, model->model);
  });
}

size_t graft_model_count(const graft_model* model, graft_tensor_kind kind) {
  if (model == nullptr || !is_kind(kind)) return 0;
  const Graph& graph = model->model.graph;
  if (kind == GRAFT_OUTPUTS) return graph.outputs().size();
  std::size_t count = 0;
  for (const Value& value : graph.values()) count += value.kind == kind_of(kind);
  return count;
}

graft_status graft_model_tensor(const graft_model* model, graft_tensor_kind kind, size_t index,
                                graft_tensor_info* info) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (info == nullptr) return invalid("graft_model_tensor needs a place for the info.");
    GRAFT_TRY_ASSIGN(const NamedValue tensor, tensor_of(*model, kind, index));
    const Value& value = model->model.graph.value(tensor.value);
    *info = info_of(tensor.name, value.dtype, source_shape(value));
    return ok_status();
  });
}
