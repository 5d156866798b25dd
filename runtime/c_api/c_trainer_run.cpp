// graft/steps.h: a run as its app shows it; what options begin as.
#include <algorithm>
#include <cmath>
#include <cstddef>

#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_parameters.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/core/finite.h"
#include "runtime/core/source_order.h"
#include "runtime/language/text_vectors.h"
#include "runtime/lora/adapter.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/run_state/training.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// Whether a trainer of `trained` can begin anew with the weights of `model`.
Status check_restart(const train::Trainer& trainer, const Model& trained, const Model& model, bool allow_non_finite) {
  for (const train::NamedTensor& tensor : trainer.named_tensors()) {
    if (tensor.kind == ValueKind::constant || !trained.graph.find_value(tensor.name).valid()) continue;
    const ValueId value = model.graph.find_value(tensor.name);
    if (!value.valid()) return invalid("The model has no \"", tensor.name, "\", which the trainer trains.");
    GRAFT_TRY_ASSIGN(const auto weight, weight_of(model, value));
    if (model.graph.value(value).dtype != tensor.dtype || weight.size() != tensor.bytes) {
      return invalid("\"", tensor.name, "\" is ", dtype_name(model.graph.value(value).dtype), " of ", weight.size(),
                     " bytes in the model, and ", dtype_name(tensor.dtype), " of ", tensor.bytes, " in the trainer.");
    }
    const auto at = allow_non_finite ? std::nullopt : find_non_finite(weight, tensor.dtype);
    if (at) return invalid("\"", tensor.name, "\" is not finite in the model, at element ", *at, ".");
  }
  return ok_status();
}

}  // namespace

namespace graft::c_api {

graft_totals totals_of(const train::Metrics& metrics, const train::TrainOptions& options) {
  const bool one_cross_entropy = options.more_losses.empty() && options.loss.kind == train::Loss::cross_entropy;
  const double none = std::nan("");
  graft_totals out{};
  out.samples = metrics.count;
  out.loss = metrics.loss();
  out.accuracy = metrics.has_correct ? metrics.accuracy() : none;
  out.top5 = metrics.has_top5 ? metrics.top5_accuracy() : none;
  out.perplexity = one_cross_entropy ? metrics.perplexity() : none;
  out.reward_margin = train::is_preference(options.loss.kind) ? metrics.reward_margin() : none;
  return out;
}

graft_worker_report report_of(const train::WorkerSection& from) {
  graft_worker_report out{};
  out.host = from.host.data();
  out.step = from.step;
  out.epoch = from.epoch;
  out.place = from.place;
  out.first_sample = from.first_sample;
  out.samples = from.samples;
  out.seed = from.seed;
  out.first_micro_batch = from.first_slot;
  out.micro_batches = from.slots;
  out.loss = from.loss();
  out.computing_ns = from.computing_ns;
  out.waiting_ns = from.waiting_ns;
  out.all_steps = from.all_steps;
  out.all_samples = from.all_samples;
  out.all_computing_ns = from.all_computing_ns;
  out.all_waiting_ns = from.all_waiting_ns;
  return out;
}

}  // namespace graft::c_api

graft_status graft_loss_kinds(const char* losses, graft_loss* kinds, size_t most, size_t* count) {
  if (losses == nullptr || count == nullptr || (kinds == nullptr && most != 0)) return GRAFT_INVALID_ARGUMENT;
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    const auto terms = train::parse_losses(losses);
    if (!terms.ok()) return GRAFT_INVALID_ARGUMENT;
    *count = terms->size();
    for (std::size_t i = 0; i < std::min(most, terms->size()); ++i) {
      const auto kind = static_cast<int>((*terms)[i].kind);
      constexpr auto kDistill = static_cast<int>(train::Loss::distill);  // it came later, and stands at the end here
      kinds[i] = kind == kDistill  ? GRAFT_LOSS_DISTILL
                 : kind < kDistill ? static_cast<graft_loss>(kind)
                                   : static_cast<graft_loss>(kind - 1);
    }
    return GRAFT_OK;
  });
}

const char* graft_loss_names(void) {
  static const std::string names = train::loss_names();
  return names.c_str();
}

graft_status graft_trainer_describe(graft_trainer* trainer, graft_run_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] {
    const train::Trainer& run = *trainer->trainer;
    trainer->explanation.clear();
    for (const std::string& reason : run.plan().choice.reasons) trainer->explanation += reason + '\n';
    graft_run_info out{};
    out.tensors = run.plan().tensors.size();
    out.device_bytes = run.device_bytes();
    out.batch = static_cast<std::uint32_t>(run.options().batch);
    out.micro_batch = static_cast<std::uint32_t>(run.plan().micro_batch);
    out.note = run.plan().note.c_str();
    out.explanation = trainer->explanation.c_str();
    out.shortages = run.shortages();
    out.heap_overdrawn = run.heap_overdrawn() ? 1 : 0;
    return write_info(out, info, "graft_run_info");
  });
}

