// graft generate: text from a language model.
#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/passes/precision.h"
#include "runtime/session/generator.h"
#include "runtime/session/text_model.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/device.h"
#include "tools/graft/model_io.h"
#include "tools/graft/numbers.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

struct GenerateArguments {
  DeviceFlags flags;
  std::string path;
  AdapterFlags adapter;
  bool check = false;
  std::string prompt;
  std::string tokens;
  std::string system;
  std::string chat;
  bool use_chat = false;
  std::string budget;
  std::string precision = "f32";
  bool echo = false;
  bool json = false;
  GeneratorOptions generator;
  GenerateOptions generate;
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
  std::vector<text::ChatMessage> messages;
  if (!options.system.empty()) messages.push_back({"system", options.system});
  messages.push_back({"user", options.prompt});
  GRAFT_TRY_ASSIGN(const auto parts, render_chat(model.metadata, options.chat, std::move(messages), true));
  return text::encode_chat(*tokenizer, parts);
}

void print_json(const Generated& result, std::span<const text::TokenId> prompt, const Generator& generator) {
  const auto rate = [](double count, double seconds) { return seconds > 0 ? count / seconds : 0; };
  const nlohmann::ordered_json all = {
      {"text", result.text},
      {"prompt_tokens", std::vector<text::TokenId>(prompt.begin(), prompt.end())},
      {"tokens", result.tokens},
      {"stopped_by", stop_reason_name(result.reason)},
      {"prefill_seconds", result.prefill_seconds},
      {"decode_seconds", result.decode_seconds},
      {"decode_tokens_per_second", rate(static_cast<double>(result.tokens.size()), result.decode_seconds)},
      {"context", generator.context()},
      {"device_bytes", generator.memory().total()}};
  std::printf("%s\n", all.dump(2).c_str());
}

Status run_generate(const GenerateArguments& options) {
  GRAFT_TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.adapter, when(options.check)));
  const Model& model = opened.get();
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(options.flags));
  {
    GeneratorOptions wanted = options.generator;
    GRAFT_TRY_ASSIGN(wanted.precision, passes::parse_precision(options.precision));
    if (!options.budget.empty()) {
      GRAFT_TRY_ASSIGN(wanted.plan.budget, parse_size(options.budget));
    }
    device->give_to(wanted.program);
    GRAFT_TRY_ASSIGN(const auto generator, Generator::create(device->device(), model, wanted));
    if (const std::string text = generator->streaming(); !text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
    GRAFT_TRY_ASSIGN(const auto prompt, prompt_ids(options, model, *generator));
    const auto print = [](std::string_view text) {
      return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    };
    if (options.echo && !options.json) print(options.prompt);
    GRAFT_TRY_ASSIGN(const Generated result, generator->generate(prompt, options.generate,
                                                                 options.json ? TextCallback() : TextCallback(print)));
    if (options.json) {
      print_json(result, prompt, *generator);
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
  text::SamplingOptions& sampling = options->generate.sampling;
  app.add_option("MODEL", options->path, "A .graft file")->required();
  add_adapter_flags(app, options->adapter);
  add_check_flag(app, options->check);
  auto* source = app.add_option_group("Prompt");
  source->add_option("--prompt", options->prompt, "The text to continue");
  source->add_option("--tokens", options->tokens, "Token ids instead, as in 1,80,147");
  source->require_option(1);
  auto* chat = app.add_option("--chat", options->chat,
                              "The prompt is what a user says, in the form alpaca, chatml, gemma, llama2 or llama3 "
                              "(without one: the model's own)")
                   ->expected(0, 1);
  app.add_option("--system", options->system, "What the system says before it")->needs(chat);
  app.add_option("--max-tokens", options->generate.max_tokens, "At most this many tokens (256)")
      ->check(whole(0, UINT32_MAX));
  app.add_option("--temperature", sampling.temperature, "0 (default): always the most probable token")
      ->check(not_negative());
  app.add_option("--top-k", sampling.top_k, "Only this many of the most probable tokens (all)")
      ->check(whole(0, UINT32_MAX));
  app.add_option("--top-p", sampling.top_p, "Only the most probable tokens that together reach this (1)")
      ->check(number(0, 1));
  app.add_option("--min-p", sampling.min_p, "Only tokens at least this many times as probable as the first (0)")
      ->check(number(0, 1));
  app.add_option("--repetition-penalty", sampling.repetition_penalty, "Factor against tokens said lately (1: none)")
      ->check(positive());
  app.add_option("--seed", sampling.seed, "Seed of sampling")->check(whole(0));
  app.add_option("--stop", options->generate.stop, "The text ends before this; repeatable");
  app.add_option("--context", options->generator.context, "Tokens of prompt and answer (the model's, at most 2048)")
      ->check(whole(1, UINT32_MAX));
  app.add_option("--budget", options->budget,
                 "Largest device memory, as in 512MiB; weights that it has no room for are streamed from the file");
  add_precision_flag(app, options->precision);
  app.add_flag("--echo", options->echo, "Print the prompt too");
  app.add_flag("--json", options->json, "Print JSON, at the end");
  add_device_flags(app, options->flags);
  add_pace_flags(app, options->flags);
  app.callback([&app, options] {
    refuse_idle(app, options->generate.sampling.temperature == 0, {"--top-k", "--top-p", "--min-p", "--seed"},
                "without --temperature: the most probable token is taken.");
    refuse_idle(app, options->json, {"--echo"}, "with --json, which has the prompt's tokens.");
  });
  return [options, chat] {
    options->use_chat = chat->count() > 0;
    return run_generate(*options);
  };
}

}  // namespace graft::cli
