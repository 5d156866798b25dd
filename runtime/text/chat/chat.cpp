#include "runtime/text/chat/chat.h"

#include <algorithm>
#include <utility>

namespace graft::text {
namespace {

constexpr std::string_view kFormats[] = {"alpaca", "chatml", "gemma", "llama2", "llama3"};

class Parts {
 public:
  /// `reply`: the assistant's message that it is part of.
  void special(std::string_view token, const ChatMessage* reply = nullptr) { add(std::string(token), true, reply); }
  void say(std::string text, const ChatMessage* reply = nullptr) { add(std::move(text), false, reply); }
  std::vector<ChatPart> take() { return std::move(parts_); }

 private:
  void add(std::string text, bool own, const ChatMessage* reply) {
    parts_.push_back({.text = std::move(text),
                      .own = own,
                      .reply = reply != nullptr && reply->learned,
                      .unlearned = reply != nullptr && !reply->learned});
  }
  std::vector<ChatPart> parts_;
};

bool is_assistant(const ChatMessage& message) { return message.role == "assistant"; }
const ChatMessage* reply_of(const ChatMessage& message) { return is_assistant(message) ? &message : nullptr; }

void chatml(std::span<const ChatMessage> messages, bool ask, Parts& out) {
  for (const ChatMessage& message : messages) {
    out.special("<|im_start|>");
    out.say(message.role + "\n");
    out.say(message.text, reply_of(message));
    out.special("<|im_end|>", reply_of(message));
    out.say("\n");
  }
  if (!ask) return;
  out.special("<|im_start|>");
  out.say("assistant\n");
}

void llama3(std::span<const ChatMessage> messages, bool ask, Parts& out) {
  const auto head = [&](const std::string& role) {
    out.special("<|start_header_id|>");
    out.say(role);
    out.special("<|end_header_id|>");
    out.say("\n\n");
  };
  out.special("<|begin_of_text|>");
  for (const ChatMessage& message : messages) {
    head(message.role);
    out.say(message.text, reply_of(message));
    out.special("<|eot_id|>", reply_of(message));
  }
  if (ask) head("assistant");
}

/// These formats have no place for a system message of its own: it goes before the first thing that the user says.
std::vector<ChatMessage> without_system(std::span<const ChatMessage> messages, std::string_view before,
                                        std::string_view after) {
  std::vector<ChatMessage> out;
  std::string system;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      system = cat(before, message.text, after);
      continue;
    }
    out.push_back({message.role, std::exchange(system, std::string()) + message.text, message.learned});
  }
  return out;
}

void gemma(std::span<const ChatMessage> messages, bool ask, Parts& out) {
  const auto head = [&](const char* role) {
    out.special("<start_of_turn>");
    out.say(std::string(role) + "\n");
  };
  out.special("<bos>");
  for (const ChatMessage& message : without_system(messages, "", "\n\n")) {
    head(is_assistant(message) ? "model" : "user");
    out.say(message.text, reply_of(message));
    out.special("<end_of_turn>", reply_of(message));
    out.say("\n");
  }
  if (ask) head("model");
}

void llama2(std::span<const ChatMessage> messages, bool, Parts& out) {
  for (const ChatMessage& message : without_system(messages, "<<SYS>>\n", "\n<</SYS>>\n\n")) {
    if (is_assistant(message)) {
      out.say(" " + message.text + " ", &message);
      out.special("</s>", &message);
    } else {
      out.special("<s>");
      out.say("[INST] " + message.text + " [/INST]");
    }
  }
}

void alpaca(std::span<const ChatMessage> messages, bool ask, Parts& out) {
  std::string opening =
      "Below is an instruction that describes a task. Write a response that appropriately completes the request.";
  bool first = true;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      opening = message.text;
    } else if (is_assistant(message)) {
      out.say("### Response:\n");
      out.say(message.text, &message);
      out.special("</s>", &message);
    } else {
      out.say((first ? opening + "\n\n" : std::string("\n\n")) + "### Instruction:\n" + message.text + "\n\n");
      first = false;
    }
  }
  if (ask) out.say("### Response:\n");
}

/// One system message at most, first; then user and assistant in turns.
Status check_roles(std::span<const ChatMessage> messages, bool ask) {
  std::string expected = "user";
  for (std::size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    if (i == 0 && role == "system") continue;
    if (role != expected) {
      return invalid("Message ", i + 1, " of the conversation is of the role \"", role, "\" where \"", expected,
                     "\" is needed: one of role system may stand first, then user and assistant take turns.");
    }
    expected = role == "user" ? "assistant" : "user";
  }
  if (messages.empty()) return invalid("The conversation has no messages.");
  if (ask && expected != "assistant") return invalid("The conversation does not end with what the user says.");
  return {};
}

}  // namespace

