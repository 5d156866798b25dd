// What makes a model a language model: its tokenizer and the tokens that end a text.
#pragma once

#include <optional>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/text/chat.h"
#include "runtime/text/tokenizer.h"

namespace graft {

/// not_found: the model carries none; unsupported: one of a form that this build does not read; corrupt: a damaged one.
Result<text::Tokenizer> tokenizer_of(const Model& model);

/// The ids of Model's kMetaStop, and the tokenizer's end of text.
std::vector<text::TokenId> stop_tokens_of(const Model& model, const text::Tokenizer& tokenizer);

/// As text::render_chat, in the format of that name or, where it is empty, that of the model whose metadata it is:
/// recognized by its template, with the system's message that the template itself writes where the conversation has
/// none. invalid_argument: the model has no template, or one of an unknown form; the sentence names the known ones.
Result<std::vector<text::ChatPart>> render_chat(const Metadata& metadata, std::string_view format,
                                                std::vector<text::ChatMessage> messages, bool ask);

/// Positions that the model was made for; nullopt where it does not say.
std::optional<std::uint32_t> context_of(const Model& model);

}  // namespace graft
