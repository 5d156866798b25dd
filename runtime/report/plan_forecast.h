// What a session or a run of training would do and take, before anything runs: what `graft plan` tells.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/passes/pipeline.h"
#include "runtime/report/plan_speed.h"
#include "runtime/session/session.h"
#include "runtime/train/plan/training_plan.h"

namespace graft {

struct TitledPlan {
  std::string title;
  Plan plan;
};

/// Of one of several workers.
struct WorkerForecast {
  std::uint64_t workers = 1;
  std::uint64_t slots = 0;       ///< micro-batches of a step
  std::uint64_t most = 0;        ///< of these, of one worker
  std::uint64_t host_bytes = 0;  ///< of gradients, in the host's memory
  std::uint64_t sent_bytes = 0;  ///< in a step; as many are received
  MemoryByClass sum;             ///< what adding gradients up takes of the device, at most
};

struct PlanForecast {
  std::vector<TitledPlan> plans;  ///< inference; or a training step, and what takes an optimizer step after several
  WorkerForecast workers;
  MemoryByClass memory;  ///< of the whole run
  bool training = false;
  std::int64_t micro_batch = 0;
  std::int64_t micro_batches = 1;  ///< of a step
  bool accumulates = false;
  train::BudgetChoice choice;
  passes::PrecisionReport precision;
  train::TrainingCurve curve;                           ///< no points where it was not asked for
  std::optional<KnownSpeed> speed;                      ///< of a device whose time was asked for
  ModelTime time;                                       ///< of a step or a forward pass there
  std::optional<std::vector<passes::PassNote>> passes;  ///< likewise
};

/// Symbols without a binding get the model's own sizes, else the smallest (complete_bindings). `beside_weights`: a
/// budget of so many bytes beside the weights, in place of that of the options; 0: none.
Result<PlanForecast> forecast_inference(const Model& model, const SessionOptions& options, std::uint64_t beside_weights,
                                        const gpu::Target& target);
/// What the passes do with the network alone.
Result<std::vector<passes::PassNote>> inference_passes(const Model& model, const Bindings& bindings);

/// What is asked beside the run itself.
struct RunForecast {
  bool curve = false;
  std::uint64_t workers = 1;
  bool shard_optimizer = false;
};
/// A run as Trainer would be made, with these options and this request, of which what several workers need is set here.
Result<PlanForecast> forecast_training(const Model& model, const train::TrainOptions& options,
                                       train::PlanRequest request, const RunForecast& asked, const gpu::Target& target);
/// What the passes do with the network alone: a loss comes after it, and gradients after that.
Result<std::vector<passes::PassNote>> training_passes(const Model& model, const train::TrainOptions& options);

/// Adds the time by these figures (read_speed()).
Status estimate_time(const std::string& figures, const gpu::Target& target, PlanForecast& forecast);

}  // namespace graft