std::span<const std::string_view> chat_formats() { return kFormats; }

Result<std::vector<ChatPart>> render_chat(std::string_view format, std::span<const ChatMessage> messages, bool ask) {
  using Render = void (*)(std::span<const ChatMessage>, bool, Parts&);
  constexpr Render kRenders[] = {alpaca, chatml, gemma, llama2, llama3};
  const auto found = std::find(std::begin(kFormats), std::end(kFormats), format);
  if (found == std::end(kFormats)) {
    return invalid("There is no chat format \"", format, "\"; alpaca, chatml, gemma, llama2 and llama3 are known.");
  }
  GRAFT_TRY(check_roles(messages, ask));
  Parts out;
  kRenders[found - std::begin(kFormats)](messages, ask, out);
  return out.take();
}

namespace {

/// The parts as one text, and where in it are replies.
struct JoinedParts {
  explicit JoinedParts(std::span<const ChatPart> parts) {
    for (const ChatPart& part : parts) {
      if (part.reply && !replies.empty() && replies.back().second == text.size()) {
        replies.back().second += part.text.size();
      } else if (part.reply) {
        replies.emplace_back(text.size(), text.size() + part.text.size());
      }
      text += part.text;
      marks.append(part.text.size(), part.own ? jinja::kFromTemplate : jinja::kFromData);
    }
  }
  std::string text, marks;
  std::vector<std::pair<std::size_t, std::size_t>> replies;
};

/// Finds ids by the bytes that they stand for.
class IdFinder {
 public:
  IdFinder(const Tokenizer& tokenizer, const JoinedParts& whole, const EncodeOptions& options,
           std::span<const TokenId> ids, std::span<const EncodedStretch> stretches)
      : tokenizer_(tokenizer), whole_(whole), options_(options), ids_(ids), stretches_(stretches) {}

  /// The first id of the text from that byte on. An id whose text begins before and ends behind it is the first one
  /// too, unless `ends`: then it is still one of the text before.
  Result<std::size_t> first_from(std::size_t byte, bool ends) const {
    const auto next = std::ranges::lower_bound(stretches_, byte, {}, &EncodedStretch::begin);
    const std::size_t after = next == stretches_.end() ? ids_.size() : next->first;
    if (next == stretches_.begin()) return after;
    const EncodedStretch& around = *std::prev(next);
    if (around.special || around.end <= byte) return after;
    EncodeOptions options = options_;
    options.continued = options.continued || around.begin > 0;
    options.marks = options.marks.substr(around.begin, byte - around.begin);
    GRAFT_TRY_ASSIGN(
        const auto before,
        tokenizer_.encode(std::string_view(whole_.text).substr(around.begin, byte - around.begin), options));
    const auto inside = ids_.subspan(around.first, after - around.first);
    const auto [apart, apart_inside] = std::ranges::mismatch(before, inside);
    std::size_t left = 0;
    for (auto id = apart; id != before.end(); ++id) left += tokenizer_.bytes_of(*id).size();
    auto at = apart_inside;
    for (std::size_t passed = 0; at != inside.end() && passed < left; ++at) {
      passed += tokenizer_.bytes_of(*at).size();
      if (passed > left && !ends) break;
    }
    return around.first + static_cast<std::size_t>(at - inside.begin());
  }

 private:
  const Tokenizer& tokenizer_;
  const JoinedParts& whole_;
  const EncodeOptions& options_;
  std::span<const TokenId> ids_;
  std::span<const EncodedStretch> stretches_;
};

}  // namespace

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPart> parts, bool continued,
                                         std::vector<bool>* replies) {
  const JoinedParts whole(parts);
  const EncodeOptions options{
      .add_special = false, .parse_special = true, .continued = continued, .marks = whole.marks};
  std::vector<EncodedStretch> stretches;
  GRAFT_TRY_ASSIGN(auto ids, tokenizer.encode(whole.text, options, replies == nullptr ? nullptr : &stretches));
  if (replies == nullptr) return ids;
  replies->assign(ids.size(), false);
  const IdFinder finder(tokenizer, whole, options, ids, stretches);
  for (const auto& [begin, end] : whole.replies) {
    GRAFT_TRY_ASSIGN(const std::size_t first, finder.first_from(begin, false));
    GRAFT_TRY_ASSIGN(const std::size_t last, finder.first_from(end, true));
    for (std::size_t i = first; i < last; ++i) (*replies)[i] = true;
  }
  return ids;
}

}  // namespace graft::text
