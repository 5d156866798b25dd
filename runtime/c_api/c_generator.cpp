#include "runtime/c_api/c_async.h"
#include "runtime/c_api/c_swap.h"

using namespace graft;
using namespace graft::c_api;

namespace {

Result<GenerateOptions> generate_options(const graft_generate_options& given) {
  GenerateOptions out;
  out.max_tokens = given.max_tokens;
  out.sampling.temperature = given.temperature;
  out.sampling.top_k = given.top_k;
  out.sampling.top_p = given.top_p;
  out.sampling.min_p = given.min_p;
  out.sampling.repetition_penalty = given.repetition_penalty;
  out.sampling.seed = given.seed;
  if (given.stop == nullptr && given.stop_count != 0) return invalid("Stop strings were promised, and stop is NULL.");
  for (std::size_t i = 0; i < given.stop_count; ++i) {
    if (given.stop[i] == nullptr) return invalid("Stop string ", i, " is NULL.");
    out.stop.emplace_back(given.stop[i]);
  }
  if (given.bias == nullptr && given.bias_count != 0) return invalid("Biases were promised, and bias is NULL.");
  for (std::size_t i = 0; i < given.bias_count; ++i) {
    out.sampling.bias.push_back({given.bias[i].token, given.bias[i].bias});
  }
  out.log_probabilities = given.log_probabilities != 0;
  out.most_probable = given.most_probable;
  if (given.grammar != nullptr) out.grammar = given.grammar;
  if (given.json_schema != nullptr) out.json_schema = given.json_schema;
  return out;
}

/// Calls with(the generator, of whichever kind).
template <typename With>
auto with_either(const graft_generator& generator, With with) {
  return generator.batch ? with(*generator.batch) : with(*generator.generator);
}

/// The callbacks of `given`, which may be gone when they are called.
TextCallback callbacks(const graft_generate_options& given, GenerateOptions& wanted) {
  if (given.on_token != nullptr) {
    wanted.on_token = [user = given.user, on_token = given.on_token](text::TokenId token,
                                                                     std::span<const float> logits) {
      return on_token(user, token, logits.data(), logits.size()) != 0;
    };
  }
  if (given.on_text == nullptr) return {};
  return [user = given.user, on_text = given.on_text](std::string_view piece) {
    return on_text(user, piece.data(), piece.size()) != 0;
  };
}

/// `prompt`: text or tokens. `given`: whose callbacks are told.
template <typename Prompt>
Status generate(graft_generator& generator, Prompt prompt, const graft_generate_options& given,
                GenerateOptions wanted) {
  const TextCallback on_text = callbacks(given, wanted);
  GRAFT_TRY_ASSIGN(generator.last,
                   with_either(generator, [&](auto& of) { return of.generate(prompt, wanted, on_text); }));
  return ok_status();
}

Result<BatchGenerator*> batch_of(graft_generator& generator) {
  if (generator.batch) return generator.batch.get();
  return invalid("The generator is for one text after the other: graft_generator_options.sequences is 0.");
}

template <typename Prompt>
Status submit(graft_generator& generator, Prompt prompt, const graft_generate_options* options, std::uint64_t* id) {
  if (id == nullptr) return invalid("What is submitted needs a place for its name.");
  *id = 0;
  GRAFT_TRY_ASSIGN(BatchGenerator* const batch, batch_of(generator));
  GRAFT_TRY_ASSIGN(const graft_generate_options given, read_options(options, "graft_generate_options"));
  GRAFT_TRY_ASSIGN(GenerateOptions wanted, generate_options(given));
  const TextCallback on_text = callbacks(given, wanted);
  GRAFT_TRY_ASSIGN(*id, batch->submit(prompt, wanted, on_text));
  return ok_status();
}

template <typename Prompt>
Status generate(graft_generator& generator, Prompt prompt, const graft_generate_options* options) {
  GRAFT_TRY_ASSIGN(const graft_generate_options given, read_options(options, "graft_generate_options"));
  GRAFT_TRY_ASSIGN(GenerateOptions wanted, generate_options(given));
  return generate(generator, prompt, given, std::move(wanted));
}

graft_generated generated_info(const Generated& from) {
  static_assert(static_cast<int>(StopReason::end_of_text) == GRAFT_STOP_END_OF_TEXT &&
                static_cast<int>(StopReason::max_tokens) == GRAFT_STOP_MAX_TOKENS &&
                static_cast<int>(StopReason::stop_string) == GRAFT_STOP_STRING &&
                static_cast<int>(StopReason::context_full) == GRAFT_STOP_CONTEXT_FULL &&
                static_cast<int>(StopReason::callback) == GRAFT_STOP_CALLBACK);
  graft_generated out{};
  out.text = from.text.c_str();
  out.bytes = from.text.size();
  out.tokens = from.tokens.data();
  out.token_count = from.tokens.size();
  out.reason = static_cast<graft_stop_reason>(from.reason);
  out.prompt_tokens = from.prompt_tokens;
  out.cached_tokens = from.reused_tokens;
  out.prompt_ms = 1e3 * from.prefill_seconds;
  out.generated_ms = 1e3 * from.decode_seconds;
  out.first_token_ms = 1e3 * from.first_token_seconds;
  out.drafted_tokens = from.drafted_tokens;
  out.right_drafts = from.right_drafts;
  if (from.log_probabilities.empty()) return out;
  static_assert(sizeof(graft_token_probability) == sizeof(text::TokenProbability));
  out.log_probabilities = from.log_probabilities.data();
  out.most_probable = reinterpret_cast<const graft_token_probability*>(from.most_probable.data());
  out.most_probable_count = static_cast<std::uint32_t>(from.most_probable.size() / from.tokens.size());
  return out;
}

Result<DType> read_cache_format(graft_cache_format given) {
  constexpr DType kFormats[] = {DType::f32, DType::f16, DType::bf16, DType::q8_0};
  const auto number = static_cast<unsigned>(given);
  if (number >= std::size(kFormats)) return invalid("There is no format of caches of the number ", number, ".");
  return kFormats[number];
}

}  // namespace

