// Trains a model on a device: one call, one optimizer step.
//
//   TrainingSetup   replan.h           what a run is made of: device, model, options, data
//   PlannedRun      planned_run.h      the plan, and what stands on the device for it
//   Execution       execution.h        runs its programs, and remembers a run that failed on the way
//   Shortages       shortages.h        answers refused memory with a plan for less
//   TrainingState   step_result.h      where the run is
//   Trainer         here               steps (with other workers: slots.h, shared_step.cpp, shards.cpp), evaluates,
//   reads and writes
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/train/run/planned_run.h"
#include "runtime/train/run/shortages.h"
#include "runtime/train/step/step_result.h"

namespace graft::train {

/// A value on the device that training keeps: a parameter, optimizer state, running statistics, ...
struct NamedTensor {
  std::string_view name;
  ValueKind kind{};
  MemoryClass memory_class{};
  DType dtype{};
  const Shape* shape = nullptr;
  std::uint64_t bytes = 0;
};

/// A batch of an evaluation and what was computed of it, borrowed for a call.
struct EvaluatedBatch {
  const data::Batch& batch;
  const Program& program;  ///< with the outputs "prediction:I" where TrainOptions::predictions
  const LossNodes& loss;
  const Feeder& feeder;
};
using EvaluationReader = std::function<Status(const EvaluatedBatch&)>;

/// Threads: one, the device's. Lifetime: the model's graph and the device must outlive the trainer; the graph must not
/// change. After the first step of each batch size, a step allocates no host and no device memory.
class Trainer {
 public:
  /// Plans, allocates, compiles, and writes the model's weights to the device. Where the device does not have that much
  /// memory, it plans for less, as long as there is a plan. `fields` are those of the data to come
  /// (data::Source::fields()); a bad match of data and model is found here. State without contents starts as zeros.
  static Result<std::unique_ptr<Trainer>> create(gpu::Device& device, const Graph& model, const WeightOf& weight_of,
                                                 const TrainOptions& options, const std::vector<data::Field>& fields,
                                                 const TrainerOptions& trainer_options = {});

  /// One optimizer step on the samples of a batch, of which there may be up to TrainOptions::batch. After an error, ask
  /// for it again with the same batch: it goes on where it stopped, and nothing is done twice. A loss or gradients that
  /// are not finite are an error that changes nothing: what was done of the step is thrown away, and the same step may
  /// be asked for with any batch. (Where the step was begun by another trainer, running statistics go back to where
  /// this one took over.) With loss scaling such a step is left out instead, and only kMostSkipped of them in a row are
  /// an error.
  ///
  /// Where the device runs out of memory, the step is begun anew under a plan for less, to the same bits: see
  /// shortages(). What of it has already changed parameters is ended first, under the plan that it began with.
  /// out_of_memory is left where the device refuses the smallest plan too.
  Result<StepResult> train_step(const data::Batch& batch);

  /// The same step in pieces: one micro-batch, and with the last one the update; nullopt as long as some are left. Give
  /// the same batch until the step is done. In between, the state may be saved, and another trainer go on from it.
  Result<std::optional<StepResult>> micro_step(const data::Batch& batch);

  /// The whole data set once, in order, in inference mode. Changes nothing on the device but scratch memory. `reader`
  /// sees each batch; where the device makes it begin anew, `begin` is called again.
  Result<Metrics> evaluate(data::Source& source, const EvaluationReader& reader = {},
                           const std::function<void()>& begin = {});

  const TrainingPlan& plan() const { return run_.plan(); }
  const TrainOptions& options() const { return setup_.options; }
  TrainingState& state() { return state_; }
  const TrainingState& state() const { return state_; }
  /// The learning rate that the next step will use, of group 0.
  double learning_rate() const { return learning_rate_of(setup_.options, state_.step); }
  /// Another OptimizerOptions::learning_rate from the next step on. Between two steps. It is part of the run's state.
  Status set_learning_rate(double rate);
  /// What options() said when the trainer was made.
  double first_learning_rate() const { return first_learning_rate_; }

