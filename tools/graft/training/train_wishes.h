// The flags that say how to train, as graft_trainer_options refer to them.
#pragma once

#include <memory>

#include "tools/graft/training/public_data.h"

namespace graft::cli {

/// Outlives the options that it gives.
class TrainWishes {
 public:
  /// `total_steps` is where linear and cosine schedules end; 0 where it is not known. A failure names the flag.
  Status read(const TrainFlags& flags, std::uint64_t total_steps = 0);
  /// The step alone: data, memory, and what is measured are the caller's to say.
  graft_trainer_options options() const { return **raw_; }
  /// Of a reference model for the same samples.
  graft_reference_options reference() const;
  /// The same for what judges a trained model: its loss without a teacher, and nothing that only steps need.
  graft_trainer_options of_evaluation() const;

 private:
  std::unique_ptr<TrainerOptions> options_;  // which raw_ refers to
  std::unique_ptr<graft::detail::RawTrainerOptions> raw_;
  PublicBindings of_reference_{{}};
};

}  // namespace graft::cli
