#include "tools/bench/model_plans.h"

#include "runtime/exec/plan_fused.h"
#include "runtime/lora/adapter.h"
#include "runtime/report/plan_parts.h"
#include "runtime/session/session.h"
#include "runtime/train/plan/training_plan.h"
#include "runtime/train/step/training_graph.h"
#include "tools/bench/model_io.h"
#include "tools/common/options.h"

namespace graft::cli {
namespace {

Result<Plan> plan_graph(const Graph& graph, const gpu::Target& target) {
  Residents residents(target.caps);
  TRY(residents.add(graph));
  return plan_fused(graph, target, residents);
}

Result<std::vector<NamedPlan>> training_plans(const Model& model, const ModelUse& use, const gpu::Target& target) {
  train::TrainOptions options;
  options.batch = use.batch;
  options.bindings = use.bindings;
  options.precision = use.precision;
  TRY_ASSIGN(const std::string symbol, train::batch_symbol(model.graph));
  options.bindings.erase(symbol);
  train::scale_for_rounding(target, options);
  train::PlanRequest request;
  request.evaluation = false;
  TRY_ASSIGN(train::TrainingPlan training, train::plan_training(model.graph, options, request, target));
  std::vector<NamedPlan> plans;
  plans.push_back({"training step", std::move(training.training[0].plan)});
  if (training.update) plans.push_back({"training step", std::move(*training.update)});
  return plans;
}

}  // namespace

Result<std::vector<NamedPlan>> plans_of_model(const Model& model, const ModelUse& use, const gpu::Target& target,
                                              std::string& untrained) {
  std::vector<NamedPlan> plans;
  Bindings given = use.bindings;
  if (const auto symbol = train::batch_symbol(model.graph); symbol.ok()) given.emplace(*symbol, use.batch);
  TRY_ASSIGN(const Bindings bindings, complete_bindings(model, given, true));
  TRY_ASSIGN(const SessionGraph forward, session_graph(model, bindings, {}, use.precision));
  TRY_ASSIGN(Plan inference, plan_graph(forward.graph, target));
  plans.push_back({"inference", std::move(inference)});
  TRY_ASSIGN(std::vector<Plan> decode, decode_plans(model, target, use.precision));
  const bool language = !decode.empty();
  for (Plan& plan : decode) plans.push_back({"decode", std::move(plan)});
  auto training = [&]() -> Result<std::vector<NamedPlan>> {
    if (!language || use.lora.empty()) return training_plans(model, use, target);
    TRY_ASSIGN(const LoraOptions lora, parse_lora(use.lora));
    TRY_ASSIGN(const Model adapted, with_lora(model, lora, 0));
    return training_plans(adapted, use, target);
  }();
  if (training.ok()) {
    for (NamedPlan& plan : *training) plans.push_back(std::move(plan));
  } else {
    untrained = training.status().message();
  }
  return plans;
}

}  // namespace graft::cli
