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
