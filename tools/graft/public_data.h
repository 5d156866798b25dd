// Data sets as commands take them, over the C interface: with pictures and sounds, and tokenizers of other formats.
#pragma once

#include <string>

#include "tools/graft/public_api.h"
#include "tools/graft/train_flags.h"

namespace graft::cli {

/// Opens a data set for the model to be evaluated on, as the loss of the flags takes it. `on_long`: what --on-long
/// says.
Result<Owned<graft_data_set>> open_held_out(graft_context* context, graft_model* model, const std::string& spec,
                                            const TrainFlags& flags, const std::string& on_long = {});

/// Says on stderr what became of the records of text; `brief`: only where any are cut or left out.
Status print_summary(graft_context* context, const char* what, const graft_data_set* set, bool brief);

/// Whether samples hold two texts of --seq tokens each.
bool has_pairs(const TrainFlags& flags);

/// The flags that graft eval and graft compare have, as graft_trainer_options refer to them. Outlives these.
class LossWishes {
 public:
  /// A failure names the flag.
  Status read(const TrainFlags& flags);
  graft_trainer_options options() const;
  /// Of a reference model for the same samples.
  graft_reference_options reference() const;

 private:
  const TrainFlags* flags_ = nullptr;
  std::string losses_;
  std::vector<double> class_weights_, pos_weight_;
  graft_precision precision_ = GRAFT_PRECISION_F32;
  PublicBindings bindings_{{}};
  PublicBindings of_reference_{{}};
};

}  // namespace graft::cli
