// graft checkpoint: what a store holds, whether it is sound, and models back out of it.
#include <cstdio>
#include <ctime>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/checkpoint/store.h"
#include "tools/graft/model_io.h"
#include "tools/graft/options.h"

namespace graft::cli {
namespace {

using checkpoint::Manifest;
using checkpoint::Store;
using checkpoint::StoreMode;

struct Options {
  std::string folder;
  std::uint64_t number = 0;
  std::string model;
  std::string output;
  std::size_t keep = 1;
  bool json = false;
  const CLI::App* list = nullptr;
  const CLI::App* verify = nullptr;
  const CLI::App* restore = nullptr;
  const CLI::App* prune = nullptr;
};

std::string time_text(std::int64_t milliseconds) {
  const std::time_t seconds = milliseconds / 1000;
  char text[32] = "";
  std::tm parts{};
  if (gmtime_r(&seconds, &parts) != nullptr) std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::uint64_t raw_bytes(const Manifest& snapshot) {
  std::uint64_t bytes = 0;
  for (const auto& stream : snapshot.streams) bytes += stream.bytes;
  return bytes;
}

// Of the chunks that were written with this snapshot: those in the segment of its own number.
std::uint64_t own_bytes(const Manifest& snapshot) {
  std::uint64_t bytes = 0;
  for (const auto& chunk : snapshot.chunks) bytes += chunk.segment == snapshot.number ? chunk.stored_bytes : 0;
  return bytes;
}

Status list(const Options& options) {
  GRAFT_TRY_ASSIGN(const Store store, Store::open(os::system_files(), options.folder, {.mode = StoreMode::read_only}));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!options.json)
    std::printf("%8s %10s %12s %14s %14s  %s\n", "number", "step", "loss", "state", "stored", "made (UTC)");
  for (const auto& [number, snapshot] : store.snapshots()) {
    const bool head = number == store.head();
    rows.push_back({{"number", number},
                    {"step", snapshot.meta.step},
                    {"loss", snapshot.meta.loss},
                    {"bytes", raw_bytes(snapshot)},
                    {"stored_bytes", own_bytes(snapshot)},
                    {"made_ms", snapshot.meta.wall_clock_ms},
                    {"tags", snapshot.meta.tags},
                    {"head", head}});
    if (options.json) continue;
    std::printf("%8llu %10llu %12.6g %14s %14s  %s%s\n", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(snapshot.meta.step), snapshot.meta.loss,
                bytes_text(raw_bytes(snapshot)).c_str(), bytes_text(own_bytes(snapshot)).c_str(),
                time_text(snapshot.meta.wall_clock_ms).c_str(), head ? "  <- training goes on from here" : "");
  }
  if (options.json) {
    std::printf(
        "%s\n",
        nlohmann::ordered_json({{"snapshots", rows}, {"journalled_steps", store.journal().size()}}).dump(2).c_str());
  } else {
    std::printf("%zu steps are journalled after it.\n", store.journal().size());
    for (const auto& [number, reason] : store.damaged()) {
      std::printf("Snapshot %llu is damaged: %s\n", static_cast<unsigned long long>(number), reason.c_str());
    }
  }
  return ok_status();
}

Status verify(const Options& options) {
  GRAFT_TRY_ASSIGN(const Store store, Store::open(os::system_files(), options.folder, {.mode = StoreMode::read_only}));
  GRAFT_TRY_ASSIGN(const auto report, store.verify());
  if (options.json) {
    std::printf("%s\n", nlohmann::ordered_json(
                            {{"snapshots", report.snapshots}, {"chunks", report.chunks}, {"problems", report.problems}})
                            .dump(2)
                            .c_str());
  } else {
    for (const std::string& problem : report.problems) std::printf("%s\n", problem.c_str());
    std::printf("%llu snapshots, %llu chunks decoded and compared, %zu problems.\n",
                static_cast<unsigned long long>(report.snapshots), static_cast<unsigned long long>(report.chunks),
                report.problems.size());
  }
  if (report.problems.empty()) return ok_status();
  return corrupt("The store \"", options.folder, "\" has ", report.problems.size(), " problems.");
}

Status restore(const Options& options) {
  GRAFT_TRY_ASSIGN(const Store store, Store::open(os::system_files(), options.folder, {.mode = StoreMode::read_only}));
  const auto found = store.snapshots().find(options.number);
  if (found == store.snapshots().end()) {
    return error(Code::not_found, "The store has no snapshot ", options.number, "; see: graft checkpoint list ",
                 options.folder, ".");
  }
  GRAFT_TRY_ASSIGN(Model model, open_model(options.model));
  std::size_t restored = 0;
  for (const auto& stream : found->second.streams) {
    const ValueId value = model.graph.find_value(stream.name);
    if (!value.valid()) continue;
    GRAFT_TRY_ASSIGN(HostBuffer contents, store.restore(options.number, stream.name, stream.bytes));
    GRAFT_TRY(model.set_weight(value, std::move(contents)));
    ++restored;
  }
  if (restored == 0) return invalid("The snapshot holds nothing of this model; is it the one that was trained?");
  GRAFT_TRY(save_model(os::system_files(), options.output, model));
  std::printf("Wrote %s: %zu tensors of step %llu.\n", options.output.c_str(), restored,
              static_cast<unsigned long long>(found->second.meta.step));
  return ok_status();
}

Status prune(const Options& options) {
  GRAFT_TRY_ASSIGN(Store store, Store::open(os::system_files(), options.folder, {.mode = StoreMode::read_write}));
  GRAFT_TRY_ASSIGN(const auto report, store.prune({.keep_last = options.keep, .keep_tags = {}}));
  std::printf("Removed %zu snapshots, freed %s.\n", report.removed.size(), bytes_text(report.freed_bytes).c_str());
  return ok_status();
}

}  // namespace

Action add_checkpoint(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.require_subcommand(1);
  const auto sub = [&](const char* name, const char* summary) {
    CLI::App* command = app.add_subcommand(name, summary);
    command->add_option("DIR", options->folder, "The checkpoint folder")->required();
    return command;
  };
  CLI::App* list_command = sub("list", "Snapshots: step, loss, sizes");
  list_command->add_flag("--json", options->json, "Print JSON");
  CLI::App* verify_command = sub("verify", "Decode and compare everything");
  verify_command->add_flag("--json", options->json, "Print JSON");
  CLI::App* restore_command = sub("restore", "A snapshot's parameters as a model");
  restore_command->add_option("NUMBER", options->number, "Of the snapshot")->required();
  restore_command->add_option("--model", options->model, "The .graft file that was trained")->required();
  restore_command->add_option("-o,--output", options->output, "The .graft file to write")->required();
  CLI::App* prune_command = sub("prune", "Delete old snapshots");
  prune_command->add_option("--keep", options->keep, "Newest snapshots to keep (1)");
  options->list = list_command;
  options->verify = verify_command;
  options->restore = restore_command;
  options->prune = prune_command;
  return [options]() -> Status {
    if (options->list->parsed()) return list(*options);
    if (options->verify->parsed()) return verify(*options);
    if (options->restore->parsed()) return restore(*options);
    return prune(*options);
  };
}

}  // namespace graft::cli
