#include "tools/bench/budget.h"
#include "tools/bench/language_bench.h"
#include "tools/common/numbers.h"

#include <algorithm>
#include <cstdio>

#include "runtime/data/random.h"
#include "runtime/language/generator.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/decode_graph.h"
#include "runtime/passes/precision.h"
#include "runtime/run_state/training.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

using Words = std::vector<std::int32_t>;

Words random_tokens(std::size_t count, std::int64_t vocabulary, std::uint64_t seed) {
  data::Random random(data::mix(seed));
  Words out(count);
  for (std::int32_t& id : out) id = static_cast<std::int32_t>(random.uniform(0, static_cast<double>(vocabulary) - 1));
  return out;
}

LanguageRow row_of(std::string name, std::uint64_t tokens, std::vector<double> seconds, std::uint64_t bytes) {
  std::sort(seconds.begin(), seconds.end());
  return {std::move(name), tokens, seconds.front(), seconds[seconds.size() / 2], bytes, {}};
}

/// All micro-batches of a whole batch, and the update.
StepCounts counts_of(const train::Trainer& trainer, std::size_t submissions) {
  StepCounts counts;
  counts.submissions = submissions;
  const train::TrainingPlan& plan = trainer.plan();
  const auto add = [&](const Plan& one, std::size_t times) {
    counts.dispatches +=
        times * static_cast<std::size_t>(std::ranges::count(one.steps, StepKind::dispatch, &Step::kind));
    counts.barriers += times * one.barriers;
  };
  const auto micro = static_cast<std::size_t>(plan.micro_batch);
  add(plan.training.front().plan, (static_cast<std::size_t>(trainer.options().batch) + micro - 1) / micro);
  if (plan.update) add(*plan.update, 1);
  return counts;
}

/// The generator's own times are wall clock, so whole calls are timed here: decode is a call less its prefill.
Status bench_generation(gpu::Device& device, const Model& model, std::int64_t vocabulary,
                        const LanguageBenchFlags& flags, int repeat, Clock clock, std::vector<LanguageRow>& rows) {
  const auto length = static_cast<std::uint32_t>(flags.seq);
  GeneratorOptions options;
  options.context = length + flags.decode + 1;
  options.prefill = length;
  TRY_ASSIGN(options.precision, passes::parse_precision(flags.precision));
  TRY_ASSIGN(const auto generator, Generator::create(device, model, options));
  std::vector<double> prefill, decode;
  std::uint64_t decoded = 0;
  for (int i = 0; i <= repeat; ++i) {
    // Another text each time: what the caches hold already would cost nothing.
    const Words prompt = random_tokens(length, vocabulary, static_cast<std::uint64_t>(i));
    const Stopwatch first(clock);
    TRY(generator->generate(prompt, {.max_tokens = 1}));
    const double one = first.seconds();
    const Stopwatch second(clock);
    TRY_ASSIGN(const Generated made, generator->generate(prompt, {.max_tokens = flags.decode}));
    const double more = second.seconds();
    if (i == 0) continue;
    prefill.push_back(one);
    const std::uint64_t steps = made.tokens.size() + (made.reason == StopReason::end_of_text ? 1 : 0);
    decode.push_back(more / static_cast<double>(std::max<std::uint64_t>(steps, 1)));
    decoded += steps;
  }
  const std::uint64_t bytes = generator->memory().total();
  rows.push_back(row_of("prefill", length, std::move(prefill), bytes));
  if (decoded > 0) rows.push_back(row_of("decode", 1, std::move(decode), bytes));
  return ok_status();
}

Result<LanguageRow> bench_step(gpu::Device& device, const Model& model, const std::string& name,
                               std::int64_t vocabulary, const LanguageBenchFlags& flags, int repeat, Clock clock) {
  const auto batch = static_cast<std::uint64_t>(flags.batch);
  const std::size_t tokens = static_cast<std::size_t>(flags.seq) * batch;
  const Words words = random_tokens(tokens, vocabulary, 1);
  const Words labels = random_tokens(tokens, vocabulary, 2);
  const Shape shape = {flags.seq};
  const std::vector<data::Field> fields = {{"tokens", DType::i32, shape, data::Role::feature},
                                           {"label", DType::i32, shape, data::Role::label}};
  TRY_ASSIGN(const auto source,
             data::from_slices(fields, {std::as_bytes(std::span(words)), std::as_bytes(std::span(labels))}, batch));
  train::TrainOptions options;
  options.batch = flags.batch;
  options.bindings = {{"seq", flags.seq}};
  TRY_ASSIGN(options.precision, passes::parse_precision(flags.precision));
  train::TrainerOptions trainer_options;
  trainer_options.request.samples = batch;
  trainer_options.request.evaluation = false;
  TRY(set_budget(flags.budget, model.graph, options, device.target(), trainer_options.request));
  TRY_ASSIGN(const auto trainer, create_trainer(device, model, options, fields, trainer_options));
  TRY_ASSIGN(const auto loader, data::Loader::create(*source, {.batch = batch, .shuffle = false}));
  std::vector<double> seconds;
  std::size_t submissions = 0;
  for (int i = 0; i <= repeat; ++i) {
    TRY_ASSIGN(const data::Batch* next, loader->next());
    const Stopwatch watch(clock);
    TRY_ASSIGN(const train::StepResult result, trainer->train_step(*next));
    if (i > 0) seconds.push_back(watch.seconds());
    submissions = result.submissions;
  }
  LanguageRow row = row_of(name, tokens, std::move(seconds), trainer->device_bytes());
  row.counts = counts_of(*trainer, submissions);
  return row;
}

