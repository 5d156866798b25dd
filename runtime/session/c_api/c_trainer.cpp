#include <cmath>

#include "runtime/session/c_api/c_trainer.h"

#include "platform/base/names.h"
#include "runtime/core/features.h"
#include "runtime/core/source_order.h"
#include "runtime/session/c_api/c_async.h"
#include "runtime/session/c_api/c_data.h"
#include "runtime/session/c_api/c_distribute.h"
#include "runtime/session/c_api/c_handles.h"
#include "runtime/session/c_api/c_session.h"
#include "runtime/session/data_hints.h"
#include "runtime/session/text_data.h"
#include "runtime/session/text_vectors.h"
#include "runtime/session/training.h"
#include "runtime/train/loss_terms.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// "a,b" or NULL.
std::vector<std::string> names_of(const char* text) { return split_names(text == nullptr ? "" : text); }

Result<std::vector<train::ParameterGroup>> read_groups(const graft_trainer_options& options) {
  const graft_parameter_group* const groups = options.groups;
  const std::size_t count = options.group_count;
  if (groups == nullptr && count != 0) return invalid(count, " parameter groups were promised, and groups is NULL.");
  std::vector<train::ParameterGroup> out;
  for (std::size_t i = 0; i < count; ++i) {
    const graft_parameter_group& given = groups[i];
    if (given.pattern == nullptr) return invalid("The pattern of parameter group ", i, " is NULL.");
    train::ParameterGroup& group = out.emplace_back(train::ParameterGroup{.pattern = given.pattern});
    if (options.own_numbers != 0 || given.learning_rate_scale != 0)
      group.learning_rate_scale = given.learning_rate_scale;
    if (given.own_weight_decay != 0) group.weight_decay = given.weight_decay;
  }
  return out;
}

/// Zero asks for what is usual.
template <typename T>
void set_unless_zero(T& option, T given) {
  if (given != 0) option = given;
}

Result<std::vector<double>> read_weights(const char* what, const double* numbers, std::size_t count) {
  if (numbers == nullptr && count != 0) return invalid(count, " ", what, " were promised, and they are NULL.");
  return std::vector<double>(numbers, numbers + count);
}

Status read_losses(const graft_trainer_options& options, train::TrainOptions& out) {
  using enum train::Loss;
  constexpr train::Loss kLosses[] = {cross_entropy, mse,     l1,       bce, focal,  dice, huber, smooth_l1, kl,
                                     cosine,        triplet, info_nce, ctc, output, dpo,  ipo,   orpo,      kto};
  train::LossOptions term;
  const auto loss = static_cast<unsigned>(options.loss);
  if (loss >= std::size(kLosses)) return invalid("There is no loss number ", loss, ".");
  term.kind = kLosses[loss];
  term.label_smoothing = options.label_smoothing;
  if (options.own_ignore_index != 0) term.ignore_index = options.ignore_index;
  if (options.own_class_axis != 0) term.class_axis = options.class_axis;
  GRAFT_TRY_ASSIGN(term.class_weights,
                   read_weights("class weights", options.class_weights, options.class_weight_count));
  GRAFT_TRY_ASSIGN(term.pos_weight, read_weights("pos weights", options.pos_weight, options.pos_weight_count));
  if (options.own_focal_gamma != 0) term.focal_gamma = options.focal_gamma;
  if (options.focal_alpha != 0) term.focal_alpha = options.focal_alpha;
  set_unless_zero(term.delta, options.huber_delta);
  if (options.own_smooth_l1_beta != 0) term.beta = options.smooth_l1_beta;
  if (options.own_margin != 0) term.margin = options.margin;
  if (options.temperature != 0) term.temperature = options.temperature;
  term.blank = options.blank;
  set_unless_zero(term.preference_beta, options.preference_beta);
  if (options.own_kto_weights != 0) {
    term.desirable_weight = options.desirable_weight;
    term.undesirable_weight = options.undesirable_weight;
  }
  term.zero_infinity = options.zero_infinity != 0;
  if (options.own_distill_weight != 0) term.distill_weight = options.distill_weight;
  std::vector<train::LossOptions> terms = {term};
  if (options.losses != nullptr) {
    GRAFT_TRY_ASSIGN(terms, train::parse_losses(options.losses, term));
  }
  for (train::LossOptions& one : terms) {
    if (one.kind == ctc && options.target_length != 0) one.target_shape = Shape::of({options.target_length});
  }
  out.loss = std::move(terms.front());
  out.more_losses.assign(terms.begin() + 1, terms.end());
  if (options.sample_weights != nullptr) out.sample_weights = options.sample_weights;
  if constexpr (!kHasLosses) return train::check_losses(out);  // before a graph is made of them
  return ok_status();
}

