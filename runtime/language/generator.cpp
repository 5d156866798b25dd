#include "runtime/language/generator.h"

#include <algorithm>
#include <chrono>

#include "runtime/language/text_model.h"

namespace graft {
namespace {

using text::TokenId;

constexpr std::uint32_t kUsualContext = 2048;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

Result<std::uint32_t> context_for(const Model& model, std::uint32_t asked) {
  const std::uint32_t made_for = context_of(model).value_or(kUsualContext);
  if (asked == 0) return std::min(made_for, kUsualContext);
  if (context_of(model) && asked > made_for) {
    return invalid("A context of ", asked, " tokens was asked for; the model was made for ", made_for, ".");
  }
  return asked;
}

Result<std::unique_ptr<Generator>> Generator::create(gpu::Device& device, const Model& model,
                                                     const GeneratorOptions& options) {
  GRAFT_TRY(model.check_before_use());
  std::unique_ptr<Generator> out(new Generator());
  GRAFT_TRY_ASSIGN(const passes::DecoderPorts ports, passes::decoder_ports(model.graph));
  GRAFT_TRY_ASSIGN(out->context_, context_for(model, options.context));
  GRAFT_TRY_ASSIGN(out->model_, TextModel::create(model, ports.vocabulary));
  const std::uint32_t chunk = std::clamp<std::uint32_t>(options.prefill, 1, out->context_);
  // A run for a whole chunk computes all of its rows: on a processor, as long as for some eight tokens one by one.
  constexpr std::uint32_t kRowsOfToken = 8;
  out->few_ = device.target().caps.type == gpu::DeviceType::cpu ? std::max(chunk / kRowsOfToken, 1U) : 1;
  out->longest_draft_ = std::min(options.prompt_lookup, out->context_ - 1);
  std::vector<DecodeForm> forms = {{.tokens = 1}, {.tokens = chunk, .logits = false}};
  if (out->longest_draft_ != 0) forms.push_back({.tokens = out->longest_draft_ + 1});
  GRAFT_TRY_ASSIGN(std::vector<Graph> graphs, decode_graphs(model.graph, options, out->context_, forms));
  out->windows_ = passes::forgetting_windows(graphs[0]);
  GRAFT_TRY_ASSIGN(out->machine_,
                   DecodeMachine::create(device, model, std::move(graphs), options,
                                         cat("Generating with a context of ", out->context_, " tokens")));
  if (out->makes_drafts()) GRAFT_TRY(out->compare_verified());
  return out;
}

/// All tokens but the last, which the first decode step takes; where few are left, one by one.
Status Generator::prefill(std::span<const TokenId> prompt) {
  const std::size_t chunk = machine_->program(kPrefill).plan().inputs[0].bytes / sizeof(TokenId);
  const auto rest = prompt.first(prompt.size() - 1);
  while (cached_.size() < rest.size()) {
    const std::size_t left = rest.size() - cached_.size();
    const std::size_t count = left <= few_ ? 1 : std::min(chunk, left);
    GRAFT_TRY(run(rest.subspan(cached_.size(), count)));
    if (machine_->control() != nullptr) {
      machine_->control()->report(Stage::prompt, cached_.size(), rest.size());
    }
  }
  return ok_status();
}

Result<std::span<const float>> Generator::decode(TokenId token) {
  GRAFT_TRY(run({&token, 1}));
  return logits_of(kDecode, 0);
}

std::span<const float> Generator::logits_of(std::size_t program, std::size_t row) const {
  return machine_->output_row(program, row, static_cast<std::size_t>(model_.vocabulary()));
}

/// The scores for what follows `text`, whose last token the caches do not hold yet: from the last draft, where it was
/// right so far, by a run with a new one, or by a run for this token alone.
Result<std::span<const float>> Generator::decode_ahead(std::span<const TokenId> text, Generated& out) {
  const TokenId token = text.back();
  if (next_row_ != 0) {
    if (next_row_ < ahead_.size() && ahead_[next_row_] == token) {
      note_run({&token, 1}, true);
      ++out.right_drafts;
      return logits_of(kVerify, next_row_++);
    }
    lookup_.judge(next_row_ - 1);
    next_row_ = 0;
  }
  if (!verifies_drafts_ || context_ - cached_.size() <= longest_draft_) return decode(token);
  const auto draft = lookup_.draft(text);
  if (draft.empty()) return decode(token);
  ahead_.assign(1, token);
  ahead_.insert(ahead_.end(), draft.begin(), draft.end());
  const Status verified = on_device([&] { return try_verify(ahead_); });
  GRAFT_TRY(verified);
  out.drafted_tokens += static_cast<std::uint32_t>(draft.size());
  next_row_ = 1;
  return logits_of(kVerify, 0);
}

Result<Generated> Generator::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                      const TextCallback& on_text) {
  const auto begun = std::chrono::steady_clock::now();
  GRAFT_TRY(model_.check(prompt, options, context_));
  GRAFT_TRY_ASSIGN(auto constraint, constraints_.take(model_.tokenizer(), options));
  TextWriter writer(model_, prompt, options, on_text, std::move(constraint));
  const Status done = write(prompt, writer, begun);
  constraints_.give_back(writer.take_constraint());
  GRAFT_TRY(done);
  return std::move(writer.result());
}

Status Generator::write(std::span<const TokenId> prompt, TextWriter& writer,
                        std::chrono::steady_clock::time_point begun) {
  GRAFT_TRY(resume());
  Generated& out = writer.result();
  const auto common = std::mismatch(cached_.begin(), cached_.end(), prompt.begin(), prompt.end() - 1).first;
  forget_from(static_cast<std::size_t>(common - cached_.begin()));
  out.reused_tokens = static_cast<std::uint32_t>(cached_.size());
  auto start = std::chrono::steady_clock::now();
  GRAFT_TRY(prefill(prompt));
  out.prefill_seconds = seconds_since(start);
  start = std::chrono::steady_clock::now();
  lookup_ = text::PromptLookup(longest_draft_);
  next_row_ = 0;
  for (bool more = true; more;) {
    GRAFT_TRY_ASSIGN(more, writer.prepare(cached_.size(), context_));
    if (more) {
      GRAFT_TRY_ASSIGN(const auto logits, decode_ahead(writer.tokens(), out));
      const std::size_t before = out.tokens.size();
      GRAFT_TRY_ASSIGN(more, writer.add(logits));
      if (machine_->control() != nullptr && out.tokens.size() != before) {
        machine_->control()->report(Stage::answer, out.tokens.size(), writer.options().max_tokens);
      }
    }
    if (out.first_token_seconds == 0) out.first_token_seconds = seconds_since(begun);
  }
  GRAFT_TRY(writer.finish());
  out.decode_seconds = seconds_since(start);
  return ok_status();
}

Result<Generated> Generator::generate(std::string_view prompt, const GenerateOptions& options,
                                      const TextCallback& on_text) {
  GRAFT_TRY_ASSIGN(const auto ids, model_.encode(prompt));
  return generate(ids, options, on_text);
}

}  // namespace graft
