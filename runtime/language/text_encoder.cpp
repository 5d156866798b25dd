#include "runtime/language/text_encoder.h"

#include <algorithm>
#include <span>

#include "runtime/language/text_forms.h"
#include "runtime/language/text_model.h"

namespace graft {

text::TokenId TextEncoder::padding() const {
  const text::Vocabulary& words = tokenizer_.vocabulary();
  return words.pad >= 0 ? words.pad : std::max(words.eos, 0);
}

Result<TokenText> TextEncoder::plain(std::string_view text) const {
  TokenText out;
  GRAFT_TRY_ASSIGN(const auto tokens, tokenizer_.encode(text));
  out.add(tokens, true);
  return out;
}

void TextEncoder::end(TokenText& text) const {
  const text::TokenId eos = tokenizer_.vocabulary().eos;
  if (eos >= 0 && (text.tokens.empty() || text.tokens.back() != eos)) text.add({eos}, true);
}

Result<TokenText> TextEncoder::record(std::string_view json) const {
  GRAFT_TRY_ASSIGN(const json::Value record, object_of(json));
  GRAFT_TRY_ASSIGN(auto messages, conversation_of(record));
  if (messages) return chat(record, std::move(*messages));
  if (record.find("prompt") != nullptr) return completion(record);
  return text_record(record);
}

Result<TokenText> TextEncoder::text_record(const json::Value& record) const {
  GRAFT_TRY_ASSIGN(const std::string text, text_member(record, "text"));
  GRAFT_TRY_ASSIGN(TokenText out, plain(text));
  end(out);
  return out;
}

Result<TokenText> TextEncoder::completion(const json::Value& record) const {
  const char* name = record.find("response") != nullptr ? "response" : "completion";
  const json::Value* said = record.find(name);
  if (said == nullptr) return invalid("The record's \"", name, "\" is missing or no text.");
  return reply(record, *record.find("prompt"), *said);
}

Result<TokenText> TextEncoder::reply(const json::Value& record, const json::Value& prompt,
                                     const json::Value& reply) const {
  if (prompt.is_string() && reply.is_string()) {
    TokenText out;
    GRAFT_TRY_ASSIGN(const auto before, tokenizer_.encode(prompt.text()));
    GRAFT_TRY_ASSIGN(const auto after, tokenizer_.encode(reply.text(), {.add_special = false}));
    out.add(before, options_.learn_all);
    out.add(after, true);
    end(out);
    return out;
  }
  GRAFT_TRY_ASSIGN(const std::string asked, messages_or_text(prompt, "user"));
  GRAFT_TRY_ASSIGN(const std::string answered, messages_or_text(reply, "assistant"));
  GRAFT_TRY_ASSIGN(const auto prompt_parts, parts_of(record, asked, true));
  const bool none = asked == "[]" || answered == "[]";
  const std::string both = cat(asked.substr(0, asked.size() - 1), none ? "" : ",", answered.substr(1));
  GRAFT_TRY_ASSIGN(const auto parts, parts_of(record, both, false));
  GRAFT_TRY_ASSIGN(const TokenText start, tokens_of(prompt_parts));
  GRAFT_TRY_ASSIGN(TokenText out, tokens_of(parts));
  if (options_.learn_all) return out;
  // What the prompt's assistant says is no part of the reply.
  const auto shared = std::ranges::mismatch(start.tokens, out.tokens).in1 - start.tokens.begin();
  std::fill(out.learned.begin(), out.learned.begin() + shared, false);
  return out;
}

namespace {

Result<const json::Value*> member_of(const json::Value& record, const char* name) {
  const json::Value* found = record.find(name);
  if (found == nullptr) return invalid("The record has no \"", name, "\".");
  return found;
}

json::Value list_of(const json::Value::Items& items, std::size_t begin, std::size_t end) {
  const auto at = [&](std::size_t i) { return items.begin() + static_cast<std::ptrdiff_t>(i); };
  return {.held = json::Value::Items(at(begin), at(end))};
}

/// What both answers begin with, where the record has no prompt of its own; the answers lose it.
json::Value take_prompt(json::Value& a, json::Value& b) {
  if (a.is_array() && b.is_array()) {
    const auto x = a.items(), y = b.items();
    std::size_t shared = 0;
    while (shared + 1 < x.size() && shared + 1 < y.size() && json_of(x[shared]) == json_of(y[shared])) ++shared;
    a = list_of(x, shared, x.size());
    b = list_of(y, shared, y.size());
    return list_of(x, 0, shared);
  }
  const std::string x = a.is_string() ? a.text() : "", y = b.is_string() ? b.text() : "";
  auto shared = static_cast<std::size_t>(std::ranges::mismatch(x, y).in1 - x.begin());
  while (shared > 0 && shared < x.size() && (static_cast<unsigned char>(x[shared]) & 0xC0U) == 0x80U) --shared;
  if (shared > 0 && x[shared - 1] == ' ') --shared;  // the space belongs to the word behind it
  a.held = x.substr(shared);
  b.held = y.substr(shared);
  return {.held = x.substr(0, shared)};
}

}  // namespace

Result<TextPair> TextEncoder::pair(std::string_view json) const {
  GRAFT_TRY_ASSIGN(const json::Value record, object_of(json));
  GRAFT_TRY_ASSIGN(const json::Value* chosen, member_of(record, "chosen"));
  GRAFT_TRY_ASSIGN(const json::Value* rejected, member_of(record, "rejected"));
  json::Value better = *chosen, worse = *rejected;
  const json::Value* given = record.find("prompt");
  const json::Value prompt = given != nullptr ? *given : take_prompt(better, worse);
  TextPair out;
  GRAFT_TRY_ASSIGN(out[0], reply(record, prompt, better));
  GRAFT_TRY_ASSIGN(out[1], reply(record, prompt, worse));
  return out;
}

Result<TextPair> TextEncoder::labelled(std::string_view json, std::string_view other) const {
  GRAFT_TRY_ASSIGN(const json::Value record, object_of(json));
  GRAFT_TRY_ASSIGN(const json::Value next, object_of(other));
  GRAFT_TRY_ASSIGN(const json::Value* prompt, member_of(record, "prompt"));
  GRAFT_TRY_ASSIGN(const json::Value* said, member_of(record, "completion"));
  GRAFT_TRY_ASSIGN(const json::Value* mismatched, member_of(next, "completion"));
  TextPair out;
  GRAFT_TRY_ASSIGN(out[0], reply(record, *prompt, *said));
  GRAFT_TRY_ASSIGN(out[1], reply(record, *prompt, *mismatched));
  return out;
}

Result<TextGroup> TextEncoder::group(std::string_view json) const {
  GRAFT_TRY_ASSIGN(const json::Value record, object_of(json));
  TextGroup out;
  const auto add = [&](const json::Value& value, const char* name) -> Status {
    if (!value.is_string()) return invalid("The record's \"", name, "\" is no text.");
    GRAFT_TRY_ASSIGN(auto tokens, tokenizer_.encode(value.text()));
    out.push_back(std::move(tokens));
    return {};
  };
  const char* const asked = record.find("query") == nullptr && record.find("anchor") != nullptr ? "anchor" : "query";
  for (const char* name : {asked, "positive"}) {
    GRAFT_TRY_ASSIGN(const json::Value* text, member_of(record, name));
    GRAFT_TRY(add(*text, name));
  }
  if (const json::Value* one = record.find("negative"); one != nullptr) GRAFT_TRY(add(*one, "negative"));
  const json::Value* const more = record.find("negatives");
  if (more == nullptr) return out;
  if (!more->is_array()) return invalid("The record's \"negatives\" is no list of texts.");
  for (const json::Value& text : more->items()) {
    if (!text.is_string()) return invalid("The record's \"negatives\" holds something that is no text.");
    GRAFT_TRY(add(text, "negatives"));
  }
  return out;
}

Result<bool> TextEncoder::label_of(std::string_view json) {
  GRAFT_TRY_ASSIGN(const json::Value record, object_of(json));
  GRAFT_TRY_ASSIGN(const json::Value* label, member_of(record, "label"));
  if (label->kind() == json::Value::Kind::boolean) return label->truth();
  if (label->kind() == json::Value::Kind::number && (label->number() == 0 || label->number() == 1)) {
    return label->number() == 1;
  }
  return invalid("The record's \"label\" is neither true nor false.");
}

bool TextEncoder::writes_start() const {
  // A template writes the token that begins a text itself.
  return options_.chat.empty() && metadata_.contains(kMetaChatTemplate);
}

Result<std::vector<text::ChatPart>> TextEncoder::parts_of(const json::Value& record, std::string messages,
                                                          bool ask) const {
  text::ChatRequest request = {.messages = std::move(messages), .ask = ask, .learn = true};
  if (const json::Value* tools = record.find("tools"); tools != nullptr && tools->kind() != json::Value::Kind::null) {
    request.tools = tools->is_string() ? tools->text() : json_of(*tools);
  }
  const bool says_how = metadata_.contains(kMetaChatTemplate) || metadata_.contains(kMetaChatFormat);
  const std::string format = options_.chat.empty() && !says_how ? "alpaca" : options_.chat;
  return render_chat(metadata_, tokenizer_, format, request);
}

Result<TokenText> TextEncoder::tokens_of(std::vector<text::ChatPart> parts) const {
  TokenText out;
  if (!writes_start()) out.add(tokenizer_.vocabulary().before, false);
  if (options_.learn_all) {
    for (text::ChatPart& part : parts) part.reply = !part.unlearned;
  }
  std::vector<bool> replies;
  GRAFT_TRY_ASSIGN(const auto tokens, text::encode_chat(tokenizer_, parts, false, &replies));
  out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  out.learned.insert(out.learned.end(), replies.begin(), replies.end());
  return out;
}

Result<TokenText> TextEncoder::chat(const json::Value& record, std::string messages) const {
  GRAFT_TRY_ASSIGN(const auto parts, parts_of(record, std::move(messages), false));
  return tokens_of(parts);
}

}  // namespace graft
