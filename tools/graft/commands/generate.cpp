// graft generate: text from a language model.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/common/numbers.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/commands/generate_many.h"
#include "tools/graft/commands/generated_json.h"

namespace graft::cli {
namespace {

struct GenerateArguments : GenerateFlags {
  std::vector<std::string> prompts;
  std::string prompt_file;
  std::optional<std::uint32_t> parallel;
  std::string tokens;
  std::string messages;
  bool use_chat = false;
  bool echo = false;
};

Result<std::vector<std::int32_t>> parse_tokens(const std::string& list) {
  std::vector<std::int32_t> out;
  for (const std::string& item : split_list(list)) {
    std::int32_t id = 0;
    const auto [end, failure] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (failure != std::errc() || end != item.data() + item.size()) {
      return invalid("\"", item, "\" of --tokens is no token id.");
    }
    out.push_back(id);
  }
  return out;
}

/// The prompt of a conversation: --messages, or what a user says.
Result<std::vector<std::int32_t>> conversation_ids(const GenerateArguments& options, const std::string& prompt,
                                                   graft_context* context, graft_tokenizer* tokenizer) {
  TRY_ASSIGN(std::string messages, json_or_file(options.messages));
  ChatWishes wanted;
  TRY(wanted.read(options));
  graft_chat_options chat = wanted.options(messages);
  std::vector<graft_chat_message> said;
  if (options.messages.empty()) {
    if (!options.system.empty()) said.push_back({"system", options.system.c_str()});
    said.push_back({"user", prompt.c_str()});
    chat.messages = nullptr;
  }
  return chat_tokens(context, tokenizer, chat, said);
}

Result<std::vector<std::int32_t>> prompt_ids(const GenerateArguments& options, const std::string& prompt,
                                             graft_context* context, graft_tokenizer* tokenizer) {
  if (!options.tokens.empty()) return parse_tokens(options.tokens);
  if (tokenizer == nullptr) return invalid("The model carries no tokenizer; give --tokens instead of --prompt.");
  if (options.use_chat) return conversation_ids(options, prompt, context, tokenizer);
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_tokenizer_encode(tokenizer, prompt.data(), prompt.size(), nullptr, &ids, &count), context));
  return std::vector<std::int32_t>(ids, ids + count);
}

void print_result_json(const Written& result, std::span<const std::int32_t> prompt, const OpenGenerator& generator,
                       const GenerateArguments& options) {
  nlohmann::ordered_json all = generated_json(result, prompt, generator.tokenizer.get(), options);
  all["context"] = generator.info.context;
  all["device_bytes"] = generator.device_bytes;
  if (options.prompt_lookup != 0) {
    all["drafted_tokens"] = result.numbers.drafted_tokens;
    all["right_drafts"] = result.numbers.right_drafts;
  }
  to_stdout("%s\n", all.dump(2).c_str());
}

/// A text for each prompt, several at once.
Status run_many(const GenerateArguments& options, graft_context* context, graft_model* model) {
  GenerateFlags flags = options;
  flags.sequences = options.parallel.value_or(1);
  TRY_ASSIGN(const auto generator, open_generator(flags, context, model));
  graft_tokenizer* const tokenizer = generator.tokenizer.get();
  std::vector<Prompt> prompts;
  for (const std::string& prompt : options.prompts) prompts.push_back({prompt, {}});
  if (!options.prompt_file.empty()) {
    TRY_ASSIGN(prompts, read_prompts(options.prompt_file));
  }
  for (Prompt& prompt : prompts) {
    if (!prompt.ids.empty()) continue;
    TRY_ASSIGN(prompt.ids, prompt_ids(options, prompt.text, context, tokenizer));
  }
  if (!options.tokens.empty() || !options.messages.empty()) {
    TRY_ASSIGN(auto ids, prompt_ids(options, {}, context, tokenizer));
    prompts.push_back({{}, std::move(ids)});
  }
  TextWishes wanted;
  TRY(wanted.read(options));
  const FirstUse first(context);
  return generate_many(options, context, generator, prompts, wanted, options.echo);
}

Status run_one(const GenerateArguments& options, graft_context* context, graft_model* model) {
  const std::string given = options.prompts.empty() ? std::string() : options.prompts[0];
  TRY_ASSIGN(const auto generator, open_generator(options, context, model));
  TRY_ASSIGN(const auto prompt, prompt_ids(options, given, context, generator.tokenizer.get()));
  TextWishes wanted;
  TRY(wanted.read(options));
  if (options.echo && !options.json) {
    static_cast<void>(write_stdout(given));
    std::fflush(stdout);
  }
  const FirstUse first(context);
  const graft_generate_options how = wanted.options(!options.json);
  graft_generated made = {};
  made.struct_size = sizeof made;
  TRY(checked(graft_generate_tokens(generator.generator.get(), prompt.data(), prompt.size(), &how, &made), context));
  if (options.json) {
    print_result_json(Written(made), prompt, generator, options);
    return ok_status();
  }
  to_stdout("\n");
  to_stderr("%u tokens of prompt in %.2f s, %zu tokens in %.2f s; stopped by %s\n", made.prompt_tokens,
            made.prompt_ms / 1e3, made.token_count, made.generated_ms / 1e3, stop_reason_name(made.reason));
  return ok_status();
}

Status run_generate(const GenerateArguments& options) {
  TRY_ASSIGN(auto context, open_context(options.flags));
  {
    TRY_ASSIGN(const auto model,
               open_adapted(context.get(), options.path, options.adapter, when_to_check(options.check)));
    const bool several = options.parallel || options.prompts.size() > 1 || !options.prompt_file.empty();
    TRY(several ? run_many(options, context.get(), model.get()) : run_one(options, context.get(), model.get()));
  }
  return close_context(std::move(context));
}

}  // namespace

Action add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateArguments>();
  add_model_flags(app, *options);
  auto* source = app.add_option_group("Prompt");
  source->add_option("--prompt", options->prompts, "The text to continue; repeatable, for a text each")
      ->allow_extra_args(false);
  source->add_option("--prompts", options->prompt_file,
                     "A file of prompts, one a line; .jsonl: JSON strings, lists of token ids, or objects with "
                     "one of these as their \"prompt\"");
  source->add_option("--tokens", options->tokens, "Token ids instead, as in 1,80,147");
  auto* messages = source->add_option("--messages", options->messages,
                                      "A conversation to answer: a JSON list of messages, or a file of one");
  source->require_option(1);
  auto* chat = app.add_option("--chat", options->chat,
                              "The prompt is what a user says, in the form alpaca, chatml, gemma, llama2 or llama3 "
                              "(without one: by the model's own template)")
                   ->expected(0, 1);
  add_conversation_flags(app, *options)->needs(chat);
  add_generator_flags(app, *options);
  app.add_option("--parallel", options->parallel,
                 "So many texts at once: a run takes a token of each, so that weights are read once for all (1)")
      ->check(whole(1, 1024));
  app.add_flag("--echo", options->echo, "Print the prompt too");
  app.callback([&app, options, chat, messages] {
    refuse_idle_sampling(app, *options);
    refuse_idle(app, chat->count() == 0 && messages->count() == 0, {"--tools", "--variables"},
                "without --chat or --messages: no chat template is run.");
    refuse_idle(app, messages->count() > 0, {"--system"}, "with --messages, which hold what the system says.");
    refuse_idle(app, options->json, {"--echo"}, "with --json, which has the prompt's tokens.");
  });
  return [options, chat, messages] {
    options->use_chat = chat->count() > 0 || messages->count() > 0;
    return run_generate(*options);
  };
}

}  // namespace graft::cli
