#include "tools/graft/train_setup.h"

#include <algorithm>
#include <cmath>

#include "platform/base/checked.h"
#include "runtime/session/preference.h"
#include "tools/bench/budget.h"
#include "tools/common/options.h"
#include "tools/graft/monitor_flags.h"

namespace graft::cli {
namespace {

std::uint64_t steps_of(const data::Source& source, const data::LoaderOptions& options) {
  const std::uint64_t samples = source.size().value_or(0);
  return options.epochs * (options.drop_last ? samples / options.batch : ceil_div(samples, options.batch));
}

/// Fewer or as many classes as the model has, all of them its own: they keep their numbers.
bool knows_all(const std::vector<std::string>& known, const data::Source& source) {
  const auto* names = data::class_names(source);
  return names != nullptr && *names != known && std::ranges::all_of(*names, [&](const std::string& name) {
           return std::ranges::find(known, name) != known.end();
         });
}

}  // namespace

// --eval names a set of its own; --eval-split keeps the last samples of --data from training.
Result<DataSets> open_sets(const TrainArguments& options, const Model& model) {
  bool sequence_starts = false;
  data::Hints hints = training_hints_of(model);
  DataSets sets;
  const auto open = [&](const std::string& spec, bool held_out = false) {
    return open_data(
        spec, model, options.train.seq, hints, sequence_starts,
        {options.text.on_long, held_out ? 0 : options.text.show, preference_of(options.train), options.train.pooling},
        held_out ? &sets.held_out_info : &sets.training_info);
  };
  TRY_ASSIGN(sets.training, open(options.data));
  if (const auto known = classes_of(model); knows_all(known, *sets.training)) {
    hints.classes = known;
    TRY_ASSIGN(sets.training, open(options.data));
  }
  sequence_starts = has_packed_sequences(*sets.training);
  const data::Hints training_hints = hints;
  if (const auto* classes = data::class_names(*sets.training)) hints.classes = *classes;
  hints.augment = false;  // of what the training is measured on
  if (!options.held_out.empty()) {
    TRY_ASSIGN(sets.held_out, open(options.held_out, true));
    // One graph serves both.
    if (has_packed_sequences(*sets.held_out) && !sequence_starts) {
      sequence_starts = true;
      hints = training_hints;
      TRY_ASSIGN(sets.training, open(options.data));
    }
  }
  if (options.split == 0) return sets;
  if (sets.held_out) return invalid("Give --eval or --eval-split, not both.");
  const auto size = sets.training->size();
  if (!(options.split > 0 && options.split < 1) || !size || *size < 2) {
    return invalid("--eval-split ", options.split, " must lie between 0 and 1, and needs two samples or more.");
  }
  const double wanted = std::round(options.split * static_cast<double>(*size));
  const auto held = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, *size - 1);
  TRY_ASSIGN(sets.held_out, open(options.data, true));
  sets.held_out_info = {};  // the summary of the whole set tells of both
  TRY_ASSIGN(sets.held_out, data::range(std::move(sets.held_out), *size - held, held));
  TRY_ASSIGN(sets.training, data::range(std::move(sets.training), 0, *size - held));
  return sets;
}

namespace {

/// What `base` makes of a set's texts becomes part of its samples; kept in the run's folder, where it has one.
Status add_reference(OpenDevice& opened, const Model& base, const TrainArguments& options, const char* name,
                     std::unique_ptr<data::Source>& source) {
  TRY_ASSIGN(const train::TrainOptions train, cli::train_options(options.train, 0));
  ReferenceOptions how{.batch = options.train.batch, .precision = train.precision, .bindings = train.bindings};
  how.bindings.erase("seq");  // of one text
  opened.give_to(how.trainer.program);
  const std::string& folder = options.checkpoint.options.folder;
  const std::string path = folder.empty() ? std::string() : cat(folder, "/reference-", name);
  TRY_ASSIGN(const std::string contents, fingerprint_of(*source));
  const std::string of = cat(contents, ' ', name_of_base(base), ' ', options.train.precision);
  if (!path.empty()) {
    auto kept = read_references(os::system_files(), path, of, *source->size());
    if (kept.ok()) {
      TRY_ASSIGN(source, with_references(std::move(source), std::move(*kept)));
      return ok_status();
    }
    if (const Status status = kept.status(); status.code() != Code::not_found) return status;
  }
  TRY_ASSIGN(auto references, log_probabilities(opened.device(), base, *source, how));
  if (!path.empty()) {
    TRY(os::make_directories(os::system_files(), folder));
    TRY(write_references(os::system_files(), path, of, references));
  }
  TRY_ASSIGN(source, with_references(std::move(source), std::move(references)));
  return ok_status();
}

}  // namespace

Status set_teacher(const TrainFlags& flags, const Graph& taught, train::TrainOptions& options) {
  if (flags.teacher.empty()) return ok_status();
  const double temperature = std::isnan(flags.temperature) ? kDistillTemperature : flags.temperature;
  return learn_from_teacher(taught, flags.distill_weight, temperature, options);
}

