// graft checkpoint forget: goes back to the last snapshot before a record was first used, erases the record and what
// came after, and takes the steps again: to the bits of a run that never saw it.
#include "tools/graft/commands/forget.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "graft/examples.h"
#include "graft/snapshots.h"
#include "tools/common/files.h"
#include "tools/common/stopwatch.h"
#include "tools/common/terminal.h"
#include "tools/graft/commands/train.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/public_api.h"
#include "tools/graft/training/prepared_run.h"
#include "tools/graft/training/training_sets.h"

namespace graft::cli {
namespace {

using Json = nlohmann::ordered_json;

struct ForgetArguments {
  std::string folder;
  std::string record;
  std::string receipt;
  bool dry_run = false;
  bool json = false;
};

/// What is known of a run before it forgets.
struct RunToForget {
  TrainArguments train;
  std::uint64_t step = 0;  ///< that the run has reached
  std::string hash;        ///< of its state
  double step_seconds = 0;
  struct At {
    std::uint64_t number, step;
  };
  std::vector<At> snapshots;
};

/// What is to be done. It is written down before anything is erased, so that a command that is killed is given again.
struct ForgetPlan {
  std::optional<std::uint64_t> first_use;  ///< steps before the one that used the record first; none: no step did
  std::uint64_t stop_at = 0;               ///< 0: at the end of the epochs
  std::uint64_t step = 0;                  ///< that the run had reached
  std::string hash;                        ///< of its state then
};

std::string plan_path(const std::string& folder) { return folder + "/forget.json"; }

std::string memory_of(const TrainArguments& train) {
  if (!train.memory.empty()) return train.memory;
  const std::string path = train.data.substr(std::string_view("memory:").size());
  return path.substr(0, path.rfind('?'));
}

Result<std::string> metadata_of(const graft_context* context, graft_store* store, const char* key,
                                const std::string& folder) {
  const char* value = nullptr;
  const graft_status told = graft_store_metadata(store, nullptr, key, &value);
  if (told == GRAFT_NOT_FOUND) {
    return invalid("The run in \"", folder,
                   "\" does not say how it was trained, as runs of graft train with --memory or ",
                   "with --data memory:FILE do; nothing can be forgotten of it.");
  }
  TRY(checked(told, context));
  return std::string(value);
}

Result<RunToForget> look_at(graft_context* context, const std::string& folder) {
  graft_store* made = nullptr;
  const graft_status opened = graft_store_open(context, folder.c_str(), nullptr, &made);
  const Owned<graft_store> store(made);
  TRY(checked(opened, context));
  RunToForget run;
  graft_snapshot snapshot = {};
  snapshot.struct_size = sizeof snapshot;
  TRY(checked(graft_store_find(made, nullptr, &snapshot), context));
  run.step = snapshot.step;
  const std::uint64_t head = snapshot.number;
  const std::int64_t ends = snapshot.made_ms;
  const char* hash = nullptr;
  TRY(checked(graft_store_hash(made, nullptr, &hash), context));
  run.hash = hash;
  TRY_ASSIGN(const std::string flags, metadata_of(context, made, kRunFlags, folder));
  TRY_ASSIGN(const std::string place, metadata_of(context, made, kRunFolder, folder));
  TRY_ASSIGN(run.train, train_arguments(flags));
  std::error_code failed;
  std::filesystem::current_path(place, failed);  // what its paths start from
  if (failed) return error(Code::not_found, "The run's folder \"", place, "\" is gone: ", failed.message(), ".");
  for (std::size_t i = 0; graft_store_snapshot(made, i, &snapshot) == GRAFT_OK; ++i) {
    if (snapshot.number > head) continue;
    if (run.snapshots.empty() && run.step > snapshot.step) {
      run.step_seconds =
          1e-3 * static_cast<double>(ends - snapshot.made_ms) / static_cast<double>(run.step - snapshot.step);
    }
    run.snapshots.push_back({snapshot.number, snapshot.step});
  }
  run.train.checkpoint.folder = folder;
  return run;
}

/// The record's first use, by the data as they are now; also what training takes.
Result<ForgetPlan> make_plan(graft_context* context, const RunToForget& run, const std::string& record,
                             graft_forecast& forecast) {
  ForgetPlan plan;
  plan.step = run.step;
  plan.hash = run.hash;
  TRY_ASSIGN(const auto model, open_trained(context, run.train, GRAFT_CHECK_ON_USE));
  TRY_ASSIGN(const TrainingSets sets, open_training_sets(context, model.get(), run.train));
  const graft_loader_options batches = loader_options(run.train, true);
  std::uint64_t first = 0;
  const graft_status found = graft_memory_first_use(sets.training.get(), &batches, record.c_str(),
                                                    std::max<std::uint64_t>(run.step, 1), &first);
  if (found != GRAFT_NOT_FOUND) {
    TRY(checked(found, context));
    if (first < run.step) plan.first_use = first;
  }
  const std::uint64_t total = run.train.steps > 0 ? run.train.steps : steps_of(sets.training.get(), batches);
  plan.stop_at = run.step >= total ? 0 : run.step;
  TrainWishes wishes;
  TRY(wishes.read(run.train.train, total));
  graft_trainer_options wanted = wishes.options();
  wanted.data = sets.training.get();
  wanted.checkpoints = 1;
  TRY(checked(graft_forecast_training(model.get(), &wanted, &forecast), context));
  return plan;
}

Json json_of(const std::string& record, const ForgetPlan& plan) {
  return {{"record", record},
          {"first_use", plan.first_use ? Json(*plan.first_use) : Json()},
          {"stop_at", plan.stop_at},
          {"step", plan.step},
          {"hash_before", plan.hash}};
}

/// What a command that was killed has written down; none: no command was.
Result<std::optional<ForgetPlan>> interrupted_plan(const std::string& folder, const std::string& record) {
  std::error_code failed;
  if (!std::filesystem::exists(plan_path(folder), failed)) return std::optional<ForgetPlan>();
  TRY_ASSIGN(const std::string text, text_of_file(plan_path(folder), 1 << 20));
  const Json json = Json::parse(text, nullptr, false);
  const auto is_number = [&](const char* key) { return json.contains(key) && json[key].is_number_unsigned(); };
  if (!json.is_object() || !json.value("record", Json()).is_string() || !is_number("step") || !is_number("stop_at") ||
      !json.value("hash_before", Json()).is_string() || !is_number("first_use")) {
    return corrupt("\"", plan_path(folder), "\" is not what graft checkpoint forget writes.");
  }
  const std::string other = json["record"].get<std::string>();
  if (other != record) {
    return invalid("The run was interrupted while it forgot the record \"", other,
                   "\"; give the command for that one again first.");
  }
  return std::optional(ForgetPlan{json["first_use"].get<std::uint64_t>(), json["stop_at"].get<std::uint64_t>(),
                                  json["step"].get<std::uint64_t>(), json["hash_before"].get<std::string>()});
}

Status erase_record(graft_context* context, const std::string& path, const std::string& record, bool must_exist) {
  const auto wanted = sized<graft_memory_options>();
  graft_memory_file* made = nullptr;
  const graft_status opened = graft_memory_open(context, path.c_str(), &wanted, &made);
  const Owned<graft_memory_file> memory(made);
  TRY(checked(opened, context));
  const char* const ids[] = {record.c_str()};
  const graft_status removed = graft_memory_remove(made, ids, 1);
  return removed == GRAFT_NOT_FOUND && !must_exist ? ok_status() : checked(removed, context);
}

Status check_record(graft_context* context, const std::string& path, const std::string& record) {
  auto wanted = sized<graft_memory_options>();
  wanted.read_only = 1;
  graft_memory_file* made = nullptr;
  const graft_status opened = graft_memory_open(context, path.c_str(), &wanted, &made);
  const Owned<graft_memory_file> memory(made);
  TRY(checked(opened, context));
  graft_memory_record told = {};
  told.struct_size = sizeof told;
  return checked(graft_memory_find(made, record.c_str(), &told), context);
}

/// The newest snapshot that no step with the record came before; none: the run begins again.
const RunToForget::At* snapshot_before(const RunToForget& run, std::uint64_t first_use) {
  const RunToForget::At* best = nullptr;
  for (const auto& at : run.snapshots) {
    if (at.step <= first_use && (best == nullptr || at.step >= best->step)) best = &at;
  }
  return best;
}

Status tell_cost(const ForgetArguments& options, const RunToForget& run, const ForgetPlan& plan,
                 const graft_forecast& forecast) {
  const RunToForget::At* const from = plan.first_use ? snapshot_before(run, *plan.first_use) : nullptr;
  const std::uint64_t steps = plan.first_use ? plan.step - (from == nullptr ? 0 : from->step) : 0;
  const double seconds = static_cast<double>(steps) * run.step_seconds;
  if (options.json) {
    Json json = json_of(options.record, plan);
    json["snapshot"] = from == nullptr ? Json() : Json(from->number);
    json["steps"] = steps;
    json["seconds"] = seconds;
    json["device_bytes"] = steps == 0 ? 0 : forecast.total;
    print_json(json);
    return ok_status();
  }
  if (!plan.first_use) {
    to_stdout("No step used the record \"%s\": it is only to be erased.\n", options.record.c_str());
    return ok_status();
  }
  const std::string where = from == nullptr ? std::string("the beginning: no snapshot is older")
                                            : cat("snapshot ", from->number, ", step ", from->step);
  to_stdout("Step %llu used the record \"%s\" first. The run goes back to %s.\n",
            static_cast<unsigned long long>(*plan.first_use + 1), options.record.c_str(), where.c_str());
  to_stdout("%llu steps are taken again: about %.3g s, and %s of device memory.\n",
            static_cast<unsigned long long>(steps), seconds, bytes_text(forecast.total).c_str());
  return ok_status();
}

/// Takes the steps again. Where options follow from the number of samples, as schedules do, all of them.
Status train_again(const RunToForget& run, const ForgetPlan& plan, std::uint64_t& from_step) {
  TrainArguments train = run.train;
  const RunToForget::At* const from = snapshot_before(run, *plan.first_use);
  train.checkpoint.resume = train.checkpoint.forget = true;
  train.checkpoint.with_changes = false;
  train.checkpoint.warm_start.clear();
  train.checkpoint.from = from == nullptr ? "" : cat(from->number);
  train.stop_at = plan.stop_at;
  train.in_place = true;
  from_step = from == nullptr ? 0 : from->step;
  results_to_stderr = true;
  Status trained = run_train(train);
  if (trained.code() != Code::invalid_argument || from == nullptr) return trained;
  to_stderr("%s\nThe whole run is taken again.\n", trained.message().c_str());
  train.checkpoint.from.clear();
  from_step = 0;
  return run_train(train);
}

Status forget(const ForgetArguments& given) {
  ForgetArguments options = given;
  options.folder = std::filesystem::absolute(options.folder).string();
  if (!options.receipt.empty()) options.receipt = std::filesystem::absolute(options.receipt).string();
  TRY_ASSIGN(auto context, open_context_without_device());
  TRY_ASSIGN(const RunToForget run, look_at(context.get(), options.folder));
  const std::string memory = memory_of(run.train);
  TRY_ASSIGN(auto interrupted, interrupted_plan(options.folder, options.record));
  ForgetPlan plan;
  auto forecast = sized<graft_forecast>();
  if (interrupted) {
    plan = *interrupted;
  } else {
    TRY(check_record(context.get(), memory, options.record));
    TRY_ASSIGN(plan, make_plan(context.get(), run, options.record, forecast));
  }
  if (options.dry_run) return tell_cost(options, run, plan, forecast);
  Outputs outputs;
  TRY(outputs.file("--receipt", options.receipt));
  const Stopwatch watch(Clock::wall);
  std::uint64_t from_step = plan.step;
  std::string hash = plan.hash;
  if (plan.first_use) TRY(write_text(plan_path(options.folder), json_of(options.record, plan).dump(2) + "\n"));
  TRY(erase_record(context.get(), memory, options.record, !interrupted));
  std::uint64_t step = plan.step;
  if (plan.first_use) {
    const Status trained = train_again(run, plan, from_step);
    results_to_stderr = false;
    TRY(Status(trained));
    if (exit_status != 0) {
      to_stderr("The record is erased, and the run is not at its end; give the command again.\n");
      return ok_status();
    }
    TRY_ASSIGN(const RunToForget after, look_at(context.get(), options.folder));
    hash = after.hash;
    step = after.step;
    std::error_code failed;
    std::filesystem::remove(plan_path(options.folder), failed);
    if (failed) return error(Code::io_error, "\"", plan_path(options.folder), "\" stays: ", failed.message(), ".");
  }
  Json receipt = json_of(options.record, plan);
  receipt.erase("stop_at");
  receipt["hash_after"] = hash;
  receipt["step_after"] = step;
  receipt["from_step"] = from_step;
  receipt["steps_again"] = step - std::min(step, from_step);
  receipt["seconds"] = watch.seconds();
  if (!options.receipt.empty()) TRY(write_text(options.receipt, receipt.dump(2) + "\n"));
  if (options.json) {
    print_json(receipt);
  } else {
    to_stdout("The record \"%s\" is erased; %llu steps were taken again. The state %s became %s.\n",
              options.record.c_str(), static_cast<unsigned long long>(step - std::min(step, from_step)),
              plan.hash.c_str(), hash.c_str());
  }
  return ok_status();
}

}  // namespace

void add_forget(CLI::App& command, std::shared_ptr<std::function<Status()>> chosen) {
  auto options = std::make_shared<ForgetArguments>();
  command.add_option("DIR", options->folder, "The checkpoint folder")->required();
  command.add_option("--record", options->record, "The record's id")->required();
  command.add_option("--receipt", options->receipt, "Write what was done, with both states' hashes, to this JSON file");
  command.add_flag("--dry-run", options->dry_run, "Say what it costs, and change nothing");
  command.add_flag("--json", options->json, "Print JSON");
  command.callback([options, chosen] { *chosen = [options] { return forget(*options); }; });
}

}  // namespace graft::cli
