// graft checkpoint: what a store holds, whether it is sound, its history, and models and tensors back out of it.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/session/checkpoint/run_state.h"
#include "runtime/session/checkpoint/store_use.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/convert/huggingface/safetensors_write.h"
#include "tools/graft/checkpoint_report.h"
#include "tools/graft/output.h"

namespace graft::cli {
namespace {

using checkpoint::Manifest;
using checkpoint::Store;
using checkpoint::StoreMode;

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

Result<Store> open_store(const CheckpointArguments& options, StoreMode mode) {
  return Store::open(os::system_files(), options.folder, {.mode = mode});
}

nlohmann::ordered_json worker_json(std::size_t rank, const train::WorkerSection& w) {
  return {{"worker", rank},
          {"host", w.host.data()},
          {"step", w.step},
          {"epoch", w.epoch},
          {"place", w.place},
          {"first_sample", w.first_sample},
          {"samples", w.samples},
          {"seed", w.seed},
          {"first_micro_batch", w.first_slot},
          {"micro_batches", w.slots},
          {"loss", w.loss()},
          {"computing_seconds", 1e-9 * static_cast<double>(w.computing_ns)},
          {"waiting_seconds", 1e-9 * static_cast<double>(w.waiting_ns)},
          {"all_steps", w.all_steps},
          {"all_samples", w.all_samples},
          {"all_computing_seconds", 1e-9 * static_cast<double>(w.all_computing_ns)},
          {"all_waiting_seconds", 1e-9 * static_cast<double>(w.all_waiting_ns)}};
}

void print_worker(const std::string& where, std::size_t rank, const train::WorkerSection& w) {
  std::printf("%10s %8llu %6zu %-16s %5llu %8llu %12.6g %10.1f ms %10.1f ms %10llu\n", where.c_str(),
              static_cast<unsigned long long>(w.step), rank, w.host.data(), static_cast<unsigned long long>(w.slots),
              static_cast<unsigned long long>(w.samples), w.loss(), 1e-6 * static_cast<double>(w.computing_ns),
              1e-6 * static_cast<double>(w.waiting_ns), static_cast<unsigned long long>(w.all_samples));
}

/// A line for each worker of each snapshot, and of the last journalled step.
Status print_workers(const Store& store, bool json) {
  std::vector<std::pair<std::string, std::vector<train::WorkerSection>>> all;
  for (const auto& [number, snapshot] : store.snapshots()) {
    TRY_ASSIGN(auto sections, sections_of(store, number));
    all.emplace_back(cat(number), std::move(sections));
  }
  TRY_ASSIGN(auto last, journalled_sections(store));
  all.emplace_back("journal", std::move(last));
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  if (!json) {
    std::printf("%10s %8s %6s %-16s %5s %8s %12s %13s %13s %10s\n", "snapshot", "step", "worker", "host", "parts",
                "samples", "loss", "computing", "waiting", "in all");
  }
  for (const auto& [where, sections] : all) {
    for (std::size_t rank = 0; rank < sections.size(); ++rank) {
      if (json) {
        rows.push_back(worker_json(rank, sections[rank]));
        rows.back()["snapshot"] = where;
      } else {
        print_worker(where, rank, sections[rank]);
      }
    }
  }
  if (json) print({{"workers", rows}});
  return ok_status();
}

Status list(const CheckpointArguments& options) {
  TRY_ASSIGN(const Store store, open_store(options, StoreMode::read_only));
  return options.workers ? print_workers(store, options.json) : print_list(store, options.json);
}

Status verify(const CheckpointArguments& options) {
  TRY_ASSIGN(const Store store, open_store(options, StoreMode::read_only));
  TRY_ASSIGN(auto report, store.verify());
  for (const auto& [number, snapshot] : store.snapshots()) {
    const auto bad = find_non_finite(store, number);
    if (!bad.ok() || bad->empty()) continue;  // what cannot be read is told already
    report.problems.push_back(cat("Snapshot ", number, " (step ", snapshot.meta.step, "): the parameter \"", *bad,
                                  "\" is not finite; a resume goes back to the newest snapshot that is."));
  }
  if (options.json) {
    print({{"snapshots", report.snapshots}, {"chunks", report.chunks}, {"problems", report.problems}});
  } else {
    for (const std::string& problem : report.problems) std::printf("%s\n", problem.c_str());
    std::printf("%llu snapshots, %llu chunks decoded and compared, %zu problems.\n",
                static_cast<unsigned long long>(report.snapshots), static_cast<unsigned long long>(report.chunks),
                report.problems.size());
  }
  if (report.problems.empty()) return ok_status();
  return corrupt("The store \"", options.folder, "\" has ", report.problems.size(), " problems.");
}

Status diff(const CheckpointArguments& options) {
  TRY_ASSIGN(const Store store, open_store(options, StoreMode::read_only));
  TRY_ASSIGN(const std::uint64_t a, find_snapshot(store, options.snapshot));
  TRY_ASSIGN(const std::uint64_t b, find_snapshot(store, options.other));
  return print_diff(store, a, b, options.json);
}

// The model file that was trained, from the flag or as the run noted it.
Result<std::string> model_path(const CheckpointArguments& options, const Manifest& snapshot) {
  if (!options.model.empty()) return options.model;
  const auto noted = snapshot.meta.metadata->find(std::string(kModelFile));
  if (noted != snapshot.meta.metadata->end()) return noted->second;
  return invalid("The snapshot does not say which model was trained; name its file with --model.");
}

Status restore(const CheckpointArguments& options) {
  TRY_ASSIGN(const Store store, open_store(options, StoreMode::read_only));
  TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, options.snapshot));
  const Manifest& snapshot = store.snapshots().at(number);
  TRY_ASSIGN(const std::string path, model_path(options, snapshot));
  Outputs outputs;
  outputs.reads("the store", options.folder);
  outputs.replaces("the model", path, options.in_place);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(Model model, open_model(path, WeightCheck::at_once));
  TRY_ASSIGN(const std::size_t restored, restore_to_model(store, number, model));
  TRY(save_output(options.output, saver_of(model)));
  if (options.json) {
    print({{"output", options.output}, {"snapshot", number}, {"step", snapshot.meta.step}, {"tensors", restored}});
  } else {
    std::printf("Wrote %s: %zu tensors of step %llu.\n", options.output.c_str(), restored,
                static_cast<unsigned long long>(snapshot.meta.step));
  }
  return ok_status();
}

