// What graft train was asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/device_flags.h"
#include "tools/graft/shared/checkpoint_flags.h"
#include "tools/graft/shared/text_flags.h"
#include "tools/graft/training/train_flags.h"
#include "tools/graft/training/train_samples.h"

namespace graft::cli {

/// --workers and --devices.
struct WorkerFlags {
  std::uint64_t number = 1;
  std::string devices;  ///< as --device takes them, one for each worker in turn; empty: that of --device for all
  std::uint64_t timeout = 120;  ///< seconds, of workers of other processes
  bool insecure_network = false;
  bool heal = false;  ///< workers whose parameters are others' get worker 0's
  bool shard_optimizer = false;
  std::string wire = "f32";  ///< how gradients are sent: f32 or bf16
};

/// What a run makes of its evaluations, and what becomes of its result.
struct EvaluationFlags {
  std::string metric;       ///< more of them, of held-out data
  std::uint64_t every = 0;  ///< steps; 0: epochs
  std::string early_stop;   ///< METRIC,patience=N,min-delta=X
  std::string keep_best;    ///< a metric
  std::string plateau_metric = "loss";
  std::uint64_t patience = 10;  ///< of the plateau
  std::string ema_output;
  std::vector<std::string> gates;
  std::string against;
  double gate_margin = 0;
  std::string gate_report;
};

/// Under which keys the snapshots of a run that a memory takes part in say what it was given, and in which folder.
inline constexpr const char* kRunFlags = "graft.flags";
inline constexpr const char* kRunFolder = "graft.folder";

struct TrainArguments {
  DeviceFlags device;
  TrainFlags train;
  TextFlags text;
  std::string path;
  std::string data;
  std::string held_out;
  double split = 0;
  std::uint64_t epochs = 0;
  std::uint64_t steps = 0;
  std::uint64_t stop_at =
      0;  ///< the run ends as done after this step, whatever its schedule is made for; 0: it does not
  std::string budget;
  bool no_shuffle = false;
  bool keyed_order = false;
  std::string memory;  ///< a file of examples; empty: none
  double memory_share = 0.25;
  bool no_fusion = false;
  bool recover_device = false;
  bool drop_last = false;
  std::uint32_t read_threads = 0;
  bool quiet = false;
  std::string metrics;
  std::string svg;
  std::string profile;
  std::size_t profile_steps = 5;
  std::string fetch;
  std::string fetch_folder;
  std::string output;
  bool in_place = false;
  CheckpointFlags checkpoint;
  SampleFlags sample;
  WorkerFlags workers;
  EvaluationFlags evaluation;
  std::string tensorboard;
  std::string config;       ///< read before all else: config_file.h
  std::string config_text;  ///< what the run was given
};

}  // namespace graft::cli
