// The flags that say how to train: shared by graft train, graft plan and graft eval.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "graft/data.h"
#include "tools/common/command.h"
#include "tools/common/options.h"
#include "tools/graft/adapter_flags.h"

namespace graft::cli {

struct TrainFlags {
  std::string loss = "ce";
  std::string output;
  double label_smoothing = 0;
  std::int64_t ignore_index = -100;
  std::int64_t class_axis = INT64_MIN;  ///< not given
  std::string class_weights;
  std::string pos_weight;
  std::string sample_weights;
  double focal_gamma = 2;
  double focal_alpha = -1;
  double huber_delta = 1;
  double smooth_l1_beta = 1;
  double margin = NAN;       ///< not given
  double temperature = NAN;  ///< not given
  std::string teacher;
  double distill_weight = 0.5;
  double preference_beta = 0.1;
  std::string pooling;  ///< empty: as the model's file says
  double desirable_weight = 1;
  double undesirable_weight = 1;
  std::int64_t blank = 0;
  bool zero_infinity = false;
  std::string optimizer = "adamw";
  double learning_rate = -1;
  // Below 0: the optimizer's default.
  double momentum = -1;
  bool nesterov = false;
  bool nesterov_given = false;
  double beta1 = -1;
  double beta2 = -1;
  double epsilon = -1;
  double alpha = -1;
  bool centered = false;
  double lr_decay = -1;
  double initial_accumulator_value = -1;
  double beta2_decay = NAN;  ///< not given
  double epsilon2 = -1;
  double clip_threshold = -1;
  std::uint32_t ns_steps = 0;  ///< 0: the default
  std::string muon_adjust = "original";
  std::vector<std::string> adamw_for;
  double ema = 0;
  double layer_decay = 1;
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
  double rise = 0.3;
  double div_factor = 25;
  double final_div_factor = 1e4;
  double power = 1;
  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  bool frozen_statistics = false;
  double neftune = 0;
  std::uint32_t seed = 0;
  std::vector<std::string> bind;
  std::int64_t seq = 0;  ///< 0: what --bind or the model says
  std::string lora;
  std::string add_tokens;
  AdapterFlags adapter;

  /// Whether adapters are trained, and the base stays as it is.
  bool has_adapters() const { return !lora.empty() || !add_tokens.empty() || !adapter.files.empty(); }
};

/// --loss and what chooses the output; also for graft eval.
void add_loss_flags(CLI::App& app, TrainFlags& flags);
/// The same without adapters.
void add_plain_loss_flags(CLI::App& app, TrainFlags& flags);
void add_train_flags(CLI::App& app, TrainFlags& flags);

/// Throws CLI::ValidationError where a flag was given that the other ones leave without effect.
void refuse_idle_train_flags(const CLI::App& app, TrainFlags& flags);

/// --bind, and --seq as the dimension "seq".
Result<Bindings> bindings_of(const TrainFlags& flags);

/// --teacher, for commands that have one.
void add_teacher_flag(CLI::App& app, TrainFlags& flags);

/// What the records of a data set are for the loss.
graft_preference preference_of(const TrainFlags& flags);
/// dpo and its kin.
bool is_preference(const TrainFlags& flags);
/// Whether it compares with a reference model.
bool needs_reference(const TrainFlags& flags);

/// Optimizers by name, in the order of graft_optimizer. An error where there is none of that name.
Result<graft_optimizer> parse_optimizer(const std::string& name);

}  // namespace graft::cli
