// A file of its own, so that an app that does not call it does not link the self-test.
#include "runtime/c_api/c_plan.h"
#include "runtime/c_api/c_session.h"
#include "runtime/c_api/c_trainer.h"
#include "runtime/core/features.gen.h"
#include "runtime/report/plan_forecast.h"
#include "runtime/report/plan_parts.h"

using namespace graft;
using namespace graft::c_api;

namespace {

/// All of a training run, in whole batches and in micro-batches. Inline as plan_training_step() is.
inline Status add_training(const Model& model, train::TrainOptions options, const gpu::Target& target,
                           std::vector<Plan>& plans) {
  train::PlanRequest request;
  request.checkpoints = true;
  for (const std::int64_t micro : {options.micro_batch, std::int64_t{1}}) {
    options.micro_batch = micro;
    GRAFT_TRY_ASSIGN(train::TrainingPlan run, train::plan_training(model.graph, options, request, target));
    for (train::SizedPlan& sized : run.training) plans.push_back(std::move(sized.plan));
    for (train::SizedPlan& sized : run.evaluation) plans.push_back(std::move(sized.plan));
    for (std::optional<Plan>* one : {&run.update, &run.hash}) {
      if (*one) plans.push_back(std::move(**one));
    }
  }
  return ok_status();
}

Result<std::vector<Plan>> inference_plans(const Model& model, const SessionOptions& options, DType precision,
                                          const gpu::Target& target) {
  GRAFT_TRY_ASSIGN(std::vector<Plan> plans, decode_plans(model, target, precision));
  GRAFT_TRY_ASSIGN(PlanForecast inference, forecast_inference(model, options, 0, target));
  plans.push_back(std::move(inference.plans.front().plan));
  return plans;
}

/// What a library with this model may be asked to run with training, too.
inline Result<std::vector<Plan>> trained_plans(const Model& model, const graft_trainer_options& given,
                                               const SessionOptions& session, const gpu::Target& target) {
  graft_trainer_options unlimited = given;
  unlimited.budget = unlimited.budget_beside_weights = 0;
  PlannedRun run;
  GRAFT_TRY(prepare_plan(model, unlimited, target, run));
  GRAFT_TRY_ASSIGN(std::vector<Plan> plans, inference_plans(*run.model, session, run.options.precision, target));
  GRAFT_TRY(add_training(*run.model, run.options, target, plans));
  return plans;
}

}  // namespace

graft_status graft_model_parts(graft_model* model, const graft_plan_options* options, int for_one, const char** text) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (text == nullptr) return invalid("graft_model_parts needs a place for the text.");
    GRAFT_TRY_ASSIGN(const graft_plan_options given, read_options(options, "graft_plan_options"));
    GRAFT_TRY_ASSIGN(const graft_trainer_options training, read_trainer_options(given.training));
    GRAFT_TRY_ASSIGN(SessionOptions session, session_options_of(given.session));
    if (given.training != nullptr && !kHasTraining) {
      return unsupported("This build of graft leaves out training (GRAFT_TRAINING).");
    }
    GRAFT_TRY_ASSIGN(const gpu::Target one, planned_target(*model->context, given));
    std::vector<gpu::Target> targets = {one};
    if (for_one == 0) {
      targets = known_targets();
      for (gpu::Target& target : targets) target.policy.matmul_precision = one.policy.matmul_precision;
    }
    OpUse seen;
    for (const Node& node : model->model.graph.nodes()) seen.note(node.op);
    const auto plan_all = [&](const gpu::Target& target) -> Result<std::vector<Plan>> {
      if constexpr (kHasTraining) {
        if (given.training != nullptr) return trained_plans(model->model, training, session, target);
      }
      return inference_plans(model->model, session, session.precision, target);
    };
    GRAFT_TRY_ASSIGN(const NeededParts parts, needed_parts(targets, plan_all, seen));
    const std::string source((model->base ? *model->base : model->model).source());
    const std::string title = cat("What ", source.substr(source.rfind('/') + 1), " needs for ",
                                  given.training != nullptr ? "training and inference" : "inference", " on ",
                                  for_one != 0 ? one.caps.device_name : "all devices that graft knows", ".");
    model->parts = parts_text(parts, title);
    *text = model->parts.c_str();
    return ok_status();
  });
}
