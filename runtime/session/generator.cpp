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

namespace graft {
namespace {

using text::TokenId;

constexpr std::uint32_t kUsualContext = 2048;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

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

}  // namespace

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
  GRAFT_TRY(passes::check_precision(options.precision));
  GRAFT_TRY_ASSIGN(Graph filling, passes::decode_graph(model.graph, chunk, out->context_, false));
  GRAFT_TRY_ASSIGN(Graph decoding, passes::decode_graph(model.graph, 1, out->context_, true));
  const passes::WeightNames weights = passes::low_precision_weights(model.graph);
  for (Graph* graph : {&filling, &decoding}) {
    GRAFT_TRY(passes::store_results(*graph, options.precision, weights, passes::Parameters::frozen));
  }
  GRAFT_TRY_ASSIGN(const Graph fused_decoding, fused_graph(decoding, device.target(), options.plan));
  GRAFT_TRY_ASSIGN(const Graph fused_filling, fused_graph(filling, device.target(), options.plan));
  const Graph* const graphs[] = {&fused_decoding, &fused_filling};
  GRAFT_TRY_ASSIGN(const Residents residents, residents_within(device.target(), graphs, options.plan));
  Plan prefill_plan, decode_plan;
  const Plan* plans[] = {&prefill_plan, &decode_plan};
  const auto make = [&]() -> Status {
    GRAFT_TRY_ASSIGN(prefill_plan, plan_fused(filling, device.target(), residents, options.plan));
    GRAFT_TRY_ASSIGN(decode_plan, plan_fused(decoding, device.target(), residents, options.plan));
    return ok_status();
  };
  GRAFT_TRY(make_proven(options.program.proof, device, make, [&] { return std::span<const Plan* const>(plans); }));
  if (const std::uint64_t need = bytes_together(residents, plans);
      options.plan.budget != 0 && need > options.plan.budget) {
    return error(Code::out_of_memory, "Generating with a context of ", out->context_, " tokens needs ",
                 bytes_text(need), ", more than the budget of ", bytes_text(options.plan.budget), ".");
  }
  GRAFT_TRY_ASSIGN(out->memory_, Memory::create(device, residents, plans));
  GRAFT_TRY(upload_weights(*out->memory_, model, decoding));
  ProgramOptions first = options.program;
  first.cancellable_build = true;
  GRAFT_TRY_ASSIGN(out->prefill_, Program::create(*out->memory_, std::move(prefill_plan), first));
  GRAFT_TRY_ASSIGN(out->decode_, Program::create(*out->memory_, std::move(decode_plan), first));
  out->device_ = &device;
  out->model_ = &model;
  out->program_options_ = options.program;
  out->reopen_ = options.reopen;
  out->decoding_ = std::move(decoding);
  return out;
}

MemoryByClass Generator::memory() const {
  const Plan* plans[] = {&prefill_plan(), &decode_plan()};
  return Memory::planned(residents(), plans);
}

std::string Generator::streaming() const {
  const Plan* plans[] = {&decode_plan(), &prefill_plan()};
  return streaming_text(residents(), plans);
}

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
  const auto bytes = decode_->output(std::size_t{0});
  return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float));
}

Result<Generated> Generator::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                      const TextCallback& on_text) {
  GRAFT_TRY(check(prompt, options));
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
  std::vector<TokenId> all(prompt.begin(), prompt.end());
  out.reason = StopReason::max_tokens;
  while (out.tokens.size() < options.max_tokens) {
    if (cached_.size() == context_) {
      out.reason = StopReason::context_full;
      break;
    }
    GRAFT_TRY_ASSIGN(const auto logits, decode(all.back()));
    GRAFT_TRY_ASSIGN(const TokenId next, sampler.next(logits, all));
    if (std::find(stop_tokens_.begin(), stop_tokens_.end(), next) != stop_tokens_.end()) {
      out.reason = StopReason::end_of_text;
      break;
    }
    all.push_back(next);
    out.tokens.push_back(next);
    const bool last = options.on_token && !options.on_token(next, logits);
    const bool padding = tokenizer_ && static_cast<std::size_t>(next) >= tokenizer_->size();  // of the vocabulary
    if (!padding) GRAFT_TRY(stream.push(next));
    if (program_options_.control != nullptr) {
      program_options_.control->report(Stage::answer, out.tokens.size(), options.max_tokens);
    }
    if (stream.stopped() || stream.refused() || last) {
      out.reason = stream.stopped() ? StopReason::stop_string : StopReason::callback;
      break;
    }
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
