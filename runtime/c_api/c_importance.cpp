// graft/importance.h: what columns of matrices are multiplied with over texts.
#include "graft/importance.h"

#include "runtime/c_api/c_handles.h"
#include "runtime/language/importance.h"

using namespace graft;
using namespace graft::c_api;

struct graft_importance {
  Ref<graft_context> context;
  Ref<graft_model> model;
  std::unique_ptr<Importance> importance;
  Users users = {};
};

graft_status graft_importance_create(graft_model* model, const graft_importance_options* options,
                                     graft_importance** importance) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (importance == nullptr) return invalid("graft_importance_create needs a place for the importance.");
    *importance = nullptr;
    GRAFT_TRY_ASSIGN(const graft_importance_options given, read_options(options, "graft_importance_options"));
    ImportanceOptions wanted;
    wanted.context = given.context;
    wanted.chunks = given.chunks;
    wanted.head = given.head != 0;
    wanted.parse_special = given.parse_special != 0;
    wanted.plan.budget = given.budget;
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    wanted.program.proof = model->context->proof.get();
    wanted.program.control = &model->context->control;
    if (given.recover_device != 0) {
      wanted.reopen = [&context = *model->context](gpu::Device& lost) { return reopen_device(context, lost); };
    }
    GRAFT_TRY_ASSIGN(auto made, Importance::create(*device, model->model, wanted));
    *importance = new graft_importance{model->context, model, std::move(made)};
    return ok_status();
  });
}

void graft_importance_destroy(graft_importance* importance) {
  if (importance != nullptr) destroy<graft_context>(importance->context, importance);
}

graft_status graft_importance_add(graft_importance* importance, const char* text, size_t bytes, uint64_t* waiting) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context, [&]() -> Status {
    if (text == nullptr && bytes != 0) return invalid("A text of ", bytes, " bytes was promised, and it is NULL.");
    GRAFT_TRY(importance->importance->add(bytes == 0 ? std::string_view() : std::string_view(text, bytes)));
    if (waiting != nullptr) *waiting = importance->importance->waiting();
    return ok_status();
  });
}

graft_status graft_importance_add_tokens(graft_importance* importance, const int32_t* ids, size_t count,
                                         uint64_t* waiting) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context, [&]() -> Status {
    if (ids == nullptr && count != 0) return invalid(count, " tokens were promised, and they are NULL.");
    GRAFT_TRY(importance->importance->add(std::span(ids, count)));
    if (waiting != nullptr) *waiting = importance->importance->waiting();
    return ok_status();
  });
}

graft_status graft_importance_step(graft_importance* importance, uint64_t* waiting) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context, [&]() -> Status {
    GRAFT_TRY(importance->importance->step());
    if (waiting != nullptr) *waiting = importance->importance->waiting();
    return ok_status();
  });
}

graft_status graft_importance_describe(const graft_importance* importance, graft_importance_info* info) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context, [&] {
    const Importance& from = *importance->importance;
    graft_importance_info out{};
    out.context = from.context();
    out.chunks = from.chunks();
    out.waiting = from.waiting();
    out.dropped = from.dropped();
    return write_info(out, info, "graft_importance_info");
  });
}

size_t graft_importance_count(const graft_importance* importance) {
  return importance == nullptr ? 0 : importance->importance->matrices().size();
}

graft_status graft_importance_at(const graft_importance* importance, size_t index, graft_importance_matrix* matrix) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context, [&]() -> Status {
    const auto& matrices = importance->importance->matrices();
    if (matrix == nullptr) return invalid("graft_importance_at needs a place for the matrix.");
    if (index >= matrices.size()) {
      return error(Code::not_found, "There are ", matrices.size(), " matrices; number ", index, " is not one.");
    }
    const ImportanceSums& one = matrices[index];
    *matrix = {one.name.c_str(), one.sums.data(), one.sums.size(), one.tokens};
    return ok_status();
  });
}

graft_status graft_importance_memory(const graft_importance* importance, graft_memory* memory) {
  if (importance == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(importance->context,
                 [&] { return write_info(memory_of(importance->importance->memory()), memory, "graft_memory"); });
}
