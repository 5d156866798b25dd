#include "runtime/language/batch_generator.h"
#include "runtime/language/batch_text.h"

#include <algorithm>
#include <utility>

namespace graft {

using text::TokenId;

namespace {

double seconds_from_to(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

/// Programs for one token of one text, for some of a prompt, and for a token of 2, 4, .. texts, up to all.
std::vector<DecodeForm> BatchGenerator::forms_for(std::uint32_t sequences, std::uint32_t chunk) {
  std::vector<DecodeForm> forms = {{.slots = {1, sequences}},
                                   {.tokens = chunk, .logits = false, .slots = {1, sequences}}};
  for (std::uint32_t rows = 2; rows / 2 < sequences; rows *= 2) {
    forms.push_back({.slots = {std::min(rows, sequences), sequences}});
  }
  return forms;
}

/// The error `why`, and how many texts would do with the budget.
Status BatchGenerator::too_much(gpu::Device& device, const Model& model, const GeneratorOptions& options,
                                std::uint32_t context, const Status& why) {
  const auto fits = [&](std::uint32_t sequences) {
    const auto forms = forms_for(sequences, std::clamp<std::uint32_t>(options.prefill, 1, context));
    const auto graphs = decode_graphs(model.graph, options, context, forms);
    if (!graphs.ok()) return false;
    const auto bytes = DecodeMachine::bytes_of(device, *graphs, options);
    return bytes.ok() && *bytes <= options.plan.budget;
  };
  std::uint32_t most = 0;
  for (std::uint32_t end = options.sequences; end - most > 1;) {
    const std::uint32_t middle = most + (end - most) / 2;
    (fits(middle) ? most : end) = middle;
  }
  return error(why.code(), options.sequences, " sequences at once are too many: ", why.message(), " ",
               most == 0 ? "Not even one sequence would fit."
                         : cat(most, most == 1 ? " sequence" : " sequences", " would fit."));
}

Result<std::unique_ptr<BatchGenerator>> BatchGenerator::create(gpu::Device& device, const Model& model,
                                                               const GeneratorOptions& options) {
  constexpr std::uint32_t kMostSequences = 1024;
  GRAFT_TRY(model.check_before_use());
  if (options.sequences < 1 || options.sequences > kMostSequences) {
    return invalid("There would be ", options.sequences, " sequences at once; 1 to ", kMostSequences, " may be.");
  }
  if (options.prompt_lookup != 0) {
    return unsupported("Prompt lookup is for one sequence at a time, and there would be ", options.sequences, ".");
  }
  std::unique_ptr<BatchGenerator> out(new BatchGenerator());
  GRAFT_TRY_ASSIGN(const passes::DecoderPorts ports, passes::decoder_ports(model.graph));
  GRAFT_TRY_ASSIGN(out->context_, context_for(model, options.context));
  GRAFT_TRY_ASSIGN(out->model_, TextModel::create(model, ports.vocabulary));
  out->chunk_ = std::clamp<std::uint32_t>(options.prefill, 1, out->context_);
  const std::vector<DecodeForm> forms = forms_for(options.sequences, out->chunk_);
  for (const DecodeForm& form : forms) out->rows_.push_back(form.slots.items);
  GRAFT_TRY_ASSIGN(std::vector<Graph> graphs, decode_graphs(model.graph, options, out->context_, forms));
  out->windows_ = passes::forgetting_windows(graphs[0]);
  auto machine = DecodeMachine::create(
      device, model, std::move(graphs), options,
      cat("Generating ", options.sequences, " sequences at once with a context of ", out->context_, " tokens"));
  if (machine.status().code() == Code::out_of_memory && options.plan.budget != 0) {
    return too_much(device, model, options, out->context_, machine.status());
  }
  GRAFT_TRY_ASSIGN(out->machine_, std::move(machine));
  out->slots_.resize(options.sequences);
  out->find_caches(out->machine_->graph());
  out->constraints_ = TextConstraints(options.sequences);
  return out;
}

BatchGenerator::~BatchGenerator() = default;

Result<BatchGenerator::Id> BatchGenerator::submit(std::span<const TokenId> prompt, const GenerateOptions& options,
                                                  const TextCallback& on_text) {
  GRAFT_TRY(model_.check(prompt, options, context_));
  GRAFT_TRY_ASSIGN(auto constraint, constraints_.take(model_.tokenizer(), options));
  waiting_.push_back(std::make_unique<Text>(last_id_ + 1, model_, prompt, options, on_text, std::move(constraint)));
  return ++last_id_;
}

Result<BatchGenerator::Id> BatchGenerator::submit(std::string_view prompt, const GenerateOptions& options,
                                                  const TextCallback& on_text) {
  GRAFT_TRY_ASSIGN(const auto ids, model_.encode(prompt));
  return submit(ids, options, on_text);
}

Result<std::size_t> BatchGenerator::step() {
  settle();
  admit();
  if (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.text != nullptr; })) {
    const Status done = on_device([&]() -> Status {
      Slot* const slot = reading();
      return slot != nullptr ? read(*slot) : decode();
    });
    GRAFT_TRY(done);
    settle();
    report();
  }
  return unfinished();
}

std::optional<BatchGenerator::Finished> BatchGenerator::take() {
  if (finished_.empty()) return std::nullopt;
  std::optional<Finished> out = std::move(finished_.front());
  finished_.pop_front();
  return out;
}

bool BatchGenerator::drop(Id id) {
  const auto waits = std::ranges::find_if(waiting_, [&](const auto& text) { return text->id == id; });
  const auto slot = std::ranges::find_if(slots_, [&](const Slot& s) { return s.text && s.text->id == id; });
  std::unique_ptr<Text> text;
  if (waits != waiting_.end()) {
    text = std::move(*waits);
    waiting_.erase(waits);
  } else if (slot != slots_.end()) {
    text = std::move(slot->text);
  }
  if (!text) return false;
  constraints_.give_back(text->writer.take_constraint());
  return true;
}

std::size_t BatchGenerator::unfinished() const {
  return waiting_.size() +
         static_cast<std::size_t>(std::ranges::count_if(slots_, [](const Slot& slot) { return slot.text != nullptr; }));
}

/// Gives free slots to texts that wait: each the one that holds most of its beginning and, of such, the emptiest.
void BatchGenerator::admit() {
  while (!waiting_.empty()) {
    Slot* best = nullptr;
    std::size_t most = 0;
    for (Slot& slot : slots_) {
      if (slot.text != nullptr) continue;
      const std::size_t held = common(slot, waiting_.front()->writer.tokens());
      if (best != nullptr && (held < most || (held == most && slot.cached.size() >= best->cached.size()))) continue;
      best = &slot;
      most = held;
    }
    if (best == nullptr) return;
    best->text = std::move(waiting_.front());
    waiting_.pop_front();
  }
}

/// Finishes texts that end without another token, and makes the others ready for theirs.
void BatchGenerator::settle() {
  for (Slot& slot : slots_) {
    if (!slot.text || slot.text->prepared || slot.cached.size() + 1 < slot.text->writer.tokens().size()) continue;
    if (!slot.text->begun) continue;
    const Result<bool> more = slot.text->writer.prepare(slot.cached.size(), context_);
    if (more.ok() && *more) {
      slot.text->prepared = true;
    } else {
      finish(slot, more.status());
    }
  }
}

void BatchGenerator::finish(Slot& slot, const Status& done) {
  const std::unique_ptr<Text> text = std::move(slot.text);
  const Status ended = done.ok() ? text->writer.finish() : done;
  constraints_.give_back(text->writer.take_constraint());
  Generated& out = text->writer.result();
  out.decode_seconds = seconds_from_to(text->read, Clock::now());
  if (out.first_token_seconds == 0) out.first_token_seconds = seconds_from_to(text->submitted, Clock::now());
  if (ended.ok()) {
    finished_.push_back({text->id, std::move(out)});
  } else {
    finished_.push_back({text->id, ended});
  }
}

void BatchGenerator::take_scores(Slot& slot, std::span<const float> logits) {
  Text& text = *slot.text;
  text.prepared = false;
  const Result<bool> more = text.writer.add(logits);
  Generated& out = text.writer.result();
  if (out.first_token_seconds == 0) out.first_token_seconds = seconds_from_to(text.submitted, Clock::now());
  if (!more.ok() || !*more) finish(slot, more.status());
}

/// The first text whose prompt, but for its last token, is not in the caches.
BatchGenerator::Slot* BatchGenerator::reading() {
  Slot* first = nullptr;
  for (Slot& slot : slots_) {
    if (!slot.text || (slot.text->begun && slot.cached.size() + 1 >= slot.text->writer.tokens().size())) continue;
    if (first == nullptr || slot.text->id < first->text->id) first = &slot;
  }
  return first;
}

Status BatchGenerator::read(Slot& slot) {
  Text& text = *slot.text;
  const auto start = Clock::now();
  if (!text.begun) GRAFT_TRY(begin_reading(slot));
  const auto rest = std::span(text.writer.tokens()).subspan(slot.cached.size());
  if (rest.size() > 1) GRAFT_TRY(run_prompt(slot, rest.first(std::min<std::size_t>(chunk_, rest.size() - 1))));
  text.read = Clock::now();
  text.writer.result().prefill_seconds += seconds_from_to(start, text.read);
  return ok_status();
}

Status BatchGenerator::decode() {
  live_.clear();
  next_tokens_.clear();
  for (Slot& slot : slots_) {
    if (!slot.text || !slot.text->prepared) continue;
    live_.push_back(&slot);
    next_tokens_.push_back(slot.text->writer.tokens().back());
  }
  if (live_.empty()) return ok_status();
  const std::size_t program = program_for(live_.size());
  GRAFT_TRY(run_rows(live_, next_tokens_, program));
  for (std::size_t i = 0; i < live_.size(); ++i) take_scores(*live_[i], logits_of(program, i));
  return ok_status();
}

Result<Generated> BatchGenerator::generate(std::span<const TokenId> prompt, const GenerateOptions& options,
                                           const TextCallback& on_text) {
  GRAFT_TRY_ASSIGN(const Id id, submit(prompt, options, on_text));
  const auto is_it = [&](const Finished& one) { return one.id == id; };
  for (;;) {
    const Result<std::size_t> left = step();
    if (!left.ok()) {
      drop(id);  // a call that fails leaves nothing behind
      return left.status();
    }
    const auto found = std::ranges::find_if(finished_, is_it);
    if (found == finished_.end()) continue;
    Result<Generated> out = std::move(found->result);
    finished_.erase(found);
    return out;
  }
}

Result<Generated> BatchGenerator::generate(std::string_view prompt, const GenerateOptions& options,
                                           const TextCallback& on_text) {
  GRAFT_TRY_ASSIGN(const auto ids, model_.encode(prompt));
  return generate(ids, options, on_text);
}

Status BatchGenerator::swap_adapters(const Model* adapter) {
  if (unfinished() != 0) {
    return invalid("Adapters are swapped between texts, and ", unfinished(), " are queued or under way.");
  }
  for (Slot& slot : slots_) forget_from(slot, 0);  // keys and values of the other adapters
  return on_device([&] { return machine_->swap_adapters(adapter); });
}

void BatchGenerator::report() const {
  if (machine_->control() == nullptr) return;
  std::uint64_t tokens = 0, most = 0;
  for (const Slot& slot : slots_) {
    if (!slot.text) continue;
    tokens += slot.text->writer.result().tokens.size();
    most += slot.text->writer.options().max_tokens;
  }
  machine_->control()->report(Stage::answer, tokens, most);
}

}  // namespace graft