void add_data(const TrainArguments& options, const PreparedRun& run, Configuration& configuration) {
  configuration["data"] = options.data;
  configuration["data contents"] = run.fingerprint;
  if (!run.teacher_name.empty()) configuration["teacher"] = run.teacher_name;
  configuration["order"] = order_text(!options.no_shuffle, options.drop_last);
  if (options.workers.wire != "f32") configuration["precision"] += cat(", ", options.workers.wire, " on the wire");
}

Result<std::unique_ptr<PreparedRun>> prepare_run(OpenDevice& opened, const Model& base, const Model& model,
                                                 const TrainArguments& options, train::SlotExchange* exchange,
                                                 const std::optional<FirstWorker>& first) {
  auto run = std::make_unique<PreparedRun>();
  TRY_ASSIGN(DataSets sets, open_sets(options, model));
  const bool checkpoints = !options.checkpoint.options.folder.empty();
  if (checkpoints || exchange != nullptr) {  // now: later the loader's thread reads the source
    TRY_ASSIGN(run->fingerprint, fingerprint_of(*sets.training));
  }
  if (needs_reference(options.train)) {
    TRY(add_reference(opened, base, options, "training", sets.training));
    if (sets.held_out) TRY(add_reference(opened, base, options, "held-out", sets.held_out));
  }
  run->source = std::move(sets.training);
  run->held_out = std::move(sets.held_out);
  run->training_info = std::move(sets.training_info);
  if (first) {
    print_summary("Data: ", run->training_info, options.quiet);
    print_summary("Held-out data: ", sets.held_out_info, options.quiet);
    print_shown(run->training_info);
  }
  const data::Source& source = *run->source;
  if (!first) run->held_out.reset();
  const data::Source* const held_out = run->held_out.get();
  TRY_ASSIGN(run->masked, model_for(source, model));
  const Model& alone = run->masked ? *run->masked : model;
  if (!options.train.teacher.empty()) {
    TRY_ASSIGN(run->teacher, open_adapted(options.train.teacher, {}, WeightCheck::at_once));
    TRY_ASSIGN(run->taught, with_teacher(alone, run->teacher->base));
    run->teacher_name = name_of_base(run->teacher->base);
  }
  const Model& trained = run->taught ? *run->taught : alone;
  data::LoaderOptions loader_options;
  loader_options.batch = static_cast<std::uint64_t>(options.train.batch * options.train.accumulate);
  loader_options.shuffle = !options.no_shuffle;
  loader_options.seed = options.train.seed;
  loader_options.drop_last = options.drop_last;
  loader_options.threads = options.read_threads;
  loader_options.epochs = options.steps > 0 ? 0 : std::max<std::uint64_t>(options.epochs, 1);
  run->total_steps = options.steps > 0 ? options.steps : steps_of(source, loader_options);

  TRY_ASSIGN(train::TrainOptions train_options, cli::train_options(options.train, run->total_steps));
  TRY(set_teacher(options.train, trained.graph, train_options));
  if (has_pairs(source)) train_options.bindings.erase("seq");  // --seq is of one text, of which samples hold two
  bind_length(source, alone, train_options.bindings);
  train_options.fetch = split_list(options.fetch);
  TRY_ASSIGN(const Monitors monitors, Monitors::create(options));
  train_options.predictions = monitors.needs_predictions() && held_out != nullptr;
  train::TrainerOptions trainer_options;
  trainer_options.exchange = exchange;
  trainer_options.request.slots = exchange != nullptr;
  if (exchange != nullptr && options.workers.shard_optimizer) {
    const train::Share share = exchange->share();
    trainer_options.request.shard = {static_cast<std::uint32_t>(share.rank), static_cast<std::uint32_t>(share.workers)};
  }
  trainer_options.request.samples = source.size();
  trainer_options.request.drop_last = options.drop_last;
  trainer_options.request.evaluation = held_out != nullptr;
  trainer_options.request.checkpoints = checkpoints;
  RunProfile* const profile = first ? first->profile : nullptr;
  trainer_options.program.profile = profile != nullptr;
  trainer_options.program.observer = profile;
  opened.give_to(trainer_options.program);
  if (options.recover_device) trainer_options.reopen = [&opened] { return opened.reopen(); };
  gpu::Device& device = opened.device();
  train::scale_for_rounding(device.target(), train_options);
  if (held_out != nullptr) trainer_options.request.evaluation_samples = held_out->size();
  trainer_options.request.plan.fuse = trainer_options.request.plan.merge = !options.no_fusion;
  TRY(train::set_targets(trained.graph, source.fields(), train_options));
  TRY(set_budget(options.budget, trained.graph, train_options, device.target(), trainer_options.request));
  TRY_ASSIGN(run->trainer, create_trainer(device, trained, train_options, source.fields(), trainer_options));
  TRY_ASSIGN(run->loader, data::Loader::create(*run->source, loader_options));
  return run;
}

}  // namespace graft::cli
