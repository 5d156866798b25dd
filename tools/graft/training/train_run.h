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

#include "tools/common/progress.h"
#include "tools/common/stopwatch.h"
#include "tools/graft/report/metrics_file.h"
#include "tools/graft/report/svg.h"
#include "tools/graft/report/tensorboard.h"
#include "tools/graft/training/monitor_flags.h"
#include "tools/graft/training/prepared_run.h"

namespace graft::cli {

enum class RunEnd : std::uint8_t {
  done,     ///< all steps or epochs asked for
  stopped,  ///< by the flag, after a whole step, or where a checkpoint is open after a micro-batch
};

/// Worker 0 leads: it evaluates, saves and shows. The others keep what they would have shown of the last steps: where
/// worker 0 is gone, the one after it leads, and goes on with the same files.
///
/// Threads: the trainer's.
class TrainRun {
 public:
  /// All of it outlives the run.
  TrainRun(const TrainArguments& options, const PreparedRun& ready)
      : options_(options), context_(ready.context), trainer_(ready.trainer.get()), ready_(ready) {}

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
  Status finish(RunEnd end);

  using GoOn = std::function<Status(const Status&)>;
  /// Takes the steps. `stop` counts for the worker that leads. `go_on` is asked where a step fails: ok where the
  /// workers go on without the one that is gone, and the step comes again; null for a run of one worker.
  Result<RunEnd> take_steps(const std::atomic<bool>& stop, const GoOn& go_on);

 private:
  /// A step that is taken but not yet acknowledged.
  struct Waiting {
    std::uint64_t step = 0;
    std::string text;
    nlohmann::ordered_json row;
  };
  Result<graft_checkpoint_info> open_checkpoint(graft_checkpoint_options checkpoint,
                                                std::chrono::milliseconds patience);
  Status take_store();
  Status write_what_is_missing();
  Status prepare();
  Status evaluate(const char* when, bool counts);
  Status follow(const graft_evaluation* evaluation);
  Result<bool> is_evaluation_due() const;
  Status save_weights(const std::string& path, bool ema);
  Status write_ema();
  Status show_samples();
  Status acknowledge();
  void show_waiting();
  Status show_shortages(std::uint64_t step);
  Waiting step_shown(const graft_step_info& step, const graft_totals& totals) const;
  Result<bool> stops(const std::atomic<bool>& stop) const;
  Result<std::optional<RunEnd>> take_step(const std::atomic<bool>& stop, const GoOn& go_on);
  Status on_step(const graft_step_info& step, const graft_totals& totals);
  Status on_epoch();
  Status save_checkpoint();
  Status write_fetched() const;
  Status write_loss_curve() const;
  Status write_profile() const;
  Status write_model(RunEnd end);
  Status write_result(RunEnd end);
  Status check_learned() const;

  const TrainArguments& options_;
  graft_context* const context_;
  graft_trainer* const trainer_;
  const PreparedRun& ready_;
  bool leads_ = false;
  bool keeps_ = false;   ///< its checkpoint is open
  bool shared_ = false;  ///< there are other workers
  std::chrono::steady_clock::time_point try_store_at_;
  Status no_store_;  ///< why this worker could not take the store over
  MetricsFile metrics_;
  std::optional<Progress> progress_;
  std::optional<Waiting> waiting_;
  std::deque<Waiting> recent_;             ///< of the worker that does not lead
  std::optional<std::uint64_t> epoch_at_;  ///< the step after which the last epoch ended
  std::vector<CurvePoint> losses_;
  std::vector<CurvePoint> held_out_losses_;
  std::uint64_t shortages_ = 0;   ///< of the trainer, told so far
  bool overdrawn_ = false;        ///< the same of its heap
  Stopwatch watch_{Clock::wall};  ///< since the first step was begun
  Monitors monitors_;
  std::unique_ptr<TensorBoard> board_;  ///< may be null
  bool kept_best_ = false;              ///< -o holds the weights of the best evaluation
  bool stop_ = false;                   ///< --early-stop says so
};

}  // namespace graft::cli
