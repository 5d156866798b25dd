// graft generate: text from a language model.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/status.h"
#include "tools/graft/generate_many.h"
#include "tools/graft/generated_json.h"

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

Result<std::vector<text::TokenId>> parse_tokens(const std::string& list) {
  std::vector<text::TokenId> out;
  for (const std::string& item : split_list(list)) {
    text::TokenId id = 0;
    const auto [end, failure] = std::from_chars(item.data(), item.data() + item.size(), id);
    if (failure != std::errc() || end != item.data() + item.size()) {
      return invalid("\"", item, "\" of --tokens is no token id.");
    }
    out.push_back(id);
  }
  return out;
}

Result<std::vector<text::TokenId>> prompt_ids(const GenerateArguments& options, const std::string& prompt,
                                              const Model& model, const text::Tokenizer* tokenizer) {
  if (!options.tokens.empty()) return parse_tokens(options.tokens);
  if (tokenizer == nullptr) return invalid("The model carries no tokenizer; give --tokens instead of --prompt.");
  if (!options.use_chat) return tokenizer->encode(prompt);
  TRY_ASSIGN(const std::string given, json_or_file(options.messages));
  TRY_ASSIGN(text::ChatRequest request, request_of(options, given));
  if (options.messages.empty()) {
    std::vector<text::ChatMessage> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", prompt});
    request.messages = text::json_of(messages);
  }
  TRY_ASSIGN(const auto parts, render_chat(model.metadata, *tokenizer, options.chat, request));
  return text::encode_chat(*tokenizer, parts);
}

void print_json(const Generated& result, std::span<const text::TokenId> prompt, const Generator& generator,
                const GenerateArguments& options) {
  nlohmann::ordered_json all = generated_json(result, prompt, generator.tokenizer(), options);
  all["context"] = generator.context();
  all["device_bytes"] = generator.memory().total();
  if (options.generator.prompt_lookup != 0) {
    all["drafted_tokens"] = result.drafted_tokens;
    all["right_drafts"] = result.right_drafts;
  }
  std::printf("%s\n", all.dump(2).c_str());
}

/// A text for each prompt, several at once.
Status run_many(const GenerateArguments& options, const Model& model, OpenDevice& device) {
  GenerateFlags flags = options;
  flags.generator.sequences = options.parallel.value_or(1);
  TRY_ASSIGN(const auto generator, open_batch_generator(flags, model, device));
  std::vector<Prompt> prompts;
  for (const std::string& prompt : options.prompts) prompts.push_back({prompt, {}});
  if (!options.prompt_file.empty()) {
    TRY_ASSIGN(prompts, read_prompts(options.prompt_file));
  }
  for (Prompt& prompt : prompts) {
    if (!prompt.ids.empty()) continue;
    TRY_ASSIGN(prompt.ids, prompt_ids(options, prompt.text, model, generator->tokenizer()));
  }
  if (!options.tokens.empty() || !options.messages.empty()) {
    TRY_ASSIGN(auto ids, prompt_ids(options, {}, model, generator->tokenizer()));
    prompts.push_back({{}, std::move(ids)});
  }
  TRY_ASSIGN(const GenerateOptions wanted, generate_options(options));
  const FirstUse first(device.control());
  return generate_many(options, *generator, prompts, wanted, options.echo);
}

Status run_generate(const GenerateArguments& options) {
  TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.adapter, when(options.check)));
  const Model& model = opened.get();
  TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  if (options.parallel || options.prompts.size() > 1 || !options.prompt_file.empty()) {
    TRY(run_many(options, model, *device));
    return device->close();
  }
  {
    const std::string given = options.prompts.empty() ? std::string() : options.prompts[0];
    TRY_ASSIGN(const auto generator, open_generator(options, model, *device));
    TRY_ASSIGN(const auto prompt, prompt_ids(options, given, model, generator->tokenizer()));
    const auto print = [](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    };
    TRY_ASSIGN(const GenerateOptions wanted, generate_options(options));
    if (options.echo && !options.json) print(given);
    const FirstUse first(device->control());
    TRY_ASSIGN(const Generated result,
               generator->generate(prompt, wanted, options.json ? TextCallback() : TextCallback(print)));
    if (options.json) {
      print_json(result, prompt, *generator, options);
    } else {
      std::printf("\n");
      std::fprintf(stderr, "%u tokens of prompt in %.2f s, %zu tokens in %.2f s; stopped by %s\n", result.prompt_tokens,
                   result.prefill_seconds, result.tokens.size(), result.decode_seconds,
                   std::string(stop_reason_name(result.reason)).c_str());
    }
  }
  return device->close();
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