graft_status graft_generator_create(graft_model* model, const graft_generator_options* options,
                                    graft_generator** generator) {
  if (model == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(model->context, [&]() -> Status {
    if (generator == nullptr) return invalid("graft_generator_create needs a place for the generator.");
    *generator = nullptr;
    GRAFT_TRY_ASSIGN(const graft_generator_options given, read_options(options, "graft_generator_options"));
    GeneratorOptions wanted;
    wanted.context = given.context;
    wanted.prefill = given.prefill;
    wanted.plan.budget = given.budget;
    wanted.prompt_lookup = given.prompt_lookup;
    GRAFT_TRY_ASSIGN(wanted.precision, read_precision(given.precision));
    GRAFT_TRY_ASSIGN(wanted.cache, read_cache_format(given.cache));
    GRAFT_TRY_ASSIGN(gpu::Device * device, device_of(*model->context));
    wanted.program.proof = model->context->proof.get();
    wanted.program.control = &model->context->control;
    if (given.recover_device != 0) {
      wanted.reopen = [&context = *model->context](gpu::Device& lost) { return reopen_device(context, lost); };
    }
    wanted.sequences = given.sequences;
    std::unique_ptr<Generator> one;
    std::unique_ptr<BatchGenerator> several;
    if (wanted.sequences == 0) {
      GRAFT_TRY_ASSIGN(one, Generator::create(*device, model->model, wanted));
    } else {
      GRAFT_TRY_ASSIGN(several, BatchGenerator::create(*device, model->model, wanted));
    }
    *generator = new graft_generator{model->context, model, std::move(one), std::move(several), {}};
    return ok_status();
  });
}

void graft_generator_destroy(graft_generator* generator) {
  if (generator != nullptr) destroy<graft_context>(generator->context, generator);
}

graft_status graft_generator_memory(const graft_generator* generator, graft_memory* memory) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&] {
    return write_info(memory_of(with_either(*generator, [](auto& of) { return of.memory(); })), memory, "graft_memory");
  });
}

graft_status graft_generator_describe(graft_generator* generator, graft_generator_info* info) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&] {
    graft_generator_info out{};
    out.context = with_either(*generator, [](auto& of) { return of.context(); });
    out.sequences = generator->batch ? generator->batch->sequences() : 0;
    out.verifies_drafts = generator->generator && generator->generator->verifies_drafts() ? 1 : 0;
    generator->streaming = with_either(*generator, [](auto& of) { return of.streaming(); });
    out.streaming = generator->streaming.c_str();
    return write_info(out, info, "graft_generator_info");
  });
}

graft_status graft_generator_rows_agree(graft_generator* generator, int* agree) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (agree == nullptr) return invalid("graft_generator_rows_agree needs a place for the answer.");
    *agree = 1;
    if (!generator->batch) return ok_status();
    GRAFT_TRY_ASSIGN(const bool same, generator->batch->rows_agree());
    *agree = same ? 1 : 0;
    return ok_status();
  });
}

graft_status graft_generator_pause(graft_generator* generator) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&] { return with_either(*generator, [](auto& of) { return of.pause(); }); });
}

graft_status graft_generator_resume(graft_generator* generator) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&] { return with_either(*generator, [](auto& of) { return of.resume(); }); });
}

