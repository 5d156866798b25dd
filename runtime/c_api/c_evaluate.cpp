#include "graft/evaluate.h"

#include <algorithm>
#include <cmath>

#include "runtime/c_api/c_data.h"
#include "runtime/c_api/c_handles.h"
#include "runtime/c_api/c_options.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/language/text_data.h"
#include "runtime/language/text_vectors.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/run_state/gate.h"
#include "runtime/train/run/monitors.h"

using namespace graft;
using namespace graft::c_api;

struct graft_evaluation {
  Ref<graft_context> context;
  Evaluation evaluation;
  bool has_outcomes = false;
  graft_totals totals = {};
  std::vector<std::string> classes = {};
  std::optional<train::Comparison> comparison = {};
  std::vector<graft_class_change> changes = {};
  Users users = {};
};

namespace {

Result<EvaluationOptions> read(const graft_evaluation_options& given) {
  EvaluationOptions out;
  if (given.metrics != nullptr && given.metrics[0] != '\0') {
    GRAFT_TRY_ASSIGN(out.metrics, train::parse_metrics(given.metrics));
  }
  out.confusion = given.confusion != 0;
  out.outcomes = given.outcomes != 0;
  return out;
}

Status check_data(const graft_data_set* data, graft_evaluation** evaluation) {
  if (evaluation == nullptr) return invalid("An evaluation needs a place for its handle.");
  *evaluation = nullptr;
  if (data == nullptr) return invalid("An evaluation needs a data set.");
  if (data->has_loader()) return invalid("The data set has a loader, whose thread reads it; open it once more.");
  return ok_status();
}

graft_evaluation* keep(graft_context* context, Evaluation made, const EvaluationOptions& options,
                       const train::TrainOptions& training, const graft_data_set& data, const Model& model) {
  const auto* names = data::class_names(*data.source);
  const graft_totals totals = totals_of(made.totals, training);
  return new graft_evaluation{context, std::move(made), options.outcomes, totals,
                              names != nullptr ? *names : classes_of(model)};
}

Result<Evaluation> evaluate(graft_model& model, const graft_evaluation_options& given, EvaluationOptions& options,
                            graft_data_set& data) {
  GRAFT_TRY_ASSIGN(const graft_trainer_options training, read_trainer_options(given.training));
  GRAFT_TRY_ASSIGN(options.train, train_options_of(training));
  options.trainer.allocator = model.context->allocator;
  options.trainer.program.proof = model.context->proof.get();
  options.trainer.program.control = &model.context->control;
  GRAFT_TRY_ASSIGN(const std::optional<Model> masked, model_for(*data.source, model.model));
  const Model& evaluated = masked ? *masked : model.model;
  bind_length(*data.source, evaluated, options.train.bindings);
  GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model.context));
  return evaluate_model(*device, evaluated, *data.source, options);
}

void set_samples(const std::vector<std::uint64_t>& from, const std::uint64_t*& to, std::size_t& count) {
  to = from.data();
  count = from.size();
}

}  // namespace

graft_comparison graft::c_api::comparison_of(const train::Comparison& made, std::vector<graft_class_change>& changes) {
  changes.clear();
  for (const train::ClassComparison& one : made.classes) {
    changes.push_back({one.label, one.rows, one.old_right, one.new_right});
  }
  graft_comparison out{};
  out.samples = made.samples;
  out.rows = made.rows;
  out.both_right = made.both_right;
  out.only_old = made.only_old;
  out.only_new = made.only_new;
  out.neither = made.neither;
  out.p_value = made.p_value;
  out.exact = made.exact ? 1 : 0;
  set_samples(made.changed, out.changed, out.changed_count);
  set_samples(made.lost, out.lost, out.lost_count);
  set_samples(made.gained, out.gained, out.gained_count);
  out.classes = changes.data();
  out.class_count = changes.size();
  out.regression = made.task == train::Task::regression ? 1 : 0;
  return out;
}