graft_status graft_trainer_parameter(const graft_trainer* trainer, size_t index, graft_tensor_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (info == nullptr) return invalid("graft_trainer_parameter needs a place for the info.");
    const auto all = trainer->trainer->named_parameters();
    if (index >= all.size()) {
      return error(Code::not_found, all.size(), " parameters are trained; number ", index, " is none of them.");
    }
    const Graph& graph = trainer->model->model.graph;
    const Value& value = graph.value(graph.find_value(all[index].name));
    *info = info_of(value.name.c_str(), value.dtype, source_shape(value));
    return ok_status();
  });
}

graft_status graft_trainer_last_step(const graft_trainer* trainer, graft_step_info* info, graft_totals* totals) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (!trainer->last) return error(Code::not_found, "The trainer has taken no step yet.");
    const train::StepResult& last = *trainer->last;
    const train::Trainer& run = *trainer->trainer;
    graft_step_info out{};
    out.step = run.state().step;
    out.epoch = run.state().epoch;
    out.ends_epoch = trainer->ends_epoch ? 1 : 0;
    out.learning_rate = last.learning_rate;
    out.gradient_norm = last.gradient_norm.value_or(std::nan(""));
    out.loss_scale = last.loss_scale.value_or(std::nan(""));
    out.skipped = last.skipped ? 1 : 0;
    out.skipped_steps = last.skipped_steps;
    out.submissions = last.submissions;
    if (totals != nullptr) GRAFT_TRY(check_info(totals, "graft_totals"));
    GRAFT_TRY(write_info(out, info, "graft_step_info"));
    return totals == nullptr ? ok_status() : write_info(totals_of(last.metrics, run.options()), totals, "graft_totals");
  });
}

graft_status graft_trainer_epoch(const graft_trainer* trainer, graft_totals* totals) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] {
    const train::Trainer& run = *trainer->trainer;
    return write_info(totals_of(run.state().epoch_metrics, run.options()), totals, "graft_totals");
  });
}

graft_status graft_trainer_worker(const graft_trainer* trainer, size_t worker, graft_worker_report* report) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    const auto sections = trainer->trainer->sections();
    if (worker >= sections.size()) {
      return error(Code::not_found, sections.size(), " workers told of a step; number ", worker, " is none of them.");
    }
    return write_info(report_of(sections[worker]), report, "graft_worker_report");
  });
}

graft_status graft_trainer_place(const graft_trainer* trainer, graft_run_place* place) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] {
    const train::TrainingState& state = trainer->trainer->state();
    const train::MonitorState& best = state.monitors[static_cast<std::size_t>(train::Monitor::best)];
    graft_run_place out{};
    out.step = state.step;
    out.samples_done = state.samples_done;
    out.epoch = state.epoch;
    out.between_epochs = state.cursor.position == 0 || state.cursor.position == state.cursor.samples ? 1 : 0;
    out.evaluated_at = state.evaluated_at;
    out.best_seen = best.seen;
    out.best_step = best.best_step;
    out.best = best.best;
    out.skipped_steps = trainer->last ? trainer->last->skipped_steps : trainer->skipped_before;
    return write_info(out, place, "graft_run_place");
  });
}

graft_status graft_trainer_copy(graft_trainer* trainer, int ema, graft_model** model) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (model == nullptr) return invalid("graft_trainer_copy needs a place for the model.");
    *model = nullptr;
    if (ema != 0 && trainer->trainer->options().optimizer.ema == 0) {
      return invalid("The trainer keeps no running mean of its parameters: the option ema is 0.");
    }
    const graft_model& from = *trainer->model;
    auto made = std::make_unique<graft_model>();
    made->context = trainer->context;
    made->copied = trainer->model;
    made->allow_non_finite = from.allow_non_finite;
    made->stores_non_finite = from.stores_non_finite;
    GRAFT_TRY_ASSIGN(made->model, borrow_model(from.model));
    GRAFT_TRY(
        copy_to_model(*trainer->trainer, made->model, trainer->context->allocator, from.stores_non_finite, ema != 0));
    keep_pooling(trainer->fields, made->model);
    *model = made.release();
    return ok_status();
  });
}

graft_status graft_trainer_restart(graft_trainer* trainer, graft_model* model) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    const graft_model& own = *trainer->model;
    const graft_model& from = model == nullptr ? own : *model;
    if (&*from.context != &*trainer->context) return invalid("The model and the trainer are of two contexts.");
    if (trainer->checkpointer) return invalid("The trainer keeps a checkpoint, which goes on with one run.");
    if (trainer->trainer->is_shared()) return invalid("Several workers take the steps: none begins anew by itself.");
    GRAFT_TRY(need_step_end(*trainer));
    GRAFT_TRY(need_contents(from));
    GRAFT_TRY(check_restart(*trainer->trainer, own.model, from.model, own.stores_non_finite));
    GRAFT_TRY(reset_to_model(*trainer->trainer, from.model));
    trainer->last.reset();
    trainer->skipped_before = 0;
    trainer->ends_epoch = false;
    return ok_status();
  });
}