Result<DType> dtype_of(const checkpoint::Stream& stream) {
  switch (stream.element) {
    case checkpoint::Element::f32: return DType::f32;
    case checkpoint::Element::i32: return DType::i32;
    case checkpoint::Element::boolean: return DType::boolean;
    case checkpoint::Element::f16: return DType::f16;
    case checkpoint::Element::bf16: return DType::bf16;
    case checkpoint::Element::bytes: break;
  }
  return unsupported("The tensor \"", stream.name, "\" is of a type that safetensors does not have.");
}

Status export_tensors(const CheckpointArguments& options) {
  TRY_ASSIGN(const Store store, open_store(options, StoreMode::read_only));
  TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, options.snapshot));
  const Manifest& snapshot = store.snapshots().at(number);
  TRY_ASSIGN(const auto layouts, layouts_of(store, number));
  Outputs outputs;
  outputs.reads("the store", options.folder);
  TRY(outputs.file("-o", options.output));
  std::vector<convert::ExportTensor> tensors;
  std::vector<HostBuffer> contents;
  for (const auto& stream : *snapshot.streams) {
    const auto layout = layouts.find(stream.name);
    if (layout == layouts.end() || stream.worker != 0) continue;
    convert::ExportTensor tensor;
    tensor.name = stream.name;
    TRY_ASSIGN(tensor.dtype, dtype_of(stream));
    TRY_ASSIGN(HostBuffer bytes, store.restore(number, stream.name, stream.bytes));
    contents.push_back(std::move(bytes));
    tensor.source = {layout->second.dims, tensor.dtype, contents.back().bytes()};
    tensor.perm = layout->second.perm;
    tensors.push_back(std::move(tensor));
  }
  TRY(convert::write_safetensors(os::system_files(), options.output, tensors, {{"step", cat(snapshot.meta.step)}}));
  if (options.json) {
    print(
        {{"output", options.output}, {"snapshot", number}, {"step", snapshot.meta.step}, {"tensors", tensors.size()}});
  } else {
    std::printf("Wrote %s: %zu tensors of step %llu.\n", options.output.c_str(), tensors.size(),
                static_cast<unsigned long long>(snapshot.meta.step));
  }
  return ok_status();
}

Status prune(const CheckpointArguments& options) {
  TRY_ASSIGN(Store store, open_store(options, StoreMode::read_write));
  TRY_ASSIGN(const PrunedStore report, prune_store(store, options.keep));
  if (options.json) {
    print({{"removed", report.removed}, {"freed_bytes", report.freed_bytes}});
  } else {
    std::printf("Removed %zu snapshots, freed %s.\n", report.removed.size(), bytes_text(report.freed_bytes).c_str());
  }
  return ok_status();
}

Status tag(const CheckpointArguments& options) {
  TRY_ASSIGN(Store store, open_store(options, StoreMode::read_write));
  TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, options.snapshot));
  TRY(options.remove ? store.untag(number, options.tag) : store.tag(number, options.tag));
  const auto& tags = store.snapshots().at(number).meta.tags;
  if (options.json) {
    print({{"snapshot", number}, {"tags", tags}});
  } else {
    std::printf("Snapshot %llu has %zu %s.\n", static_cast<unsigned long long>(number), tags.size(),
                tags.size() == 1 ? "tag" : "tags");
  }
  return ok_status();
}

Status branch(const CheckpointArguments& options) {
  TRY_ASSIGN(Store store, open_store(options, StoreMode::read_write));
  TRY_ASSIGN(const std::uint64_t number, find_snapshot(store, options.snapshot));
  TRY(store.set_head(number));
  const std::uint64_t step = store.snapshots().at(number).meta.step;
  if (options.json) {
    print({{"snapshot", number}, {"step", step}});
  } else {
    std::printf("Training goes on from snapshot %llu, step %llu.\n", static_cast<unsigned long long>(number),
                static_cast<unsigned long long>(step));
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
  return [options, chosen]() -> Status { return (*chosen)(*options); };
}

}  // namespace graft::cli
