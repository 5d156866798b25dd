#include "runtime/session/c_api/c_handles.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_model_dimension(graft_model* model, graft_tensor_kind kind, size_t index, uint32_t axis,
                                   const char** name) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (name == nullptr) return invalid("graft_model_dimension needs a place for the name.");
    GRAFT_TRY_ASSIGN(const NamedValue tensor, tensor_of(*model, kind, index));
    const Shape shape = source_shape(model->model.graph.value(tensor.value));
    if (axis >= shape.rank()) {
      return error(Code::not_found, "\"", tensor.name, "\" has ", shape.rank(), " axes; axis ", axis, " is not one.");
    }
    model->dimension = shape[axis].is_constant() ? "" : shape[axis].text();
    *name = model->dimension.c_str();
    return ok_status();
  });
}

graft_status graft_trainer_sample(const graft_trainer* trainer, size_t index, graft_tensor_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (info == nullptr) return invalid("graft_trainer_sample needs a place for the info.");
    if (index >= trainer->fields.size()) {
      return error(Code::not_found, "A sample has ", trainer->fields.size(), " parts; number ", index, " is not one.");
    }
    const data::Field& field = trainer->fields[index];
    *info = info_of(field.name.c_str(), field.dtype, field.shape);
    return ok_status();
  });
}
