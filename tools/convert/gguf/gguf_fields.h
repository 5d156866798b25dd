// The keys of GGUF metadata that each architecture has, for readers, and what llama.cpp reads of one, for writers.
#pragma once

#include "tools/convert/common/known_fields.h"
#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

/// Keys that say something and are not of the architecture's list are refused as check_fields() has it. Keys of other
/// names than the architecture's and the tokenizer's say nothing of the model, but for "general.type" and
/// "split.count".
Status check_gguf_keys(const GgufFile& file, std::string_view architecture);

/// unsupported: what no key or tensor of the architecture says to llama.cpp.
Status check_gguf_can_say(const DecoderSpec& spec, std::string_view architecture);
/// What "attention.sliding_window" means.
struct GgufWindows {
  bool key = false;           ///< files of the architecture may have it
  bool applied = false;       ///< llama.cpp applies it
  bool local_base = false;    ///< layers with a window have a rotary embedding of their own
  std::size_t interval = 0;   ///< layers of a group, one of which has no window; 0: all have it
  bool global_first = false;  ///< that layer is the first of its group, not the last

  bool slides(std::size_t layer) const { return interval == 0 || (layer + (global_first ? 0 : 1)) % interval != 0; }
};
GgufWindows gguf_windows(std::string_view architecture);

}  // namespace graft::convert
