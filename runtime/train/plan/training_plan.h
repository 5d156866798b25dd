// Everything that a training run will do on a device, planned before it begins: for Trainer, and for `graft plan`.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/plan/plan.h"
#include "runtime/train/step/training_graph.h"

namespace graft::train {

/// A worker that keeps the optimizer's state of some parameters alone, takes their step and gives them to the others
/// (ZeRO-1): those with TrainedTensor::owner == rank.
struct OptimizerShard {
  std::uint32_t rank = 0;
  std::uint32_t workers = 1;
};

struct PlanRequest {
  std::optional<std::uint64_t> samples;  ///< in the training set: tells how short the last batch is
  bool drop_last = false;                ///< the last batch is left out where it is short
  bool training = true;                  ///< false: evaluation alone; no gradient need exist
  bool evaluation = true;
  /// The state will be saved and hashed: see Trainer::capture() and state_hash(). Takes staging for a copy of it.
  bool checkpoints = false;
  bool slots = false;  ///< micro-batches are slots of a step that several workers take together: see slots.h
  std::optional<OptimizerShard> shard;              ///< with slots
  std::optional<std::uint64_t> evaluation_samples;  ///< in the evaluation set
  PlanOptions plan;                                 ///< the budget is for the whole run: TrainingPlan::memory()
  /// Where memory or the budget does not suffice even if results are computed again (PlanOptions::recompute): halve the
  /// micro-batch until it does, and accumulate gradients.
  bool shrink_micro_batch = false;
};

/// One graph for one number of samples.
struct SizedPlan {
  std::int64_t samples = 0;
  LossNodes loss;  ///< ids are indices of PlanPort::value
  std::vector<passes::InputRule> rules;
  std::vector<passes::PackedShape> packed;  ///< inputs that are given so
  Plan plan;
};

/// What was done to keep to a budget.
struct BudgetChoice {
  std::uint64_t budget = 0;          ///< 0: none was given, and the rest is empty
  std::uint64_t unconstrained = 0;   ///< bytes of the whole batch at once with everything saved; 0: not known
  std::vector<std::string> reasons;  ///< what was chosen and why: a sentence each
};

struct TrainingPlan {
  std::int64_t micro_batch = 0;  ///< samples on the device at once
  bool accumulates = false;      ///< micro-batches add to accumulators, and `update` takes the step
  bool slots = false;            ///< as PlanRequest::slots
  Residents residents;
  std::vector<SizedPlan> training;  ///< the largest number of samples first; empty where only evaluation is asked for
  std::optional<Plan> update;
  std::optional<Plan> hash;           ///< of the state, where PlanRequest::checkpoints or slots
  bool captures = false;              ///< as PlanRequest::checkpoints
  std::vector<SizedPlan> statistics;  ///< of slots: moves running statistics by what one gave; empty: there are none
  std::vector<SizedPlan> evaluation;  ///< as training
  bool keeps_statistics = false;      ///< copies running statistics before a step, to bring them back where it fails
  std::vector<TrainedTensor> tensors;
  /// State of the optimizer that another worker keeps (PlanRequest::shard), by owner.
  struct Elsewhere {
    std::uint32_t owner = 0;
    Resident resident;
  };
  std::vector<Elsewhere> elsewhere;
  std::vector<std::string> untrained;
  std::string note;
  passes::PrecisionReport precision;  ///< of the training step
  BudgetChoice choice;

  std::vector<const Plan*> plans() const;
  /// What a loss brought along under this name; null where none did.
  const LossConstant* find_constant(std::string_view name) const;
  std::uint64_t arena_bytes() const;  ///< of the arena that all plans share
  /// Device and staging memory of the whole run, by class: what a Trainer allocates.
  MemoryByClass memory() const;
};

/// The numbers of samples that are on the device at once when `total` samples (or any number) come in batches of
/// `batch` and these in micro-batches of `micro`; the largest first.
std::vector<std::int64_t> micro_sizes(std::int64_t batch, std::int64_t micro, std::optional<std::uint64_t> total,
                                      bool drop_last);

/// Plans a run. `model` is a model's graph, as loaded: symbols need not be bound.
/// It takes the first of these that keeps to the budget: everything saved; results computed again, the fewest FLOPs
/// (both give the same bits); smaller micro-batches (gradients add up in another order); frozen weights streamed from
/// where they lie (PlanOptions::stream; the same bits), with the largest micro-batch that then fits. If batch norm
/// learns from the batch, streaming comes first: smaller micro-batches change its statistics. Before all of these
/// workspace shrinks (PlanOptions::tile_workspace, the same bits), then the staging.
/// out_of_memory, where nothing fits the budget, names the smallest budget that would do and what takes most of it.
Result<TrainingPlan> plan_training(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                   const gpu::Target& target);

/// Memory against work, as results are computed again: what plan_training() chooses from before it takes smaller
/// micro-batches.
struct TrainingCurve {
  std::uint64_t fixed_bytes = 0;  ///< of the run beside its arena: a point needs at least that plus its peak
  std::uint64_t flops = 0;        ///< of a step with everything saved
  std::vector<RecomputePoint> points;
};

/// The curve for the micro-batch that is asked for. No budget applies.
Result<TrainingCurve> training_curve(const Graph& model, const TrainOptions& options, PlanRequest request,
                                     const gpu::Target& target);

/// A plan for another number of samples, with the residents of an existing one.
Result<SizedPlan> plan_micro_batch(const Graph& model, const TrainOptions& options, const TrainingPlan& plan,
                                   std::int64_t samples, const gpu::Target& target, const PlanOptions& plan_options);
/// The same of TrainingPlan::statistics.
Result<SizedPlan> plan_slot_statistics(const Graph& model, const TrainOptions& options, const TrainingPlan& plan,
                                       std::int64_t samples, const gpu::Target& target);
Result<SizedPlan> plan_evaluation(const Graph& model, const TrainOptions& options, const Residents& residents,
                                  std::int64_t samples, const gpu::Target& target, const PlanOptions& plan_options);

}  // namespace graft::train
