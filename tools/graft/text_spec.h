// Data sets of text for language models, as the command line takes them beside those of runtime/data/spec.h.
//
//   text:FILE    the whole file, in windows of --seq tokens; a token that ends a text ends a sequence
//   jsonl:FILE   an object a line, or one array of objects: {"text"}, {"prompt", "completion"},
//                {"instruction", "input", "output"} or {"messages": [{"role", "content"}]}; of all but the first, only
//                the reply is learned
//
// Options: tokenizer=FILE (default: the model's own), chat=NAME (a chat format; default: the model's, else alpaca),
// pack=yes|no|mixed (yes: several texts to a window, none of which sees another; mixed: they do; default yes for text,
// no for jsonl), learn=all (jsonl: prompts are learned too), skip=N, count=N.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "runtime/data/source.h"
#include "runtime/data/spec.h"
#include "runtime/model/model.h"

namespace graft::cli {

/// Opens any data set. `length` is of samples of text: the size of the dimension "seq"; 0: 128. Samples that hold
/// several texts have the field "sequence_starts" (with_packed_sequences), and those of any text where
/// `sequence_starts` says so.
/// `hints`: see hints_of.
Result<std::unique_ptr<data::Source>> open_data(std::string_view spec, const Model& model, std::int64_t length,
                                                const data::Hints& hints, bool sequence_starts = false);
bool has_packed_sequences(const data::Source& source);

/// Binds what the model's inputs leave open (lengths, heights, widths) to the samples' sizes, where it is not bound yet.
void bind_length(const data::Source& source, const Model& model, Bindings& bindings);

}  // namespace graft::cli
