#include <algorithm>
#include <cmath>

#include "runtime/c_api/c_trainer.h"

#include "platform/base/names.h"
#include "runtime/c_api/c_async.h"
#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_distribute.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_session.h"
#include "runtime/core/features.h"
#include "runtime/core/source_order.h"
#include "runtime/language/text_data.h"
#include "runtime/language/text_vectors.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/run_state/training.h"
#include "runtime/train/step/loss_terms.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Shape without_axis(const Shape& shape, std::optional<std::size_t> axis) {
  std::vector<Dim> dims = shape.dims();
  if (axis && *axis < dims.size()) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(*axis));
  return Shape(std::move(dims));
}

// What a sample consists of: the model's inputs, then the target as the loss wants it.
Result<std::vector<data::Field>> sample_fields(const Model& model, const train::TrainOptions& options) {
  GRAFT_TRY_ASSIGN(const auto evaluation, train::build_evaluation_graph(model.graph, 1, options, nullptr));
  GRAFT_TRY_ASSIGN(const std::string symbol, train::batch_symbol(model.graph));
  std::vector<data::Field> fields;
  for (const ValueId id : model.graph.inputs()) {
    const ValueId bound = evaluation.graph.find_value(model.graph.value(id).name);
    const Value& value = evaluation.graph.value(bound);
    fields.push_back({value.name, value.dtype,
                      without_axis(source_shape(value), train::batch_axis(model.graph.value(id), symbol)),
                      data::Role::feature});
    const auto packed = std::ranges::find(evaluation.packed, value.name, &passes::PackedShape::input);
    if (packed == evaluation.packed.end()) continue;
    fields.back().dtype = DType::f32;
    fields.back().shape = without_axis(packed->shape, 0);
    fields.back().packed = packed->element;
  }
  const auto add_label = [&](ValueId id) {
    if (!id.valid()) return;
    const Value& target = evaluation.graph.value(id);
    const bool known = std::ranges::any_of(fields, [&](const data::Field& field) { return field.name == target.name; });
    if (!known) fields.push_back({target.name, target.dtype, without_axis(target.shape, 0), data::Role::label});
  };
  for (const ValueId id : evaluation.loss.targets) add_label(id);
  add_label(evaluation.loss.reference);
  add_label(evaluation.loss.sample_weights);
  return fields;
}

// The caller's arrays as fields, into trainer.blocks: the model's inputs in order, then the target.
Status take_blocks(graft_trainer& trainer, const void* const* inputs, std::size_t input_count, const void* target,
                   std::uint32_t samples) {
  const bool has_target = trainer.fields.back().role != data::Role::feature;
  const std::size_t wanted = trainer.fields.size() - (has_target ? 1 : 0);
  if (input_count != wanted) {
    return invalid("A sample has ", wanted, " inputs", has_target ? " before its last target" : "", "; ", input_count,
                   " were given.");
  }
  if (samples == 0) return invalid("There must be at least one sample.");
  trainer.blocks.clear();
  for (std::size_t i = 0; i < trainer.fields.size(); ++i) {
    const void* block = i < wanted ? (inputs == nullptr ? nullptr : inputs[i]) : target;
    if (block == nullptr) return invalid("\"", trainer.fields[i].name, "\" is NULL.");
    trainer.blocks.emplace_back(static_cast<const std::byte*>(block), samples * trainer.fields[i].bytes());
  }
  trainer.batch.refer_to(trainer.blocks, samples);
  return ok_status();
}

Status train_step(graft_trainer& trainer, const void* const* inputs, std::size_t input_count, const void* target,
                  std::uint32_t samples, graft_metrics* metrics) {
  if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
  GRAFT_TRY(take_blocks(trainer, inputs, input_count, target, samples));
  GRAFT_TRY_ASSIGN(const auto result, trainer.trainer->train_step(trainer.batch));
  return end_step(trainer, result, metrics);
}

