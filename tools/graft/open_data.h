// Data sets as commands take them: with pictures and sounds, and tokenizers of other formats.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/session/text_spec.h"
#include "tools/common/command.h"

namespace graft::cli {

/// --on-long and --show-samples.
struct TextFlags {
  std::string on_long;  ///< empty: as the data set says
  std::uint64_t show = 0;
  Preference preference = Preference::none;  ///< what the loss takes
  std::string pooling = {};                  ///< empty: as the model's file says
};
void add_long_flag(CLI::App& app, TextFlags& flags);

/// What a data set of text tells of itself.
struct TextInfo {
  bool is_text = false;
  TextSummary summary;
  std::vector<std::vector<ShownToken>> shown;
};

/// Says on stderr what became of the records; `brief`: only where any are cut or left out.
void print_summary(const char* what, const TextInfo& info, bool brief);
/// The tokens of the first samples, a `*` before each that is learned.
void print_shown(const TextInfo& info);

/// Opens any data set. `length` is of samples of text: the size of the dimension "seq"; 0: 128. Samples that hold
/// several texts have the field "sequence_starts" (with_packed_sequences), and those of any text where
/// `sequence_starts` says so.
/// `hints`: see hints_of. `info` (may be null) is of text.
Result<std::unique_ptr<data::Source>> open_data(std::string_view spec, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts = false,
                                                const TextFlags& text = {}, TextInfo* info = nullptr);

}  // namespace graft::cli