graft_status graft_evaluate_model(graft_model* model, graft_data_set* data, const graft_evaluation_options* options,
                                  graft_evaluation** evaluation) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    GRAFT_TRY(check_data(data, evaluation));
    GRAFT_TRY_ASSIGN(const auto given, read_options(options, "graft_evaluation_options"));
    GRAFT_TRY_ASSIGN(EvaluationOptions wanted, read(given));
    GRAFT_TRY_ASSIGN(Evaluation made, evaluate(*model, given, wanted, *data));
    *evaluation = keep(model->context, std::move(made), wanted, wanted.train, *data, model->model);
    return ok_status();
  });
}

graft_status graft_evaluate_trainer(graft_trainer* trainer, graft_data_set* data,
                                    const graft_evaluation_options* options, graft_evaluation** evaluation) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    GRAFT_TRY(check_data(data, evaluation));
    GRAFT_TRY_ASSIGN(const auto given, read_options(options, "graft_evaluation_options"));
    GRAFT_TRY_ASSIGN(const EvaluationOptions wanted, read(given));
    GRAFT_TRY(check_samples(*trainer, *data->source));
    const train::TrainOptions& training = trainer->trainer->options();
    const bool predictions =
        wanted.confusion || wanted.outcomes || std::ranges::any_of(wanted.metrics, train::needs_predictions);
    if (predictions && !training.predictions) {
      return invalid("This needs predictions: the trainer was made without graft_trainer_options.predictions.");
    }
    const WithoutProfile apart(*trainer);
    GRAFT_TRY_ASSIGN(Evaluation made, evaluate_trainer(*trainer->trainer, *data->source, wanted));
    *evaluation = keep(trainer->context, std::move(made), wanted, training, *data, trainer->model->model);
    return ok_status();
  });
}

void graft_evaluation_destroy(graft_evaluation* evaluation) {
  if (evaluation != nullptr) destroy<graft_context>(evaluation->context, evaluation);
}

const char* graft_metric_names(void) {
  static const std::string names(train::metric_names());
  return names.c_str();
}

