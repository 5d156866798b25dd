#include "runtime/session/generator.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/exec/kernel_proof.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/decode_graph.h"
#include "runtime/passes/precision.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/session/session.h"
#include "runtime/session/text_model.h"
#include "runtime/text/grammar/json_schema.h"

namespace graft {
namespace {

using text::TokenId;

constexpr std::uint32_t kUsualContext = 2048;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// The model for one token, for `chunk` of a prompt, and for a token with a draft behind it where there are drafts.
Result<std::vector<Graph>> decode_graphs(const Graph& graph, const GeneratorOptions& options, std::uint32_t chunk,
                                         std::uint32_t context, std::uint32_t draft) {
  GRAFT_TRY(passes::check_precision(options.precision));
  if (!is_float(options.cache) && options.cache != DType::q8_0) {
    return invalid("Caches would be of ", dtype_name(options.cache), "; they are f32, f16, bf16 or q8_0.");
  }
  std::vector<Graph> out;
  const std::uint32_t longest = options.forget ? std::max(chunk, draft + 1) : 0;
  const auto add = [&](std::uint32_t tokens, bool logits) -> Status {
    GRAFT_TRY_ASSIGN(out.emplace_back(), passes::decode_graph(graph, tokens, context, logits, options.cache, longest));
    return ok_status();
  };
  GRAFT_TRY(add(1, true));
  GRAFT_TRY(add(chunk, false));
  if (draft != 0) GRAFT_TRY(add(draft + 1, true));
  const passes::WeightNames weights = passes::low_precision_weights(graph);
  for (Graph& one : out) {
    GRAFT_TRY(passes::store_results(one, options.precision, weights, passes::Parameters::frozen));
  }
  return out;
}

}  // namespace

/// The text of tokens as it becomes certain, up to a stop string.
class TextStream {
 public:
  TextStream(const text::Tokenizer* tokenizer, const GenerateOptions& options, const TextCallback& on_text)
      : stops_(options.stop), on_text_(on_text) {
    // What follows a prompt keeps the space that it begins with.
    if (tokenizer != nullptr) decoder_.emplace(*tokenizer, text::DecodeOptions{.at_start = false});
  }

  Status push(TokenId id) {
    if (!decoder_) return give({});
    GRAFT_TRY_ASSIGN(const std::string piece, decoder_->push(id));
    return give(stops_.push(piece));
  }
  Status finish() {
    if (!decoder_) return ok_status();
    std::string rest = stops_.push(decoder_->finish());
    return give(rest + stops_.finish());
  }
  bool stopped() const { return stops_.found(); }
  bool refused() const { return refused_; }
  std::string take() { return std::move(text_); }

 private:
  Status give(const std::string& piece) {
    text_ += piece;
    if (!piece.empty() && on_text_ && !refused_) refused_ = !on_text_(piece);
    return ok_status();
  }