train::PlanRequest plan_request(const graft_trainer_options& options) {
  train::PlanRequest request;
  request.slots = options.group != nullptr;
  request.checkpoints = options.checkpoints != 0;
  request.evaluation = options.no_evaluation == 0;
  request.drop_last = options.drop_last != 0;
  if (kHasData && options.held_out != nullptr) request.evaluation_samples = options.held_out->source->size();
  request.plan.budget = options.budget;
  request.plan.fuse = request.plan.merge = options.no_fusion == 0;
  const bool has_budget = options.budget != 0 || options.budget_beside_weights != 0;
  request.shrink_micro_batch = options.shrinkable != 0 || (has_budget && options.micro_batch == 0);
  return request;
}

/// A budget beside the weights that are not trained, which another plan tells.
Status set_budget(const graft_trainer_options& options, const Graph& model, const train::TrainOptions& wanted,
                  const gpu::Target& target, train::PlanRequest& request) {
  if (options.budget_beside_weights == 0) return ok_status();
  train::PlanRequest free = request;
  free.shrink_micro_batch = false;
  GRAFT_TRY_ASSIGN(const train::TrainingPlan plan, train::plan_training(model, wanted, free, target));
  request.plan.budget = plan.memory()[MemoryClass::weights] + options.budget_beside_weights;
  return ok_status();
}

// The model that a trainer of these options takes: `masked` is made where samples hold several texts, `taught` where
// there is a teacher, from which `wanted` then learns.
Result<const Model*> trained_model(const Model& model, const graft_trainer_options& options,
                                   std::optional<Model>& masked, std::optional<Model>& taught,
                                   train::TrainOptions& wanted) {
  if (options.packed_sequences != 0) {
    GRAFT_TRY_ASSIGN(masked, with_packed_sequences(model));
  } else if (kHasText && kHasData && options.data != nullptr) {
    GRAFT_TRY_ASSIGN(masked, model_for(*options.data->source, model));
  }
  const Model* trained = masked ? &*masked : &model;
  if (options.teacher == nullptr) return trained;
  if constexpr (!kHasLosses) return left_out("teachers", "losses");
  GRAFT_TRY_ASSIGN(taught, with_teacher(*trained, options.teacher->model));
  GRAFT_TRY(learn_from_teacher(taught->graph, options.distill_weight, wanted));
  return &*taught;
}

}  // namespace

namespace graft::c_api {

Status prepare_plan(const Model& model, const graft_trainer_options& given, const gpu::Target& target,
                    PlannedRun& out) {
  GRAFT_TRY_ASSIGN(out.options, train_options_of(given));
  train::scale_for_rounding(target, out.options);
  GRAFT_TRY_ASSIGN(out.model, trained_model(model, given, out.masked, out.taught, out.options));
  if (given.data != nullptr) bind_length(*given.data->source, *out.model, out.options.bindings);
  out.request = plan_request(given);
  return set_budget(given, out.model->graph, out.options, target, out.request);
}

Status plan_run(const Model& model, const graft_trainer_options& given, const gpu::Target& target, PlannedRun& out) {
  GRAFT_TRY(prepare_plan(model, given, target, out));
  GRAFT_TRY_ASSIGN(out.plan, train::plan_training(out.model->graph, out.options, out.request, target));
  return ok_status();
}

graft_forecast forecast_of(const train::TrainingPlan& plan, const std::string& explanation) {
  const Plan& step = plan.training.front().plan;
  graft_forecast out{};
  set_memory(plan.memory(), out);
  out.flops = step.flops;
  out.extra_flops = step.recomputed_flops;
  out.micro_batch = static_cast<std::uint32_t>(plan.micro_batch);
  out.recomputed = static_cast<std::uint32_t>(step.recomputed.size());
  out.explanation = explanation.c_str();
  return out;
}

graft_metrics metrics_of(const train::Trainer& trainer, const train::Metrics& metrics, double learning_rate) {
  graft_metrics out{};
  out.step = trainer.state().step;
  out.loss = metrics.loss();
  out.accuracy = metrics.has_correct ? metrics.accuracy() : std::nan("");
  const bool prefers = train::is_preference(trainer.options().loss.kind);
  out.reward_margin = prefers ? metrics.reward_margin() : std::nan("");
  out.learning_rate = learning_rate;
  out.loss_scale = 1;
  return out;
}

Status end_step(graft_trainer& trainer, const train::StepResult& result, graft_metrics* metrics) {
  trainer.last = result;
  trainer.ends_epoch = false;
  if (trainer.checkpointer) GRAFT_TRY(trainer.checkpointer->record(result));
  if (metrics == nullptr) return ok_status();
  graft_metrics out = metrics_of(*trainer.trainer, result.metrics, result.learning_rate);
  out.loss_scale = result.loss_scale.value_or(1);
  out.skipped_steps = result.skipped_steps;
  return write_info(out, metrics, "graft_metrics");
}

}  // namespace graft::c_api

