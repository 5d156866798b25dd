// Trains a model on a device: one call, one optimizer step.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "runtime/data/loader.h"
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
  double accuracy() const { return count == 0 ? 0 : correct / static_cast<double>(count); }
  double top5_accuracy() const { return count == 0 ? 0 : top5 / static_cast<double>(count); }
  void add(const Metrics& other);
  friend bool operator==(const Metrics&, const Metrics&) = default;
};

struct StepResult {
  Metrics metrics;                      ///< of this batch, before the update
  double learning_rate = 0;             ///< of group 0
  std::optional<double> gradient_norm;  ///< where clip_norm is asked for: before it clips
};

/// With the residents' contents, all that a run is: the same state, data and options give the same bits from here on.
/// Steps are whole: there is never a half accumulated gradient to save.
struct TrainingState {
  std::uint64_t step = 0;  ///< optimizer steps done
  std::uint32_t seed = 0;
  data::Cursor cursor;      ///< of the training data, after the last step
  std::uint64_t epoch = 0;  ///< that epoch_metrics belongs to
  Metrics epoch_metrics;    ///< of the steps of this epoch

  friend bool operator==(const TrainingState&, const TrainingState&) = default;
};

struct TrainerOptions {
  PlanRequest request;
  ProgramOptions program;
  HostAllocator allocator = default_host_allocator();
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

/// Threads: one, the device's. Lifetime: the model's graph and the device must outlive the trainer; the graph must not
/// change. After the first step of each batch size, a step allocates no host and no device memory.
class Trainer {
 public:
  /// Plans, allocates, compiles, and writes the model's weights to the device. `fields` are those of the data to come
  /// (data::Source::fields()); a bad match of data and model is found here. State without contents starts as zeros.
  static Result<std::unique_ptr<Trainer>> create(gpu::Device& device, const Graph& model, const WeightOf& weight_of,
                                                 const TrainOptions& options, const std::vector<data::Field>& fields,
                                                 const TrainerOptions& trainer_options = {});

  /// One optimizer step on the samples of a batch, of which there may be up to TrainOptions::batch. Errors leave the
  /// step undone, and it may be taken again; but for a wait that failed, after which the device may have taken it, and
  /// a loss that is not finite: then the parameters may be spoiled.
  Result<StepResult> train_step(const data::Batch& batch);

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
  Status read(std::string_view name, std::span<std::byte> bytes) { return memory_->read(name, bytes); }
  Status write(std::string_view name, std::span<const std::byte> bytes) { return memory_->write(name, bytes); }

  std::uint64_t device_bytes() const { return memory_->allocated_bytes(); }

  /// What the last step ran, in order: its last micro-batch, then the update where gradients are accumulated. For
  /// Program::times(). Empty before the first step.
  std::vector<Program*> last_programs();

 private:
  struct Runner {
    std::int64_t samples = 0;
    std::int64_t classes = 0;
    std::unique_ptr<Program> program;
    Feeder feeder;
  };

  Trainer(gpu::Device& device, const Graph& model, const TrainOptions& options, std::vector<data::Field> fields,
          const TrainerOptions& trainer_options, TrainingPlan plan);
  Status load_residents(const WeightOf& weight_of);
  Result<Runner> make_runner(SizedPlan sized);
  Result<Runner*> training_runner(std::int64_t samples);
  Result<Runner*> evaluation_runner(std::int64_t samples);
  Result<std::uint64_t> count_of(const data::Batch& batch) const;
  Result<Metrics> run(Runner& runner, const data::Batch& batch, std::uint64_t first, StepState& state);
  Status prepare_step(std::uint64_t samples);
  Result<Metrics> run_pieces(const data::Batch& batch, bool training, StepState& state);

  gpu::Device& device_;
  const Graph& model_;
  TrainOptions options_;
  TrainerOptions trainer_options_;
  std::vector<data::Field> fields_;
  TrainingPlan plan_;
  TrainingState state_;
  std::unique_ptr<Memory> memory_;
  std::vector<Runner> training_;
  std::vector<Runner> evaluation_;
  std::unique_ptr<Program> update_;
  std::int64_t last_samples_ = 0;  ///< of the last micro-batch; 0 before the first step
  bool half_done_ = false;         ///< a step failed after gradients had been added up
};

}  // namespace graft::train
