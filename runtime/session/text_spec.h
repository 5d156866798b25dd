// Data sets of text for language models, beside those of runtime/data/spec.h.
//
//   text:FILE    the whole file, in windows of TextOptions::length tokens; a token that ends a text ends a sequence
//   jsonl:FILE   an object a line, or one array of objects: {"text"}, {"prompt", "completion"},
//                {"instruction", "input", "output"} or {"messages": [{"role", "content"}], "tools"}; of all but the
//                first, only the reply is learned
//
// Options: tokenizer=FILE (default: the model's own), chat=NAME (a chat format; default: the model's, else alpaca),
// pack=yes|no|mixed (yes: several texts to a window, none of which sees another; mixed: they do; default yes for text,
// no for jsonl), learn=all (jsonl: prompts are learned too), skip=N, count=N.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "platform/os/file.h"
#include "runtime/data/source.h"
#include "runtime/data/spec.h"
#include "runtime/model/model.h"
#include "runtime/text/vocabulary.h"

namespace graft {

/// Reads the file that the option tokenizer=FILE names.
using LoadVocabulary = std::function<Result<text::Vocabulary>(const std::string& path)>;

struct TextOptions {
  std::int64_t length = 0;       ///< of samples: the size of the dimension "seq"; 0: 128
  bool sequence_starts = false;  ///< samples that hold several texts have that field in any case; here, all have
  LoadVocabulary load = {};      ///< null: the option tokenizer=FILE is refused
};

/// Whether it names text.
inline bool is_text_spec(std::string_view spec) { return spec.starts_with("text:") || spec.starts_with("jsonl:"); }
/// Opens such a data set. Samples that hold several texts have the field "sequence_starts" (with_packed_sequences).
Result<std::unique_ptr<data::Source>> open_text_spec(std::string_view spec, const Model& model,
                                                     const TextOptions& options,
                                                     os::FileSystem& files = os::system_files());

}  // namespace graft
