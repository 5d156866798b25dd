#include "runtime/language/text_forms.h"

#include <algorithm>
#include <cmath>

#include "runtime/text/template/value.h"

namespace graft {
namespace {

using JsonKind = json::Value::Kind;

/// `more`: members, each after a comma.
std::string message_json(std::string_view role, std::string_view text, std::string_view more = {}) {
  return cat("{\"role\":", json::quoted(role), ",\"content\":", json::quoted(text), more, "}");
}

/// Who speaks in ShareGPT's form, as templates name him; empty: nobody that is known.
std::string_view role_of(std::string_view from) {
  constexpr std::pair<std::string_view, std::string_view> kRoles[] = {{"human", "user"},
                                                                      {"user", "user"},
                                                                      {"gpt", "assistant"},
                                                                      {"assistant", "assistant"},
                                                                      {"chatgpt", "assistant"},
                                                                      {"bot", "assistant"},
                                                                      {"model", "assistant"},
                                                                      {"system", "system"},
                                                                      {"function_call", "function_call"},
                                                                      {"tool_call", "function_call"},
                                                                      {"observation", "tool"},
                                                                      {"tool", "tool"},
                                                                      {"tool_response", "tool"},
                                                                      {"function_response", "tool"}};
  const auto* const found = std::ranges::find(kRoles, from, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kRoles) ? std::string_view() : found->second;
}

/// What the assistant says to call a function: {"name", "arguments"} or a list of them, else text of its own.
std::string call_json(const std::string& text, const std::string& more) {
  const auto parsed = json::parse(text);
  const auto is_call = [](const json::Value& value) {
    const json::Value* name = value.find("name");
    return name != nullptr && name->is_string();
  };
  std::string calls;
  const auto add = [&](const json::Value& call) {
    const json::Value* arguments = call.find("arguments");
    calls += cat(calls.empty() ? "" : ",", R"({"type":"function","function":{"name":)",
                 json::quoted(call.find("name")->text()),
                 ",\"arguments\":", arguments == nullptr ? "{}" : json_of(*arguments), "}}");
  };
  if (parsed.ok() && is_call(*parsed)) add(*parsed);
  if (parsed.ok() && parsed->is_array() && std::ranges::all_of(parsed->items(), is_call)) {
    for (const json::Value& call : parsed->items()) add(call);
  }
  if (calls.empty()) return message_json("assistant", text, more);
  return cat(R"({"role":"assistant","content":"","tool_calls":[)", calls, "]", more, "}");
}

Result<std::string> share_gpt(const json::Value& record, const json::Value& turns) {
  std::string list;
  const auto add = [&](const std::string& message) { list += (list.empty() ? "" : ",") + message; };
  GRAFT_TRY_ASSIGN(const std::string system, text_member_or_none(record, "system"));
  if (!system.empty()) add(message_json("system", system));
  for (const json::Value& turn : turns.items()) {
    GRAFT_TRY_ASSIGN(const std::string from, text_member(turn, "from"));
    GRAFT_TRY_ASSIGN(const std::string value, text_member(turn, "value"));
    const std::string_view role = role_of(from);
    if (role.empty()) {
      return invalid("\"", from, "\" speaks in the record's \"conversations\"; known are human, gpt, system, ",
                     "function_call and observation.");
    }
    std::string more;
    for (const char* name : {"weight", "train"}) {
      if (const json::Value* given = turn.find(name)) more += cat(",\"", name, "\":", json_of(*given));
    }
    add(role == "function_call" ? call_json(value, more) : message_json(role, value, more));
  }
  return cat("[", list, "]");
}

Result<std::string> alpaca(const json::Value& record) {
  std::string list;
  const auto add = [&](std::string_view role, std::string_view text) {
    list += (list.empty() ? "" : ",") + message_json(role, text);
  };
  GRAFT_TRY_ASSIGN(const std::string system, text_member_or_none(record, "system"));
  if (!system.empty()) add("system", system);
  if (const json::Value* history = record.find("history"); history != nullptr) {
    for (const json::Value& pair : history->items()) {
      const auto& both = pair.items();
      if (both.size() != 2 || !both[0].is_string() || !both[1].is_string()) {
        return invalid("The record's \"history\" is no list of pairs of texts.");
      }
      add("user", both[0].text());
      add("assistant", both[1].text());
    }
  }
  GRAFT_TRY_ASSIGN(std::string ask, text_member(record, "instruction"));
  GRAFT_TRY_ASSIGN(const std::string answer,
                   text_member(record, record.find("response") != nullptr ? "response" : "output"));
  GRAFT_TRY_ASSIGN(const std::string input, text_member_or_none(record, "input"));
  if (!input.empty()) ask += "\n\n### Input:\n" + input;
  add("user", ask);
  add("assistant", answer);
  return cat("[", list, "]");
}

/// The text of a content that is a list of parts.
Result<std::string> joined(const json::Value& parts) {
  std::string text;
  for (const json::Value& part : parts.items()) {
    const json::Value* said = part.is_string() ? &part : part.find("text");
    const json::Value* type = part.find("type");
    if (said == nullptr || !said->is_string()) {
      return unsupported("A message has a part of the type \"",
                         type != nullptr && type->is_string() ? type->text() : "?",
                         "\"; parts that are text can be read.");
    }
    text += (&part == parts.items().data() ? "" : "\n") + said->text();
  }
  return text;
}

}  // namespace

std::string json_of(const json::Value& value) {
  std::string out;
  switch (value.kind()) {
    case JsonKind::null: return "null";
    case JsonKind::boolean: return value.truth() ? "true" : "false";
    case JsonKind::string: return json::quoted(value.text());
    case JsonKind::number: {
      const bool is_whole = std::fabs(value.number()) < 1e15 && value.number() == std::floor(value.number());
      return is_whole ? std::to_string(static_cast<std::int64_t>(value.number()))
                      : text::jinja::number_text(value.number());
    }
    case JsonKind::array:
      for (const json::Value& item : value.items()) out += (out.empty() ? "" : ",") + json_of(item);
      return "[" + out + "]";
    case JsonKind::object:
      for (const auto& [name, item] : value.members()) {
        out += (out.empty() ? "" : ",") + json::quoted(name) + ":" + json_of(item);
      }
      return "{" + out + "}";
  }
  return out;
}

Result<json::Value> object_of(std::string_view json) {
  auto parsed = json::parse(json);
  if (!parsed.ok()) return invalid("It is no JSON object. ", parsed.status().message());
  if (!parsed->is_object()) return invalid("It is no JSON object.");
  return parsed;
}

Result<std::string> text_member(const json::Value& record, const char* key) {
  const json::Value* found = record.find(key);
  if (found != nullptr && found->is_string()) return found->text();
  return invalid("The record's \"", key, "\" is missing or no text.");
}

Result<std::string> text_member_or_none(const json::Value& record, const char* key) {
  const json::Value* found = record.find(key);
  if (found == nullptr || found->kind() == JsonKind::null) return std::string();
  return text_member(record, key);
}

Result<std::optional<std::string>> conversation_of(const json::Value& record) {
  const json::Value* messages = record.find("messages");
  const char* name = messages != nullptr ? "messages" : "conversations";
  if (messages == nullptr) messages = record.find(name);
  std::string list;
  if (messages != nullptr) {
    if (!messages->is_array()) return invalid("The record's \"", name, "\" is no array.");
    const auto& turns = messages->items();
    if (!turns.empty() && turns.front().find("from") != nullptr) {
      GRAFT_TRY_ASSIGN(list, share_gpt(record, *messages));
    } else {
      list = json_of(*messages);
    }
    return std::optional(std::move(list));
  }
  if (record.find("instruction") == nullptr) return std::optional<std::string>();
  GRAFT_TRY_ASSIGN(list, alpaca(record));
  return std::optional(std::move(list));
}

Result<std::string> messages_or_text(const json::Value& given, const char* role) {
  if (given.is_array()) return json_of(given);
  if (given.is_string()) return cat("[", message_json(role, given.text()), "]");
  return invalid("What the ", role, " says is neither a text nor a list of messages.");
}

bool has_parts(const json::Value& messages) {
  return std::ranges::any_of(messages.items(), [](const json::Value& message) {
    const json::Value* content = message.find("content");
    return content != nullptr && content->is_array();
  });
}

namespace {

bool is_text_of_object(std::string_view name, const json::Value& value) {
  if (name != "arguments" || !value.is_string()) return false;
  const auto parsed = json::parse(value.text());
  return parsed.ok() && parsed->is_object();
}

/// Calls change(name, value) for each member of each call, and of its function.
template <typename Change>
std::string changed_calls(const json::Value& value, Change change) {
  std::string out;
  if (value.is_array()) {
    for (const json::Value& one : value.items()) out += (out.empty() ? "" : ",") + changed_calls(one, change);
    return "[" + out + "]";
  }
  if (!value.is_object()) return json_of(value);
  for (const auto& [name, member] : value.members()) {
    const bool deeper = name == "tool_calls" || name == "function";
    out += cat(out.empty() ? "" : ",", json::quoted(name), ":",
               deeper ? changed_calls(member, change) : change(name, member));
  }
  return "{" + out + "}";
}

}  // namespace

bool has_text_arguments(const json::Value& messages) {
  bool found = false;
  changed_calls(messages, [&](std::string_view name, const json::Value& value) {
    found = found || is_text_of_object(name, value);
    return std::string();
  });
  return found;
}

std::string with_parsed_arguments(const json::Value& messages) {
  return changed_calls(messages, [](std::string_view name, const json::Value& value) {
    return is_text_of_object(name, value) ? value.text() : json_of(value);
  });
}

Result<std::string> with_joined_parts(const json::Value& messages) {
  std::string list;
  for (const json::Value& message : messages.items()) {
    std::string members;
    for (const auto& [name, value] : message.members()) {
      std::string text = json_of(value);
      if (name == "content" && value.is_array()) {
        GRAFT_TRY_ASSIGN(const std::string parts, joined(value));
        text = json::quoted(parts);
      }
      members += cat(members.empty() ? "" : ",", json::quoted(name), ":", text);
    }
    list += cat(list.empty() ? "" : ",", "{", members, "}");
  }
  return cat("[", list, "]");
}

}  // namespace graft
