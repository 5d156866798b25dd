// graft train: fine-tunes a model, shows progress, keeps metrics, and saves the result, also when interrupted.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "platform/os/clock.h"
#include "runtime/data/npy.h"
#include "runtime/session/training.h"
#include "runtime/train/fit.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/budget.h"
#include "tools/graft/checkpoint_flags.h"
#include "tools/graft/data_hints.h"
#include "tools/graft/device.h"
#include "tools/graft/metrics_file.h"
#include "tools/graft/model_io.h"
#include "tools/graft/numbers.h"
#include "tools/graft/options.h"
#include "tools/graft/output.h"
#include "tools/graft/progress.h"
#include "tools/graft/svg.h"
#include "tools/graft/trace.h"
#include "tools/graft/train_flags.h"
#include "tools/graft/train_samples.h"
#include "tools/graft/train_setup.h"
#include "tools/graft/workers.h"

namespace graft::cli {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Set by these; training ends after the step in progress.
std::atomic<bool> g_stop{false};

void on_signal(int) {
  g_stop = true;
  // A second signal ends the process as usual.
  for (const int signal : kStopSignals) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

std::string metrics_text(const train::Metrics& metrics, const TrainFlags& flags) {
  char text[128];
  if (metrics.has_correct) {
    std::snprintf(text, sizeof text, "loss %.4f, accuracy %.2f%%", metrics.loss(), 100 * metrics.accuracy());
  } else if (flags.loss == "ce") {
    std::snprintf(text, sizeof text, "loss %.4f, perplexity %.4g", metrics.loss(), metrics.perplexity());
  } else {
    std::snprintf(text, sizeof text, "loss %.6g", metrics.loss());
  }
  return text;
}

nlohmann::ordered_json metrics_json(const char* kind, const train::Metrics& metrics, const TrainFlags& flags) {
  nlohmann::ordered_json row = {{"kind", kind}, {"loss", metrics.loss()}};
  if (metrics.has_correct) row["accuracy"] = metrics.accuracy();
  if (!metrics.has_correct && flags.loss == "ce") row["perplexity"] = metrics.perplexity();
  if (metrics.has_top5) row["top5"] = metrics.top5_accuracy();
  return row;
}

// A step that is taken but not yet acknowledged.
struct Waiting {
  std::uint64_t step = 0;
  std::string text;
  nlohmann::ordered_json row;
};

struct Run {
  const TrainArguments& options;
  gpu::Device& device;
  const Model& model;
  train::Trainer& trainer;
  data::Loader& loader;
  data::Source* held_out;  ///< may be null
  std::uint64_t total_steps;
  Checkpointer* checkpointer;  ///< may be null
  Profile* profile;            ///< may be null
  MetricsFile metrics;
  std::optional<Waiting> waiting;
  std::vector<CurvePoint> losses;
  std::vector<CurvePoint> held_out_losses;
  std::uint64_t shortages = 0;  ///< of the trainer, told so far
  bool overdrawn = false;       ///< the same of its heap
  os::Stopwatch watch = {};     ///< since the first step was begun
};

Status evaluate(Run& run, const char* when) {
  if (run.held_out == nullptr) return ok_status();
  if (run.profile != nullptr) run.profile->pause();
  GRAFT_TRY_ASSIGN(const train::Metrics metrics, run.trainer.evaluate(*run.held_out));
  if (run.profile != nullptr) run.profile->resume();
  std::printf("%s: held-out %s\n", when, metrics_text(metrics, run.options.train).c_str());
  std::fflush(stdout);
  const auto step = run.trainer.state().step;
  run.held_out_losses.push_back({static_cast<double>(step), metrics.loss()});
  auto row = metrics_json("held_out", metrics, run.options.train);
  row["step"] = step;
  run.metrics.write(row);
  return ok_status();
}

// Prints what the model says now, where that was asked for.
Status show_samples(Run& run) {
  const SampleFlags& flags = run.options.sample;
  if (flags.prompts.empty()) return ok_status();
  GRAFT_TRY_ASSIGN(const auto texts, generate_samples(run.device, run.model, run.trainer, flags));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto step = run.trainer.state().step;
    std::printf("sample after %llu steps: %s|%s\n", static_cast<unsigned long long>(step), flags.prompts[i].c_str(),
                texts[i].c_str());
    run.metrics.write({{"kind", "sample"}, {"step", step}, {"prompt", flags.prompts[i]}, {"text", texts[i]}});
  }
  std::fflush(stdout);
  return ok_status();
}

// Shows the last step once it is as durable as was asked; the device has gone on meanwhile.
void acknowledge(Run& run, Progress& progress) {
  if (!run.waiting) return;
  if (run.checkpointer != nullptr) run.checkpointer->acknowledge();
  const Waiting step = std::move(*run.waiting);
  run.waiting.reset();
  progress.update(step.step, step.text);
  run.metrics.write(step.row);
}

// Tells that the device was short of memory, once each time.
void show_shortages(Run& run, Progress& progress) {
  const auto step = static_cast<unsigned long long>(run.trainer.state().step);
  if (run.trainer.heap_overdrawn() && !run.overdrawn) {
    progress.finish();
    std::fprintf(stderr, "By step %llu the driver allows no more memory than is held, but no plan is smaller.\n", step);
  }
  run.overdrawn = run.trainer.heap_overdrawn();
  if (run.trainer.shortages() == run.shortages) return;
  run.shortages = run.trainer.shortages();
  progress.finish();
  const auto& reasons = run.trainer.plan().choice.reasons;
  std::fprintf(stderr, "The device was short of memory by step %llu; training goes on with %s of it. %s\n", step,
               bytes_text(run.trainer.device_bytes()).c_str(), reasons.empty() ? "" : reasons.front().c_str());
}

Status on_step(Run& run, Progress& progress, const train::StepResult& result) {
  acknowledge(run, progress);
  if (run.checkpointer != nullptr) GRAFT_TRY(run.checkpointer->record(result));
  show_shortages(run, progress);
  const auto step = run.trainer.state().step;
  run.losses.push_back({static_cast<double>(step), result.metrics.loss()});
  auto row = metrics_json("step", result.metrics, run.options.train);
  row["step"] = step;
  row["epoch"] = run.trainer.state().epoch;
  row["lr"] = result.learning_rate;
  row["submissions"] = result.submissions;
  if (result.loss_scale) {
    row["loss_scale"] = *result.loss_scale;
    row["skipped_steps"] = result.skipped_steps;
    if (result.skipped) row["skipped"] = true;
  }
  if (result.gradient_norm) row["gradient_norm"] = *result.gradient_norm;
  if (run.shortages != 0) row["shortages"] = run.shortages;
  if (run.overdrawn) row["heap_overdrawn"] = true;
  std::string text = metrics_text(result.metrics, run.options.train);
  if (result.skipped_steps > 0) text += cat(", ", result.skipped_steps, " steps left out (overflow)");
  run.waiting = Waiting{step, std::move(text), std::move(row)};
  if (run.checkpointer == nullptr) acknowledge(run, progress);
  return ok_status();
}

Result<train::FitEnd> train_all(Run& run, PreparedRun& ready, Workers& workers, train::SlotExchange* exchange) {
  Progress progress("step", run.total_steps, run.options.quiet);
  run.watch.restart();
  train::FitOptions fit_options;
  fit_options.steps = run.options.steps;
  fit_options.stop = &g_stop;
  fit_options.observer = run.profile;
  fit_options.stop_within_steps = run.checkpointer != nullptr;
  const std::uint64_t every = run.options.sample.every;
  fit_options.on_step = [&](const train::StepResult& result) -> Status {
    GRAFT_TRY(on_step(run, progress, result));
    if (exchange != nullptr) ready.after_step();
    if (every == 0 || run.trainer.state().step % every != 0) return ok_status();
    acknowledge(run, progress);
    progress.finish();
    return show_samples(run);
  };
  if (exchange != nullptr) {
    fit_options.go_on = [&](const Status& why) {
      progress.finish();
      return workers.go_on(ready, *exchange, why);
    };
  }
  fit_options.on_epoch = [&](const train::Trainer& trainer) -> Status {
    acknowledge(run, progress);
    progress.finish();
    std::printf("epoch %llu: %s\n", static_cast<unsigned long long>(trainer.state().epoch) + 1,
                metrics_text(trainer.state().epoch_metrics, run.options.train).c_str());
    GRAFT_TRY(evaluate(run, "  after it"));
    return every == 0 ? show_samples(run) : ok_status();
  };
  GRAFT_TRY_ASSIGN(const train::FitEnd end, train::fit(run.trainer, run.loader, fit_options));
  acknowledge(run, progress);
  return end;
}

Status save_checkpoint(Run& run) {
  if (run.checkpointer == nullptr) return ok_status();
  const bool ahead = run.checkpointer->to_replay() > 0;
  GRAFT_TRY(run.checkpointer->save());
  if (!ahead) {
    std::printf("Checkpoint of step %llu in %s", static_cast<unsigned long long>(run.trainer.state().step),
                run.options.checkpoint.options.folder.c_str());
  } else {
    std::printf("The journal in %s is ahead", run.options.checkpoint.options.folder.c_str());
  }
  if (run.checkpointer->replayed() > 0) {
    std::printf("; %llu steps after the last snapshot were run again and agree with the journal",
                static_cast<unsigned long long>(run.checkpointer->replayed()));
  }
  if (const std::uint64_t skipped = run.checkpointer->skipped(); skipped > 0) {
    std::printf("; %llu %s skipped: the one before was not yet on storage", static_cast<unsigned long long>(skipped),
                skipped == 1 ? "snapshot was" : "snapshots were");
  }
  std::printf("; keeping it took %.1f%% of the time.\n", 100 * run.checkpointer->seconds() / run.watch.seconds());
  return ok_status();
}

// What --fetch asked for, of the last step.
Status write_fetched(const Run& run) {
  const auto& names = run.trainer.options().fetch;
  if (names.empty()) return ok_status();
  GRAFT_TRY(os::make_directories(os::system_files(), run.options.fetch_folder));
  for (const std::string& name : names) {
    GRAFT_TRY_ASSIGN(const train::FetchedValue value, run.trainer.fetch(name));
    const std::string path = run.options.fetch_folder + "/" + npy_file_name(name);
    GRAFT_TRY(data::write_npy(os::system_files(), path, value.dtype, value.shape, value.bytes));
    std::printf("%s  %s%s\n", path.c_str(), std::string(dtype_name(value.dtype)).c_str(), value.shape.text().c_str());
  }
  return ok_status();
}

Status write_loss_curve(const Run& run) {
  if (run.options.svg.empty()) return ok_status();
  const std::string caption = cat(run.options.data, ", batch ", run.trainer.options().batch, ", ",
                                  train::optimizer_name(run.trainer.options().optimizer.kind), ", learning rate ",
                                  run.trainer.options().optimizer.learning_rate);
  return write_text(run.options.svg, loss_svg("Loss", run.losses, run.held_out_losses, caption));
}

Status write_profile(const Run& run) {
  if (run.profile == nullptr) return ok_status();
  const Consumers consumers = consumers_of(*run.profile);
  print_consumers(consumers, *run.profile);
  return write_trace(run.options.profile, *run.profile, consumers);
}

Status write_model(const Run& run, Model& model) {
  if (run.options.output.empty()) return ok_status();
  GRAFT_TRY(copy_to_model(run.trainer, model));
  keep_classes(data::class_names(run.loader.source()), model);
  if (run.options.train.lora.empty() && run.options.train.adapter.file.empty()) {
    GRAFT_TRY(save_output(run.options.output, model));
  } else {
    GRAFT_TRY_ASSIGN(const Model adapter, adapter_of(model));
    GRAFT_TRY(save_output(run.options.output, adapter));
  }
  std::printf("Wrote %s.\n", run.options.output.c_str());
  return ok_status();
}

Status finish(Run& run, Model& model, train::FitEnd end) {
  if (end == train::FitEnd::stopped) {
    const train::TrainingState& state = run.trainer.state();
    std::printf("Stopped after step %llu%s.\n", static_cast<unsigned long long>(state.step),
                state.samples_done == 0 ? "" : cat(" and ", state.samples_done, " samples of the next").c_str());
  }
  // Whatever fails, the rest is written all the same; the first failure is the run's.
  const Status all[] = {save_checkpoint(run), write_loss_curve(run),   write_fetched(run),
                        write_profile(run),   write_model(run, model), run.metrics.outcome()};
  const auto* const failed = std::ranges::find_if(all, [](const Status& status) { return !status.ok(); });
  return failed == std::end(all) ? ok_status() : *failed;
}

// Null where no checkpoint is asked for.
Result<std::unique_ptr<Checkpointer>> open_checkpoint(const TrainArguments& options, const Model& model,
                                                      train::Trainer& trainer, data::Loader& loader,
                                                      const std::string& fingerprint) {
  GRAFT_TRY_ASSIGN(CheckpointOptions checkpoint, checkpoint_options(options.checkpoint));
  if (!options.checkpoint.warm_start.empty()) GRAFT_TRY(warm_start(options.checkpoint.warm_start, trainer));
  if (checkpoint.folder.empty()) return std::unique_ptr<Checkpointer>();
  checkpoint.report = [](const std::string& text) { std::fprintf(stderr, "checkpoint: %s\n", text.c_str()); };
  checkpoint.late_sync = true;
  checkpoint.model_file = std::filesystem::absolute(options.path).string();
  Configuration configuration = configuration_of(trainer);
  add_data(options, fingerprint, configuration);
  GRAFT_TRY_ASSIGN(auto checkpointer,
                   Checkpointer::open(os::system_files(), checkpoint, trainer, model, std::move(configuration)));
  GRAFT_TRY_ASSIGN(const std::uint64_t step, checkpointer->begin(&loader));
  if (checkpoint.resume) std::fprintf(stderr, "Going on from step %llu.\n", static_cast<unsigned long long>(step));
  return checkpointer;
}

Status train_on(OpenDevice& opened, Model& model, const TrainArguments& options, Workers& workers) {
  const auto exchange = workers.exchange(opened.device());
  Profile profile(options.profile_steps);
  Profile* const watched = options.profile.empty() ? nullptr : &profile;
  GRAFT_TRY_ASSIGN(const auto ready, prepare_run(opened, model, options, exchange.get(), FirstWorker{watched}));
  train::Trainer& trainer = *ready->trainer;
  gpu::Device& device = opened.device();
  std::fprintf(stderr, "Training %zu tensors on %s: %s of device memory%s%s\n", trainer.plan().tensors.size(),
               device.caps().device_name.c_str(), bytes_text(trainer.device_bytes()).c_str(),
               trainer.plan().note.empty() ? "" : "; ", trainer.plan().note.c_str());
  for (const std::string& reason : trainer.plan().choice.reasons) std::fprintf(stderr, "%s\n", reason.c_str());

  GRAFT_TRY_ASSIGN(const auto checkpointer,
                   open_checkpoint(options, model, trainer, *ready->loader, ready->fingerprint));
  GRAFT_TRY(workers.begin(*ready, model));

  profile.set_next(trainer.state().step + 1);
  Run run{options,
          device,
          model,
          trainer,
          *ready->loader,
          ready->held_out.get(),
          ready->total_steps,
          checkpointer.get(),
          watched,
          {},
          {},
          {},
          {},
          0};
  if (!options.metrics.empty()) GRAFT_TRY(run.metrics.open(options.metrics, trainer.state().step));
  GRAFT_TRY(evaluate(run, "before"));
  GRAFT_TRY(show_samples(run));
  auto end = train_all(run, *ready, workers, exchange.get());
  if (end.ok() && *end == train::FitEnd::done) {
    if (Status ended = workers.end_together(*ready, exchange.get()); !ended.ok()) end = std::move(ended);
  }
  const Status others = workers.end(end.status());
  GRAFT_TRY(end.status());
  GRAFT_TRY(others);
  return finish(run, model, *end);
}

Status claim_outputs(const TrainArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  outputs.replaces("the adapter", options.train.adapter.file, options.in_place);
  outputs.reads_data(options.data);
  outputs.reads_data(options.held_out);
  outputs.reads("the checkpoint store", options.checkpoint.options.folder);
  GRAFT_TRY(outputs.file("-o", options.output));
  GRAFT_TRY(outputs.file("--svg", options.svg));
  GRAFT_TRY(outputs.file("--profile", options.profile));
  GRAFT_TRY(outputs.stream("--metrics", options.metrics));
  std::vector<std::string> names;
  for (const std::string& name : split_list(options.fetch)) names.push_back(npy_file_name(name));
  return outputs.folder("--fetch-out", options.fetch_folder, names);
}

// A signal that was ignored when the run began, as by nohup, stays so.
void stop_at(int signal) {
  if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
}

Status run_train(const TrainArguments& options) {
  GRAFT_TRY(detail::to_status(checkpoint_options(options.checkpoint)));
  if (options.fetch.empty() != options.fetch_folder.empty()) return invalid("--fetch NAMES goes with --fetch-out DIR.");
  if (options.steps > 0 && options.epochs > 0) return invalid("Give --steps or --epochs, not both.");
  GRAFT_TRY_ASSIGN(const auto workers, Workers::create(options));
  if (!workers->helps()) GRAFT_TRY(claim_outputs(options));
  GRAFT_TRY_ASSIGN(AdaptedModel model, open_adapted(options.path, options.train.adapter, WeightCheck::at_once,
                                                    options.train.lora, options.train.seed));
  for (const int signal : kStopSignals) stop_at(signal);
  if (workers->helps()) return workers->work(model.get());
  GRAFT_TRY_ASSIGN(auto device, OpenDevice::open(workers->device()));
  GRAFT_TRY(train_on(*device, model.get(), options, *workers));
  return device->close();
}

}  // namespace