  /// All that is kept on the device, in a fixed order; and its contents by name.
  std::vector<NamedTensor> named_tensors() const;
  std::vector<NamedTensor> named_parameters() const;
  /// invalid_argument while a step that failed has not been asked for again.
  Status read(std::string_view name, std::span<std::byte> bytes);
  /// Steps that loss scaling left out so far; 0 without it.
  Result<std::uint64_t> skipped_steps();
  Status write(std::string_view name, std::span<const std::byte> bytes);

  /// The parameters as they are now are what OptimizerOptions::proximal pulls to; those that the trainer was made with
  /// until then. Between two steps. Without a proximal term nothing happens.
  Status set_anchor();

  /// The running means of OptimizerOptions::ema begin anew at the parameters as they are now. Between two steps.
  Status set_ema();
  /// A parameter's running mean after the last step. Of what has none, as of running statistics, the contents.
  Status read_ema(std::string_view name, std::span<std::byte> bytes);

  /// Copies all that training changes to memory of the host: captured() until the next call. Only where
  /// PlanRequest::checkpoints asked for it.
  Status capture();
  const std::vector<Capture::Entry>& captured() const { return is_sharded() ? captured_ : run_.capture()->entries(); }
  /// 64 bits that tell whether two runs have the same parameters and running statistics. Where
  /// PlanRequest::checkpoints asked for it. A step of several workers has computed it with its update.
  Result<std::uint64_t> state_hash();

  /// How often the run went on with another plan, because the device ran out of memory in a step, evaluate(), capture()
  /// or state_hash(), or because its driver allowed no more than was held before a step; plan().choice.reasons explains
  /// the last one. The micro-batch, on which the bits depend, becomes smaller only between two steps, where no other
  /// plan will do and the options leave it open.
  std::uint64_t shortages() const { return shortages_.count(); }
  /// The driver allows no more memory than is held, as of the last step, and no plan is smaller: the run goes on.
  bool heap_overdrawn() const { return shortages_.heap_overdrawn(); }
  /// Is called before anything but capture() invalidates captured(): such a new plan, pause(), and where the
  /// optimizer's state is shared out, gather_state() and write(). Once it returns, nothing of captured() may be in use.
  /// Null: nothing.
  void set_before_invalidation(std::function<void()> call) { shortages_.set_before_invalidation(std::move(call)); }

  /// Between two steps: plans anew for another budget (0: none) and moves all that training has changed over, so that
  /// the run goes on where it is. As long as the micro-batch stays the same the bits do, too. Nothing of an earlier
  /// capture() may be in use. invalid_argument within a step; out_of_memory, which changes nothing, where no plan keeps
  /// to the budget. Where the device then refuses what the plan needs, a smaller one is tried; where it refuses all,
  /// the state waits with the host for the next call, and steps fail with out_of_memory until then.
  Status set_budget(std::uint64_t bytes);
  /// The same for a budget that gives at least `bytes` of device memory back.
  Status trim(std::uint64_t bytes);

  /// Gives all device memory back: what training changes waits with the host, also in the middle of a step. The next
  /// call that needs the device, or resume(), builds everything again, and the run goes on to the same bits. Nothing of
  /// an earlier capture() may be in use (set_before_invalidation() is told). On failure nothing changed;
  /// invalid_argument where a step that failed on the way has to be asked for again first.
  Status pause();
  Status resume();
  bool is_paused() const { return !run_.is_built(); }
  /// Steps are taken together with other workers: whole ones only.
  bool is_shared() const { return setup_.trainer.exchange != nullptr; }
  /// What the workers said of themselves in the last step, by rank; empty where there is one.
  std::span<const WorkerSection> sections() const {
    return is_shared() ? setup_.trainer.exchange->sections() : std::span<const WorkerSection>();
  }

  /// What products of f32 may become on its device.
  gpu::MatmulPrecision matmul_precision() const { return setup_.device->target().policy.matmul_precision; }

