// Conversations by a model's own template: which of its words are tokens, and what the assistant says.
#include <algorithm>
#include <optional>

#include "runtime/text/chat/chat.h"
#include "runtime/text/template/json_value.h"

namespace graft::text {
namespace {

using jinja::Kind;
using jinja::MarkedText;
using jinja::Origin;
using jinja::RenderedTemplate;

constexpr std::size_t kMessagesMemory = std::size_t{256} << 20;  // of their values, as in a template

std::string quoted(std::string_view text) { return jinja::json_string(jinja::marked(text), false).bytes; }

struct SpecialPlace {
  std::size_t begin;
  TokenId token;
};

/// Where the template's own text spells control tokens; of several that begin alike, the longest.
std::vector<SpecialPlace> special_places(const MarkedText& text, const Tokenizer& tokenizer) {
  std::vector<SpecialPlace> out;
  const std::string_view bytes = text.bytes, marks = text.marks;
  const auto is_own = [&](std::size_t at, std::size_t size) {
    return marks.substr(at, size).find_first_not_of(jinja::kFromTemplate) == std::string_view::npos;
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t size = 0;
    for (const TokenId id : tokenizer.special_from(bytes[at])) {
      const Token& token = tokenizer.vocabulary().tokens[static_cast<std::size_t>(id)];
      if (token.kind != TokenKind::control || !bytes.substr(at).starts_with(token.text)) continue;
      if (!is_own(at, token.text.size())) continue;
      out.push_back({at, id});
      size = token.text.size();
      break;
    }
    at += std::max<std::size_t>(size, 1);
  }
  return out;
}

/// The variables of a template.
std::vector<jinja::TemplateInput> inputs_of(const ChatRequest& request, const Vocabulary& words,
                                            std::string_view messages, bool ask) {
  std::vector<jinja::TemplateInput> out = {
      {"messages", std::string(messages), Origin::conversation},
      {"tools", request.tools.empty() ? "null" : request.tools, Origin::data},
      {"documents", request.documents.empty() ? "null" : request.documents, Origin::data},
      {"add_generation_prompt", ask ? "true" : "false", Origin::data}};
  const std::pair<const char*, TokenId> tokens[] = {{"bos_token", words.bos},
                                                    {"eos_token", words.eos},
                                                    {"unk_token", words.unknown},
                                                    {"pad_token", words.pad},
                                                    {"mask_token", words.mask}};
  for (const auto& [name, id] : tokens) {
    if (id != kNoToken) out.push_back({name, quoted(words.tokens[static_cast<std::size_t>(id)].text), Origin::model});
  }
  if (!request.variables.empty()) out.push_back({"", request.variables, Origin::data});
  return out;
}

struct OneMessage {
  std::string json;
  bool is_assistant = false;
  bool learned = true;
};

/// Whether training learns a message, by its "weight" and "train"; `number` counts from 1.
Result<bool> learned_of(const jinja::Value& message, bool is_assistant, std::size_t number) {
  bool out = true;
  for (const char* name : {"weight", "train"}) {
    const jinja::Value* value = message.is(Kind::dict) ? message.dict().find(name) : nullptr;
    if (value == nullptr || value->is(Kind::none)) continue;
    const bool is_switch = value->is_number() && (value->real() == 0 || value->real() == 1);
    if (!is_switch) {
      GRAFT_TRY_ASSIGN(const MarkedText given, jinja::json_text(*value, {}, kMessagesMemory));
      return invalid("Message ", number, " has the \"", name, "\" ", shown(given.bytes),
                     "; only 0 or false (not learned) and 1 or true (learned) can be read.");
    }
    if (value->real() == 0) {
      out = false;
    } else if (!is_assistant) {
      return invalid("Message ", number, " has a \"", name,
                     "\" that has it learned, and is not the assistant's; only what the assistant says is learned.");
    }
  }
  return out;
}

bool has_role(const jinja::Value& message, std::string_view name) {
  const jinja::Value* role = message.is(Kind::dict) ? message.dict().find("role") : nullptr;
  return role != nullptr && role->is(Kind::string) && role->string().bytes == name;
}

/// The messages of a list, one by one.
Result<std::vector<OneMessage>> messages_one_by_one(const ChatRequest& request) {
  jinja::Heap heap{0, kMessagesMemory};
  GRAFT_TRY_ASSIGN(const jinja::Value all, jinja::value_of_json(heap, request.messages, jinja::kFromData));
  std::vector<OneMessage> out;
  if (!all.is(Kind::list)) return invalid("The conversation is no JSON list of messages.");
  for (const jinja::Value& message : all.list().items) {
    GRAFT_TRY_ASSIGN(MarkedText text, jinja::json_text(message, {}, heap.limit));
    out.push_back({.json = std::move(text.bytes), .is_assistant = has_role(message, "assistant")});
    const auto learned = learned_of(message, out.back().is_assistant, out.size());
    if (!learned.ok() && request.learn) return learned.status();
    out.back().learned = !learned.ok() || *learned;
  }
  return out;
}

/// What the assistant says.
struct ReplyPlace {
  std::size_t begin, end;
  bool learned = true;
  TokenId added = kNoToken;  ///< ends it, as the template writes nothing that does
};

class ReplyFinder {
 public:
  ReplyFinder(const jinja::Template& program, const Vocabulary& words, const ChatRequest& request,
              const RenderedTemplate& whole, std::span<const SpecialPlace> special)
      : program_(program), words_(words), request_(request), whole_(whole), special_(special) {}

