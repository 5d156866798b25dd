// The parts of a tokenizer.json around its model.
#pragma once

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "tools/convert/common/json_access.h"

namespace graft::convert {

/// Reads normalizer, pre_tokenizer and decoder into the steps of `out`, whose tokens are complete.
/// unsupported: a step that graft does not have, by name.
Status read_json_steps(const Json& document, text::Vocabulary& out);

/// Reads normalizer and pre_tokenizer into the flags of `out`, as far as flags can say them. unsupported: they cannot.
Status read_json_flags(const Json& document, text::Vocabulary& out);

/// Whether the flags of one do what the steps of the other do, whatever the text: the other is then not needed.
bool flags_suffice(const text::Vocabulary& stepped, const text::Vocabulary& flagged);

/// Reads what is put around a text.
Status read_json_post_processor(const Json& document, text::Vocabulary& out);

}  // namespace graft::convert
