// Data sets as commands take them: with pictures and sounds, and tokenizers of other formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/session/data_hints.h"

namespace graft::cli {

/// Opens any data set. `length` is of samples of text: the size of the dimension "seq"; 0: 128. Samples that hold
/// several texts have the field "sequence_starts" (with_packed_sequences), and those of any text where
/// `sequence_starts` says so.
/// `hints`: see hints_of.
Result<std::unique_ptr<data::Source>> open_data(std::string_view spec, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts = false);

}  // namespace graft::cli
