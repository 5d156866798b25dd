// tokenizer_config.json: what Hugging Face's library makes of a tokenizer by it.
#pragma once

#include "platform/base/status.h"
#include "runtime/text/tokenizer/vocabulary.h"
#include "tools/convert/common/json_access.h"

namespace graft::convert {

/// unsupported: a field that would change ids or text and that graft does not have, as check_fields() names it.
Status check_tokenizer_config(const Json& config);

/// Sets the normalizer and the pre-tokenizer of a tokenizer.json as the library does.
void apply_tokenizer_config(const Json& config, Json& document);

enum class TokenizerSource { json, sentencepiece, pair };
/// The tokens that the configuration names or adds, what it puts around a text, and SentencePiece's space before one.
/// unsupported: a field that contradicts the tokenizer's file if the library does not follow the configuration.
Status apply_tokenizer_config(const Json& config, TokenizerSource source, text::Vocabulary& out);

}  // namespace graft::convert
