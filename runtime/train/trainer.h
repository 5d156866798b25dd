// Trains a model on a device: one call, one optimizer step.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "platform/base/log.h"
#include "runtime/data/loader.h"
#include "runtime/exec/capture.h"
#include "runtime/exec/program.h"
#include "runtime/train/feeder.h"
#include "runtime/train/training_plan.h"

namespace graft::train {

/// Sums over samples; means are asked for. f64, so that an epoch of f32 sums loses nothing that shows.
struct Metrics {
  double loss_sum = 0;
  std::uint64_t count = 0;  ///< rows that count (cross entropy), or elements
  double correct = 0;
  double top5 = 0;
  bool has_correct = false;
  bool has_top5 = false;

  double loss() const { return count == 0 ? 0 : loss_sum / static_cast<double>(count); }
  double perplexity() const { return std::exp(loss()); }  ///< of cross entropy
  double accuracy() const { return count == 0 ? 0 : correct / static_cast<double>(count); }
  double top5_accuracy() const { return count == 0 ? 0 : top5 / static_cast<double>(count); }
  void add(const Metrics& other);
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

struct StepResult {
  Metrics metrics;                      ///< of this batch, before the update
  double learning_rate = 0;             ///< of group 0
  std::optional<double> gradient_norm;  ///< where clip_norm is asked for: before it clips
  std::optional<double> loss_scale;     ///< where loss scaling applies: of the next step
  std::uint64_t skipped_steps = 0;      ///< of the whole run, since the loss or gradients overflowed
  bool skipped = false;                 ///< this step is one of them: its loss may be no number
  std::uint32_t submissions = 0;        ///< to the device, of all its micro-batches and of the update
};

/// So many steps left out in a row end a run. Overflowing gradients halve the loss scale each time: from any scale
/// below 2^50 it is below 1 by then, so a smaller one would not help.
inline constexpr std::uint64_t kMostSkipped = 50;

/// With the residents' contents, the whole state of a run: the same state, data and options give the same bits.
struct TrainingState {
  std::uint64_t step = 0;  ///< optimizer steps done
  std::uint32_t seed = 0;
  data::Cursor cursor;      ///< of the training data, after the last whole step
  std::uint64_t epoch = 0;  ///< that epoch_metrics belongs to
  Metrics epoch_metrics;    ///< of the steps of this epoch whose loss is finite
  /// Where a step is half done: how many samples of the batch at `cursor` are in the accumulators, and their metrics.
  std::uint64_t samples_done = 0;
  Metrics step_metrics;

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

struct TrainerOptions {
  PlanRequest request;
  ProgramOptions program;
  HostAllocator allocator = default_host_allocator();
  LogSink log;  ///< told of new plans while training runs
};

/// The contents of a constant, parameter or state of the model's graph; nullopt where there is none.
using WeightOf = std::function<std::optional<std::span<const std::byte>>(ValueId)>;

/// A value on the device that training keeps: a parameter, optimizer state, running statistics, ...
struct NamedTensor {
  std::string_view name;
  ValueKind kind{};
  MemoryClass memory_class{};
  DType dtype{};
  const Shape* shape = nullptr;
  std::uint64_t bytes = 0;
};

/// A value of the last step, of all its samples (of its last micro-batch alone where it has no batch axis).
struct FetchedValue {
  DType dtype{};
  Shape shape;                       ///< in the source's order of axes
  std::span<const std::byte> bytes;  ///< until the next step
};

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
  /// for it again with the same batch: it goes on where it stopped, and nothing is done twice. A loss that is not
  /// finite is an error, and may have spoiled the parameters; with loss scaling the step is left out, and only
  /// kMostSkipped of them in a row are an error.
  ///
  /// Where the device runs out of memory, the step is begun anew under a plan for less, to the same bits: see
  /// shortages(). What of it has already changed parameters is ended first, under the plan that it began with.
  /// out_of_memory is left where the device refuses the smallest plan too.
  Result<StepResult> train_step(const data::Batch& batch);

  /// The same step in pieces: one micro-batch, and with the last one the update; nullopt as long as some are left. Give
  /// the same batch until the step is done. In between, the state may be saved, and another trainer go on from it.
  Result<std::optional<StepResult>> micro_step(const data::Batch& batch);

  /// The whole data set once, in order, in inference mode. Changes nothing on the device but scratch memory.
  Result<Metrics> evaluate(data::Source& source);

  const TrainingPlan& plan() const { return plan_; }
  const TrainOptions& options() const { return options_; }
  TrainingState& state() { return state_; }
  const TrainingState& state() const { return state_; }
  /// The learning rate that the next step will use, of group 0.
  double learning_rate() const;

  /// All that is kept on the device, in a fixed order; and its contents by name.
  std::vector<NamedTensor> named_tensors() const;
  std::vector<NamedTensor> named_parameters() const;
  /// invalid_argument while a step that failed has not been asked for again.
  Status read(std::string_view name, std::span<std::byte> bytes);
  Status write(std::string_view name, std::span<const std::byte> bytes);

  /// Copies all that training changes to memory of the host: captured() until the next call. Only where
  /// PlanRequest::checkpoints asked for it.
  Status capture();
  const std::vector<Capture::Entry>& captured() const { return capture_->entries(); }
  /// 64 bits that tell whether two runs have the same parameters and running statistics. Where
  /// PlanRequest::checkpoints asked for it.
  Result<std::uint64_t> state_hash();

