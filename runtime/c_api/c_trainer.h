// What every way to take a step ends with.
#pragma once

#include "graft/steps.h"
#include "runtime/c_api/c_handles.h"

namespace graft::c_api {

graft_metrics metrics_of(const train::Trainer& trainer, const train::Metrics& metrics, double learning_rate);

/// The caller's options over the defaults of their optimizer, which an older, smaller struct lacks.
Result<graft_trainer_options> read_trainer_options(const graft_trainer_options* given);
/// What a trainer of these options is asked to do.
Result<train::TrainOptions> train_options_of(const graft_trainer_options& options);

/// A run as a trainer of these options would be planned.
struct PlannedRun {
  train::TrainOptions options;
  std::optional<Model> masked = {};  ///< with packed sequences kept apart
  std::optional<Model> taught = {};  ///< with its teacher
  const Model* model = nullptr;      ///< what is trained: it, or the model that was given
  train::PlanRequest request = {};
  std::optional<train::TrainingPlan> plan = {};
};
/// All but the plan. `out` may refer to `model` and is not moved from here on.
Status prepare_plan(const Model& model, const graft_trainer_options& options, const gpu::Target& target,
                    PlannedRun& out);
/// The same with it.
Status plan_run(const Model& model, const graft_trainer_options& options, const gpu::Target& target, PlannedRun& out);
/// Its explanation is borrowed.
graft_forecast forecast_of(const train::TrainingPlan& plan, const std::string& explanation);

/// What was changed outside of a step goes into a snapshot at once, where a checkpoint is open: the journal cannot
/// bring it back. undo() where that fails.
template <typename Undo>
Status keep_change(graft_trainer& trainer, Undo undo) {
  if (!trainer.checkpointer) return ok_status();
  Status kept = trainer.checkpointer->save_change();
  if (kept.ok()) return ok_status();
  GRAFT_TRY(undo());
  return kept;
}

/// Of samples that a trainer of these options saw.
graft_totals totals_of(const train::Metrics& metrics, const train::TrainOptions& options);
/// It refers to both.
graft_comparison comparison_of(const train::Comparison& made, std::vector<graft_class_change>& changes);
/// One worker's, whose host's name is borrowed.
graft_worker_report report_of(const train::WorkerSection& section);

/// What happens meanwhile is no part of the steps that the trainer's profile keeps.
class WithoutProfile {
 public:
  explicit WithoutProfile(graft_trainer& trainer) : profile_(trainer.profile ? &trainer.profile->profile : nullptr) {
    if (profile_ != nullptr) profile_->pause();
  }
  WithoutProfile(const WithoutProfile&) = delete;
  WithoutProfile& operator=(const WithoutProfile&) = delete;
  ~WithoutProfile() {
    if (profile_ != nullptr) profile_->resume();
  }

 private:
  RunProfile* profile_;
};

/// invalid_argument in the middle of a step.
Status need_step_end(const graft_trainer& trainer);

/// After a whole step: it is recorded, where a checkpoint is open, and told.
Status end_step(graft_trainer& trainer, const train::StepResult& result, graft_metrics* metrics);

}  // namespace graft::c_api
