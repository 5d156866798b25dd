// Conversations as the text that a model was tuned on: the common forms by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/tokenizer.h"

namespace graft::text {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
};

/// A stretch of a rendered conversation.
struct ChatPart {
  std::string text;
  bool special = false;  ///< the name of one token, such as "<|im_end|>"
  bool reply = false;    ///< what the assistant says, with the token that ends it: what training learns
};

/// "alpaca", "chatml", "gemma", "llama2" and "llama3".
std::span<const std::string_view> chat_formats();

/// The format that a model's own template follows, by the tokens that it writes; empty where none is recognized.
std::string_view chat_format_of(std::string_view jinja_template);

/// What a template of the form "chatml" writes as the system's message where a conversation has none; empty: nothing.
std::string chat_system_of(std::string_view jinja_template);

/// `ask`: with what makes the assistant speak next. Text of messages stays text: it forges no special token.
/// invalid_argument: an unknown format (the known ones are listed) or role, or roles in an order that it cannot say.
Result<std::vector<ChatPart>> render_chat(std::string_view format, std::span<const ChatMessage> messages, bool ask);

/// Special parts become their tokens, or text where the vocabulary has no such token; neighbouring text is encoded as
/// one. Nothing is put before or after.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPart> parts);

}  // namespace graft::text
