// What graft train was asked, and what a run is made of before its first step.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/session/checkpoint/run_state.h"
#include "runtime/session/run_profile.h"
#include "runtime/session/training.h"
#include "tools/bench/device.h"
#include "tools/common/status.h"
#include "tools/graft/checkpoint_flags.h"
#include "tools/graft/open_data.h"
#include "tools/graft/train_flags.h"
#include "tools/graft/train_samples.h"

namespace graft::cli {

/// --workers and --devices.
struct WorkerFlags {
  std::uint64_t number = 1;
  std::string devices;  ///< as --device takes them, one for each worker in turn; empty: that of --device for all
  std::uint64_t timeout = 120;  ///< seconds, of workers of other processes
  bool heal = false;            ///< workers whose parameters are others' get worker 0's
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
  std::string budget;
  bool no_shuffle = false;
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

/// Whatever stands later here refers to what stands before it.
struct PreparedRun {
  std::unique_ptr<data::Source> source;
  std::unique_ptr<data::Source> held_out;  ///< may be null
  TextInfo training_info;
  std::string fingerprint;      ///< of the source; empty: nobody asks for it
  std::optional<Model> masked;  ///< the model with packed sequences kept apart
  std::optional<AdaptedModel> teacher;
  std::optional<Model> taught;  ///< the model with its teacher in one graph
  std::string teacher_name;     ///< its weights' hash and its file
  std::unique_ptr<train::Trainer> trainer;
  /// Of several workers: the loader reads whole batches, not this worker's share alone.
  std::atomic<bool> reads_all = false;
  std::unique_ptr<data::Loader> loader;
  std::uint64_t total_steps = 0;  ///< 0: not known

  std::optional<data::Cursor> place;  ///< of several workers: where the data stood before the step in progress
  bool has_joined = false;            ///< this worker is no newcomer to them

  train::Share share;  ///< of several workers: what the loader reads by
};

/// Has the options learn from the teacher in this graph, where --teacher gave one.
Status set_teacher(const TrainFlags& flags, const Graph& taught, train::TrainOptions& options);

/// What worker 0 alone does: evaluation and profiles. A run of one worker is worker 0's.
struct FirstWorker {
  RunProfile* profile = nullptr;  ///< may be null
};

struct DataSets {
  std::unique_ptr<data::Source> training;
  std::unique_ptr<data::Source> held_out;  ///< may be null
  TextInfo training_info, held_out_info;
};

/// --data, and what --eval or --eval-split name.
Result<DataSets> open_sets(const TrainArguments& options, const Model& model);

/// Opens the data, plans, and puts the model on the device, which both outlive it. `exchange`: null for a run of one
/// worker. `first`: nothing for workers that never lead. `base`: the model without adapters.
Result<std::unique_ptr<PreparedRun>> prepare_run(OpenDevice& opened, const Model& base, const Model& model,
                                                 const TrainArguments& options, train::SlotExchange* exchange,
                                                 const std::optional<FirstWorker>& first);

/// What a resume compares of the data, and of the teacher.
void add_data(const TrainArguments& options, const PreparedRun& run, Configuration& configuration);

}  // namespace graft::cli
