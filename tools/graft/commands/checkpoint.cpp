// graft checkpoint: what a store holds, whether it is sound, its history, and models and tensors back out of it.
#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>

#include "graft/snapshots.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/commands/forget.h"
#include "tools/graft/report/checkpoint_report.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"

namespace graft::cli {
namespace {

struct CheckpointArguments {
  std::string folder;
  std::string snapshot;  ///< a number or a tag
  std::string other;
  std::string model;
  std::string output;
  std::string tag;
  bool remove = false;
  std::size_t keep = 1;
  bool json = false;
  bool workers = false;
  bool in_place = false;
};

/// A store, and what it is opened with.
struct OpenStore {
  Owned<graft_context> context;
  Owned<graft_store> store;

  Status check(graft_status status) const { return checked(status, context.get()); }
  /// The snapshot that a person names.
  Result<graft_snapshot> find(const std::string& name) const {
    graft_snapshot snapshot = {};
    snapshot.struct_size = sizeof snapshot;
    TRY(check(graft_store_find(store.get(), name.c_str(), &snapshot)));
    return snapshot;
  }
  std::vector<std::uint64_t> numbers() const {
    std::vector<std::uint64_t> all;
    for (std::size_t i = 0; i < graft_store_count(store.get()); ++i) {
      graft_snapshot snapshot = {};
      snapshot.struct_size = sizeof snapshot;
      if (graft_store_snapshot(store.get(), i, &snapshot) == GRAFT_OK) all.push_back(snapshot.number);
    }
    return all;
  }
};

Result<OpenStore> open_store(const CheckpointArguments& options, bool writable) {
  OpenStore opened;
  TRY_ASSIGN(opened.context, open_context_without_device());
  graft_store_options wanted = {};
  wanted.struct_size = sizeof wanted;
  wanted.writable = writable ? 1 : 0;
  graft_store* made = nullptr;
  const graft_status status = graft_store_open(opened.context.get(), options.folder.c_str(), &wanted, &made);
  opened.store.reset(made);
  TRY(opened.check(status));
  return opened;
}

Status list(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, false));
  const auto print = options.workers ? print_workers : print_list;
  return print(opened.store.get(), opened.context.get(), options.json);
}

Status verify(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, false));
  std::uint64_t chunks = 0;
  const char* told = "";
  const graft_status sound = graft_store_verify(opened.store.get(), &chunks, &told);
  if (sound != GRAFT_OK && sound != GRAFT_CORRUPT) return opened.check(sound);
  std::vector<std::string> problems = split_text(told, '\n');
  const std::vector<std::uint64_t> numbers = opened.numbers();
  for (const std::uint64_t number : numbers) {
    const std::string name = cat(number);
    const char* bad = "";
    // What cannot be read is told already.
    if (graft_store_find_non_finite(opened.store.get(), name.c_str(), &bad) != GRAFT_OK || *bad == '\0') continue;
    const std::string parameter = bad;
    TRY_ASSIGN(const graft_snapshot snapshot, opened.find(name));
    problems.push_back(cat("Snapshot ", number, " (step ", snapshot.step, "): the parameter \"", parameter,
                           "\" is not finite; a resume goes back to the newest snapshot that is."));
  }
  if (options.json) {
    print_json({{"snapshots", numbers.size()}, {"chunks", chunks}, {"problems", problems}});
  } else {
    for (const std::string& problem : problems) to_stdout("%s\n", problem.c_str());
    to_stdout("%zu snapshots, %llu chunks decoded and compared, %zu %s.\n", numbers.size(),
              static_cast<unsigned long long>(chunks), problems.size(), problems.size() == 1 ? "problem" : "problems");
  }
  if (problems.empty()) return ok_status();
  return corrupt("The store \"", options.folder, "\" has ", problems.size(),
                 problems.size() == 1 ? " problem." : " problems.");
}

