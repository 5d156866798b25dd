#include "runtime/text/chat.h"

#include <algorithm>
#include <utility>

namespace graft::text {
namespace {

constexpr std::string_view kFormats[] = {"alpaca", "chatml", "gemma", "llama2", "llama3"};

class Parts {
 public:
  void special(std::string_view token, bool reply = false) { parts_.push_back({std::string(token), true, reply}); }
  void say(std::string text, bool reply = false) { parts_.push_back({std::move(text), false, reply}); }
  std::vector<ChatPart> take() { return std::move(parts_); }

 private:
  std::vector<ChatPart> parts_;
};

bool is_reply(const ChatMessage& message) { return message.role == "assistant"; }

void chatml(std::span<const ChatMessage> messages, bool ask, Parts& out) {
  for (const ChatMessage& message : messages) {
    out.special("<|im_start|>");
    out.say(message.role + "\n");
    out.say(message.text, is_reply(message));
    out.special("<|im_end|>", is_reply(message));
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
    out.say(message.text, is_reply(message));
    out.special("<|eot_id|>", is_reply(message));
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
    out.push_back({message.role, std::exchange(system, std::string()) + message.text});
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
    head(is_reply(message) ? "model" : "user");
    out.say(message.text, is_reply(message));
    out.special("<end_of_turn>", is_reply(message));
    out.say("\n");
  }
  if (ask) head("model");
}

void llama2(std::span<const ChatMessage> messages, bool, Parts& out) {
  for (const ChatMessage& message : without_system(messages, "<<SYS>>\n", "\n<</SYS>>\n\n")) {
    if (is_reply(message)) {
      out.say(" " + message.text + " ", true);
      out.special("</s>", true);
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
    } else if (is_reply(message)) {
      out.say("### Response:\n");
      out.say(message.text, true);
      out.special("</s>", true);
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

Result<std::vector<TokenId>> encode_chat(const Tokenizer& tokenizer, std::span<const ChatPart> parts, bool continued) {
  std::vector<TokenId> out;
  std::string text;
  const auto flush = [&]() -> Status {
    if (text.empty()) return {};
    GRAFT_TRY_ASSIGN(
        const auto ids,
        tokenizer.encode(text, {.add_special = false, .parse_special = false, .continued = continued || !out.empty()}));
    out.insert(out.end(), ids.begin(), ids.end());
    text.clear();
    return {};
  };
  for (const ChatPart& part : parts) {
    const TokenId id = part.special ? tokenizer.find(part.text) : kNoToken;
    if (id == kNoToken) {
      text += part.text;
      continue;
    }
    GRAFT_TRY(flush());
    out.push_back(id);
  }
  GRAFT_TRY(flush());
  return out;
}

}  // namespace graft::text