graft_status graft_generate(graft_generator* generator, const char* prompt, const graft_generate_options* options,
                            const char** text, size_t* bytes) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (prompt == nullptr) return invalid("graft_generate needs a prompt.");
    GRAFT_TRY(generate(*generator, std::string_view(prompt), options));
    if (text != nullptr) *text = generator->last.text.c_str();
    if (bytes != nullptr) *bytes = generator->last.text.size();
    return ok_status();
  });
}

graft_status graft_generate_async(graft_generator* generator, const char* prompt, const graft_generate_options* options,
                                  graft_done done, void* user) {
  if (generator == nullptr || prompt == nullptr) return GRAFT_INVALID_ARGUMENT;
  return or_without_memory(GRAFT_OUT_OF_MEMORY, [&] {
    const auto given = read_options(options, "graft_generate_options");
    if (!given.ok()) return static_cast<graft_status>(given.status().code());
    auto wanted = generate_options(*given);
    if (!wanted.ok()) return static_cast<graft_status>(wanted.status().code());
    const auto job = [prompt = std::string(prompt), given = *given, wanted = *std::move(wanted)](graft_generator& of) {
      return generate(of, std::string_view(prompt), given, wanted);
    };
    return ask(generator, done, user, job);
  });
}

graft_status graft_generate_tokens(graft_generator* generator, const int32_t* prompt, size_t count,
                                   const graft_generate_options* options, graft_generated* generated) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (prompt == nullptr && count != 0) return invalid(count, " tokens were promised, and the prompt is NULL.");
    if (generated != nullptr) GRAFT_TRY(check_info(generated, "graft_generated"));
    GRAFT_TRY(generate(*generator, std::span<const text::TokenId>(prompt, count), options));
    return generated == nullptr ? ok_status()
                                : write_info(generated_info(generator->last), generated, "graft_generated");
  });
}

graft_status graft_generator_last(const graft_generator* generator, graft_generated* generated) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context,
                 [&] { return write_info(generated_info(generator->last), generated, "graft_generated"); });
}

graft_status graft_generator_submit(graft_generator* generator, const char* prompt,
                                    const graft_generate_options* options, uint64_t* id) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (prompt == nullptr) return invalid("graft_generator_submit needs a prompt.");
    return submit(*generator, std::string_view(prompt), options, id);
  });
}

graft_status graft_generator_submit_tokens(graft_generator* generator, const int32_t* prompt, size_t count,
                                           const graft_generate_options* options, uint64_t* id) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (prompt == nullptr && count != 0) return invalid(count, " tokens were promised, and the prompt is NULL.");
    return submit(*generator, std::span<const text::TokenId>(prompt, count), options, id);
  });
}

graft_status graft_generator_step(graft_generator* generator, size_t* unfinished) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(BatchGenerator* const batch, batch_of(*generator));
    GRAFT_TRY_ASSIGN(const std::size_t left, batch->step());
    if (unfinished != nullptr) *unfinished = left;
    return ok_status();
  });
}

graft_status graft_generator_finished(graft_generator* generator, uint64_t* id, graft_generated* generated) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    if (id == nullptr) return invalid("graft_generator_finished needs a place for the text's name.");
    *id = 0;
    GRAFT_TRY_ASSIGN(BatchGenerator* const batch, batch_of(*generator));
    if (generated != nullptr) GRAFT_TRY(check_info(generated, "graft_generated"));
    std::optional<BatchGenerator::Finished> next = batch->take();
    if (!next) return ok_status();
    *id = next->id;
    GRAFT_TRY_ASSIGN(generator->last, std::move(next->result));
    return generated == nullptr ? ok_status()
                                : write_info(generated_info(generator->last), generated, "graft_generated");
  });
}

graft_status graft_generator_drop(graft_generator* generator, uint64_t id) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&]() -> Status {
    GRAFT_TRY_ASSIGN(BatchGenerator* const batch, batch_of(*generator));
    if (batch->drop(id)) return ok_status();
    return error(Code::not_found, "No text of the name ", id, " is queued or under way.");
  });
}

namespace {

/// `from`: a path or a source.
template <typename From>
graft_status swap_of_generator(graft_generator* generator, From from) {
  if (generator == nullptr) return GRAFT_INVALID_ARGUMENT;
  return guarded(generator->context, [&] {
    return swap_from(*generator->context, from, [&](const Model* m) {
      return with_either(*generator, [&](auto& of) { return of.swap_adapters(m); });
    });
  });
}

}  // namespace

graft_status graft_generator_swap_adapters(graft_generator* generator, const char* path) {
  return swap_of_generator(generator, path);
}

graft_status graft_generator_swap_adapters_source(graft_generator* generator, const graft_source* source) {
  return swap_of_generator(generator, source);
}
