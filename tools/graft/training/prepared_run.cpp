#include "tools/graft/training/prepared_run.h"

#include <algorithm>

#include "tools/common/options.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/training/monitor_flags.h"
#include "tools/graft/training/training_sets.h"

namespace graft::cli {

std::uint64_t steps_of(const graft_data_set* set, const graft_loader_options& options) {
  const std::uint64_t samples = graft_data_samples(set);
  const std::uint64_t whole = samples / options.batch;
  return options.epochs * (options.drop_last == 0 && samples % options.batch != 0 ? whole + 1 : whole);
}

graft_loader_options loader_options(const TrainArguments& options, bool anonymous) {
  auto out = sized<graft_loader_options>();
  out.batch = static_cast<std::uint64_t>(options.train.batch * options.train.accumulate);
  out.in_order = options.no_shuffle ? 1 : 0;
  out.keyed = options.keyed_order || !options.memory.empty() ? 1 : 0;
  out.seed = options.train.options.seed;
  out.drop_last = options.drop_last ? 1 : 0;
  out.read_threads = options.read_threads;
  out.epochs = options.steps > 0 ? 0 : std::max<std::uint64_t>(options.epochs, 1);
  out.anonymous = anonymous ? 1 : 0;
  return out;
}

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
    TRY(checked(graft_model_add_adapters(model.get(), flags.lora.c_str(), flags.options.seed), context));
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
  return keep_classes(context, model, source.get());
}

Result<PreparedRun> prepare_run(graft_context* context, graft_model* model, const TrainArguments& options,
                                const graft_group* group, RunRole role, bool profiled) {
  PreparedRun run;
  run.context = context;
  run.model = model;
  const bool checkpoints = !options.checkpoint.folder.empty();
  TRY_ASSIGN(TrainingSets sets, open_training_sets(context, model, options));
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
  if (!options.fetch.empty()) wanted.fetch = options.fetch.c_str();
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
