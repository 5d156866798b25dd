// A file of its own, so that an app that does not call it does not link the reference.
#include "graft/verify.h"

#include "runtime/c_api/c_handles.h"
#include "runtime/report/layers.h"
#include "runtime/session/verify.h"

using namespace graft;
using namespace graft::c_api;

graft_status graft_model_verify(graft_model* model, const graft_verify_options* options,
                                int (*report)(void* user, const graft_node_verdict* verdict), void* user, size_t* nodes,
                                size_t* failed) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    std::size_t seen = 0, wrong = 0;
    GRAFT_TRY_ASSIGN(const graft_verify_options given, read_options(options, "graft_verify_options"));
    GRAFT_TRY_ASSIGN(const Bindings bound, read_bindings(given.bindings, given.binding_count));
    GRAFT_TRY_ASSIGN(const Bindings bindings, complete_bindings(model->model, bound, true));
    const double tolerance = given.tolerance;
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    const auto tell = [&](const NodeVerdict& verdict, std::size_t done, std::size_t total) -> Status {
      ++seen;
      wrong += verdict.passed(tolerance) ? 0 : 1;
      GRAFT_TRY(cancel_point());
      if (report == nullptr) return ok_status();
      const graft_node_verdict out{sizeof out,
                                   verdict.node.c_str(),
                                   verdict.op.c_str(),
                                   verdict.forward,
                                   verdict.gradient,
                                   verdict.failure.c_str(),
                                   verdict.passed(tolerance) ? 1 : 0,
                                   done,
                                   total};
      if (report(user, &out) == 0) return ok_status();
      return error(Code::cancelled, "The caller ended the comparison after ", seen, " nodes.");
    };
    GRAFT_TRY(verify_ops(*device, model->model, bindings, given.seed, tell));
    if (nodes != nullptr) *nodes = seen;
    if (failed != nullptr) *failed = wrong;
    if (wrong == 0) return ok_status();
    return error(Code::device_error, wrong, " of ", seen, " nodes differ from the reference on this device.");
  });
}

uint64_t graft_model_weight_bytes(const graft_model* model) {
  return model == nullptr ? 0 : model->model.weight_bytes();
}

graft_status graft_model_find_damage(graft_model* model, const graft_damage** damage, size_t* count) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (damage == nullptr || count == nullptr)
      return invalid("graft_model_find_damage needs places for what it finds.");
    model->damage.clear();
    for (const WeightDamage& found : model->model.find_damage()) {
      model->damage.push_back({model->model.graph.value(found.value).name.c_str(), found.begin, found.end - 1});
    }
    *damage = model->damage.data();
    *count = model->damage.size();
    return ok_status();
  });
}