  std::optional<text::StreamDecoder> decoder_;
  text::StopFinder stops_;
  const TextCallback& on_text_;
  std::string text_;
  bool refused_ = false;
};

std::string_view stop_reason_name(StopReason reason) {
  switch (reason) {
    case StopReason::end_of_text: return "end_of_text";
    case StopReason::max_tokens: return "max_tokens";
    case StopReason::stop_string: return "stop_string";
    case StopReason::context_full: return "context_full";
    case StopReason::callback: return "callback";
  }
  return "";
}

Result<std::unique_ptr<Generator>> Generator::create(gpu::Device& device, const Model& model,
                                                     const GeneratorOptions& options) {
  GRAFT_TRY(model.check_before_use());
  std::unique_ptr<Generator> out(new Generator());
  GRAFT_TRY_ASSIGN(const passes::DecoderPorts ports, passes::decoder_ports(model.graph));
  out->vocabulary_ = ports.vocabulary;
  out->adapters_ = LiveAdapters(model.graph, base_text(model));
  const std::uint32_t made_for = context_of(model).value_or(kUsualContext);
  out->context_ = options.context != 0 ? options.context : std::min(made_for, kUsualContext);
  if (context_of(model) && out->context_ > made_for) {
    return invalid("A context of ", out->context_, " tokens was asked for; the model was made for ", made_for, ".");
  }
  if (model.tokenizer) {
    GRAFT_TRY_ASSIGN(text::Tokenizer tokenizer, tokenizer_of(model));
    out->stop_tokens_ = stop_tokens_of(model, tokenizer);
    out->tokenizer_.emplace(std::move(tokenizer));
  }
  const std::uint32_t chunk = std::clamp<std::uint32_t>(options.prefill, 1, out->context_);
  out->longest_draft_ = std::min(options.prompt_lookup, out->context_ - 1);
  GRAFT_TRY_ASSIGN(std::vector<Graph> graphs,
                   decode_graphs(model.graph, options, chunk, out->context_, out->longest_draft_));
  std::vector<Graph> fused;
  for (const Graph& graph : graphs) {
    GRAFT_TRY_ASSIGN(Graph as_run, fused_graph(graph, device.target(), options.plan));
    fused.push_back(std::move(as_run));
  }
  std::vector<const Graph*> run;
  std::vector<Plan> made(graphs.size());
  std::vector<const Plan*> plans;
  for (const Graph& graph : fused) run.push_back(&graph);
  for (const Plan& plan : made) plans.push_back(&plan);
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(device.target(), run, options.plan));
  const auto make = [&]() -> Status {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      GRAFT_TRY_ASSIGN(made[i], plan_fused(graphs[i], device.target(), residents, options.plan));
    }
    return ok_status();
  };
  GRAFT_TRY(make_proven(options.program.proof, device, make, [&] { return std::span<const Plan* const>(plans); }));
  if (const std::uint64_t need = bytes_together(residents, plans);
      options.plan.budget != 0 && need > options.plan.budget) {
    return error(Code::out_of_memory, "Generating with a context of ", out->context_, " tokens needs ",
                 bytes_text(need), ", more than the budget of ", bytes_text(options.plan.budget), ".");
  }
  GRAFT_TRY_ASSIGN(out->memory_, Memory::create(device, residents, plans));
  GRAFT_TRY(upload_weights(*out->memory_, model, graphs[0]));
  ProgramOptions first = options.program;
  first.cancellable_build = true;
  std::optional<Plan> verify;
  if (made.size() > 2) verify = std::move(made[2]);
  GRAFT_TRY(out->create_programs(std::move(made[1]), std::move(made[0]), std::move(verify), first));
  out->device_ = &device;
  out->model_ = &model;
  out->program_options_ = options.program;
  out->reopen_ = options.reopen;
  out->decoding_ = std::move(graphs[0]);
  out->windows_ = passes::forgetting_windows(out->decoding_);
  if (out->verify_ != nullptr) GRAFT_TRY(out->compare_verified());
  return out;
}

Status Generator::create_programs(Plan prefill, Plan decode, std::optional<Plan> verify,
                                  const ProgramOptions& options) {
  GRAFT_TRY_ASSIGN(prefill_, Program::create(*memory_, std::move(prefill), options));
  GRAFT_TRY_ASSIGN(decode_, Program::create(*memory_, std::move(decode), options));
  if (verify) {
    GRAFT_TRY_ASSIGN(verify_, Program::create(*memory_, *std::move(verify), options));
  }
  return ok_status();
}

const Plan* Generator::verify_plan() const {
  if (paused_) return paused_->verify ? &*paused_->verify : nullptr;
  return verify_ ? &verify_->plan() : nullptr;
}

std::vector<const Plan*> Generator::plans() const {
  std::vector<const Plan*> all = {&decode_plan(), &prefill_plan()};
  if (verify_plan() != nullptr) all.push_back(verify_plan());
  return all;
}

MemoryByClass Generator::memory() const { return Memory::planned(residents(), plans()); }

std::string Generator::streaming() const { return streaming_text(residents(), plans()); }