bool has_blocks(const Graph& graph) {
  return std::ranges::any_of(graph.values(), [](const Value& value) { return is_quantized(value.dtype); });
}

}  // namespace

void add_language_bench_flags(CLI::App& app, LanguageBenchFlags& flags) {
  app.add_option("--seq", flags.seq, "Language models: tokens of the prompt and of a sample (128)")
      ->check(whole(1, 1 << 20));
  app.add_option("--batch", flags.batch, "Language models: samples of a step (1)")->check(whole(1, 1 << 20));
  app.add_option("--decode", flags.decode, "Language models: tokens to write (32)")->check(whole(1, 1 << 20));
  app.add_option("--lora", flags.lora, "Language models: the adapters of the step that trains some");
  app.add_option("--budget", flags.budget, "Language models: largest device memory of a step; weights+150MB too");
  add_precision_flag(app, flags.precision);
  app.add_flag("--no-steps", flags.no_steps, "Language models: only reading and writing, no training");
}

Result<std::vector<LanguageRow>> bench_language(gpu::Device& device, const Model& model,
                                                const LanguageBenchFlags& flags, int repeat, Clock clock) {
  TRY_ASSIGN(const passes::DecoderPorts ports, passes::decoder_ports(model.graph));
  if (flags.seq < 1 || flags.batch < 1 || flags.decode < 1) {
    return invalid("--seq, --batch and --decode must be 1 or more.");
  }
  std::vector<LanguageRow> rows;
  TRY(bench_generation(device, model, ports.vocabulary, flags, repeat, clock, rows));
  if (flags.no_steps) return rows;
  TRY_ASSIGN(const LoraOptions lora, parse_lora(flags.lora));
  TRY_ASSIGN(const Model adapted, with_lora(model, lora, 0));
  TRY_ASSIGN(LanguageRow step, bench_step(device, adapted, "lora step", ports.vocabulary, flags, repeat, clock));
  rows.push_back(std::move(step));
  if (has_blocks(model.graph)) return rows;
  TRY_ASSIGN(LanguageRow full, bench_step(device, model, "full step", ports.vocabulary, flags, repeat, clock));
  rows.push_back(std::move(full));
  return rows;
}

void print_language_rows(const std::vector<LanguageRow>& rows) {
  using Kind = Table::Kind;
  Table table({{"", 12, Kind::name},
               {"tokens", 10, Kind::number},
               {"median s", 12, Kind::number},
               {"tokens/s", 12, Kind::number},
               {"device memory", 16, Kind::number},
               {"dispatches", 11, Kind::optional},
               {"barriers", 9, Kind::optional},
               {"submissions", 12, Kind::optional}});
  for (const LanguageRow& row : rows) {
    const auto counted = [&](std::size_t count) { return row.counts.dispatches != 0 ? cat(count) : std::string(); };
    table.row({row.name, cat(row.tokens), number_text("%.4f", row.median), number_text("%.2f", row.rate()),
               bytes_text(row.device_bytes), counted(row.counts.dispatches), counted(row.counts.barriers),
               counted(row.counts.submissions)});
  }
  table.print();
}

nlohmann::ordered_json language_rows_json(const std::vector<LanguageRow>& rows) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const LanguageRow& row : rows) {
    out.push_back({{"name", row.name},
                   {"tokens", row.tokens},
                   {"best_seconds", row.best},
                   {"median_seconds", row.median},
                   {"tokens_per_second", row.rate()},
                   {"device_bytes", row.device_bytes}});
    if (row.counts.dispatches == 0) continue;
    out.back().update({{"dispatches", row.counts.dispatches},
                       {"barriers", row.counts.barriers},
                       {"submissions", row.counts.submissions}});
  }
  return out;
}

}  // namespace graft::cli
