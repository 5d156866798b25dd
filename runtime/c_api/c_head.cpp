#include "runtime/c_api/c_handles.h"
#include "runtime/run_state/resize_head.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_model_resize_head(graft_model* model, const graft_head_options* given) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_unused(*model, "its head is resized"));
    GRAFT_TRY(need_contents(*model));
    if (given == nullptr) return invalid("graft_model_resize_head needs options: the number of classes.");
    GRAFT_TRY_ASSIGN(const graft_head_options raw, read_options(given, "graft_head_options"));
    if (raw.class_names == nullptr && raw.class_name_count > 0) return invalid("class_names is NULL.");
    HeadOptions options;
    options.output = raw.output == nullptr ? "" : raw.output;
    options.classes = raw.classes;
    options.replace = raw.replace != 0;
    options.seed = raw.seed;
    for (std::size_t i = 0; i < raw.class_name_count; ++i) {
      if (raw.class_names[i] == nullptr) return invalid("Class name ", i, " is NULL.");
      options.names.emplace_back(raw.class_names[i]);
    }
    if (model->base) {
      return invalid("The model has adapters: merge them or take them off before its head is resized.");
    }
    GRAFT_TRY_ASSIGN(Model resized, resize_head(model->model, options));
    // Weights stay where they are when the model that owns them moves.
    model->merged_into.push_back(std::make_unique<Model>(std::move(model->model)));
    model->model = std::move(resized);
    return ok_status();
  });
}
