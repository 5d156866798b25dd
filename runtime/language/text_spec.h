// Data sets of text for language models, beside those of runtime/data/spec.h.
//
//   text:FILE    the whole file, in windows of TextOptions::length tokens; a token that ends a text ends a sequence
//   jsonl:FILE   an object a line, or one array of objects: {"text"}, {"prompt", "completion"} (texts or lists of
//                messages), {"instruction", "input", "output", "system", "history"}, {"messages": [{"role",
//                "content"}]} or {"conversations": [{"from", "value"}]}, with "tools"; of all but the first, only the
//                reply is learned. The file may be larger than memory
//
// For losses of preferences (TextOptions::preference) an object is {"prompt", "chosen", "rejected"}, or {"prompt",
// "completion", "label"}, of texts or lists of messages. For vectors of texts it is {"query" or "anchor", "positive",
// "negative" or "negatives"}, of texts. For a model that gives a text's classes it is {"text", "label"}, a label being
// a class's number or name.
//
// Options: tokenizer=FILE (default: the model's own), chat=NAME (a chat format; default: the model's, else alpaca),
// pack=yes|no|mixed (yes, the default: several texts to a sample, none of which sees another; mixed: all one after
// another, and they do), on-long=cut|drop|error|split (jsonl: what becomes of texts longer than a sample; default: what
// is learned as a whole is split, all else cut), learn=all (jsonl: prompts are learned too), skip=N, count=N (of jsonl
// records, of text samples). Files may be gzip-compressed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "platform/os/file.h"
#include "runtime/language/text_pair_source.h"
#include "runtime/language/text_summary.h"
#include "runtime/language/text_vectors.h"
#include "runtime/run_state/data_hints.h"
#include "runtime/text/tokenizer/vocabulary.h"

namespace graft {

/// Reads the file that the option tokenizer=FILE names.
using LoadVocabulary = std::function<Result<text::Vocabulary>(const std::string& path)>;

struct TextOptions {
  std::int64_t length = 0;       ///< of samples: the size of the dimension "seq"; 0: 128
  bool sequence_starts = false;  ///< samples that hold several texts have that field in any case; here, all have
  LoadVocabulary load = {};      ///< null: the option tokenizer=FILE is refused
  /// In place of the model's tokenizer and of the option's; null: these.
  const text::Vocabulary* words = nullptr;
  OnLong on_long = OnLong::by_kind;          ///< where the option on-long says nothing
  Preference preference = Preference::none;  ///< jsonl: samples of two texts or more, each of `length` tokens
  std::optional<Pooling> pooling = {};       ///< of Preference::groups; nullopt: as the model's file says, else mean
  std::uint64_t show = 0;                    ///< samples of TextSet::shown
  std::uint64_t kept_bytes = std::uint64_t{256} << 20;  ///< of tokens, in memory; jsonl
};

/// A token of a sample as people see it.
struct ShownToken {
  std::string text;
  bool learned = false;
  bool begins = false;  ///< a text
};

struct TextSet {
  std::unique_ptr<data::Source> source;
  TextSummary summary;
  std::vector<std::vector<ShownToken>> shown;  ///< the first samples
};

/// Whether it names text.
inline bool is_text_spec(std::string_view spec) { return spec.starts_with("text:") || spec.starts_with("jsonl:"); }
/// "cut", "drop", "error" or "split".
Result<OnLong> parse_on_long(std::string_view text);
/// Opens such a data set. Samples that hold several texts have the field "sequence_starts" (with_packed_sequences).
Result<TextSet> open_text_set(std::string_view spec, const Model& model, const TextOptions& options,
                              os::FileSystem& files = os::system_files());
Result<std::unique_ptr<data::Source>> open_text_spec(std::string_view spec, const Model& model,
                                                     const TextOptions& options,
                                                     os::FileSystem& files = os::system_files());

}  // namespace graft
