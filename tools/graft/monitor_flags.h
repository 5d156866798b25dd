// --metric, --early-stop, --keep-best, the plateau schedule and the gate of graft train.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/session/gate.h"
#include "runtime/train/monitors.h"
#include "tools/common/status.h"
#include "tools/graft/train_setup.h"

namespace graft::cli {

void add_evaluation_flags(CLI::App& app, EvaluationFlags& flags);
void refuse_idle_evaluation_flags(const CLI::App& app, const TrainArguments& options);

/// What evaluations are asked for, and what follows from them.
struct Monitors {
  std::vector<train::Metric> metrics;  ///< all that are looked at, each once; those of --metric first
  std::size_t shown = 0;               ///< so many of them were asked for
  train::Watch watch;

  static Result<Monitors> create(const TrainArguments& options);
  bool needs_predictions() const;
};

/// The gate of a run: judges `model` and saves it where it belongs. An error where it was refused.
Status pass_gate(gpu::Device& device, const TrainArguments& options, const train::TrainOptions& train_options,
                 const train::TrainerOptions& trainer_options, Model& model, data::Source& held_out);

}  // namespace graft::cli
