// graft generate: text from a language model.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/graft/generate_flags.h"
#include "tools/graft/model_io.h"
#include "tools/graft/numbers.h"

namespace graft::cli {
namespace {

struct GenerateArguments : GenerateFlags {
  std::string prompt;
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

Result<std::vector<text::TokenId>> prompt_ids(const GenerateArguments& options, const Model& model,
                                              const Generator& generator) {
  if (!options.tokens.empty()) return parse_tokens(options.tokens);
  const text::Tokenizer* tokenizer = generator.tokenizer();
  if (tokenizer == nullptr) return invalid("The model carries no tokenizer; give --tokens instead of --prompt.");
  if (!options.use_chat) return tokenizer->encode(options.prompt);
  GRAFT_TRY_ASSIGN(const std::string given, json_or_file(options.messages));
  GRAFT_TRY_ASSIGN(text::ChatRequest request, request_of(options, given));
  if (options.messages.empty()) {
    std::vector<text::ChatMessage> messages;
    if (!options.system.empty()) messages.push_back({"system", options.system});
    messages.push_back({"user", options.prompt});
    request.messages = text::json_of(messages);
  }
  GRAFT_TRY_ASSIGN(const auto parts, render_chat(model.metadata, *tokenizer, options.chat, request));
  return text::encode_chat(*tokenizer, parts);
}

nlohmann::ordered_json token_json(text::TokenId token, float log_probability, const Generator& generator) {
  nlohmann::ordered_json out = {{"token", token}};
  const text::Tokenizer* tokenizer = generator.tokenizer();
  if (tokenizer != nullptr && static_cast<std::size_t>(token) < tokenizer->size()) {
    const auto text = tokenizer->decode({&token, 1}, {.skip_control = false, .at_start = false});
    if (text.ok()) out["text"] = *text;
  }
  out["logprob"] = log_probability;
  return out;
}

/// Of every token, with the most probable ones in its place.
nlohmann::ordered_json log_probabilities_json(const Generated& result, const Generator& generator) {
  auto out = nlohmann::ordered_json::array();
  const std::size_t beside = result.tokens.empty() ? 0 : result.most_probable.size() / result.tokens.size();
  for (std::size_t i = 0; i < result.tokens.size(); ++i) {
    auto token = token_json(result.tokens[i], result.log_probabilities[i], generator);
    for (const text::TokenProbability& other : std::span(result.most_probable).subspan(i * beside, beside)) {
      token["top"].push_back(token_json(other.token, other.log_probability, generator));
    }
    out.push_back(std::move(token));
  }
  return out;
}

void print_json(const Generated& result, std::span<const text::TokenId> prompt, const Generator& generator,
                const GenerateArguments& options) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  nlohmann::ordered_json all = {
      {"text", result.text},
      {"prompt_tokens", std::vector<text::TokenId>(prompt.begin(), prompt.end())},
      {"tokens", result.tokens},
      {"stopped_by", stop_reason_name(result.reason)},
      {"first_token_seconds", result.first_token_seconds},
      {"prefill_seconds", result.prefill_seconds},
      {"decode_seconds", result.decode_seconds},
      {"decode_tokens_per_second", rate(static_cast<double>(result.tokens.size()), result.decode_seconds)},
      {"context", generator.context()},
      {"device_bytes", generator.memory().total()}};
  if (options.generator.prompt_lookup != 0) {
    all["drafted_tokens"] = result.drafted_tokens;
    all["right_drafts"] = result.right_drafts;
  }
  if (options.logprobs) all["logprobs"] = log_probabilities_json(result, generator);
  std::printf("%s\n", all.dump(2).c_str());
}

Status run_generate(const GenerateArguments& options) {
  GRAFT_TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.adapter, when(options.check)));
  const Model& model = opened.get();
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  {
    GRAFT_TRY_ASSIGN(const auto generator, open_generator(options, model, *device));
    GRAFT_TRY_ASSIGN(const auto prompt, prompt_ids(options, model, *generator));
    const auto print = [](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    };
    GRAFT_TRY_ASSIGN(const GenerateOptions wanted, generate_options(options));
    if (options.echo && !options.json) print(options.prompt);
    const FirstUse first(device->control());
    GRAFT_TRY_ASSIGN(const Generated result,
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
  source->add_option("--prompt", options->prompt, "The text to continue");
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