Status diff(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, false));
  TRY_ASSIGN(const graft_snapshot a, opened.find(options.snapshot));
  TRY_ASSIGN(const graft_snapshot b, opened.find(options.other));
  return print_diff(opened.store.get(), opened.context.get(), a, b, options.json);
}

// The model file that was trained, from the flag or as the run noted it.
Result<std::string> model_path(const CheckpointArguments& options, const OpenStore& opened, std::uint64_t number) {
  if (!options.model.empty()) return options.model;
  const std::string name = cat(number);
  for (std::size_t i = 0;; ++i) {
    const char* key = nullptr;
    const char* value = nullptr;
    const graft_status told = graft_store_metadata_at(opened.store.get(), name.c_str(), i, &key, &value);
    if (told == GRAFT_NOT_FOUND) break;
    TRY(opened.check(told));
    if (std::string_view(key) == "model_file") return std::string(value);
  }
  return invalid("The snapshot does not say which model was trained; name its file with --model.");
}

Status restore(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, false));
  TRY_ASSIGN(const graft_snapshot snapshot, opened.find(options.snapshot));
  TRY_ASSIGN(const std::string path, model_path(options, opened, snapshot.number));
  Outputs outputs;
  outputs.reads("the store", options.folder);
  outputs.replaces("the model", path, options.in_place);
  TRY(outputs.model("-o", options.output));
  TRY_ASSIGN(const auto model, open_model(opened.context.get(), path, GRAFT_CHECK_AT_ONCE));
  std::size_t restored = 0;
  TRY(opened.check(graft_store_restore(opened.store.get(), cat(snapshot.number).c_str(), model.get(), &restored)));
  TRY(save_output(options.output,
                  [&](const std::string& to) { return opened.check(graft_model_save(model.get(), to.c_str())); }));
  if (options.json) {
    print_json(
        {{"output", options.output}, {"snapshot", snapshot.number}, {"step", snapshot.step}, {"tensors", restored}});
  } else {
    to_stdout("Wrote %s: %zu tensors of step %llu.\n", options.output.c_str(), restored,
              static_cast<unsigned long long>(snapshot.step));
  }
  return ok_status();
}

Status export_tensors(const CheckpointArguments& options) {
  {  // before anything is written
    TRY_ASSIGN(const OpenStore opened, open_store(options, false));
    TRY(detail::status_of(opened.find(options.snapshot)));
  }
  Outputs outputs;
  outputs.reads("the store", options.folder);
  TRY(outputs.file("-o", options.output));
  graft_conversion* made = nullptr;
  const graft_status exported =
      graft_export_snapshot(options.folder.c_str(), options.snapshot.c_str(), options.output.c_str(), &made);
  const Owned<graft_conversion> conversion(made);
  if (exported != GRAFT_OK) return error(static_cast<Code>(exported), graft_conversion_message(made));
  if (options.json) {
    nlohmann::ordered_json row = {{"output", options.output}};
    row.update(nlohmann::ordered_json::parse(graft_conversion_report_json(made)));
    print_json(row);
  } else {
    to_stdout("%s", graft_conversion_report(made));
  }
  return ok_status();
}

Status prune(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, true));
  std::vector<std::uint64_t> removed;
  const std::vector<std::uint64_t> before = opened.numbers();
  std::uint64_t freed = 0;
  TRY(opened.check(graft_store_prune(opened.store.get(), options.keep, nullptr, &freed)));
  std::ranges::set_difference(before, opened.numbers(), std::back_inserter(removed));
  if (options.json) {
    print_json({{"removed", removed}, {"freed_bytes", freed}});
  } else {
    to_stdout("Removed %zu snapshots, freed %s.\n", removed.size(), bytes_text(freed).c_str());
  }
  return ok_status();
}

