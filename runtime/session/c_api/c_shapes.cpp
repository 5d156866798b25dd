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

namespace {

Result<const Signature*> signature_of(const graft_model& model, std::size_t index) {
  const auto& all = model.model.signatures;
  if (index < all.size()) return &all[index];
  return error(Code::not_found, "The model has ", all.size(), " signatures; number ", index, " is not one.");
}

}  // namespace

size_t graft_model_signature_count(const graft_model* model) {
  return model == nullptr ? 0 : model->model.signatures.size();
}

graft_status graft_model_signature(const graft_model* model, size_t index, graft_signature* signature) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const Signature* found, signature_of(*model, index));
    graft_signature out{};
    out.name = found->name.c_str();
    out.input_count = found->inputs.size();
    out.output_count = found->outputs.size();
    return write_info(out, signature, "graft_signature");
  });
}

graft_status graft_model_signature_tensor(const graft_model* model, size_t index, graft_tensor_kind kind, size_t tensor,
                                          graft_tensor_info* info) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (info == nullptr) return invalid("graft_model_signature_tensor needs a place for the info.");
    GRAFT_TRY_ASSIGN(const Signature* found, signature_of(*model, index));
    if (kind != GRAFT_INPUTS && kind != GRAFT_OUTPUTS) return invalid("A signature has inputs and outputs alone.");
    const auto& list = kind == GRAFT_INPUTS ? found->inputs : found->outputs;
    if (tensor >= list.size()) {
      return error(Code::not_found, "The signature \"", found->name, "\" has ", list.size(), " such tensors; number ",
                   tensor, " is not one.");
    }
    const Value& value = model->model.graph.value(list[tensor].value);
    const std::string& name = kind == GRAFT_INPUTS ? value.name : list[tensor].name;
    *info = info_of(name.c_str(), value.dtype, source_shape(value));
    return ok_status();
  });
}
