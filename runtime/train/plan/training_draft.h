// What planning a training run knows between its passes. Internal to runtime/train.
#pragma once

#include <optional>
#include <vector>

#include "runtime/train/plan/training_plan.h"

namespace graft::train {

/// As they are planned, once draft_training() is done.
struct TrainingGraphs {
  std::vector<std::int64_t> sizes;  ///< of training
  std::vector<std::int64_t> evaluation_sizes;
  std::vector<TrainingGraph> training;
  std::vector<EvaluationGraph> evaluation;
  std::optional<Graph> update;
};

struct TrainingDraft {
  TrainingPlan plan;
  TrainingGraphs graphs;  ///< of its plans
};

/// With micro-batches of this size, whatever memory that takes.
Result<TrainingDraft> draft_training(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                     const gpu::Target& target, std::int64_t micro,
                                     const ResidentOptions& residents = {});

}  // namespace graft::train