graft_status graft_forecast_training(graft_model* model, const graft_trainer_options* options,
                                     graft_forecast* forecast) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(const graft_trainer_options given, read_trainer_options(options));
    PlannedRun run;
    GRAFT_TRY(plan_run(model->model, given, target_of(*model->context), run));
    model->explanation.clear();
    for (const std::string& reason : run.plan->choice.reasons) {
      if (!model->explanation.empty()) model->explanation += '\n';
      model->explanation += reason;
    }
    return write_info(forecast_of(*run.plan, model->explanation), forecast, "graft_forecast");
  });
}

graft_status graft_trainer_create(graft_model* model, const graft_trainer_options* options, graft_trainer** trainer) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (trainer == nullptr) return invalid("graft_trainer_create needs a place for the trainer.");
    *trainer = nullptr;
    GRAFT_TRY_ASSIGN(const graft_trainer_options given, read_trainer_options(options));
    GRAFT_TRY_ASSIGN(train::TrainOptions wanted, train_options_of(given));
    train::scale_for_rounding(target_of(*model->context), wanted);
    auto made = std::make_unique<graft_trainer>();
    made->context = model->context;
    made->model = model;
    made->limit = TimeLimit(given.max_time);
    if (given.teacher != nullptr && &*given.teacher->context != &*model->context) {
      return invalid("The teacher belongs to another context than the model.");
    }
    if (given.teacher != nullptr) made->teacher = given.teacher;
    GRAFT_TRY_ASSIGN(const Model* trained, trained_model(model->model, given, made->masked, made->taught, wanted));
    if (!kHasData && (given.data != nullptr || given.held_out != nullptr)) return left_out("data sets", "data");
    if (kHasData && given.data != nullptr) {
      made->fields = given.data->source->fields();
      bind_length(*given.data->source, *trained, wanted.bindings);
    } else {
      GRAFT_TRY_ASSIGN(made->fields, sample_fields(*trained, wanted));
    }
    train::TrainerOptions trainer_options;
    trainer_options.allocator = model->context->allocator;
    trainer_options.request = plan_request(given);
    if (kHasData && given.data != nullptr) {  // of a mixture, those of an epoch
      trainer_options.request.samples = given.data->source->size();
      if (given.data->source->mixture()) trainer_options.request.samples = graft_data_samples(given.data);
    }
    if (given.profile != nullptr) {
      if (&*given.profile->context != &*model->context) return invalid("The profile is of another context.");
      made->profile = given.profile;
      trainer_options.program.profile = true;
      trainer_options.program.observer = &given.profile->profile;
    }
    trainer_options.program.proof = model->context->proof.get();
    trainer_options.program.control = &model->context->control;
    trainer_options.log = model->context->log;
    if (given.recover_device != 0) {
      if constexpr (!kHasRecovery) return left_out("devices that are opened anew", "recovery");
      trainer_options.reopen = [&context = *model->context] { return reopen_device(context); };  // which it holds
    }
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    GRAFT_TRY(make_exchange(given, *device, trainer_options.request, *made));
    if (given.budget_beside_weights != 0) {
      train::TrainOptions known = wanted;
      GRAFT_TRY(train::set_targets(trained->graph, made->fields, known));
      GRAFT_TRY(set_budget(given, trained->graph, known, device->target(), trainer_options.request));
    }
    trainer_options.exchange = made->exchange.get();
    GRAFT_TRY_ASSIGN(made->trainer, create_trainer(*device, *trained, wanted, made->fields, trainer_options));
    made->trainer->set_wants_whole_state(
        [of = made.get()] { return of->asks_whole || (of->checkpointer && of->checkpointer->wants_whole_state()); });
    *trainer = made.release();
    return ok_status();
  });
}

