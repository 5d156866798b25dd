// Data sets as commands take them: with pictures and sounds, and tokenizers of other formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/session/text_spec.h"
#include "tools/graft/text_flags.h"

namespace graft::cli {

/// What a data set of text tells of itself.
struct TextInfo {
  bool is_text = false;
  TextSummary summary;
  std::vector<std::vector<ShownToken>> shown;
};

/// Opens any data set. `length` is of samples of text: the size of the dimension "seq"; 0: 128. Samples that hold
/// several texts have the field "sequence_starts" (with_packed_sequences), and those of any text where
/// `sequence_starts` says so.
/// `hints`: see hints_of. `info` (may be null) is of text.
Result<std::unique_ptr<data::Source>> open_data(std::string_view spec, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts = false,
                                                const TextFlags& text = {}, TextInfo* info = nullptr);

}  // namespace graft::cli