Action add_train(CLI::App& app) {
  auto options = std::make_shared<TrainArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option(
         "--data", options->data,
         "idx:IMAGES,LABELS, csv:FILE?label=COL, npy:X.npy,Y.npy, folder:DIR, wav:DIR, ts:FILE, digits:, text:FILE or "
         "jsonl:FILE, with options as in ?count=N&skip=N (docs/data.md)")
      ->required();
  app.add_option("--eval", options->held_out, "A data set to evaluate on before training and after each epoch");
  app.add_option("--eval-split", options->split, "Share of --data to evaluate on instead, as in 0.05: its last samples")
      ->check(number(0, 1, Ends::open));
  app.add_option("--epochs", options->epochs, "Times through the data (1)")->check(whole(1));
  app.add_option("--steps", options->steps, "Optimizer steps, instead of epochs")->check(whole(1));
  app.add_option("--budget", options->budget, kBudgetHelp);
  app.add_flag("--recover-device", options->recover_device,
               "Go on on the device opened anew where it is lost: the state is copied to the host after each step");
  app.add_flag("--no-fusion", options->no_fusion,
               "Give every op and every tensor dispatches of its own (the same bits)");
  app.add_flag("--no-shuffle", options->no_shuffle, "Take the samples in their order");
  app.add_option("--read-threads", options->read_threads,
                 "Threads that read samples, where each is a file (as many as cores, 8 at most)")
      ->check(whole(1, 256));
  app.add_flag("--drop-last", options->drop_last, "Leave out a last batch that is not full");
  app.add_option("--metrics", options->metrics, "Write a JSON object per step to this file");
  app.add_option("--svg", options->svg, "Draw the loss curve to this file");
  auto* fetch =
      app.add_option("--fetch", options->fetch, "Values of the forward pass, as in a,b: those of the last step");
  app.add_option("--fetch-out", options->fetch_folder, "Folder for them, NAME.npy each")->needs(fetch);
  app.add_option(
      "--profile", options->profile,
      "Write a trace of the last steps (Chrome, Perfetto) to this file; print what took most time and memory");
  app.add_option("--profile-steps", options->profile_steps, "How many of the last steps (5)")->check(whole(1, 1000));
  add_worker_flags(app, options->workers);
  add_sample_flags(app, options->sample);
  add_checkpoint_flags(app, options->checkpoint);
  app.add_flag("--quiet", options->quiet, "No progress");
  app.add_option("-o,--output", options->output, "The trained model; with --lora or --adapter, the adapters alone");
  add_in_place_flag(app, options->in_place);
  add_train_flags(app, options->train);
  add_device_flags(app, options->device);
  add_pace_flags(app, options->device);
  app.callback([&app, options] {
    refuse_idle_train_flags(app, options->train);
    refuse_idle_checkpoint_flags(app, options->checkpoint);
    refuse_idle(app, options->profile.empty(), {"--profile-steps"}, "without --profile.");
    refuse_idle(app, !options->workers.devices.empty(), {"--device"}, "with --devices.");
  });
  return [options] { return run_train(*options); };
}

}  // namespace graft::cli
