// Plans for less memory, for a run that is under way.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "platform/base/log.h"
#include "runtime/data/loader.h"
#include "runtime/exec/program.h"
#include "runtime/train/plan/slots.h"
#include "runtime/train/plan/training_plan.h"

namespace graft::train {

struct TrainerOptions {
  PlanRequest request;
  ProgramOptions program;
  HostAllocator allocator = default_host_allocator();
  LogSink log;  ///< told of new plans while training runs
  /// Opens the device anew after it was lost; what was made of the old one has to stay valid to destroy. With it, what
  /// training changes is copied to the host after each step, and a step in which the device is lost is begun again on
  /// the new one, to the same bits. Null: device_lost is an error.
  std::function<Result<gpu::Device*>()> reopen = nullptr;
  /// With PlanRequest::slots: the other workers, whom each step is taken together with. Outlives the trainer.
  SlotExchange* exchange = nullptr;
};

/// The contents of a constant, parameter or state of the model's graph; nullopt where there is none.
using WeightOf = std::function<std::optional<std::span<const std::byte>>(ValueId)>;

/// What a training run is made of, whatever plan it follows.
struct TrainingSetup {
  gpu::Device* device;  ///< another one after it was lost
  const Graph& model;
  WeightOf weight_of;
  TrainOptions options;
  std::vector<data::Field> fields;
  TrainerOptions trainer;
};

/// The run planned for another budget: with the micro-batches of `plan` (the same bits), or with any.
Result<TrainingPlan> plan_again(const TrainingSetup& setup, const TrainingPlan& plan, std::uint64_t budget,
                                bool same_size);

/// The largest plan that it finds for less memory than `plan` takes; nullopt where there is none. `held`: bytes of
/// device memory that the run has now. Within a step the micro-batches keep their size.
Result<std::optional<TrainingPlan>> plan_smaller(const TrainingSetup& setup, const TrainingPlan& plan,
                                                 std::uint64_t held, bool within_step);

}  // namespace graft::train
