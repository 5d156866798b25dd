// What makes a model a language model: its tokenizer and the tokens that end a text.
#pragma once

#include <optional>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/text/tokenizer.h"

namespace graft {

/// not_found: the model carries none; unsupported: one of a form that this build does not read; corrupt: a damaged one.
Result<text::Tokenizer> tokenizer_of(const Model& model);

/// The ids of Model's kMetaStop, and the tokenizer's end of text.
std::vector<text::TokenId> stop_tokens_of(const Model& model, const text::Tokenizer& tokenizer);

/// Positions that the model was made for; nullopt where it does not say.
std::optional<std::uint32_t> context_of(const Model& model);

}  // namespace graft
