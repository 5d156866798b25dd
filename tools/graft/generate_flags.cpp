#include "tools/graft/generate_flags.h"

#include <charconv>
#include <cmath>

#include "runtime/passes/precision.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/progress.h"

namespace graft::cli {
namespace {

/// "15=-2.5", "15=-inf".
Result<std::vector<text::LogitBias>> parse_biases(const std::vector<std::string>& given) {
  std::vector<text::LogitBias> out;
  for (const std::string& item : split_lists(given)) {
    text::LogitBias bias;
    const char* const end = item.data() + item.size();
    const auto token = std::from_chars(item.data(), end, bias.token);
    auto number = token;
    if (token.ec == std::errc() && token.ptr != end && *token.ptr == '=') {
      number = std::from_chars(token.ptr + 1, end, bias.bias);
    } else {
      number.ec = std::errc::invalid_argument;
    }
    if (number.ec != std::errc() || number.ptr != end) {
      return invalid("\"", item, "\" of --logit-bias is not of the form TOKEN=BIAS, as in 15=-2.5 or 15=-inf.");
    }
    out.push_back(bias);
  }
  return out;
}

}  // namespace

void add_model_flags(CLI::App& app, GenerateFlags& options) {
  app.add_option("MODEL", options.path, "A .graft file")->required();
  add_adapter_flags(app, options.adapter);
  add_check_flag(app, options.check);
}

CLI::Option* add_conversation_flags(CLI::App& app, GenerateFlags& options) {
  app.add_option("--tools", options.tools, "Functions that the model may call: a JSON list, or a file of one");
  app.add_option("--variables", options.variables,
                 "What else the model's chat template reads: a JSON object, as {\"enable_thinking\": false}");
  return app.add_option("--system", options.system, "What the system says first");
}

void add_generator_flags(CLI::App& app, GenerateFlags& options) {
  text::SamplingOptions& sampling = options.generate.sampling;
  app.add_option("--max-tokens", options.generate.max_tokens, "At most this many tokens (256)")
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
  app.add_option("--stop", options.generate.stop, "The text ends before this; repeatable");
  app.add_option("--logit-bias", options.logit_bias,
                 "TOKEN=BIAS: what is added to a token's score, as in 15=-2.5, or 15=-inf for never; repeatable");
  app.add_option("--logprobs", options.logprobs,
                 "Of every token its log-probability, and of so many of the most probable in its place; with --json")
      ->check(whole(0, UINT32_MAX));
  app.add_option("--prompt-lookup", options.generator.prompt_lookup,
                 "Guess so many tokens from what the text says before and verify them in one run: the same text, "
                 "sooner where it repeats itself (0: none)")
      ->check(whole(0, 64));
  auto* grammar = app.add_option("--grammar", options.grammar,
                                 "A file of rules that the text has to follow, in llama.cpp's language (GBNF)");
  app.add_option("--json-schema", options.json_schema,
                 "The text is JSON that this schema allows: a file, or the schema itself")
      ->excludes(grammar);
  app.add_option("--context", options.generator.context, "Tokens of prompt and answer (the model's, at most 2048)")
      ->check(whole(1, UINT32_MAX));
  app.add_option("--budget", options.budget,
                 "Largest device memory, as in 512MiB; weights that it has no room for are streamed from the file");
  add_precision_flag(app, options.precision);
  app.add_option(
         "--kv", options.cache,
         "How keys and values of earlier tokens are kept: f32 (default), f16 or bf16, in half of the memory, or "
         "q8_0, in about a quarter")
      ->check(CLI::IsMember({"f32", "f16", "bf16", "q8_0"}));
  app.add_flag("--json", options.json, "Print JSON, at the end");
  add_device_flags(app, options.flags);
  add_pace_flags(app, options.flags);
}

void refuse_idle_sampling(const CLI::App& app, const GenerateFlags& options) {
  refuse_idle(app, options.generate.sampling.temperature == 0, {"--top-k", "--top-p", "--min-p", "--seed"},
              "without --temperature: the most probable token is taken.");
  refuse_idle(app, !options.json, {"--logprobs"}, "without --json, which has them.");
}

namespace {

template <typename Kind>
Result<std::unique_ptr<Kind>> open_kind(const GenerateFlags& options, const Model& model, OpenDevice& device) {
  GeneratorOptions wanted = options.generator;
  TRY_ASSIGN(wanted.precision, passes::parse_precision(options.precision));
  if (options.cache == "q8_0") {
    wanted.cache = DType::q8_0;
  } else {
    TRY_ASSIGN(wanted.cache, passes::parse_precision(options.cache));
  }
  if (!options.budget.empty()) {
    TRY_ASSIGN(wanted.plan.budget, parse_size(options.budget));
  }
  device.give_to(wanted.program);
  std::unique_ptr<Progress> kernels;
  const auto start = std::chrono::steady_clock::now();
  device.control().set_progress([&](Stage stage, std::uint64_t done, std::uint64_t total) {
    // Nobody wants to read of what takes no time.
    if (stage != Stage::kernels || std::chrono::steady_clock::now() - start < std::chrono::seconds(2)) return;
    if (done == 0 || !kernels) kernels = std::make_unique<Progress>("kernels", total, false);
    kernels->update(done, "made ready");
  });
  auto made = Kind::create(device.device(), model, wanted);
  device.control().set_progress({});
  kernels.reset();
  TRY_ASSIGN(auto generator, std::move(made));
  if (const std::string text = generator->streaming(); !text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  return generator;
}

}  // namespace

Result<std::unique_ptr<Generator>> open_generator(const GenerateFlags& options, const Model& model,
                                                  OpenDevice& device) {
  TRY_ASSIGN(auto generator, open_kind<Generator>(options, model, device));
  if (options.generator.prompt_lookup != 0 && !generator->verifies_drafts()) {
    std::fprintf(stderr,
                 "On this device a token among several gets other bits than alone: --prompt-lookup does nothing.\n");
  }
  return generator;
}

Result<std::unique_ptr<BatchGenerator>> open_batch_generator(const GenerateFlags& options, const Model& model,
                                                             OpenDevice& device) {
  return open_kind<BatchGenerator>(options, model, device);
}

Result<GenerateOptions> generate_options(const GenerateFlags& options) {
  GenerateOptions out = options.generate;
  TRY_ASSIGN(out.sampling.bias, parse_biases(options.logit_bias));
  out.log_probabilities = options.logprobs.has_value();
  out.most_probable = options.logprobs.value_or(0);
  if (!options.grammar.empty()) {
    TRY_ASSIGN(out.grammar, text_of_file(options.grammar));
    if (out.grammar.empty()) return invalid("The grammar \"", options.grammar, "\" is empty.");
  }
  TRY_ASSIGN(out.json_schema, json_or_file(options.json_schema));
  return out;
}

FirstUse::FirstUse(RunControl& control)
    : control_(control), notice_("The driver compiles kernels as they are first used; the text begins after that ...") {
  control_.set_progress([this](Stage, std::uint64_t, std::uint64_t) { notice_.done(); });
}

Result<text::ChatRequest> request_of(const GenerateFlags& options, std::string messages) {
  text::ChatRequest request = {.messages = std::move(messages)};
  TRY_ASSIGN(request.tools, json_or_file(options.tools));
  TRY_ASSIGN(request.variables, json_or_file(options.variables));
  return request;
}

}  // namespace graft::cli
