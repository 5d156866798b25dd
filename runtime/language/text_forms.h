// Conversations in the forms that data sets have them in, as the lists of messages that chat templates read.
#pragma once

#include <optional>
#include <string>

#include "platform/base/json.h"
#include "platform/base/status.h"

namespace graft {

/// A value as JSON again.
std::string json_of(const json::Value& value);

/// A record. invalid_argument: no JSON (the sentence says where), or no object.
Result<json::Value> object_of(std::string_view json);

/// The text of a member. invalid_argument: it is missing, or no text.
Result<std::string> text_member(const json::Value& record, const char* key);
/// The same of a member that may be missing or null: then an empty text.
Result<std::string> text_member_or_none(const json::Value& record, const char* key);

/// The messages of a record as a JSON list; nullopt: it is no conversation.
///   {"messages": [{"role", "content"}, ...]}, also as "conversations"
///   ShareGPT: {"conversations": [{"from", "value"}, ...], "system"}, of human, gpt, system, function_call, observation
///   Alpaca: {"instruction", "input", "output"}, with "system" and "history", a list of pairs
Result<std::optional<std::string>> conversation_of(const json::Value& record);

/// A list of messages, or a text that `role` says.
Result<std::string> messages_or_text(const json::Value& given, const char* role);

/// Whether a message's content is a list of parts.
bool has_parts(const json::Value& messages);
/// Whether a call's "arguments" are a text that holds a JSON object.
bool has_text_arguments(const json::Value& messages);
/// The messages with such arguments as objects.
std::string with_parsed_arguments(const json::Value& messages);
/// The messages with the texts of lists of parts joined by line ends. unsupported: a part that is no text.
Result<std::string> with_joined_parts(const json::Value& messages);

}  // namespace graft
