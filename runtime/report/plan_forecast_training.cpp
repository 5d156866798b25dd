// The part of plan_forecast.h that builds without training leave out.
#include "platform/base/checked.h"
#include "runtime/distribute/group_exchange.h"
#include "runtime/passes/train_mode.h"
#include "runtime/report/plan_forecast.h"

namespace graft {
namespace {

Result<WorkerForecast> forecast_worker(const RunForecast& asked, const train::TrainOptions& options,
                                       const train::TrainingPlan& plan, const gpu::Target& target) {
  const std::uint64_t workers = asked.workers;
  WorkerForecast forecast{.workers = workers};
  forecast.slots = static_cast<std::uint64_t>(ceil_div(options.batch, plan.micro_batch));
  forecast.most = train::Share{0, workers}.of(forecast.slots).count;
  const std::uint64_t gradients = Capture::planned_bytes(plan.residents, Capture::What::gradients);
  forecast.host_bytes = distribute::host_bytes(gradients, workers, forecast.most, forecast.slots);
  // Slots, their sum, and with a shared optimizer the parameters, which are as many.
  forecast.sent_bytes = (forecast.most + (asked.shard_optimizer ? 2 : 1)) * gradients * (workers - 1) / workers;
  GRAFT_TRY_ASSIGN(forecast.sum, distribute::SlotSum::planned(target, distribute::elements_to_sum(gradients, workers)));
  return forecast;
}

}  // namespace

Result<PlanForecast> forecast_training(const Model& model, const train::TrainOptions& options,
                                       train::PlanRequest request, const RunForecast& asked,
                                       const gpu::Target& target) {
  request.slots = request.slots || asked.workers > 1;
  if (asked.workers > 1 && asked.shard_optimizer) request.shard = {0, static_cast<std::uint32_t>(asked.workers)};
  GRAFT_TRY_ASSIGN(train::TrainingPlan training, train::plan_training(model.graph, options, request, target));
  PlanForecast forecast;
  forecast.training = true;
  forecast.memory = training.memory();
  forecast.micro_batch = training.micro_batch;
  forecast.accumulates = training.accumulates;
  forecast.micro_batches = static_cast<std::int64_t>(ceil_div(options.batch, training.micro_batch));
  if (asked.workers > 1) {
    GRAFT_TRY_ASSIGN(forecast.workers, forecast_worker(asked, options, training, target));
    for (std::size_t i = 0; i < kMemoryClasses; ++i) forecast.memory.bytes[i] += forecast.workers.sum.bytes[i];
  }
  forecast.choice = std::move(training.choice);
  forecast.precision = std::move(training.precision);
  forecast.plans.push_back(
      {cat("training step, batch ", training.training[0].samples, ", ", train::optimizer_name(options.optimizer.kind)),
       std::move(training.training[0].plan)});
  if (training.update) {
    forecast.plans.push_back(
        {cat("optimizer step after ", forecast.micro_batches, " micro-batches"), std::move(*training.update)});
  }
  if (asked.curve) {
    GRAFT_TRY_ASSIGN(forecast.curve, train::training_curve(model.graph, options, request, target));
  }
  return forecast;
}

Result<std::vector<passes::PassNote>> training_passes(const Model& model, const train::TrainOptions& options) {
  GRAFT_TRY_ASSIGN(const Graph bound, train::bind_batch(model.graph, options.batch, options.bindings));
  std::string note;
  GRAFT_TRY_ASSIGN(const train::LossInputs inputs, train::loss_inputs(bound, options, &note));
  const std::vector<ValueId> targets = train::all_of(inputs);
  const passes::TrainModeOptions mode{options.freeze, options.batch_statistics, options.batch_norm_momentum};
  GRAFT_TRY_ASSIGN(passes::TrainModeGraph forward, passes::to_train_mode(bound, targets, mode));
  Graph graph = std::move(forward.graph);
  for (const ValueId target : targets) graph.add_output(bound.value(target).name, forward.values[target.index]);
  GRAFT_TRY_ASSIGN(passes::Prepared prepared, passes::prepare(graph, {}, {}));
  return std::move(prepared.notes);
}

}  // namespace graft
