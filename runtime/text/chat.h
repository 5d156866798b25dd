// Conversations as the text that a model was tuned on: by its own template, or in common forms by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/template/template.h"
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

/// `ask`: with what makes the assistant speak next. Text of messages stays text: it forges no special token.
/// invalid_argument: an unknown format (the known ones are listed) or role, or roles in an order that it cannot say.
Result<std::vector<ChatPart>> render_chat(std::string_view format, std::span<const ChatMessage> messages, bool ask);

/// A conversation as JSON: what a template reads.
struct ChatRequest {
  std::string messages;   ///< a list of {"role", "content", ...}
  std::string tools;      ///< a list; empty: none
  std::string documents;  ///< a list; empty: none
  std::string
      variables;    ///< an object of whatever else the template reads, as {"enable_thinking": false}; may be empty
  bool ask = true;  ///< with what makes the assistant speak next
};

std::string json_of(std::span<const ChatMessage> messages);
/// For formats by name. invalid_argument: no such list, or contents that are no texts.
Result<std::vector<ChatMessage>> messages_of_json(std::string_view json);

/// The conversation as the template says it. What it writes itself may spell special tokens of `tokenizer`; what it was
/// given stays text. What the assistant says is a reply: what {% generation %} holds, or else what stands between where
/// asking for that message ends and the token that ends it.
/// invalid_argument: what Template::render says.
Result<std::vector<ChatPart>> render_chat(const jinja::Template& program, const Tokenizer& tokenizer,
                                          const ChatRequest& request);

/// Special parts become their tokens, or text where the vocabulary has no such token; neighbouring text is encoded as
/// one. Nothing is put before or after. `continued`: as EncodeOptions.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPart> parts,
                                         bool continued = false);

}  // namespace graft::text