  /// How often the run went on with another plan, because the device ran out of memory in a step, evaluate(), capture()
  /// or state_hash(), or because its driver allowed no more than was held before a step; plan().choice.reasons explains
  /// the last one. The micro-batch, on which the bits depend, becomes smaller only between two steps, where no other
  /// plan will do and the options leave it open.
  std::uint64_t shortages() const { return shortages_; }
  /// The driver allows no more memory than is held, as of the last step, and no plan is smaller: the run goes on.
  bool heap_overdrawn() const { return heap_overdrawn_; }
  /// Is called before such a new plan: once it returns, nothing of an earlier capture() may be in use. Null: nothing.
  void set_before_replan(std::function<void()> call) { before_replan_ = std::move(call); }

  /// Between two steps: plans anew for another budget (0: none) and moves all that training has changed over, so that
  /// the run goes on where it is. As long as the micro-batch stays the same the bits do, too. Nothing of an earlier
  /// capture() may be in use. invalid_argument within a step; out_of_memory, which changes nothing, where no plan keeps
  /// to the budget. Where the device then refuses what the plan needs, a smaller one is tried; where it refuses all,
  /// the state waits with the host for the next call, and steps fail with out_of_memory until then.
  Status set_budget(std::uint64_t bytes);
  /// The same for a budget that gives at least `bytes` of device memory back.
  Status trim(std::uint64_t bytes);

  const Graph& model() const { return model_; }
  std::uint64_t device_bytes() const {
    return (memory_ ? memory_->allocated_bytes() : 0) + (capture_ ? capture_->bytes() : 0);
  }

  /// A value of TrainOptions::fetch as the last step computed it. not_found where it was not asked for.
  Result<FetchedValue> fetch(std::string_view name) const;

 private:
  struct Runner {
    std::int64_t samples = 0;
    std::int64_t classes = 0;
    std::unique_ptr<Program> program;
    Feeder feeder;
  };

  struct Fetched {
    std::string name;
    DType dtype{};
    Shape shape;             ///< of one micro-batch
    bool by_sample = false;  ///< its first axis is the batch
    HostBuffer contents;     ///< of the largest batch
  };

  Trainer(gpu::Device& device, const Graph& model, const TrainOptions& options, std::vector<data::Field> fields,
          const TrainerOptions& trainer_options, TrainingPlan plan);
  Status prove();
  Status build();
  Status build_within();
  void tear_down();
  Status keep_state();
  /// `status`, of which it is noted that the device refused memory.
  Status of_device(Status status);
  template <typename Try>
  auto with_answers(Try attempt) -> decltype(attempt());
  Status answer(Status why, int& attempts);
  Status end_unfinished(Status why, int& attempts);
  Status settle_unfinished();
  Status go_on_with(TrainingPlan plan, const std::string& why);
  Status keep_to_heap();
  Status save_state();
  Result<std::optional<TrainingPlan>> plan_smaller() const;
  Result<TrainingPlan> plan_again(std::uint64_t budget, bool same_size) const;
  Result<std::optional<TrainingPlan>> plan_for(std::uint64_t budget, bool same_size) const;
  struct Smaller {
    std::uint64_t budget;
    bool same_size;  ///< of micro-batches
  };
  std::vector<Smaller> smaller_budgets(std::uint64_t asked) const;
  bool half_done() const { return state_.samples_done != 0 || unfinished_ != nullptr; }
  Status load_residents();
  Result<Runner> make_runner(SizedPlan sized);
  Result<Runner*> training_runner(std::int64_t samples);
  Result<Runner*> evaluation_runner(std::int64_t samples);
  std::uint64_t count_of(const data::Batch& batch) const;
  Result<Metrics> run(Runner& runner, const data::Batch& batch, std::uint64_t first, const StepState& state);
  Status execute(Program& program, const StepState& state);
  Status check_settled() const;
  Status prepare_step(const data::Batch& batch);
  Result<std::optional<StepResult>> try_micro_step(const data::Batch& batch);
  Result<Metrics> try_evaluate(data::Source& source);
  Status prepare_fetches();
  void keep_fetched(const Program& program, std::uint64_t first, std::uint64_t samples);
  Status check_loss(const StepResult& result, std::uint64_t skipped_in_row) const;
  Result<StepResult> end_step(const data::Batch& batch, const Program& last);

  gpu::Device& device_;
  const Graph& model_;
  TrainOptions options_;
  TrainerOptions trainer_options_;
  std::vector<data::Field> fields_;
  WeightOf weight_of_;
  std::map<std::string, HostBuffer, std::less<>> kept_;  ///< state on its way from one plan to the next
  TrainingPlan plan_;
  TrainingState state_;
  std::unique_ptr<Memory> memory_;
  std::vector<Runner> training_;
  std::vector<Runner> evaluation_;
  std::unique_ptr<Program> update_;
  std::vector<Fetched> fetched_;
  std::uint64_t fetched_samples_ = 0;  ///< of the last step
  std::unique_ptr<Program> hash_;
  std::unique_ptr<Capture> capture_;
  std::uint32_t submissions_ = 0;  ///< of the step in progress
  std::uint64_t count_ = 0;        ///< rows or elements of the step in progress
  Program* unfinished_ = nullptr;  ///< failed on the way: its inputs and outputs are in use until it is resumed
  bool refused_ = false;           ///< the device refused memory, and that was not answered yet
  bool shrink_at_boundary_ = false;
  bool heap_overdrawn_ = false;
  std::uint64_t shortages_ = 0;
  std::function<void()> before_replan_;
};

}  // namespace graft::train