Status Generator::check(std::span<const TokenId> prompt, const GenerateOptions& options) const {
  GRAFT_TRY(text::check_sampling(options.sampling));
  if (prompt.empty()) return invalid("The prompt is empty, and the model's tokenizer begins texts with no token.");
  for (const TokenId id : prompt) {
    if (id < 0 || id >= vocabulary_) {
      return invalid("The prompt holds token ", id, "; the model knows ", vocabulary_, " tokens.");
    }
  }
  if (prompt.size() >= context_) {
    return invalid("The prompt has ", prompt.size(), " tokens, which leaves no room in a context of ", context_, ".");
  }
  for (const text::LogitBias& bias : options.sampling.bias) {
    if (bias.token >= vocabulary_) {
      return invalid("A bias is for token ", bias.token, "; the model knows ", vocabulary_, " tokens.");
    }
  }
  if (!options.grammar.empty() && !options.json_schema.empty()) {
    return invalid("A text follows a grammar or a JSON schema, and both were given.");
  }
  if ((!options.grammar.empty() || !options.json_schema.empty()) && !tokenizer_) {
    return error(Code::not_found, "A grammar needs a tokenizer, and the model carries none.");
  }
  if (!options.stop.empty() && !tokenizer_) {
    return error(Code::not_found, "Stop strings need a tokenizer, and the model carries none.");
  }
  return ok_status();
}

/// All tokens but the last, which the first decode step takes.
Status Generator::prefill(std::span<const TokenId> prompt) {
  const std::size_t chunk = prefill_->plan().inputs[0].bytes / sizeof(TokenId);
  const auto rest = prompt.first(prompt.size() - 1);
  while (cached_.size() < rest.size()) {
    const std::size_t count = std::min(chunk, rest.size() - cached_.size());
    GRAFT_TRY(run(rest.subspan(cached_.size(), count)));
    if (program_options_.control != nullptr) {
      program_options_.control->report(Stage::prompt, cached_.size(), rest.size());
    }
  }
  return ok_status();
}

Result<std::span<const float>> Generator::decode(TokenId token) {
  GRAFT_TRY(run({&token, 1}));
  return logits_of(*decode_, 0);
}

std::span<const float> Generator::logits_of(const Program& program, std::size_t row) const {
  const auto bytes = program.output(std::size_t{0});
  const auto width = static_cast<std::size_t>(vocabulary_);
  return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float))
      .subspan(row * width, width);
}

/// The scores for what follows `text`, whose last token the caches do not hold yet: from the last draft, where it was
/// right so far, by a run with a new one, or by a run for this token alone.
Result<std::span<const float>> Generator::decode_ahead(std::span<const TokenId> text, Generated& out) {
  const TokenId token = text.back();
  if (next_row_ != 0) {
    if (next_row_ < ahead_.size() && ahead_[next_row_] == token) {
      note_run({&token, 1}, true);
      ++out.right_drafts;
      return logits_of(*verify_, next_row_++);
    }
    lookup_.judge(next_row_ - 1);
    next_row_ = 0;
  }
  if (!verifies_drafts_ || context_ - cached_.size() <= longest_draft_) return decode(token);
  const auto draft = lookup_.draft(text);
  if (draft.empty()) return decode(token);
  ahead_.assign(1, token);
  ahead_.insert(ahead_.end(), draft.begin(), draft.end());
  const Status verified = on_device([&]() -> Status {
    GRAFT_TRY(try_resume());
    return try_verify(ahead_);
  });
  GRAFT_TRY(verified);
  out.drafted_tokens += static_cast<std::uint32_t>(draft.size());
  next_row_ = 1;
  return logits_of(*verify_, 0);
}

/// Begins a text that follows a grammar, where one is asked for. The last one is kept with what was found out about it.
Status Generator::constrain(const GenerateOptions& options) {
  is_constrained_ = !options.grammar.empty() || !options.json_schema.empty();
  if (!is_constrained_) return {};
  if (!constraint_ || constraint_->grammar != options.grammar || constraint_->json_schema != options.json_schema) {
    constraint_.reset();
    std::string rules = options.grammar;
    if (!options.json_schema.empty()) {
      GRAFT_TRY_ASSIGN(rules, text::grammar_of_schema(options.json_schema));
    }
    GRAFT_TRY_ASSIGN(text::Grammar grammar, text::Grammar::parse(rules));
    if (!token_table_) token_table_ = std::make_unique<text::TokenTable>(*tokenizer_);
    constraint_ = std::make_unique<Constraint>(Constraint{options.grammar, options.json_schema, std::move(grammar)});
    constraint_->matcher = std::make_unique<text::GrammarMatcher>(constraint_->rules, *token_table_);
  }
  return constraint_->matcher->restart();
}

