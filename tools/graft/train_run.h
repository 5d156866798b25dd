// One worker's part of graft train beside the steps themselves.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "platform/os/clock.h"
#include "runtime/session/training.h"
#include "runtime/train/fit.h"
#include "tools/common/progress.h"
#include "tools/common/status.h"
#include "tools/graft/metrics_file.h"
#include "tools/graft/monitor_flags.h"
#include "tools/graft/svg.h"
#include "tools/graft/tensorboard.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {

/// Worker 0 leads: it evaluates, saves and shows. The others keep what they would have shown of the last steps: where
/// worker 0 is gone, the one after it leads, and goes on with the same files.
///
/// Threads: the trainer's.
class TrainRun {
 public:
  /// All of it outlives the run. `profile`: null where nobody asked for one.
  TrainRun(const TrainArguments& options, OpenDevice& opened, Model& model, PreparedRun& ready, RunProfile* profile)
      : options_(options),
        opened_(opened),
        device_(opened.device()),
        model_(model),
        trainer_(*ready.trainer),
        loader_(*ready.loader),
        ready_(ready),
        profile_(profile) {}

  /// The worker that leads a run from its beginning: opens its checkpoint, from which it may go on. `anew`: another led
  /// it before, and its process may be ending still.
  Status open_store(bool anew);
  /// And what else it writes; shows how good the model is now.
  Status begin();
  /// From now on this worker leads.
  Status take_over();
  /// Another does.
  void step_down();

  /// What is left to do where all steps are done, or the run was stopped: saves everything.
  Status finish(train::FitEnd end);

  /// Takes the steps. `stop` counts for the worker that leads. `exchange`: null for one worker; `go_on` as FitOptions
  /// has it.
  Result<train::FitEnd> take_steps(const std::atomic<bool>& stop, train::SlotExchange* exchange,
                                   const std::function<Status(const Status&)>& go_on);

 private:
  /// A step that is taken but not yet acknowledged.
  struct Waiting {
    std::uint64_t step = 0;
    std::string text;
    nlohmann::ordered_json row;
  };
  Status open_checkpointer(const CheckpointOptions& checkpoint, std::chrono::milliseconds patience);
  Status take_store();
  Status write_what_is_missing();
  Status prepare();
  Status evaluate(const char* when, bool counts);
  Status follow(const std::vector<train::MetricValue>& values);
  bool is_evaluation_due() const;
  Status save_weights(const std::string& path, bool ema);
  Status write_ema();
  Status show_samples();
  void acknowledge();
  void show_shortages();
  Waiting step_shown(const train::StepResult& result) const;
  Status on_step(const train::StepResult& result);
  Status on_epoch();
  Status save_checkpoint();
  Status write_fetched() const;
  Status write_loss_curve() const;
  Status write_profile() const;
  Status write_model(train::FitEnd end);
  Status write_result(train::FitEnd end);

  const TrainArguments& options_;
  OpenDevice& opened_;
  gpu::Device& device_;
  Model& model_;
  train::Trainer& trainer_;
  data::Loader& loader_;
  PreparedRun& ready_;
  RunProfile* profile_;
  bool leads_ = false;
  std::unique_ptr<Checkpointer> checkpointer_;  ///< may be null
  std::chrono::steady_clock::time_point try_store_at_;
  Status no_store_;  ///< why this worker could not take the store over
  MetricsFile metrics_;
  std::optional<Progress> progress_;
  std::optional<Waiting> waiting_;
  std::deque<Waiting> recent_;             ///< of the worker that does not lead
  std::optional<std::uint64_t> epoch_at_;  ///< the step after which the last epoch ended
  std::vector<CurvePoint> losses_;
  std::vector<CurvePoint> held_out_losses_;
  std::uint64_t shortages_ = 0;  ///< of the trainer, told so far
  bool overdrawn_ = false;       ///< the same of its heap
  os::Stopwatch watch_;          ///< since the first step was begun
  Monitors monitors_;
  std::unique_ptr<TensorBoard> board_;  ///< may be null
  bool kept_best_ = false;              ///< -o holds the weights of the best evaluation
  bool stop_ = false;                   ///< --early-stop says so
};

}  // namespace graft::cli
