// graft chat: a conversation with a language model, a line of input for each turn.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/commands/generated_json.h"

namespace graft::cli {
namespace {

using Messages = nlohmann::ordered_json;

struct ChatArguments : GenerateFlags {
  std::string messages;
};

class Talk {
 public:
  Talk(const ChatArguments& options, graft_context* context, const OpenGenerator& generator)
      : options_(options), context_(context), generator_(generator) {}

  Status begin() {
    TRY(chat_.read(options_));
    TRY(wanted_.read(options_));
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
  Result<std::vector<std::int32_t>> prompt() {
    const std::string json = messages_.dump(-1, ' ', false, Messages::error_handler_t::replace);
    graft_chat_options chat = chat_.options(json);
    graft_tokenizer* const tokenizer = generator_.tokenizer.get();
    const char* whole = nullptr;
    std::size_t bytes = 0;
    TRY(checked(graft_chat_render(tokenizer, nullptr, 0, &chat, &whole, &bytes), context_));
    asked_.assign(whole, bytes);
    chat.said = said_.data();
    chat.said_bytes = said_.size();
    chat.said_tokens = tokens_.data();
    chat.said_count = tokens_.size();
    return chat_tokens(context_, tokenizer, chat);
  }

  Status answer() {
    TRY_ASSIGN(auto tokens, prompt());
    const graft_generate_options how = wanted_.options(!options_.json);
    graft_generated made = {};
    made.struct_size = sizeof made;
    TRY(checked(graft_generate_tokens(generator_.generator.get(), tokens.data(), tokens.size(), &how, &made),
                context_));
    const Written said(made);
    messages_.push_back({{"role", "assistant"}, {"content", said.text}});
    said_ = asked_ + said.text;
    tokens.insert(tokens.end(), said.tokens.begin(), said.tokens.end());
    tokens_ = std::move(tokens);
    if (options_.json) {
      const Messages line = {{"text", said.text},
                             {"tokens", said.tokens.size()},
                             {"stopped_by", stop_reason_name(made.reason)},
                             {"prompt_tokens", made.prompt_tokens},
                             {"cached_tokens", made.cached_tokens}};
      to_stdout("%s\n", line.dump(-1, ' ', false, Messages::error_handler_t::replace).c_str());
    } else {
      to_stdout("\n");
    }
    std::fflush(stdout);
    return {};
  }

  const ChatArguments& options_;
  graft_context* context_;
  const OpenGenerator& generator_;
  ChatWishes chat_;
  TextWishes wanted_;
  Messages start_, messages_;
  std::string asked_;
  std::string said_;  // what the tokens below spell: the last prompt and its answer
  std::vector<std::int32_t> tokens_;
};

Status run_chat(const ChatArguments& options) {
  TRY_ASSIGN(auto context, open_context(options.flags));
  {
    TRY_ASSIGN(const auto model,
               open_adapted(context.get(), options.path, options.adapter, when_to_check(options.check)));
    TRY_ASSIGN(const auto generator, open_generator(options, context.get(), model.get()));
    if (generator.tokenizer == nullptr) return invalid("The model carries no tokenizer: it cannot be talked to.");
    Talk talk(options, context.get(), generator);
    TRY(talk.begin());
    bool spoken = false;
    // A person sees what went wrong and may go on; a program must not take silence for an answer.
    const bool is_terminal = isatty(STDIN_FILENO) == 1;
    const auto ask = [&](std::string& line) {
      if (is_terminal) to_stderr("> ");
      return static_cast<bool>(std::getline(std::cin, line));
    };
    for (std::string line; ask(line);) {
      if (line.empty()) continue;
      std::optional<FirstUse> first;
      if (!std::exchange(spoken, true)) first.emplace(context.get());
      const Status heard = talk.hear(line);
      if (!heard.ok() && !is_terminal) return heard;
      if (!heard.ok()) to_stderr("graft: %s\n", heard.message().c_str());
    }
    if (is_terminal) to_stderr("\n");
  }
  return close_context(std::move(context));
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