/// A bit for each token that may come next; empty: any may.
Result<std::span<const std::uint64_t>> Generator::allowed_tokens() {
  if (!is_constrained_) return std::span<const std::uint64_t>();
  GRAFT_TRY_ASSIGN(const auto text, constraint_->matcher->allowed());
  allowed_.assign(text.begin(), text.end());
  if (constraint_->matcher->may_end()) {
    for (const TokenId id : stop_tokens_) {
      const auto at = static_cast<std::size_t>(id);
      if (at / 64 < allowed_.size()) allowed_[at / 64] |= std::uint64_t{1} << (at % 64);
    }
  }
  if (std::ranges::all_of(allowed_, [](std::uint64_t word) { return word == 0; })) {
    return unsupported("No token of the model goes on as the grammar asks.");
  }
  return std::span<const std::uint64_t>(allowed_);
}

/// Chooses the token behind `text` and adds it; false: the text ends, for `out`'s reason.
Result<bool> Generator::add_token(const GenerateOptions& options, text::Sampler& sampler, std::vector<TokenId>& text,
                                  TextStream& stream, Generated& out) {
  if (cached_.size() == context_) {
    out.reason = StopReason::context_full;
    return false;
  }
  if (is_constrained_ && constraint_->matcher->must_end()) {
    out.reason = StopReason::end_of_text;
    return false;
  }
  GRAFT_TRY_ASSIGN(const auto allowed, allowed_tokens());
  GRAFT_TRY_ASSIGN(const auto logits, decode_ahead(text, out));
  GRAFT_TRY_ASSIGN(const TokenId next, sampler.next(logits, text, allowed));
  if (std::find(stop_tokens_.begin(), stop_tokens_.end(), next) != stop_tokens_.end()) {
    out.reason = StopReason::end_of_text;
    return false;
  }
  if (is_constrained_) GRAFT_TRY(constraint_->matcher->accept(next));
  text.push_back(next);
  out.tokens.push_back(next);
  if (options.log_probabilities) {
    out.log_probabilities.push_back(text::log_probability(logits, next, options.most_probable, out.most_probable));
  }
  const bool last = options.on_token && !options.on_token(next, logits);
  const bool padding = tokenizer_ && static_cast<std::size_t>(next) >= tokenizer_->size();  // of the vocabulary
  if (!padding) GRAFT_TRY(stream.push(next));
  if (program_options_.control != nullptr) {
    program_options_.control->report(Stage::answer, out.tokens.size(), options.max_tokens);
  }
  if (stream.stopped() || stream.refused() || last) {
    out.reason = stream.stopped() ? StopReason::stop_string : StopReason::callback;
    return false;
  }
  return true;
}

Result<Generated> Generator::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                      const TextCallback& on_text) {
  const auto begun = std::chrono::steady_clock::now();
  GRAFT_TRY(check(prompt, options));
  GRAFT_TRY(constrain(options));
  GRAFT_TRY(resume());
  Generated out;
  out.prompt_tokens = static_cast<std::uint32_t>(prompt.size());
  const auto common = std::mismatch(cached_.begin(), cached_.end(), prompt.begin(), prompt.end() - 1).first;
  forget_from(static_cast<std::size_t>(common - cached_.begin()));
  out.reused_tokens = static_cast<std::uint32_t>(cached_.size());
  auto start = std::chrono::steady_clock::now();
  GRAFT_TRY(prefill(prompt));
  out.prefill_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  TextStream stream(tokenizer(), options, on_text);
  text::Sampler sampler(options.sampling);
  lookup_ = text::PromptLookup(longest_draft_);
  next_row_ = 0;
  std::vector<TokenId> all(prompt.begin(), prompt.end());
  out.reason = StopReason::max_tokens;
  for (bool more = true; more && out.tokens.size() < options.max_tokens;) {
    GRAFT_TRY_ASSIGN(more, add_token(options, sampler, all, stream, out));
    if (out.first_token_seconds == 0) out.first_token_seconds = seconds_since(begun);
  }
  GRAFT_TRY(stream.finish());
  if (stream.stopped()) out.reason = StopReason::stop_string;
  out.decode_seconds = seconds_since(start);
  out.text = stream.take();
  return out;
}

Result<Generated> Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                      const TextCallback& on_text) {
  if (!tokenizer_) return error(Code::not_found, "The model carries no tokenizer, so that it takes token ids only.");
  GRAFT_TRY_ASSIGN(const auto ids, tokenizer_->encode(prompt));
  return generate(ids, options, on_text);
}

}  // namespace graft
