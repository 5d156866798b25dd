// graft/memory.h but for the forecast: budgets of running trainers, fetched values, gradients in pieces.
#include "runtime/c_api/c_handles.h"
#include "runtime/passes/bind.h"
#include "runtime/session/split_gradients.h"

using namespace graft;
using namespace graft::c_api;

struct graft_gradients {
  Ref<graft_context> context;
  SplitGradients result;
  Users users;
};

namespace {

// No snapshot may be under way while the memory that it is made from goes.
template <typename Change>
Status change_budget(graft_trainer& trainer, Change change) {
  if (trainer.checkpointer) GRAFT_TRY(trainer.checkpointer->flush());
  return change();
}

Status give(std::span<const std::byte> contents, graft_tensor_info tensor, const void** data, std::size_t* bytes,
            graft_tensor_info* info) {
  if (data != nullptr) *data = contents.data();
  if (bytes != nullptr) *bytes = contents.size();
  if (info != nullptr) *info = tensor;
  return ok_status();
}

Result<SplitGradientRequest> read_request(const graft_gradient_options& options) {
  SplitGradientRequest out;
  if (options.of == nullptr) return invalid("Gradients need the name of the value that they are of.");
  if (options.wrt == nullptr || options.wrt_count == 0) return invalid("Gradients need names in wrt.");
  out.gradients.of = options.of;
  for (std::size_t i = 0; i < options.wrt_count; ++i) {
    if (options.wrt[i] == nullptr) return invalid("Name ", i, " of wrt is NULL.");
    out.gradients.wrt.emplace_back(options.wrt[i]);
  }
  out.gradients.train_mode = options.train_mode != 0;
  GRAFT_TRY_ASSIGN(out.bindings, read_bindings(options.bindings, options.binding_count));
  out.budget = options.budget;
  out.micro_batch = options.micro_batch;
  out.per_sample = options.per_sample != 0;
  GRAFT_TRY_ASSIGN(out.precision, read_precision(options.precision));
  out.allow_non_finite = options.allow_non_finite != 0;
  return out;
}

Result<SampleArrays> read_arrays(const graft_model& model, const SplitGradientRequest& request,
                                 std::span<const graft_data> inputs) {
  GRAFT_TRY_ASSIGN(const Graph bound, bind(model.model.graph, request.bindings));
  SampleArrays arrays;
  for (const graft_data& input : inputs) {
    if (input.name == nullptr || input.data == nullptr)
      return invalid("An input of the gradients has no name or data.");
    const bool cotangent = input.name == kCotangentInput;
    GRAFT_TRY_ASSIGN(const ValueId id, bound.resolve(cotangent ? std::string_view(request.gradients.of) : input.name));
    const Value& value = bound.value(id);
    data::Array array{value.dtype, source_shape(value), {}};
    const std::uint64_t bytes = array.shape.elements() * dtype_size(array.dtype);
    if (input.bytes != bytes) {
      return invalid("\"", input.name, "\" has the shape ", array.shape.text(), " and takes ", bytes, " bytes; ",
                     input.bytes, " were given.");
    }
    GRAFT_TRY_ASSIGN(array.buffer, HostBuffer::create(bytes, "samples", model.context->allocator));
    std::memcpy(array.buffer.data(), input.data, bytes);
    arrays.insert_or_assign(input.name, std::move(array));
  }
  return arrays;
}

}  // namespace

graft_status graft_trainer_set_budget(graft_trainer* trainer, uint64_t budget) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context,
                 [&] { return change_budget(*trainer, [&] { return trainer->trainer->set_budget(budget); }); });
}

graft_status graft_trainer_trim(graft_trainer* trainer, uint64_t bytes) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context,
                 [&] { return change_budget(*trainer, [&] { return trainer->trainer->trim(bytes); }); });
}

graft_status graft_trainer_shortages(const graft_trainer* trainer, uint64_t* count) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (count == nullptr) return invalid("graft_trainer_shortages needs a place for the count.");
    *count = trainer->trainer->shortages();
    return ok_status();
  });
}

graft_status graft_trainer_fetch(graft_trainer* trainer, const char* name, const void** data, size_t* bytes,
                                 graft_tensor_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (name == nullptr) return invalid("graft_trainer_fetch needs a name.");
    GRAFT_TRY_ASSIGN(const train::FetchedValue value, trainer->trainer->fetch(name));
    // The name lives in the options, as the info's must.
    const auto& names = trainer->trainer->options().fetch;
    const auto kept = std::find(names.begin(), names.end(), name);
    return give(value.bytes, info_of(kept->c_str(), value.dtype, value.shape), data, bytes, info);
  });
}

graft_status graft_gradients_compute(graft_model* model, const graft_gradient_options* options,
                                     const graft_data* inputs, size_t input_count, graft_gradients** gradients) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (gradients == nullptr) return invalid("graft_gradients_compute needs a place for the gradients.");
    *gradients = nullptr;
    GRAFT_TRY_ASSIGN(const graft_gradient_options given, read_options(options, "graft_gradient_options"));
    GRAFT_TRY_ASSIGN(SplitGradientRequest request, read_request(given));
    request.program.control = &model->context->control;
    request.program.proof = model->context->proof.get();
    if (inputs == nullptr && input_count != 0) return invalid("The inputs of the gradients are NULL.");
    GRAFT_TRY_ASSIGN(const SampleArrays arrays, read_arrays(*model, request, {inputs, input_count}));
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    auto made = std::make_unique<graft_gradients>();
    made->context = model->context;
    GRAFT_TRY_ASSIGN(made->result, split_gradients(*device, model->model, request, arrays, model->context->allocator));
    *gradients = made.release();
    return ok_status();
  });
}

void graft_gradients_destroy(graft_gradients* gradients) {
  if (gradients != nullptr) destroy<graft_context>(gradients->context, gradients);
}

graft_status graft_gradients_describe(const graft_gradients* gradients, graft_gradients_info* info) {
  if (gradients == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(gradients->context, [&] {
    graft_gradients_info out{};
    out.micro_batch = static_cast<std::uint32_t>(gradients->result.micro_batch);
    out.device_bytes = gradients->result.device_bytes;
    return write_info(out, info, "graft_gradients_info");
  });
}

graft_status graft_gradients_get(const graft_gradients* gradients, const char* wrt, const void** data, size_t* bytes,
                                 graft_tensor_info* info) {
  if (gradients == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(gradients->context, [&]() -> Status {
    const auto found = gradients->result.gradients.find(wrt == nullptr ? "" : wrt);
    if (found == gradients->result.gradients.end()) {
      return error(Code::not_found, "There is no gradient with respect to \"", wrt == nullptr ? "" : wrt, "\".");
    }
    const data::Array& array = found->second;
    return give(array.buffer.bytes(), info_of(found->first.c_str(), array.dtype, array.shape), data, bytes, info);
  });
}
