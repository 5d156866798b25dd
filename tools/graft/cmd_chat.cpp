// graft chat: a conversation with a language model, a line of input for each turn.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "tools/bench/model_io.h"
#include "tools/common/status.h"
#include "tools/graft/generate_flags.h"

namespace graft::cli {
namespace {

using Messages = nlohmann::ordered_json;

struct ChatArguments : GenerateFlags {
  std::string messages;
};

/// Parts without their first bytes.
std::vector<text::ChatPart> behind(std::vector<text::ChatPart> parts, std::size_t bytes) {
  std::vector<text::ChatPart> out;
  for (text::ChatPart& part : parts) {
    const std::size_t cut = std::min(bytes, part.text.size());
    bytes -= cut;
    if (cut == part.text.size()) continue;
    part.text.erase(0, cut);
    part.special = part.special && cut == 0;
    out.push_back(std::move(part));
  }
  return out;
}

class Talk {
 public:
  Talk(const ChatArguments& options, const Model& model, Generator& generator)
      : options_(options), model_(model), generator_(generator) {}

  Status begin() {
    TRY_ASSIGN(const std::string given, json_or_file(options_.messages));
    start_ = Messages::array();
    if (!given.empty()) start_ = Messages::parse(given, nullptr, false);
    if (!start_.is_array()) return invalid("--messages is no JSON list of messages.");
    if (!options_.system.empty())
      start_.insert(start_.begin(), Messages{{"role", "system"}, {"content", options_.system}});
    messages_ = start_;
    return {};
  }

  /// A line of input: what the user says, or a command.
  Status hear(const std::string& line) {
    if (line == "/reset") {
      messages_ = start_;
      return {};
    }
    if (line == "/undo") {
      while (messages_.size() > start_.size() && messages_.back()["role"] != "user")
        messages_.erase(messages_.size() - 1);
      if (messages_.size() > start_.size()) messages_.erase(messages_.size() - 1);
      return {};
    }
    messages_.push_back({{"role", "user"}, {"content", line}});
    const Status answered = answer();
    if (!answered.ok()) messages_.erase(messages_.size() - 1);
    return answered;
  }

 private:
  /// The prompt. What was said last stays the tokens that it was: text may be cut into others.
  Result<std::vector<text::TokenId>> prompt() {
    const std::string json = messages_.dump(-1, ' ', false, Messages::error_handler_t::replace);
    TRY_ASSIGN(const text::ChatRequest request, request_of(options_, json));
    const text::Tokenizer& tokenizer = *generator_.tokenizer();
    TRY_ASSIGN(auto parts, render_chat(model_.metadata, tokenizer, options_.chat, request));
    std::string whole;
    for (const text::ChatPart& part : parts) whole += part.text;
    std::vector<text::TokenId> out;
    if (!said_.empty() && whole.starts_with(said_)) {
      out = tokens_;
      parts = behind(std::move(parts), said_.size());
    }
    TRY_ASSIGN(const auto rest, text::encode_chat(tokenizer, parts, !out.empty()));
    out.insert(out.end(), rest.begin(), rest.end());
    asked_ = std::move(whole);
    return out;
  }

  Status answer() {
    TRY_ASSIGN(auto tokens, prompt());
    const auto print = [](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    };
    TRY_ASSIGN(const GenerateOptions wanted, generate_options(options_));
    TRY_ASSIGN(const Generated said,
               generator_.generate(tokens, wanted, options_.json ? TextCallback() : TextCallback(print)));
    messages_.push_back({{"role", "assistant"}, {"content", said.text}});
    said_ = asked_ + said.text;
    tokens.insert(tokens.end(), said.tokens.begin(), said.tokens.end());
    tokens_ = std::move(tokens);
    if (options_.json) {
      const Messages line = {{"text", said.text},
                             {"tokens", said.tokens.size()},
                             {"stopped_by", stop_reason_name(said.reason)},
                             {"prompt_tokens", said.prompt_tokens},
                             {"cached_tokens", said.reused_tokens}};
      std::printf("%s\n", line.dump(-1, ' ', false, Messages::error_handler_t::replace).c_str());
    } else {
      std::printf("\n");
    }
    std::fflush(stdout);
    return {};
  }

  const ChatArguments& options_;
  const Model& model_;
  Generator& generator_;
  Messages start_, messages_;
  std::string asked_;
  std::string said_;  // what the tokens below spell: the last prompt and its answer
  std::vector<text::TokenId> tokens_;
};

Status run_chat(const ChatArguments& options) {
  TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.adapter, when(options.check)));
  const Model& model = opened.get();
  TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  {
    TRY_ASSIGN(const auto generator, open_generator(options, model, *device));
    if (generator->tokenizer() == nullptr) return invalid("The model carries no tokenizer: it cannot be talked to.");
    Talk talk(options, model, *generator);
    TRY(talk.begin());
    bool spoken = false;
    // A person sees what went wrong and may go on; a program must not take silence for an answer.
    const bool is_terminal = isatty(STDIN_FILENO) == 1;
    const auto ask = [&](std::string& line) {
      if (is_terminal) std::fputs("> ", stderr);
      return static_cast<bool>(std::getline(std::cin, line));
    };
    for (std::string line; ask(line);) {
      if (line.empty()) continue;
      std::optional<FirstUse> first;
      if (!std::exchange(spoken, true)) first.emplace(device->control());
      const Status heard = talk.hear(line);
      if (!heard.ok() && !is_terminal) return heard;
      if (!heard.ok()) std::fprintf(stderr, "graft: %s\n", heard.message().c_str());
    }
    if (is_terminal) std::fputs("\n", stderr);
  }
  return device->close();
}

}  // namespace

Action add_chat(CLI::App& app) {
  auto options = std::make_shared<ChatArguments>();
  add_model_flags(app, *options);
  app.add_option("--chat", options->chat,
                 "A format by name in place of the model's template: alpaca, chatml, gemma, llama2 or llama3");
  add_conversation_flags(app, *options);
  app.add_option("--messages", options->messages, "What was said before: a JSON list of messages, or a file of one");
  add_generator_flags(app, *options);
  app.callback([&app, options] { refuse_idle_sampling(app, *options); });
  return [options] { return run_chat(*options); };
}

}  // namespace graft::cli
