#include "tools/graft/commands/generate_flags.h"

#include <charconv>
#include <cmath>
#include <cstdio>

#include "tools/common/numbers.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

/// "15=-2.5", "15=-inf".
Result<std::vector<graft_logit_bias>> parse_biases(const std::vector<std::string>& given) {
  std::vector<graft_logit_bias> out;
  for (const std::string& item : split_lists(given)) {
    graft_logit_bias bias = {};
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
  app.add_option("--max-tokens", options.max_tokens, "At most this many tokens (256)")->check(whole(0, UINT32_MAX));
  app.add_option("--temperature", options.temperature, "0 (default): always the most probable token")
      ->check(not_negative());
  app.add_option("--top-k", options.top_k, "Only this many of the most probable tokens (all)")
      ->check(whole(0, UINT32_MAX));
  app.add_option("--top-p", options.top_p, "Only the most probable tokens that together reach this (1)")
      ->check(number(0, 1));
  app.add_option("--min-p", options.min_p, "Only tokens at least this many times as probable as the first (0)")
      ->check(number(0, 1));
  app.add_option("--repetition-penalty", options.repetition_penalty, "Factor against tokens said lately (1: none)")
      ->check(positive());
  app.add_option("--seed", options.seed, "Seed of sampling")->check(whole(0));
  app.add_option("--stop", options.stop, "The text ends before this; repeatable");
  app.add_option("--logit-bias", options.logit_bias,
                 "TOKEN=BIAS: what is added to a token's score, as in 15=-2.5, or 15=-inf for never; repeatable");
  app.add_option("--logprobs", options.logprobs,
                 "Of every token its log-probability, and of so many of the most probable in its place; with --json")
      ->check(whole(0, UINT32_MAX));
  app.add_option("--prompt-lookup", options.prompt_lookup,
                 "Guess so many tokens from what the text says before and verify them in one run: the same text, "
                 "sooner where it repeats itself (0: none)")
      ->check(whole(0, 64));
  auto* grammar = app.add_option("--grammar", options.grammar,
                                 "A file of rules that the text has to follow, in llama.cpp's language (GBNF)");
  app.add_option("--json-schema", options.json_schema,
                 "The text is JSON that this schema allows: a file, or the schema itself")
      ->excludes(grammar);
  app.add_option("--context", options.context, "Tokens of prompt and answer (the model's, at most 2048)")
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
  refuse_idle(app, options.temperature == 0, {"--top-k", "--top-p", "--min-p", "--seed"},
              "without --temperature: the most probable token is taken.");
  refuse_idle(app, !options.json, {"--logprobs"}, "without --json, which has them.");
}

namespace {

/// Tells of kernels, once that has taken a while: nobody wants to read of what takes no time.
struct KernelProgress {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  std::unique_ptr<Progress> shown = nullptr;

  static void tell(void* user, graft_stage stage, std::uint64_t done, std::uint64_t total) {
    auto& self = *static_cast<KernelProgress*>(user);
    if (stage != GRAFT_STAGE_KERNELS || std::chrono::steady_clock::now() - self.start < std::chrono::seconds(2)) return;
    if (done == 0 || !self.shown) self.shown = std::make_unique<Progress>("kernels", total, false);
    self.shown->update(done, "made ready");
  }
};

int print_piece(void*, const char* text, std::size_t bytes) {
  return write_stdout({text, bytes}) && std::fflush(stdout) == 0 ? 1 : 0;
}

const char* or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace

Result<OpenGenerator> open_generator(const GenerateFlags& options, graft_context* context, graft_model* model) {
  auto wanted = sized<graft_generator_options>();
  wanted.context = options.context;
  wanted.prompt_lookup = options.prompt_lookup;
  wanted.sequences = options.sequences;
  TRY_ASSIGN(wanted.precision, parse_precision(options.precision));
  wanted.cache = options.cache == "q8_0"   ? GRAFT_CACHE_Q8_0
                 : options.cache == "f16"  ? GRAFT_CACHE_F16
                 : options.cache == "bf16" ? GRAFT_CACHE_BF16
                                           : GRAFT_CACHE_F32;
  TRY_ASSIGN(wanted.budget, parse_budget(options.budget));
  KernelProgress kernels;
  TRY(checked(graft_set_progress(context, KernelProgress::tell, &kernels), context));
  graft_generator* made = nullptr;
  const graft_status created = graft_generator_create(model, &wanted, &made);
  OpenGenerator out;
  out.generator.reset(made);
  graft_set_progress(context, nullptr, nullptr);
  kernels.shown.reset();
  TRY(checked(created, context));
  out.info.struct_size = sizeof out.info;
  TRY(checked(graft_generator_describe(made, &out.info), context));
  if (*out.info.streaming != '\0') to_stderr("%s\n", out.info.streaming);
  if (options.prompt_lookup != 0 && out.info.verifies_drafts == 0) {
    to_stderr("On this device a token among several gets other bits than alone: --prompt-lookup does nothing.\n");
  }
  graft_memory memory = {};
  memory.struct_size = sizeof memory;
  TRY(checked(graft_generator_memory(made, &memory), context));
  out.device_bytes = memory.total;
  graft_tokenizer* tokenizer = nullptr;
  const graft_status found = graft_generator_tokenizer(made, &tokenizer);
  out.tokenizer.reset(tokenizer);
  if (found != GRAFT_NOT_FOUND) TRY(checked(found, context));
  return out;
}

Status TextWishes::read(const GenerateFlags& options) {
  flags_ = &options;
  if (options.top_p == 0) return invalid("top-p is 0; it must lie above 0, at most at 1.");
  for (const std::string& text : options.stop) stop_.push_back(text.c_str());
  TRY_ASSIGN(bias_, parse_biases(options.logit_bias));
  if (!options.grammar.empty()) {
    TRY_ASSIGN(grammar_, text_of_file(options.grammar));
    if (grammar_.empty()) return invalid("The grammar \"", options.grammar, "\" is empty.");
  }
  TRY_ASSIGN(json_schema_, json_or_file(options.json_schema));
  return ok_status();
}

graft_generate_options TextWishes::options(bool print) const {
  auto out = sized<graft_generate_options>();
  out.max_tokens = flags_->max_tokens;
  out.top_k = flags_->top_k;
  out.temperature = flags_->temperature;
  out.top_p = flags_->top_p;
  out.min_p = flags_->min_p;
  out.repetition_penalty = flags_->repetition_penalty;
  out.seed = flags_->seed;
  out.stop = stop_.data();
  out.stop_count = stop_.size();
  if (print) out.on_text = print_piece;
  out.bias = bias_.data();
  out.bias_count = bias_.size();
  out.log_probabilities = flags_->logprobs ? 1 : 0;
  out.most_probable = flags_->logprobs.value_or(0);
  out.grammar = or_null(grammar_);
  out.json_schema = or_null(json_schema_);
  return out;
}

const char* stop_reason_name(graft_stop_reason reason) {
  switch (reason) {
    case GRAFT_STOP_END_OF_TEXT: return "end_of_text";
    case GRAFT_STOP_MAX_TOKENS: return "max_tokens";
    case GRAFT_STOP_STRING: return "stop_string";
    case GRAFT_STOP_CONTEXT_FULL: return "context_full";
    case GRAFT_STOP_CALLBACK: return "callback";
  }
  return "";
}

FirstUse::FirstUse(graft_context* context)
    : context_(context), notice_("The driver compiles kernels as they are first used; the text begins after that ...") {
  const auto tell = [](void* user, graft_stage, std::uint64_t, std::uint64_t) {
    static_cast<FirstUse*>(user)->notice_.done();
  };
  graft_set_progress(context, tell, this);
}

Status ChatWishes::read(const GenerateFlags& options) {
  format_ = options.chat;
  TRY_ASSIGN(tools_, json_or_file(options.tools));
  TRY_ASSIGN(variables_, json_or_file(options.variables));
  return ok_status();
}

graft_chat_options ChatWishes::options(const std::string& messages) const {
  graft_chat_options out = {};
  out.struct_size = sizeof out;
  out.format = or_null(format_);
  out.messages = messages.c_str();
  out.tools = or_null(tools_);
  out.variables = or_null(variables_);
  return out;
}

Result<std::vector<std::int32_t>> chat_tokens(graft_context* context, graft_tokenizer* tokenizer,
                                              const graft_chat_options& options,
                                              std::span<const graft_chat_message> said) {
  const std::int32_t* ids = nullptr;
  std::size_t count = 0;
  TRY(checked(graft_chat_encode(tokenizer, said.data(), said.size(), &options, &ids, &count), context));
  return std::vector<std::int32_t>(ids, ids + count);
}

}  // namespace graft::cli
