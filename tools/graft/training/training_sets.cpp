#include "tools/graft/training/training_sets.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "tools/graft/shared/put_adapters.h"

namespace graft::cli {
namespace {

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
Status split_set(graft_context* context, double split, TrainingSets& sets) {
  const std::uint64_t size = graft_data_samples(sets.training.get());
  const double wanted = std::round(split * static_cast<double>(size));
  const auto held = std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, size - 1);
  TRY(checked(graft_data_narrow(sets.held_out.get(), size - held, held), context));
  return checked(graft_data_narrow(sets.training.get(), 0, size - held), context);
}

/// --memory mixes its records into what is trained on.
Result<TrainingSets> mixed_sets(graft_context* context, const TrainArguments& options, TrainingSets sets) {
  if (options.memory.empty()) return sets;
  auto wanted = sized<graft_memory_options>();
  wanted.read_only = 1;
  graft_memory_file* opened = nullptr;
  const graft_status status = graft_memory_open(context, options.memory.c_str(), &wanted, &opened);
  const Owned<graft_memory_file> memory(opened);
  TRY(checked(status, context));
  graft_data_set* made = nullptr;
  const graft_status mixed = graft_memory_mix(opened, sets.training.get(), options.memory_share, 0, &made);
  Owned<graft_data_set> set(made);
  TRY(checked(mixed, context));
  sets.training = std::move(set);
  return sets;
}

}  // namespace

Result<TrainingSets> open_training_sets(graft_context* context, graft_model* model, const TrainArguments& options) {
  TrainingSets sets;
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
  if (options.split == 0) return mixed_sets(context, options, std::move(sets));
  if (sets.held_out) return invalid("Give --eval or --eval-split, not both.");
  if (!(options.split > 0 && options.split < 1) || graft_data_samples(sets.training.get()) < 2) {
    return invalid("--eval-split ", options.split, " must lie between 0 and 1, and needs two samples or more.");
  }
  TRY_ASSIGN(sets.held_out, open(options.data, held_out));
  TRY(split_set(context, options.split, sets));
  return mixed_sets(context, options, std::move(sets));
}

Status add_references(graft_context* context, graft_model* model, const TrainArguments& options,
                      const TrainWishes& wishes, TrainingSets& sets) {
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

Status keep_classes(graft_context* context, graft_model* model, const graft_data_set* set) {
  const graft_status kept = graft_model_keep_classes(model, set);
  return kept == GRAFT_NOT_FOUND ? ok_status() : checked(kept, context);
}

}  // namespace graft::cli
