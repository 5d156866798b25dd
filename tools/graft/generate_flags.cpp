#include "tools/graft/generate_flags.h"

#include "runtime/passes/precision.h"
#include "tools/graft/numbers.h"

namespace graft::cli {

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
  app.add_option("--context", options.generator.context, "Tokens of prompt and answer (the model's, at most 2048)")
      ->check(whole(1, UINT32_MAX));
  app.add_option("--budget", options.budget,
                 "Largest device memory, as in 512MiB; weights that it has no room for are streamed from the file");
  add_precision_flag(app, options.precision);
  app.add_flag("--json", options.json, "Print JSON, at the end");
  add_device_flags(app, options.flags);
  add_pace_flags(app, options.flags);
}

void refuse_idle_sampling(const CLI::App& app, const GenerateFlags& options) {
  refuse_idle(app, options.generate.sampling.temperature == 0, {"--top-k", "--top-p", "--min-p", "--seed"},
              "without --temperature: the most probable token is taken.");
}

Result<std::unique_ptr<Generator>> open_generator(const GenerateFlags& options, const Model& model,
                                                  OpenDevice& device) {
  GeneratorOptions wanted = options.generator;
  GRAFT_TRY_ASSIGN(wanted.precision, passes::parse_precision(options.precision));
  if (!options.budget.empty()) {
    GRAFT_TRY_ASSIGN(wanted.plan.budget, parse_size(options.budget));
  }
  device.give_to(wanted.program);
  GRAFT_TRY_ASSIGN(auto generator, Generator::create(device.device(), model, wanted));
  if (const std::string text = generator->streaming(); !text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
  return generator;
}

Result<text::ChatRequest> request_of(const GenerateFlags& options, std::string messages) {
  text::ChatRequest request = {.messages = std::move(messages)};
  GRAFT_TRY_ASSIGN(request.tools, json_or_file(options.tools));
  GRAFT_TRY_ASSIGN(request.variables, json_or_file(options.variables));
  return request;
}

}  // namespace graft::cli
