// graft/parameters.h: weights by name, metadata, and what changes in the course of a run.
#include "graft/parameters.h"

#include "runtime/core/source_order.h"
#include "runtime/model/format.h"
#include "runtime/session/c_api/c_handles.h"
#include "runtime/session/parameters.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// contents(id) gives the bytes in graft's order of axes.
template <typename Contents>
Status read_weight(const Graph& graph, const char* name, void* data, std::size_t bytes, graft_tensor_info* info,
                   Contents contents) {
  if (name == nullptr) return invalid("The name of the parameter is NULL.");
  GRAFT_TRY_ASSIGN(const ValueId id, find_weight(graph, name));
  const Value& value = graph.value(id);
  if (data != nullptr) {
    GRAFT_TRY_ASSIGN(const auto held, contents(id));
    if (held.size() != bytes) {
      return invalid("\"", name, "\" has ", held.size(), " bytes; there is room for ", bytes, ".");
    }
    const auto ordered = weight_to_source(value, held);
    if (bytes != 0) std::memcpy(data, ordered.data(), bytes);
  }
  if (info != nullptr) *info = info_of(value.name.c_str(), value.dtype, source_shape(value));
  return ok_status();
}

Result<std::span<const std::byte>> weight_of(const Model& model, ValueId id) {
  const auto held = model.weight(id);
  if (!held) return error(Code::not_found, "\"", model.graph.value(id).name, "\" has no contents: it starts as zeros.");
  return *held;
}

/// What is written to a weight of the graph, in graft's order of axes.
Result<std::vector<std::byte>> contents_for(const Graph& graph, const char* name, const void* data, std::size_t bytes) {
  if (name == nullptr || data == nullptr) return invalid("The name of the parameter or its contents are NULL.");
  GRAFT_TRY_ASSIGN(const ValueId id, find_weight(graph, name));
  return weight_from_source(graph.value(id), {static_cast<const std::byte*>(data), bytes});
}

Status need_step_end(const graft_trainer& trainer) {
  if (trainer.trainer->state().samples_done == 0) return ok_status();
  return invalid("A step is half done: ", trainer.trainer->state().samples_done,
                 " of its samples are; this can be changed between two steps.");
}

/// What was changed outside of a step goes into a snapshot at once: the journal cannot bring it back. undo() where that
/// fails.
template <typename Undo>
Status keep_change(graft_trainer& trainer, Undo undo) {
  if (!trainer.checkpointer) return ok_status();
  Status kept = trainer.checkpointer->save_change();
  if (kept.ok()) return ok_status();
  GRAFT_TRY(undo());
  return kept;
}

}  // namespace

graft_status graft_model_read(const graft_model* model, const char* name, void* data, size_t bytes,
                              graft_tensor_info* info) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&] {
    return read_weight(model->model.graph, name, data, bytes, info,
                       [&](ValueId id) { return weight_of(model->model, id); });
  });
}

graft_status graft_model_write(graft_model* model, const char* name, const void* data, size_t bytes) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const auto contents, contents_for(model->model.graph, name, data, bytes));
    const ValueId id = model->model.graph.find_value(name);
    const ValueId below = model->base ? model->base->graph.find_value(name) : ValueId{};
    if (!below.valid()) return model->model.copy_weight(id, contents, model->context->allocator);
    // Of the model below the adapters, which lends it.
    GRAFT_TRY(model->base->copy_weight(below, contents, model->context->allocator));
    return model->model.borrow_weight(id, *model->base, below);
  });
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
    GRAFT_TRY_ASSIGN(const auto contents, contents_for(graph, name, data, bytes));
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

size_t graft_model_metadata_count(const graft_model* model) {
  return model == nullptr ? 0 : model->model.metadata.size();
}

graft_status graft_model_metadata_at(const graft_model* model, size_t index, const char** key, const char** value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    const Metadata& metadata = model->model.metadata;
    if (index >= metadata.size()) {
      return error(Code::not_found, "There are ", metadata.size(), " keys; number ", index, " is not one.");
    }
    const auto entry = std::next(metadata.begin(), static_cast<std::ptrdiff_t>(index));
    if (key != nullptr) *key = entry->first.c_str();
    if (value != nullptr) *value = entry->second.c_str();
    return ok_status();
  });
}

graft_status graft_model_metadata(const graft_model* model, const char* key, const char** value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (key == nullptr) return invalid("The key of the metadata is NULL.");
    const auto found = model->model.metadata.find(key);
    if (found == model->model.metadata.end())
      return error(Code::not_found, "The model's metadata has no \"", key, "\".");
    if (value != nullptr) *value = found->second.c_str();
    return ok_status();
  });
}

graft_status graft_model_set_metadata(graft_model* model, const char* key, const char* value) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (key == nullptr) return invalid("The key of the metadata is NULL.");
    GRAFT_TRY(model_format::check_name(key, "A key of the metadata"));
    if (value != nullptr && !model_format::is_text(value, true)) {
      return invalid("The metadata \"", key, "\" is not UTF-8 without control characters.");
    }
    for (Model* owner : {&model->model, model->base.get()}) {
      if (owner == nullptr) continue;
      if (value == nullptr) {
        owner->metadata.erase(key);
      } else {
        owner->metadata[key] = value;
      }
    }
    return ok_status();
  });
}
