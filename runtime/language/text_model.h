// What makes a model a language model: its tokenizer and the tokens that end a text.
#pragma once

#include <optional>
#include <vector>

#include "runtime/model/model.h"
#include "runtime/text/chat/chat.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft {

/// Metadata beside kMetaChatTemplate: the template for conversations with tools.
inline constexpr std::string_view kMetaToolTemplate = "text.chat_template.tool_use";

/// Metadata of a model that was converted without its tokenizer: one sentence that says why.
inline constexpr std::string_view kMetaTokenizerFault = "text.no_tokenizer";

/// not_found: the model carries none, and the sentence says why; unsupported: one of a form that this build does not
/// read; corrupt: a damaged one.
Result<text::Tokenizer> tokenizer_of(const Model& model);

/// The ids of kMetaStop, and the tokenizer's end of text.
std::vector<text::TokenId> stop_tokens_of(const Metadata& metadata, const text::Tokenizer& tokenizer);

/// A conversation as the model whose metadata it is says it: by its own template. With `format`, or where the metadata
/// names one and there is no template, by that format of text::chat_formats(). A template that fails is an error:
/// nothing is guessed in its place. Contents that are lists of texts are joined by line ends, unless the template reads
/// such lists. A call's arguments that are a text of JSON become an object if the template would encode them twice.
/// invalid_argument: neither template nor format (the sentence names the formats);
/// tools, documents or variables with a format.
Result<std::vector<text::ChatPart>> render_chat(const Metadata& metadata, const text::Tokenizer& tokenizer,
                                                std::string_view format, const text::ChatRequest& request);

/// Positions that the model was made for; nullopt where it does not say.
std::optional<std::uint32_t> context_of(const Model& model);

}  // namespace graft