graft_status graft_evaluation_totals(const graft_evaluation* evaluation, graft_totals* totals) {
  if (evaluation == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(evaluation->context, [&] { return write_info(evaluation->totals, totals, "graft_totals"); });
}

graft_status graft_metrics_check(graft_context* context, const char* metrics, int* predictions) {
  return guarded(context, [&]() -> Status {
    if (metrics == nullptr) return invalid("graft_metrics_check needs names.");
    GRAFT_TRY_ASSIGN(const auto read, train::parse_metrics(metrics));
    if (predictions != nullptr) *predictions = std::ranges::any_of(read, train::needs_predictions) ? 1 : 0;
    return ok_status();
  });
}

size_t graft_evaluation_count(const graft_evaluation* evaluation) {
  return evaluation == nullptr ? 0 : evaluation->evaluation.values.size();
}

graft_status graft_evaluation_metric(const graft_evaluation* evaluation, size_t index, graft_metric_value* value) {
  if (evaluation == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(evaluation->context, [&]() -> Status {
    const auto& values = evaluation->evaluation.values;
    if (index >= values.size()) {
      return error(Code::not_found, "The evaluation has ", values.size(), " metrics; number ", index, " is not one.");
    }
    graft_metric_value out{};
    out.name = values[index].name.c_str();
    out.value = values[index].value;
    out.class_count = values[index].per_class.size();
    out.by_class = out.class_count == 0 ? nullptr : values[index].per_class.data();
    return write_info(out, value, "graft_metric_value");
  });
}

graft_status graft_evaluation_confusion(const graft_evaluation* evaluation, const uint64_t** counts, size_t* classes) {
  if (evaluation == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(evaluation->context, [&]() -> Status {
    const auto& matrix = evaluation->evaluation.confusion;
    if (!matrix) return error(Code::not_found, "The evaluation was not asked for a confusion matrix.");
    if (counts != nullptr) *counts = matrix->counts.data();
    if (classes != nullptr) *classes = static_cast<std::size_t>(matrix->classes);
    return ok_status();
  });
}

const char* graft_evaluation_class(const graft_evaluation* evaluation, size_t index) {
  if (evaluation == nullptr || index >= evaluation->classes.size()) return nullptr;
  return evaluation->classes[index].c_str();
}

graft_status graft_evaluations_compare(const graft_evaluation* before, graft_evaluation* now,
                                       graft_comparison* comparison) {
  if (now == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(now->context, [&]() -> Status {
    if (before == nullptr) return invalid("graft_evaluations_compare needs the evaluation before.");
    GRAFT_TRY(check_info(comparison, "graft_comparison"));
    if (!before->has_outcomes || !now->has_outcomes) {
      return invalid("What is compared must be evaluated with graft_evaluation_options.outcomes.");
    }
    GRAFT_TRY_ASSIGN(now->comparison, train::compare(before->evaluation.outcomes, now->evaluation.outcomes));
    const train::Comparison& made = *now->comparison;
    return write_info(comparison_of(made, now->changes), comparison, "graft_comparison");
  });
}

graft_status graft_trainer_observe(graft_trainer* trainer, const graft_evaluation* evaluation,
                                   const graft_watch_options* options, graft_verdict* verdict) {
  if (trainer == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(trainer->context, [&]() -> Status {
    if (evaluation == nullptr) return invalid("graft_trainer_observe needs an evaluation.");
    if (verdict != nullptr) GRAFT_TRY(check_info(verdict, "graft_verdict"));
    GRAFT_TRY_ASSIGN(const graft_watch_options given, read_options(options, "graft_watch_options"));
    GRAFT_TRY(need_step_end(*trainer));
    train::Trainer& run = *trainer->trainer;
    std::vector<train::MetricValue> values = evaluation->evaluation.values;
    const train::Metrics& totals = evaluation->evaluation.totals;
    values.push_back({"loss", totals.loss()});
    if (totals.has_correct) values.push_back({"accuracy", totals.accuracy()});
    const auto metric_of = [&](const char* name, std::optional<train::Metric>& out) -> Status {
      if (name == nullptr) return ok_status();
      GRAFT_TRY_ASSIGN(out, train::parse_metric(name));
      if (std::ranges::find(values, out->name, &train::MetricValue::name) != values.end()) return ok_status();
      return invalid("The evaluation was not asked for the metric \"", out->name, "\".");
    };
    train::Watch watch;
    GRAFT_TRY(metric_of(given.plateau, watch.plateau));
    if (watch.plateau && run.options().schedule.kind != train::ScheduleKind::plateau) {
      return invalid("The learning rate falls by evaluations with the schedule GRAFT_PLATEAU alone.");
    }
    watch.patience = given.patience;
    watch.factor = given.factor;
    std::optional<train::Metric> stop;
    GRAFT_TRY(metric_of(given.early_stop, stop));
    if (stop) watch.early_stop = {*stop, given.stop_patience, given.min_delta};
    GRAFT_TRY(metric_of(given.best, watch.best));
    const auto before = run.state();
    const double rate = run.options().optimizer.learning_rate;
    GRAFT_TRY_ASSIGN(const train::Verdict made, train::observe(run, watch, values));
    if (given.no_snapshot == 0) {
      GRAFT_TRY(keep_change(*trainer, [&]() -> Status {
        run.state() = before;
        return run.set_learning_rate(rate);
      }));
    }
    if (made.stop && trainer->exchange != nullptr) trainer->exchange->end_run();
    if (verdict == nullptr) return ok_status();
    graft_verdict out{};
    out.stop = made.stop ? 1 : 0;
    out.best = made.best ? 1 : 0;
    out.slower = made.learning_rate ? 1 : 0;
    out.learning_rate = run.options().optimizer.learning_rate;
    return write_info(out, verdict, "graft_verdict");
  });
}