  /// Where the assistant speaks, in order.
  Result<std::vector<ReplyPlace>> find() {
    GRAFT_TRY_ASSIGN(messages_, messages_one_by_one(request_));
    return whole_.has_generation ? generations() : printed_messages();
  }

 private:
  /// What {% generation %} holds.
  Result<std::vector<ReplyPlace>> generations() {
    std::vector<ReplyPlace> out;
    for (const auto& [begin, end] : whole_.generation) {
      const auto said = std::find_if(marks().begin() + static_cast<std::ptrdiff_t>(begin),
                                     marks().begin() + static_cast<std::ptrdiff_t>(end), is_reply);
      const auto message = said == marks().end() || !is_reply(*said) ? std::nullopt : message_of(*said);
      ReplyPlace place{.begin = begin, .end = end, .learned = !message || messages_[*message].learned};
      const auto inside = places_from(begin);
      if (request_.learn && (inside.empty() || inside.front().begin >= end)) GRAFT_TRY(end_with_token(place, message));
      out.push_back(place);
    }
    return out;
  }

  /// What is printed of the assistant's messages, from where asking for each of them ends.
  Result<std::vector<ReplyPlace>> printed_messages() {
    std::vector<ReplyPlace> out;
    for (std::size_t begin = 0; begin < marks().size();) {
      const char mark = marks()[begin];
      if (!is_reply(mark)) {
        ++begin;
        continue;
      }
      std::size_t end = begin;
      for (std::size_t at = begin; at < marks().size() && is_of(marks()[at], mark); ++at) {
        if (marks()[at] == mark) end = at + 1;
      }
      const std::size_t least = out.empty() ? 0 : out.back().end;
      const auto message = message_of(mark);
      ReplyPlace place{.begin = message ? start_after_asking(*message, least, begin) : begin,
                       .end = end,
                       .learned = !message || messages_[*message].learned};
      GRAFT_TRY(end_with_token(place, message));
      begin = place.end;
      out.push_back(place);
    }
    return out;
  }

  const std::string& marks() const { return whole_.text.marks; }
  static bool is_reply(char mark) { return static_cast<unsigned char>(mark) >= jinja::kFirstReply; }
  /// Part of the same message as `mark`: its own text, or the template's between.
  static bool is_of(char one, char mark) { return one == mark || one == jinja::kFromTemplate; }

  /// Which message a mark stands for: marks count the assistant's messages, and a message may print nothing.
  std::optional<std::size_t> message_of(char mark) {
    int reply = next_reply_;
    for (std::size_t i = next_message_; i < messages_.size(); ++i) {
      if (!messages_[i].is_assistant) continue;
      if (jinja::kFirstReply + reply++ % jinja::kReplyMarks != static_cast<unsigned char>(mark)) continue;
      next_message_ = i + 1;
      next_reply_ = reply;
      return i;
    }
    return std::nullopt;
  }

  /// The conversation's first messages; nullopt if the template refuses them.
  std::optional<MarkedText> rendered_to(std::size_t count, bool ask) const {
    std::string earlier = "[";
    for (std::size_t i = 0; i < count; ++i) earlier += (i == 0 ? "" : ", ") + messages_[i].json;
    auto text = program_.render(inputs_of(request_, words_, earlier + "]", ask));
    return text.ok() ? std::optional(std::move(text->text)) : std::nullopt;
  }

  /// A model goes on where asking ends: what the template writes from there on is learned too.
  std::size_t start_after_asking(std::size_t message, std::size_t least, std::size_t begin) const {
    const auto asked = rendered_to(message, true);
    if (!asked) return begin;
    const std::size_t size = asked->size();
    const bool is_start = size >= least && size <= begin && whole_.text.bytes.starts_with(asked->bytes);
    // Nothing that others say stands between.
    const bool is_own = is_start && marks().find_first_not_of(jinja::kFromTemplate, size) >= begin;
    return is_own ? size : begin;
  }

  std::span<const SpecialPlace> places_from(std::size_t byte) const {
    return {std::ranges::lower_bound(special_, byte, {}, &SpecialPlace::begin), special_.end()};
  }
  std::size_t end_of(const SpecialPlace& place) const {
    return place.begin + words_.tokens[static_cast<std::size_t>(place.token)].text.size();
  }
  bool ends_texts(TokenId token) const {
    return token == words_.eos || std::ranges::find(request_.stops, token) != request_.stops.end();
  }