void graft_trainer_destroy(graft_trainer* trainer) {
  if (trainer != nullptr) destroy<graft_context>(trainer->context, trainer);
}

graft_status graft_trainer_pause(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] { return trainer->trainer->pause(); });
}

graft_status graft_trainer_resume(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] { return trainer->trainer->resume(); });
}

graft_status graft_trainer_memory(const graft_trainer* trainer, graft_memory* memory) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context,
                 [&] { return write_info(memory_of(trainer->trainer->plan().memory()), memory, "graft_memory"); });
}

graft_status graft_train_micro_step(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                    const void* target, uint32_t samples, int* done, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (done == nullptr) return invalid("graft_train_micro_step needs a place for done.");
    *done = 0;
    if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
    GRAFT_TRY(take_blocks(*trainer, inputs, input_count, target, samples));
    GRAFT_TRY_ASSIGN(const auto result, trainer->trainer->micro_step(trainer->batch));
    if (!result) return ok_status();
    *done = 1;
    return end_step(*trainer, *result, metrics);
  });
}

graft_status graft_train_step(graft_trainer* trainer, const void* const* inputs, size_t input_count, const void* target,
                              uint32_t samples, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&] { return train_step(*trainer, inputs, input_count, target, samples, metrics); });
}

graft_status graft_train_step_async(graft_trainer* trainer, const void* const* inputs, size_t input_count,
                                    const void* target, uint32_t samples, graft_metrics* metrics, graft_done done,
                                    void* user) {
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    std::vector<const void*> blocks;
    if (inputs != nullptr) blocks.assign(inputs, inputs + input_count);
    return ask(trainer, done, user,
               [blocks = std::move(blocks), input_count, target, samples, metrics](graft_trainer& of) {
                 return train_step(of, blocks.empty() ? nullptr : blocks.data(), input_count, target, samples, metrics);
               });
  });
}

graft_status graft_evaluate(graft_trainer* trainer, const void* const* inputs, size_t input_count, const void* target,
                            uint32_t samples, graft_metrics* metrics) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (metrics != nullptr) GRAFT_TRY(check_info(metrics, "graft_metrics"));
    GRAFT_TRY(take_blocks(*trainer, inputs, input_count, target, samples));
    GRAFT_TRY_ASSIGN(const auto source, data::from_slices(trainer->fields, trainer->blocks, samples));
    const WithoutProfile apart(*trainer);
    GRAFT_TRY_ASSIGN(const train::Metrics result, trainer->trainer->evaluate(*source));
    if (metrics == nullptr) return ok_status();
    return write_info(metrics_of(*trainer->trainer, result, trainer->trainer->learning_rate()), metrics,
                      "graft_metrics");
  });
}

graft_status graft_trainer_store(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(copy_to_model(*trainer->trainer, trainer->model->model, trainer->context->allocator,
                            trainer->model->stores_non_finite));
    keep_pooling(trainer->fields, trainer->model->model);
    return ok_status();
  });
}

graft_status graft_trainer_store_ema(graft_trainer* trainer) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (trainer->trainer->options().optimizer.ema == 0) {
      return invalid("The trainer keeps no running mean of its parameters: the option ema is 0.");
    }
    GRAFT_TRY(copy_to_model(*trainer->trainer, trainer->model->model, trainer->context->allocator,
                            trainer->model->stores_non_finite, true));
    keep_pooling(trainer->fields, trainer->model->model);
    return ok_status();
  });
}

graft_status graft_trainer_sample(const graft_trainer* trainer, size_t index, graft_tensor_info* info) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (info == nullptr) return invalid("graft_trainer_sample needs a place for the info.");
    if (index >= trainer->fields.size()) {
      return error(Code::not_found, "A sample has ", trainer->fields.size(), " parts; number ", index, " is not one.");
    }
    const data::Field& field = trainer->fields[index];
    *info = info_of(field);
    return ok_status();
  });
}
