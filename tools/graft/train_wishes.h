// The flags that say how to train, as graft_trainer_options refer to them.
#pragma once

#include <string>
#include <vector>

#include "tools/graft/public_data.h"

namespace graft::cli {

/// Outlives the options that it gives, as the flags do.
class TrainWishes {
 public:
  /// `total_steps` is where linear and cosine schedules end; 0 where it is not known. A failure names the flag.
  Status read(const TrainFlags& flags, std::uint64_t total_steps);
  /// The step alone: data, memory, and what is measured are the caller's to say.
  graft_trainer_options options() const;
  /// Of a reference model for the same samples.
  graft_reference_options reference() const { return loss_.reference(); }
  /// The same for what judges a trained model: its loss without a teacher, and nothing that only steps need.
  graft_trainer_options of_evaluation() const;

 private:
  Status read_groups();
  Status read_schedule(std::uint64_t total_steps);
  graft_trainer_options with_optimizer() const;

  const TrainFlags* flags_ = nullptr;
  LossWishes loss_;
  graft_optimizer optimizer_ = GRAFT_ADAMW;
  graft_schedule schedule_ = GRAFT_CONSTANT;
  std::uint64_t total_steps_ = 0;
  std::string adamw_for_, freeze_;
  std::vector<std::string> patterns_;  ///< of groups_
  std::vector<graft_parameter_group> groups_;
};

}  // namespace graft::cli