  /// A token that ends texts, if the template writes one before it goes on, or else another control token ends a reply.
  Status end_with_token(ReplyPlace& place, std::optional<std::size_t> message) const {
    const std::size_t next = std::min(marks().find_first_not_of(jinja::kFromTemplate, place.end), marks().size());
    const auto after = places_from(place.end);
    for (const SpecialPlace& one : after) {
      if (one.begin >= next) break;
      if (!ends_texts(one.token)) continue;
      place.end = end_of(one);
      return {};
    }
    if (!after.empty() && after.front().begin < next && is_end(message, place.end, end_of(after.front()))) {
      place.end = end_of(after.front());
      return {};
    }
    if (!request_.learn) return {};
    place.added = words_.eos != kNoToken ? words_.eos : request_.stops.empty() ? kNoToken : request_.stops[0];
    if (place.added != kNoToken) return {};
    return invalid(
        "The chat template writes no token that ends an answer, and the model names none: neither eos_token in ",
        "tokenizer_config.json nor eos_token_id in generation_config.json. Training could not teach it to stop.");
  }

  /// Whether the template's text behind a reply ends it, rather than begins the next message: then it stands there
  /// without a next message, too.
  bool is_end(std::optional<std::size_t> message, std::size_t begin, std::size_t end) const {
    if (!message || *message + 1 == messages_.size()) return true;
    const auto alone = rendered_to(*message + 1, false);
    const std::size_t said = alone ? alone->marks.find_last_not_of(jinja::kFromTemplate) : std::string::npos;
    if (said == std::string::npos) return true;
    return std::string_view(alone->bytes)
        .substr(said + 1)
        .starts_with(std::string_view(whole_.text.bytes).substr(begin, end - begin));
  }

  const jinja::Template& program_;
  const Vocabulary& words_;
  const ChatRequest& request_;
  const RenderedTemplate& whole_;
  std::span<const SpecialPlace> special_;
  std::vector<OneMessage> messages_;
  std::size_t next_message_ = 0;
  int next_reply_ = 0;
};

}  // namespace

std::string json_of(std::span<const ChatMessage> messages) {
  std::string out = "[";
  for (const ChatMessage& message : messages) {
    out += (out.size() > 1 ? ", " : "");
    out += "{\"role\": " + quoted(message.role) + ", \"content\": " + quoted(message.text) + "}";
  }
  return out + "]";
}

Result<std::vector<ChatMessage>> messages_of_json(std::string_view json) {
  jinja::Heap heap{0, kMessagesMemory};
  auto all = jinja::value_of_json(heap, json, jinja::kFromData);
  if (!all.ok()) return invalid("The JSON of \"messages\" cannot be read: ", all.status().message());
  if (!all->is(Kind::list)) return invalid("The conversation is no JSON list of messages.");
  std::vector<ChatMessage> out;
  for (const jinja::Value& message : all->list().items) {
    const jinja::Value* role = message.is(Kind::dict) ? message.dict().find("role") : nullptr;
    const jinja::Value* text = message.is(Kind::dict) ? message.dict().find("content") : nullptr;
    if (role == nullptr || !role->is(Kind::string) || text == nullptr || !text->is(Kind::string)) {
      return invalid("Message ", out.size() + 1,
                     " of the conversation has no text as \"role\" and \"content\"; formats by "
                     "name take no others.");
    }
    GRAFT_TRY_ASSIGN(const bool learned, learned_of(message, has_role(message, "assistant"), out.size() + 1));
    out.push_back({role->string().bytes, text->string().bytes, learned});
  }
  return out;
}

Result<std::vector<ChatPart>> render_chat(const jinja::Template& program, const Tokenizer& tokenizer,
                                          const ChatRequest& request) {
  const Vocabulary& words = tokenizer.vocabulary();
  const auto inputs = inputs_of(request, words, request.messages, request.ask);
  GRAFT_TRY_ASSIGN(const RenderedTemplate whole, program.render(inputs));
  std::vector<ReplyPlace> replies;
  if (!request.ask || request.learn) {
    const std::vector<SpecialPlace> special = special_places(whole.text, tokenizer);
    GRAFT_TRY_ASSIGN(replies, ReplyFinder(program, words, request, whole, special).find());
  }
  const auto& [bytes, marks] = whole.text;
  std::vector<ChatPart> out;
  const auto add = [&](std::string text, bool own, const ReplyPlace* reply) {
    out.push_back({.text = std::move(text),
                   .own = own,
                   .reply = reply != nullptr && reply->learned,
                   .unlearned = reply != nullptr && !reply->learned});
  };
  std::size_t at = 0;
  const auto say = [&](std::size_t end, const ReplyPlace* reply) {
    while (at < end) {
      const bool own = marks[at] == jinja::kFromTemplate;
      const std::size_t other =
          own ? marks.find_first_not_of(jinja::kFromTemplate, at) : marks.find(jinja::kFromTemplate, at);
      const std::size_t stop = std::min(end, other);
      add(bytes.substr(at, stop - at), own, reply);
      at = stop;
    }
  };
  for (const ReplyPlace& reply : replies) {
    say(reply.begin, nullptr);
    say(reply.end, &reply);
    if (reply.added != kNoToken) add(words.tokens[static_cast<std::size_t>(reply.added)].text, true, &reply);
  }
  say(bytes.size(), nullptr);
  return out;
}

}  // namespace graft::text