Status tag(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, true));
  TRY_ASSIGN(const graft_snapshot snapshot, opened.find(options.snapshot));
  const std::string number = cat(snapshot.number);
  const auto change = options.remove ? graft_store_untag : graft_store_tag;
  TRY(opened.check(change(opened.store.get(), number.c_str(), options.tag.c_str())));
  TRY_ASSIGN(const graft_snapshot after, opened.find(number));
  const std::vector<std::string> tags = split_text(after.tags, '\n');
  if (options.json) {
    print_json({{"snapshot", snapshot.number}, {"tags", tags}});
  } else {
    to_stdout("Snapshot %s has %zu %s.\n", number.c_str(), tags.size(), tags.size() == 1 ? "tag" : "tags");
  }
  return ok_status();
}

Status branch(const CheckpointArguments& options) {
  TRY_ASSIGN(const OpenStore opened, open_store(options, true));
  TRY_ASSIGN(const graft_snapshot snapshot, opened.find(options.snapshot));
  TRY(opened.check(graft_store_branch(opened.store.get(), cat(snapshot.number).c_str())));
  if (options.json) {
    print_json({{"snapshot", snapshot.number}, {"step", snapshot.step}});
  } else {
    to_stdout("Training goes on from snapshot %llu, step %llu.\n", static_cast<unsigned long long>(snapshot.number),
              static_cast<unsigned long long>(snapshot.step));
  }
  return ok_status();
}

}  // namespace

Action add_checkpoint(CLI::App& app) {
  auto options = std::make_shared<CheckpointArguments>();
  auto chosen = std::make_shared<Status (*)(const CheckpointArguments&)>(nullptr);
  app.require_subcommand(1);
  const auto sub = [&](const char* name, const char* summary, Status (*action)(const CheckpointArguments&)) {
    CLI::App* command = app.add_subcommand(name, summary);
    command->add_option("DIR", options->folder, "The checkpoint folder")->required();
    command->add_flag("--json", options->json, "Print JSON");
    command->callback([chosen, action] { *chosen = action; });
    return command;
  };
  const auto add_snapshot = [&](CLI::App* command) {
    command->add_option("SNAPSHOT", options->snapshot, "Its number or a tag")->required();
    return command;
  };
  sub("list", "Snapshots: step, loss, sizes, tags", list)
      ->add_flag("--workers", options->workers,
                 "What each worker said of itself at each snapshot and at the last journalled step: its machine, its "
                 "samples and their loss, its times");
  sub("verify", "Decode and compare everything; parameters must be finite", verify);
  add_snapshot(sub("diff", "What changed between two snapshots", diff))
      ->add_option("OTHER", options->other, "The number or a tag of the later one")
      ->required();
  CLI::App* restore_command = add_snapshot(sub("restore", "A snapshot's parameters as a model", restore));
  restore_command->add_option("--model", options->model,
                              "The .graft file that was trained (default: as the run noted)");
  restore_command->add_option("-o,--output", options->output, "The .graft file to write")->required();
  add_in_place_flag(*restore_command, options->in_place);
  add_snapshot(sub("export", "A snapshot's tensors, optimizer state too, as safetensors", export_tensors))
      ->add_option("-o,--output", options->output, "The .safetensors file to write")
      ->required();
  sub("prune", "Delete old snapshots that have no tag", prune)
      ->add_option("--keep", options->keep, "Newest snapshots to keep (1)")
      ->check(whole(0));
  CLI::App* tag_command = add_snapshot(sub("tag", "Name a snapshot; it stays until the name is taken away", tag));
  tag_command->add_option("TAG", options->tag, "The name")->required();
  tag_command->add_flag("--remove", options->remove, "Take the name away");
  add_snapshot(sub("branch", "Make training go on from a kept snapshot; later ones stay", branch));
  auto forget = std::make_shared<std::function<Status()>>();
  add_forget(*app.add_subcommand("forget", "Erase a record, and train again as if it had never been there"), forget);
  return [options, chosen, forget]() -> Status { return *forget ? (*forget)() : (*chosen)(*options); };
}

}  // namespace graft::cli
