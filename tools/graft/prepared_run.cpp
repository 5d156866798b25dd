#include "tools/graft/prepared_run.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tools/common/options.h"
#include "tools/graft/monitor_flags.h"
#include "tools/graft/put_adapters.h"

namespace graft::cli {
namespace {

struct PublicSets {
  Owned<graft_data_set> training;
  Owned<graft_data_set> held_out;  ///< may be null
  bool tells_of_held_out = false;  ///< its summary is its own
};

/// The names of the first part of samples that has any.
std::vector<std::string> classes_of_set(const graft_data_set* set) {
  std::vector<std::string> names;
  for (std::size_t field = 0; field < graft_data_field_count(set) && names.empty(); ++field) {
    while (const char* name = graft_data_class(set, field, names.size())) names.emplace_back(name);
  }
  return names;
}

/// Whether samples hold several texts, none of which is to see another.
bool has_sequence_starts(const graft_data_set* set) {
  graft_field field = {};
  for (std::size_t i = 0; graft_data_field(set, i, &field) == GRAFT_OK; ++i) {
    if (std::string_view(field.name) == "sequence_starts") return true;
  }
  return false;
}

/// Fewer or as many classes as the model has, all of them its own: they keep their numbers.
bool are_known(const std::vector<std::string>& known, const std::vector<std::string>& names) {
  return !names.empty() && names != known && std::ranges::all_of(names, [&](const std::string& name) {
    return std::ranges::find(known, name) != known.end();
  });
}

/// --eval-split keeps the last samples of --data from training.
Status split_set(graft_context* context, double split, PublicSets& sets) {
  const std::uint64_t size = graft_data_samples(sets.training.get());
  const double wanted = std::round(split * static_cast<double>(size));
  const auto held = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, size - 1);
  TRY(checked(graft_data_narrow(sets.held_out.get(), size - held, held), context));
  return checked(graft_data_narrow(sets.training.get(), 0, size - held), context);
}

/// --data, and what --eval or --eval-split name.
Result<PublicSets> open_public_sets(graft_context* context, graft_model* model, const TrainArguments& options) {
  PublicSets sets;
  SetWishes training = {.evaluation = false, .show = options.text.show};
  const auto open = [&](const std::string& spec, const SetWishes& wishes) {
    return open_set(context, model, spec, options.train, options.text.on_long, wishes);
  };
  TRY_ASSIGN(sets.training, open(options.data, training));
  std::vector<std::string> known;
  for (std::size_t i = 0; const char* name = graft_model_class(model, i); ++i) known.emplace_back(name);
  if (are_known(known, classes_of_set(sets.training.get()))) {
    training.classes = &known;
    TRY_ASSIGN(sets.training, open(options.data, training));
  }
  const std::vector<std::string> classes = classes_of_set(sets.training.get());
  SetWishes held_out = {.sequence_starts = has_sequence_starts(sets.training.get()), .classes = &classes};
  if (!options.held_out.empty()) {
    sets.tells_of_held_out = true;
    TRY_ASSIGN(sets.held_out, open(options.held_out, held_out));
    // One graph serves both.
    if (has_sequence_starts(sets.held_out.get()) && !held_out.sequence_starts) {
      training.sequence_starts = held_out.sequence_starts = true;
      TRY_ASSIGN(sets.training, open(options.data, training));
    }
  }
  if (options.split == 0) return sets;
  if (sets.held_out) return invalid("Give --eval or --eval-split, not both.");
  if (!(options.split > 0 && options.split < 1) || graft_data_samples(sets.training.get()) < 2) {
    return invalid("--eval-split ", options.split, " must lie between 0 and 1, and needs two samples or more.");
  }
  TRY_ASSIGN(sets.held_out, open(options.data, held_out));
  TRY(split_set(context, options.split, sets));
  return sets;
}

/// What the model without adapters makes of the sets' texts becomes part of their samples; kept in the run's folder,
/// where it has one.
Status add_references(graft_context* context, graft_model* model, const TrainArguments& options,
                      const TrainWishes& wishes, PublicSets& sets) {
  Owned<graft_model> longer;
  if (!options.train.add_tokens.empty()) {  // texts are made of these, too
    TRY_ASSIGN(longer, open_trainable(context, options.path, GRAFT_CHECK_ON_USE));
    TRY_ASSIGN(const std::string tokens, new_tokens_json(options.train.add_tokens));
    TRY(checked(graft_model_add_tokens(longer.get(), tokens.c_str()), context));
  }
  const auto add = [&](const char* name, graft_data_set* set) {
    graft_reference_options how = wishes.reference();
    const std::string& folder = options.checkpoint.folder;
    const std::string file = folder.empty() ? std::string() : cat(folder, "/reference-", name);
    if (!file.empty()) how.file = file.c_str();
    return checked(graft_data_add_reference_with(set, longer ? longer.get() : model, &how), context);
  };
  TRY(add("training", sets.training.get()));
  return sets.held_out ? add("held-out", sets.held_out.get()) : ok_status();
}

std::uint64_t steps_of(const graft_data_set* set, const graft_loader_options& options) {
  const std::uint64_t samples = graft_data_samples(set);
  const std::uint64_t whole = samples / options.batch;
  return options.epochs * (options.drop_last == 0 && samples % options.batch != 0 ? whole + 1 : whole);
}

graft_loader_options loader_options(const TrainArguments& options, bool anonymous) {
  graft_loader_options out = {};
  out.struct_size = sizeof out;
  out.batch = static_cast<std::uint64_t>(options.train.batch * options.train.accumulate);
  out.in_order = options.no_shuffle ? 1 : 0;
  out.seed = options.train.seed;
  out.drop_last = options.drop_last ? 1 : 0;
  out.read_threads = options.read_threads;
  out.epochs = options.steps > 0 ? 0 : std::max<std::uint64_t>(options.epochs, 1);
  out.anonymous = anonymous ? 1 : 0;
  return out;
}

}  // namespace

