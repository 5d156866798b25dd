#include <algorithm>
#include <string_view>

#include "graft/shapes.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/model/counted.h"

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

graft_status graft_model_tensor_text(graft_model* model, graft_tensor_kind kind, size_t index,
                                     graft_tensor_text* text) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_info(text, "graft_tensor_text"));
    GRAFT_TRY_ASSIGN(const NamedValue tensor, tensor_of(*model, kind, index));
    const Value& value = model->model.graph.value(tensor.value);
    model->dtype_text = dtype_name(value.dtype);
    model->shape_text = source_shape(value).text();
    graft_tensor_text out{};
    out.name = tensor.name;
    out.dtype = model->dtype_text.c_str();
    out.shape = model->shape_text.c_str();
    out.source_dtype = value.source_type == SourceType::same ? "" : source_type_info(value.source_type).name.data();
    return write_info(out, text, "graft_tensor_text");
  });
}

graft_status graft_model_counted(graft_model* model, size_t output, uint32_t* axis, const char** count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const NamedValue tensor, tensor_of(*model, GRAFT_OUTPUTS, output));
    GRAFT_TRY_ASSIGN(const auto counted, counted_outputs(model->model));
    const auto found = std::ranges::find(counted, std::string_view(tensor.name), &CountedOutput::name);
    if (found == counted.end()) {
      return error(Code::not_found, "The output \"", tensor.name, "\" is as long as its shape says.");
    }
    model->count_name = found->count;
    if (axis != nullptr) *axis = static_cast<std::uint32_t>(found->axis);
    if (count != nullptr) *count = model->count_name.c_str();
    return ok_status();
  });
}

namespace {

void give_bindings(graft_model& model, Bindings bindings, const graft_binding** rows, std::size_t* count) {
  model.bindings = std::move(bindings);
  model.binding_rows.clear();
  for (const auto& [name, size] : model.bindings) model.binding_rows.push_back({name.c_str(), size});
  *rows = model.binding_rows.data();
  *count = model.binding_rows.size();
}

}  // namespace

graft_status graft_model_complete_bindings(graft_model* model, const graft_binding* bindings, size_t binding_count,
                                           const graft_binding** complete, size_t* count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (complete == nullptr || count == nullptr) {
      return invalid("graft_model_complete_bindings needs places for the bindings.");
    }
    GRAFT_TRY_ASSIGN(const Bindings given, read_bindings(bindings, binding_count));
    GRAFT_TRY_ASSIGN(Bindings all, complete_bindings(model->model, given, true));
    give_bindings(*model, std::move(all), complete, count);
    return ok_status();
  });
}

graft_status graft_model_known_bindings(graft_model* model, const graft_binding* bindings, size_t binding_count,
                                        const graft_binding** known, size_t* count, const char** missing) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (known == nullptr || count == nullptr || missing == nullptr) {
      return invalid("graft_model_known_bindings needs places for the bindings.");
    }
    GRAFT_TRY_ASSIGN(Bindings all, read_bindings(bindings, binding_count));
    GRAFT_TRY(complete_bindings(model->model, all, true));  // names that there are
    std::string open;
    for (const std::string& symbol : model->model.graph.symbols()) {
      if (all.contains(symbol)) continue;
      if (const auto own = model->model.symbol_defaults.find(symbol); own != model->model.symbol_defaults.end()) {
        all[symbol] = own->second;
      } else {
        open += (open.empty() ? "" : ",") + symbol;
      }
    }
    model->missing = std::move(open);
    *missing = model->missing.c_str();
    give_bindings(*model, std::move(all), known, count);
    return ok_status();
  });
}

int graft_model_reads_input(const graft_model* model, size_t index) {
  if (model == nullptr) return 0;
  const Graph& graph = model->model.graph;
  const auto inputs = graph.inputs();
  if (index >= inputs.size()) return 0;
  const ValueId id = inputs[index];
  const auto reads = [&](const Node& node) { return std::ranges::find(node.inputs, id) != node.inputs.end(); };
  const bool read = std::ranges::any_of(graph.nodes(), reads) ||
                    std::ranges::any_of(graph.outputs(), [&](const Output& output) { return output.value == id; });
  return read ? 1 : 0;
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
