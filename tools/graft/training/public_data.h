// Data sets as commands take them, over the C interface: with pictures and sounds, and tokenizers of other formats.
#pragma once

#include <string>

#include "tools/graft/shared/public_api.h"
#include "tools/graft/training/train_flags.h"

namespace graft::cli {

/// What a data set is opened for, beside the loss of the flags.
struct SetWishes {
  bool evaluation = true;                             ///< samples as they are
  bool sequence_starts = false;                       ///< samples of text say where their texts begin
  std::uint64_t show = 0;                             ///< first samples of text that print_shown() prints
  const std::vector<std::string>* classes = nullptr;  ///< whose numbers labels get; null: the model's, or any
};

/// Opens a data set for the model, as the loss of the flags takes it. `on_long`: what --on-long says.
Result<Owned<graft_data_set>> open_set(graft_context* context, graft_model* model, const std::string& spec,
                                       const TrainFlags& flags, const std::string& on_long, const SetWishes& wishes);
/// To be evaluated on.
inline Result<Owned<graft_data_set>> open_held_out(graft_context* context, graft_model* model, const std::string& spec,
                                                   const TrainFlags& flags, const std::string& on_long = {}) {
  return open_set(context, model, spec, flags, on_long, {});
}

/// The tokens of the samples that it was opened to show, a `*` before each that is learned.
void print_shown(const graft_data_set* set);

/// Says on stderr what became of the records of text; `brief`: only where any are cut or left out.
Status print_summary(graft_context* context, const char* what, const graft_data_set* set, bool brief);

/// Whether samples hold two texts of --seq tokens each.
bool has_pairs(const TrainFlags& flags);

}  // namespace graft::cli