Result<Owned<graft_model>> open_trained(graft_context* context, const TrainArguments& options,
                                        graft_weight_check check) {
  const TrainFlags& flags = options.train;
  TRY_ASSIGN(auto model, open_trainable(context, options.path, check));
  if (!flags.adapter.files.empty() && !flags.lora.empty()) {
    return invalid("Give --lora for fresh adapters or --adapter for those of a file, not both.");
  }
  if (!flags.adapter.files.empty() && !flags.add_tokens.empty()) {
    return invalid("--add-tokens goes with fresh adapters or none; merge those of --adapter into the model first.");
  }
  TRY(put_adapters(context, model.get(), options.path, flags.adapter));
  if (!flags.add_tokens.empty()) {
    TRY_ASSIGN(const std::string tokens, new_tokens_json(flags.add_tokens));
    TRY(checked(graft_model_add_tokens(model.get(), tokens.c_str()), context));
  }
  if (!flags.lora.empty()) {
    TRY(checked(graft_model_add_adapters(model.get(), flags.lora.c_str(), flags.seed), context));
  }
  return model;
}

Result<graft_run_info> PreparedRun::info() const {
  graft_run_info out = {};
  out.struct_size = sizeof out;
  TRY(checked(graft_trainer_describe(trainer.get(), &out), context));
  return out;
}

Result<graft_run_place> PreparedRun::place() const {
  graft_run_place out = {};
  out.struct_size = sizeof out;
  TRY(checked(graft_trainer_place(trainer.get(), &out), context));
  return out;
}

Status PreparedRun::store(bool ema) const {
  TRY(checked(ema ? graft_trainer_store_ema(trainer.get()) : graft_trainer_store(trainer.get()), context));
  const graft_status kept = graft_model_keep_classes(model, source.get());
  return kept == GRAFT_NOT_FOUND ? ok_status() : checked(kept, context);
}

Result<PreparedRun> prepare_run(graft_context* context, graft_model* model, const TrainArguments& options,
                                const graft_group* group, RunRole role, bool profiled) {
  PreparedRun run;
  run.context = context;
  run.model = model;
  const bool checkpoints = !options.checkpoint.folder.empty();
  TRY_ASSIGN(PublicSets sets, open_public_sets(context, model, options));
  const graft_loader_options batches = loader_options(options, !checkpoints && group == nullptr);
  run.total_steps = options.steps > 0 ? options.steps : steps_of(sets.training.get(), batches);
  TRY(run.wishes.read(options.train, run.total_steps));
  if (needs_reference(options.train)) TRY(add_references(context, model, options, run.wishes, sets));
  run.source = std::move(sets.training);
  if (role == RunRole::leads) {
    run.held_out = std::move(sets.held_out);
    TRY(print_summary(context, "Data: ", run.source.get(), options.quiet));
    if (sets.tells_of_held_out) {
      TRY(print_summary(context, "Held-out data: ", run.held_out.get(), options.quiet));
    }
    print_shown(run.source.get());
  }
  if (!options.train.teacher.empty()) {
    TRY_ASSIGN(run.teacher, open_model(context, options.train.teacher, GRAFT_CHECK_AT_ONCE));
  }
  graft_trainer_options wanted = run.wishes.options();
  wanted.teacher = run.teacher.get();
  wanted.data = run.source.get();
  wanted.held_out = run.held_out.get();
  wanted.no_evaluation = run.held_out ? 0 : 1;
  wanted.drop_last = options.drop_last ? 1 : 0;
  std::string fetch;
  for (const std::string& name : split_list(options.fetch)) fetch += (fetch.empty() ? "" : ",") + name;
  if (!fetch.empty()) wanted.fetch = fetch.c_str();
  TRY_ASSIGN(const Monitors monitors, Monitors::create(context, options));
  wanted.predictions = monitors.needs_predictions && run.held_out ? 1 : 0;
  wanted.checkpoints = checkpoints ? 1 : 0;
  wanted.recover_device = options.recover_device ? 1 : 0;
  wanted.no_fusion = options.no_fusion ? 1 : 0;
  TRY_ASSIGN(const Budget budget, parse_step_budget(options.budget));
  wanted.budget = budget.bytes;
  wanted.budget_beside_weights = budget.beside_weights;
  wanted.shrinkable = options.budget.empty() ? 0 : 1;
  wanted.group = group;
  // Whoever stands still is found by its silence. One that runs is slow, or compiles: it gets longer, as between steps.
  if (group != nullptr && group->reform != nullptr) {
    wanted.group_timeout_ms = wanted.group_pause_ms = 10 * 1000 * options.workers.timeout;
  }
  if (profiled) {
    graft_profile* profile = nullptr;
    const auto steps = static_cast<std::uint32_t>(options.profile_steps);
    TRY(checked(graft_profile_create(context, steps, &profile), context));
    run.profile.reset(profile);
    wanted.profile = profile;
  }
  graft_trainer* trainer = nullptr;
  TRY(checked(graft_trainer_create(model, &wanted, &trainer), context));
  run.trainer.reset(trainer);
  graft_loader* loader = nullptr;
  TRY(checked(graft_loader_create(run.source.get(), &batches, &loader), context));
  run.loader.reset(loader);
  return run;
}

}  // namespace graft::cli
