// The flags that say how to train: shared by graft train, graft plan and graft eval.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "graft/graft.hpp"
#include "tools/common/command.h"
#include "tools/common/options.h"
#include "tools/graft/shared/adapter_flags.h"

namespace graft::cli {

struct TrainFlags {
  TrainerOptions options;  ///< what flags set as they are
  std::string loss = "ce";
  std::string output;
  std::string teacher;
  std::string pooling;  ///< empty: as the model's file says
  std::vector<std::string> groups;
  std::string precision = "f32";
  std::int64_t batch = 32;
  std::int64_t accumulate = 1;
  std::vector<std::string> bind;
  std::int64_t seq = 0;  ///< 0: what --bind or the model says
  std::string lora;
  std::string add_tokens;
  AdapterFlags adapter;

  /// Whether adapters are trained, and the base stays as it is.
  bool has_adapters() const { return !lora.empty() || !add_tokens.empty() || !adapter.files.empty(); }
};

/// --loss and what chooses the output; also for graft eval.
void add_loss_and_adapter_flags(CLI::App& app, TrainFlags& flags);
/// The same without adapters.
void add_plain_loss_flags(CLI::App& app, TrainFlags& flags);
void add_train_flags(CLI::App& app, TrainFlags& flags);

/// Throws CLI::ValidationError where a flag was given that the other ones leave without effect.
void refuse_idle_train_flags(const CLI::App& app, const TrainFlags& flags);

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

}  // namespace graft::cli
