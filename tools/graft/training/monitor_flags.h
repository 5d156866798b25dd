// --metric, --early-stop, --keep-best, the plateau schedule and the gate of graft train.
#pragma once

#include <string>

#include "tools/graft/shared/public_api.h"
#include "tools/graft/training/train_arguments.h"

namespace graft::cli {

struct PreparedRun;

void add_evaluation_flags(CLI::App& app, EvaluationFlags& flags);
void refuse_idle_evaluation_flags(const CLI::App& app, const TrainArguments& options);

/// What evaluations are asked for, and what follows from them.
struct Monitors {
  std::string metrics;    ///< all that are looked at, each once; those of --metric first
  std::size_t shown = 0;  ///< so many of them were asked for
  bool needs_predictions = false;
  std::string plateau;     ///< metrics; empty: not watched
  std::string early_stop;  ///< likewise
  std::string best;        ///< likewise
  graft_watch_options watch = sized<graft_watch_options>();

  static Result<Monitors> create(graft_context* context, const TrainArguments& options);
  bool watches() const { return !plateau.empty() || !early_stop.empty() || !best.empty(); }
  /// `watch` with its texts.
  graft_watch_options watched() const;
};

/// The gate of a run: judges its model, which has the weights of the result, and saves it where it belongs. An error
/// where it was refused.
Status pass_gate(const TrainArguments& options, const PreparedRun& run);

}  // namespace graft::cli
