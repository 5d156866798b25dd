// The flags that say how to train: shared by graft train, graft plan and graft eval.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/train/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/command.h"

namespace graft::cli {

struct TrainFlags {
  std::string loss = "ce";
  std::string output;
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  std::string optimizer = "adamw";
  double learning_rate = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double proximal = 0;
  double weight_decay = -1;  ///< below 0: the optimizer's default (0.01 for adamw, else 0)
  std::vector<std::string> groups;
  std::vector<std::string> freeze;
  std::string precision = "f32";
  double loss_scale = -1;  ///< below 0: the default of the precision
  std::uint64_t growth_interval = 2000;
  double clip_norm = 0;
  bool optimizer_in_backward = false;
  double clip_value = 0;
  std::string schedule = "constant";
  std::uint64_t warmup_steps = 0;
  double final_lr_factor = 0;
  std::uint64_t step_size = 1000;
  double gamma = 0.1;
  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  bool frozen_statistics = false;
  std::uint32_t seed = 0;
  std::vector<std::string> bind;
  std::int64_t seq = 0;  ///< 0: what --bind or the model says
  std::string lora;
  AdapterFlags adapter;
};

/// --loss and what chooses the output; also for graft eval.
void add_loss_flags(CLI::App& app, TrainFlags& flags);
void add_train_flags(CLI::App& app, TrainFlags& flags);

/// Throws CLI::ValidationError where a flag was given that the other ones leave without effect.
void refuse_idle_train_flags(const CLI::App& app, const TrainFlags& flags);

/// --bind, and --seq as the dimension "seq".
Result<Bindings> bindings_of(const TrainFlags& flags);

/// `total_steps` is where linear and cosine schedules end; 0 where it is not known (graft plan).
Result<train::TrainOptions> train_options(const TrainFlags& flags, std::uint64_t total_steps);

}  // namespace graft::cli
