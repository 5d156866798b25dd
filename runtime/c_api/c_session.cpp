#include "runtime/c_api/c_session.h"
#include "runtime/core/features.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Result<std::vector<std::string>> read_names(const char* const* names, std::size_t count, const char* what) {
  if (names == nullptr && count != 0) return invalid("There are to be ", count, " names in ", what, ", which is NULL.");
  std::vector<std::string> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (names[i] == nullptr) return invalid("Name ", i, " of ", what, " is NULL.");
    out.emplace_back(names[i]);
  }
  return out;
}

Result<std::vector<float>> read_floats(const float* numbers, std::size_t count, const char* what) {
  if (numbers == nullptr && count != 0) return invalid(what, " is NULL, and there are to be ", count, " numbers.");
  return std::vector<float>(numbers, numbers + count);
}

/// nullptr for other kinds.
const std::vector<PlanPort>* ports_of(const graft_session& session, graft_tensor_kind kind) {
  const Plan& plan = session.session->plan();
  return kind == GRAFT_INPUTS ? &plan.inputs : kind == GRAFT_OUTPUTS ? &plan.outputs : nullptr;
}

}  // namespace

Result<std::vector<passes::PackedInput>> c_api::read_formats(const graft_input_format* formats, std::size_t count) {
  if (formats == nullptr && count != 0) return invalid("There are to be ", count, " formats of inputs, which is NULL.");
  std::vector<passes::PackedInput> out;
  for (std::size_t i = 0; i < count; ++i) {
    if (formats[i].name == nullptr) return invalid("Format ", i, " names no input.");
    const auto element = static_cast<unsigned>(formats[i].element);
    if (element > GRAFT_ELEMENT_BF16) return invalid("There is no element type number ", element, ".");
    passes::PackedInput input{
        formats[i].name, static_cast<passes::Packed>(element), formats[i].channels_last != 0, {}, {}};
    GRAFT_TRY_ASSIGN(input.scale, read_floats(formats[i].scale, formats[i].scale_count, "scale"));
    GRAFT_TRY_ASSIGN(input.offset, read_floats(formats[i].offset, formats[i].offset_count, "offset"));
    out.push_back(std::move(input));
  }
  return out;
}

Result<SessionOptions> c_api::session_options_of(const graft_session_options* given) {
  GRAFT_TRY_ASSIGN(const graft_session_options options, read_options(given, "graft_session_options"));
  SessionOptions out;
  GRAFT_TRY_ASSIGN(out.bindings, read_bindings(options.bindings, options.binding_count));
  out.plan.budget = options.budget;
  GRAFT_TRY_ASSIGN(out.precision, read_precision(options.precision));
  out.allow_non_finite = options.allow_non_finite != 0;
  out.resizable = options.resizable != 0;
  GRAFT_TRY_ASSIGN(out.gradients.fetch, read_names(options.fetch, options.fetch_count, "fetch"));
  GRAFT_TRY_ASSIGN(out.gradients.packed, read_formats(options.inputs, options.input_count));
  GRAFT_TRY_ASSIGN(out.gradients.wrt, read_names(options.wrt, options.wrt_count, "wrt"));
  out.gradients.train_mode = options.train_mode != 0;
  if (options.signature != nullptr) out.gradients.signature = options.signature;
  if (options.of != nullptr) {
    if (options.wrt_count == 0) return invalid("Gradients need names in wrt.");
    out.gradients.of = options.of;
    out.keep_outputs = options.gradients_only == 0;
  } else if (options.wrt_count != 0 || options.train_mode != 0) {
    return invalid("Gradients need the name of the value that they are of.");
  }
  return out;
}