void read_optimizer(const graft_trainer_options& options, train::OptimizerKind kind, train::TrainOptions& out) {
  train::OptimizerOptions& o = out.optimizer;
  const bool own = options.own_numbers != 0;
  const auto set = [own](auto& option, auto given) {
    if (own || given != 0) option = given;
  };
  o = train::optimizer_defaults(kind);
  set(o.learning_rate, options.learning_rate);
  set(o.momentum, options.momentum);
  o.nesterov = own ? options.nesterov != 0 : o.nesterov || options.nesterov != 0;
  o.weight_decay = options.weight_decay;
  set(o.beta1, options.beta1);
  set(o.beta2, options.beta2);
  set(o.epsilon, options.epsilon);
  set(o.alpha, options.alpha);
  o.centered = options.centered != 0;
  o.lr_decay = options.lr_decay;
  o.initial_accumulator_value = options.initial_accumulator_value;
  set(o.beta2_decay, options.beta2_decay);
  set(o.epsilon2, options.epsilon2);
  set(o.clip_threshold, options.clip_threshold);
  set(o.ns_steps, options.ns_steps);
  if (options.match_rms_adamw != 0) o.adjust = train::MuonAdjust::match_rms_adamw;
  o.adamw_parameters = names_of(options.adamw_for);
  o.ema = options.ema;
  o.proximal = options.proximal;
  set(out.layer_decay, options.layer_decay);
  out.schedule.step_size = own || options.step_size != 0 ? options.step_size : 1000;
  set(out.schedule.gamma, options.gamma);
  set(out.schedule.rise, options.rise);
  set(out.schedule.div_factor, options.div_factor);
  set(out.schedule.final_div_factor, options.final_div_factor);
  set(out.schedule.power, options.power);
}

Result<train::TrainOptions> train_options(const graft_trainer_options& options) {
  train::TrainOptions out;
  using enum train::OptimizerKind;
  constexpr train::OptimizerKind kOptimizers[] = {adamw,   adam,    sgd,       adamw8bit, lion,
                                                  rmsprop, adagrad, adafactor, lamb,      muon};
  constexpr train::ScheduleKind kSchedules[] = {train::ScheduleKind::constant,  train::ScheduleKind::linear,
                                                train::ScheduleKind::cosine,    train::ScheduleKind::step,
                                                train::ScheduleKind::one_cycle, train::ScheduleKind::polynomial,
                                                train::ScheduleKind::plateau};
  const auto optimizer = static_cast<unsigned>(options.optimizer);
  const auto schedule = static_cast<unsigned>(options.schedule);
  if (optimizer >= std::size(kOptimizers)) return invalid("There is no optimizer number ", optimizer, ".");
  if (schedule >= std::size(kSchedules)) return invalid("There is no schedule number ", schedule, ".");
  GRAFT_TRY_ASSIGN(out.precision, read_precision(options.precision));
  if (options.loss_scale != 0 || (options.growth_interval != 0 && out.precision == DType::f16)) {
    out.loss_scaling = train::LossScaling{};
    if (options.loss_scale != 0) out.loss_scaling->initial = std::max(options.loss_scale, 0.0);
    if (options.growth_interval != 0) out.loss_scaling->growth_interval = options.growth_interval;
  }
  GRAFT_TRY(read_losses(options, out));
  read_optimizer(options, kOptimizers[optimizer], out);
  out.clip_norm = options.clip_norm;
  out.clip_value = options.clip_value;
  out.optimizer_in_backward = options.optimizer_in_backward != 0;
  out.batch_statistics = options.frozen_statistics == 0;
  out.neftune_alpha = options.neftune_alpha;
  out.schedule.kind = kSchedules[schedule];
  out.schedule.warmup_steps = options.warmup_steps;
  out.schedule.total_steps = options.total_steps;
  out.schedule.final_factor = options.final_lr_factor;
  if (options.batch != 0) out.batch = options.batch;
  out.micro_batch = options.micro_batch;
  out.seed = options.seed;
  out.freeze = names_of(options.freeze);
  out.fetch = names_of(options.fetch);
  out.predictions = options.predictions != 0;
  GRAFT_TRY_ASSIGN(out.groups, read_groups(options));
  GRAFT_TRY_ASSIGN(out.bindings, read_bindings(options.bindings, options.binding_count));
  GRAFT_TRY_ASSIGN(out.inputs, read_formats(options.inputs, options.input_count));
  return out;
}

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
  const double weight = options.own_distill_weight != 0 ? options.distill_weight : 0.5;
  GRAFT_TRY(learn_from_teacher(taught->graph, weight, wanted));
  return &*taught;
}

}  // namespace

namespace graft::c_api {

Result<train::TrainOptions> train_options_of(const graft_trainer_options& options) { return train_options(options); }

Status prepare_plan(const Model& model, const graft_trainer_options& given, const gpu::Target& target,
                    PlannedRun& out) {
  GRAFT_TRY_ASSIGN(out.options, train_options(given));
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
    GRAFT_TRY_ASSIGN(const graft_trainer_options given, read_options(options, "graft_trainer_options"));
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
    GRAFT_TRY_ASSIGN(const graft_trainer_options given, read_options(options, "graft_trainer_options"));
    GRAFT_TRY_ASSIGN(train::TrainOptions wanted, train_options(given));
    train::scale_for_rounding(target_of(*model->context), wanted);
    auto made = std::make_unique<graft_trainer>();
    made->context = model->context;
    made->model = model;
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
    if (kHasData && given.data != nullptr) trainer_options.request.samples = given.data->source->size();
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
