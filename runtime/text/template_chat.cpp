// Conversations by a model's own template: which of its words are tokens, and what the assistant says.
#include <algorithm>
#include <optional>

#include "runtime/text/chat.h"
#include "runtime/text/template/json_value.h"

namespace graft::text {
namespace {

using jinja::Kind;
using jinja::MarkedText;
using jinja::Origin;
using jinja::RenderedTemplate;

/// Begin and end in bytes.
using Stretch = std::pair<std::size_t, std::size_t>;

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
};

/// The messages of a list, one by one.
Result<std::vector<OneMessage>> messages_one_by_one(std::string_view json) {
  jinja::Heap heap{0, kMessagesMemory};
  GRAFT_TRY_ASSIGN(const jinja::Value all, jinja::value_of_json(heap, json, jinja::kFromData));
  std::vector<OneMessage> out;
  if (!all.is(Kind::list)) return invalid("The conversation is no JSON list of messages.");
  for (const jinja::Value& message : all.list().items) {
    GRAFT_TRY_ASSIGN(MarkedText text, jinja::json_text(message, {}, heap.limit));
    const jinja::Value* role = message.is(Kind::dict) ? message.dict().find("role") : nullptr;
    const bool is_assistant = role != nullptr && role->is(Kind::string) && role->string().bytes == "assistant";
    out.push_back({std::move(text.bytes), is_assistant});
  }
  return out;
}

class ReplyFinder {
 public:
  ReplyFinder(const jinja::Template& program, const Vocabulary& words, const ChatRequest& request)
      : program_(program), words_(words), request_(request) {}

  /// Where the assistant speaks in `whole`, in order.
  Result<std::vector<Stretch>> find(const RenderedTemplate& whole, const std::vector<SpecialPlace>& special) {
    if (whole.has_generation) return whole.generation;
    std::vector<Stretch> out;
    const std::string& marks = whole.text.marks;
    GRAFT_TRY_ASSIGN(const auto messages, messages_one_by_one(request_.messages));
    NextMessage next;
    for (std::size_t begin = 0; begin < marks.size();) {
      const char mark = marks[begin];
      if (static_cast<unsigned char>(mark) < jinja::kFirstReply) {
        ++begin;
        continue;
      }
      std::size_t end = begin;
      for (std::size_t at = begin; at < marks.size() && is_of(marks[at], mark); ++at) {
        if (marks[at] == mark) end = at + 1;
      }
      const std::size_t least = out.empty() ? 0 : out.back().second;
      const auto message = next.of_mark(messages, mark);
      const std::size_t start = message ? start_after_asking(whole.text, messages, *message, least, begin) : begin;
      const std::size_t stop = end_with_token(whole.text, special, end);
      out.emplace_back(start, stop);
      begin = stop;
    }
    return out;
  }

 private:
  /// Which message a mark stands for: marks count the assistant's messages, and a message may print nothing.
  struct NextMessage {
    std::size_t index = 0;
    int reply = 0;
    std::optional<std::size_t> of_mark(const std::vector<OneMessage>& messages, char mark) {
      for (std::size_t i = index, at = static_cast<std::size_t>(reply); i < messages.size(); ++i) {
        if (!messages[i].is_assistant) continue;
        const bool is_it = jinja::kFirstReply + at++ % jinja::kReplyMarks == static_cast<unsigned char>(mark);
        if (!is_it) continue;
        index = i + 1;
        reply = static_cast<int>(at);
        return i;
      }
      return std::nullopt;
    }
  };

  /// Part of the same message as `mark`: its own text, or the template's between.
  static bool is_of(char one, char mark) { return one == mark || one == jinja::kFromTemplate; }

  /// A model goes on where asking ends: what the template writes from there on is learned too.
  std::size_t start_after_asking(const MarkedText& whole, const std::vector<OneMessage>& messages, std::size_t count,
                                 std::size_t least, std::size_t begin) const {
    std::string earlier = "[";
    for (std::size_t i = 0; i < count; ++i) earlier += (i == 0 ? "" : ", ") + messages[i].json;
    const auto inputs = inputs_of(request_, words_, earlier + "]", true);
    const auto asked = program_.render(inputs);
    if (!asked.ok()) return begin;
    const std::size_t size = asked->text.size();
    const bool is_start = size >= least && size <= begin && whole.bytes.starts_with(asked->text.bytes);
    // Nothing that others say stands between.
    const bool is_own = is_start && whole.marks.find_first_not_of(jinja::kFromTemplate, size) >= begin;
    return is_own ? size : begin;
  }

  /// The end of text or another control token behind a reply ends it, where the template writes one before it goes on.
  std::size_t end_with_token(const MarkedText& whole, const std::vector<SpecialPlace>& special, std::size_t end) const {
    const std::size_t next = std::min(whole.marks.find_first_not_of(jinja::kFromTemplate, end), whole.size());
    std::size_t out = end;
    auto place = std::lower_bound(special.begin(), special.end(), end,
                                  [](const SpecialPlace& one, std::size_t at) { return one.begin < at; });
    for (; place != special.end() && place->begin < next; ++place) {
      const std::size_t after = place->begin + words_.tokens[static_cast<std::size_t>(place->token)].text.size();
      if (place->token == words_.eos) return after;
      if (out == end) out = after;
    }
    return out;
  }

  const jinja::Template& program_;
  const Vocabulary& words_;
  const ChatRequest& request_;
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
    out.push_back({role->string().bytes, text->string().bytes});
  }
  return out;
}

Result<std::vector<ChatPart>> render_chat(const jinja::Template& program, const Tokenizer& tokenizer,
                                          const ChatRequest& request) {
  const Vocabulary& words = tokenizer.vocabulary();
  const auto inputs = inputs_of(request, words, request.messages, request.ask);
  GRAFT_TRY_ASSIGN(const RenderedTemplate whole, program.render(inputs));
  const std::vector<SpecialPlace> special = special_places(whole.text, tokenizer);
  std::vector<Stretch> replies;
  if (!request.ask) {
    GRAFT_TRY_ASSIGN(replies, ReplyFinder(program, words, request).find(whole, special));
  }
  std::vector<ChatPart> out;
  std::size_t reply = 0, at = 0;
  const auto say = [&](std::size_t end, bool is_special) {
    while (at < end) {
      while (reply < replies.size() && replies[reply].second <= at) ++reply;
      const bool inside = reply < replies.size() && replies[reply].first <= at;
      std::size_t stop = end;
      if (reply < replies.size()) stop = std::min(end, inside ? replies[reply].second : replies[reply].first);
      if (is_special) stop = end;
      out.push_back({whole.text.bytes.substr(at, stop - at), is_special, inside});
      at = stop;
    }
  };
  for (const SpecialPlace& place : special) {
    say(place.begin, false);
    say(place.begin + words.tokens[static_cast<std::size_t>(place.token)].text.size(), true);
  }
  say(whole.text.size(), false);
  return out;
}

}  // namespace graft::text