graft_status graft_session_create(graft_model* model, const graft_session_options* options, graft_session** session) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (session == nullptr) return invalid("graft_session_create needs a place for the session.");
    *session = nullptr;
    GRAFT_TRY_ASSIGN(SessionOptions wanted, session_options_of(options));
    GRAFT_TRY_ASSIGN(const graft_session_options given, read_options(options, "graft_session_options"));
    if (given.recover_device != 0) {
      if constexpr (!kHasRecovery) return left_out("devices that are opened anew", "recovery");
      wanted.reopen = [&context = *model->context](gpu::Device& lost) { return reopen_device(context, lost); };
    }
    if (given.profile != nullptr) {
      if (&*given.profile->context != &*model->context) return invalid("The profile is of another context.");
      wanted.program.profile = true;
      wanted.program.observer = &given.profile->profile;
    }
    wanted.program.proof = model->context->proof.get();
    wanted.program.control = &model->context->control;
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    GRAFT_TRY_ASSIGN(auto made, Session::create(*device, model->model, wanted));
    *session = new graft_session{model->context, model, given.profile, std::move(made)};
    return ok_status();
  });
}

void graft_session_destroy(graft_session* session) {
  if (session != nullptr) destroy<graft_context>(session->context, session);
}

graft_status graft_session_resize(graft_session* session, const graft_binding* bindings, size_t binding_count) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const Bindings sizes, read_bindings(bindings, binding_count));
    return session->session->resize(sizes);
  });
}

graft_status graft_session_memory(const graft_session* session, graft_memory* memory) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context,
                 [&] { return write_info(memory_of(session->session->plan().memory), memory, "graft_memory"); });
}

graft_status graft_session_set_input(graft_session* session, const char* name, const void* data, size_t bytes) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&]() -> Status {
    if (name == nullptr || data == nullptr) return invalid("graft_session_set_input needs a name and data.");
    return session->session->set_input(name, {static_cast<const std::byte*>(data), bytes});
  });
}

size_t graft_session_count(const graft_session* session, graft_tensor_kind kind) {
  const std::vector<PlanPort>* const ports = session == nullptr ? nullptr : ports_of(*session, kind);
  return ports == nullptr ? 0 : ports->size();
}

graft_status graft_session_tensor(const graft_session* session, graft_tensor_kind kind, size_t index,
                                  graft_tensor_info* info) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&]() -> Status {
    const std::vector<PlanPort>* const ports = ports_of(*session, kind);
    if (info == nullptr) return invalid("graft_session_tensor needs a place for what it tells.");
    if (ports == nullptr) return invalid("A session has inputs and outputs alone.");
    if (index >= ports->size()) {
      return error(Code::not_found, "The session has ", ports->size(), " of these; number ", index, " is not one.");
    }
    const PlanPort& port = (*ports)[index];
    *info = info_of(port.name.c_str(), port.dtype, port.shape);
    return ok_status();
  });
}

const char* graft_session_streaming(graft_session* session) {
  if (session == nullptr) return "";
  (void)guarded(session->context, [&] {
    session->streaming = session->session->streaming();
    return ok_status();
  });
  return session->streaming.c_str();
}

graft_status graft_session_pause(graft_session* session) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&] { return session->session->pause(); });
}

graft_status graft_session_resume(graft_session* session) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&] { return session->session->resume(); });
}

graft_status graft_session_run(graft_session* session) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&] { return session->session->run(); });
}

graft_status graft_session_output(graft_session* session, const char* name, const void** data, size_t* bytes,
                                  graft_tensor_info* info) {
  if (session == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(session->context, [&]() -> Status {
    if (name == nullptr) return invalid("graft_session_output needs a name.");
    for (const PlanPort& port : session->session->plan().outputs) {
      if (port.name != name) continue;
      if (session->session->is_bound(name)) {
        if (data == nullptr && bytes == nullptr && info != nullptr) {
          *info = info_of(port.name.c_str(), port.dtype, port.shape);
          return ok_status();
        }
        return invalid("The output \"", name, "\" is written to memory of the app's.");
      }
      if (session->session->output(name).empty() && port.bytes > 0) return invalid("The session has not run yet.");
      const Session::Contents contents = session->session->contents(name);
      if (data != nullptr) *data = contents.bytes.data();
      if (bytes != nullptr) *bytes = contents.bytes.size();
      if (info != nullptr) *info = info_of(port.name.c_str(), port.dtype, contents.shape);
      return ok_status();
    }
    return error(Code::not_found, "The session has no output \"", name, "\".");
  });
}
