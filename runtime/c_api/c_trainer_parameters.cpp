// graft/parameters.h of trainers: weights by name, and what changes in the course of a run.
#include "graft/parameters.h"

#include "runtime/c_api/c_parameters.h"
#include "runtime/c_api/c_trainer.h"

using namespace graft;
using namespace graft::c_api;

Status c_api::need_step_end(const graft_trainer& trainer) {
  if (trainer.trainer->state().samples_done == 0) return ok_status();
  return invalid("A step is half done: ", trainer.trainer->state().samples_done,
                 " of its samples are; this can be changed between two steps.");
}

graft_status graft_trainer_read(graft_trainer* trainer, const char* name, void* data, size_t bytes,
                                graft_tensor_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] {
    const Model& model = trainer->model->model;
    std::vector<std::byte> held;
    const auto contents = [&](ValueId id) -> Result<std::span<const std::byte>> {
      const Value& value = model.graph.value(id);
      if (value.kind == ValueKind::constant) return weight_of(model, id);
      held.resize(4 * value.shape.elements());
      GRAFT_TRY(trainer->trainer->read(value.name, held));
      return std::span<const std::byte>(held);
    };
    return read_weight(model.graph, name, data, bytes, info, contents);
  });
}

graft_status graft_trainer_write(graft_trainer* trainer, const char* name, const void* data, size_t bytes) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    const Graph& graph = trainer->model->model.graph;
    GRAFT_TRY_ASSIGN(const auto contents, contents_for(*trainer->model, name, data, bytes));
    if (graph.value(graph.find_value(name)).kind == ValueKind::constant) {
      return invalid("\"", name, "\" is frozen: write it to the model, before a trainer is made.");
    }
    GRAFT_TRY(need_step_end(*trainer));
    std::vector<std::byte> before(contents.size());
    GRAFT_TRY(trainer->trainer->read(name, before));
    GRAFT_TRY(trainer->trainer->write(name, contents));
    return keep_change(*trainer, [&] { return trainer->trainer->write(name, before); });
  });
}

graft_status graft_trainer_set_learning_rate(graft_trainer* trainer, double learning_rate) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(need_step_end(*trainer));
    const double before = trainer->trainer->options().optimizer.learning_rate;
    GRAFT_TRY(trainer->trainer->set_learning_rate(learning_rate));
    return keep_change(*trainer, [&] { return trainer->trainer->set_learning_rate(before); });
  });
}

graft_status graft_trainer_learning_rate(const graft_trainer* trainer, double* learning_rate) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (learning_rate == nullptr) return invalid("graft_trainer_learning_rate needs a place for the rate.");
    *learning_rate = trainer->trainer->options().optimizer.learning_rate;
    return ok_status();
  });
}