  /// Some of the optimizer's state is with other workers (PlanRequest::shard). It is among named_tensors() all the
  /// same: read() and write() are then of a copy of it here, which worker 0 has where has_whole_state().
  bool is_sharded() const { return setup_.trainer.request.shard.has_value(); }
  bool is_elsewhere(std::string_view name) const;
  /// By all workers together, between two steps: worker 0 gets that copy. It invalidates captured(), of which the copy
  /// is a part (set_before_invalidation() is told).
  Status gather_state();
  /// There is nothing elsewhere, or the copy is of now. Where not, capture() is refused.
  bool has_whole_state() const { return !is_sharded() || has_whole_; }
  /// Asked of worker 0 before each step: true makes the step end with gather_state(). Null: never.
  void set_wants_whole_state(std::function<bool()> ask) { wants_whole_ = std::move(ask); }
  /// How often the device was lost and opened anew (TrainerOptions::reopen).
  std::uint64_t losses() const { return losses_; }

  const Graph& model() const { return setup_.model; }
  std::uint64_t device_bytes() const { return run_.device_bytes(); }

  /// A value of TrainOptions::fetch as the last step computed it. not_found where it was not asked for.
  Result<FetchedValue> fetch(std::string_view name) const { return run_.fetched().find(name); }

 private:
  Trainer(TrainingSetup setup, TrainingPlan plan);
  template <typename Try>
  auto attempt_built(Try attempt) -> decltype(attempt());
  template <typename Try, typename Prepare, typename Finish>
  auto on_device(Try attempt, Prepare prepare, Finish finish) -> decltype(attempt());
  template <typename Try>
  auto on_device(Try attempt) -> decltype(attempt());
  Status keep_copy();
  Status keep_copy_of_step();
  Status recover(const Status& why);
  Status check_settled() const;
  Status copy_parameters(std::string_view suffix);
  Status prepare_step(const data::Batch& batch);
  Result<std::optional<StepResult>> try_micro_step(const data::Batch& batch);
  Result<Metrics> run_micro_batch(SizedProgram& sized, const data::Batch& batch, const StepState& state);
  Result<StepResult> shared_step(const data::Batch& batch);
  Status compute_slots(const data::Batch& batch, SlotExchange::Step& step, StepState& state);
  Status move_statistics(const SlotExchange::Sums& sums, const SlotExchange::Step& step, const StepState& state);
  Status write_gradients(std::span<const std::byte> sums);
  Result<std::vector<std::span<std::byte>>> fill_parts(
      const std::vector<std::pair<std::uint32_t, const Resident*>>& of);
  Status share_parameters();
  Status add_elsewhere();
  Status read_elsewhere(std::string_view name, std::span<std::byte> bytes) const;
  Status keep_statistics();
  Status undo_statistics();
  Result<StepResult> end_step(const data::Batch& batch, const Program& last);
  Result<Metrics> try_evaluate(data::Source& source, const EvaluationReader& reader);
  void report_progress(std::uint64_t done, std::uint64_t total) const;

  TrainingSetup setup_;
  double first_learning_rate_ = 0;
  TrainingState state_;
  Execution execution_;
  PlannedRun run_;
  Shortages shortages_;
  std::vector<std::vector<std::byte>> statistics_;  ///< as they were before the step in progress
  std::uint64_t step_samples_ = 0;                  ///< of the step in progress; 0: not known
  std::uint32_t submissions_ = 0;                   ///< of the step in progress
  LossWeights weights_;                             ///< what the loss of the step in progress is a mean over
  std::size_t terms_ = 1;                           ///< of the loss
  std::optional<std::uint64_t> hash_;               ///< of the state, as the last step left it; none: it is not known
  std::vector<std::byte> slot_statistics_;          ///< what a slot would move running statistics by
  std::optional<TrainingState> copied_at_;          ///< of the copy with the host; none: it is out of date
  bool copy_is_of_now_ = false;                     ///< nothing has run since
  std::uint64_t losses_ = 0;

  // Of the optimizer's state that is with other workers.
  std::map<std::string, std::vector<std::byte>, std::less<>> whole_;  ///< what is not there is zeros
  bool has_whole_ = true;                                             ///< it is of now
  std::vector<Capture::Entry> captured_;
  std::vector<std::vector<std::byte>> parts_;  ///< by worker, of what all give each other
  std::function<bool()> wants_whole_;
};

}  // namespace graft::train
