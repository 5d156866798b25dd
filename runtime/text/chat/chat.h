// Conversations as the text that a model was tuned on: by its own template, or in common forms by name.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/status.h"
#include "runtime/text/template/template.h"
#include "runtime/text/tokenizer/tokenizer.h"

namespace graft::text {

struct ChatMessage {
  std::string role;  ///< "system", "user" or "assistant"
  std::string text;
  bool learned = true;  ///< training learns what the assistant says in it
};

/// A stretch of a rendered conversation.
struct ChatPart {
  std::string text;
  bool own = false;        ///< the template's own text, which may spell special tokens such as "<|im_end|>"
  bool reply = false;      ///< what the assistant says, with the token that ends it: what training learns
  bool unlearned = false;  ///< the same of a message that is not to be learned
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
  /// For training: each reply ends with a token that ends texts. If the template writes none, one is added.
  bool learn = false;
  std::vector<TokenId> stops = {};  ///< tokens that end a text, besides the tokenizer's own
};

std::string json_of(std::span<const ChatMessage> messages);
/// For formats by name. invalid_argument: no such list, contents that are no texts, or a "weight" or "train" as below.
Result<std::vector<ChatMessage>> messages_of_json(std::string_view json);

/// The conversation as the template says it. What it writes itself may spell special tokens of `tokenizer`; what it was
/// given stays text. A message's role counts as the template's own text if the template or every family knows it.
///
/// Without `ask`, what the assistant says is a reply: what {% generation %} holds, or else what stands between where
/// asking for that message ends and the token that ends it. A message with "weight": 0 or "train": false is no reply.
/// invalid_argument: what Template::render says; for `learn`, other weights, weights of messages that are not the
/// assistant's, and replies that no known token ends.
Result<std::vector<ChatPart>> render_chat(const jinja::Template& program, const Tokenizer& tokenizer,
                                          const ChatRequest& request);

/// The parts as one text, of which only own parts spell special tokens. Nothing is put before or after. `continued`: as
/// EncodeOptions. `replies` (may be null): for each id, whether its text is a reply's, at least in part.
Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPart> parts,
                                         bool continued = false, std::vector<bool>* replies = nullptr);

}  // namespace graft::text
