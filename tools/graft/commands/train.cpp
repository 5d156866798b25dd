// graft train: fine-tunes a model, shows progress, keeps metrics, and saves the result, also when interrupted.
#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <memory>

#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/commands/train.h"
#include "tools/graft/shared/checkpoint_flags.h"
#include "tools/graft/shared/config_file.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/training/monitor_flags.h"
#include "tools/graft/training/train_flags.h"
#include "tools/graft/training/train_run.h"
#include "tools/graft/training/train_samples.h"
#include "tools/graft/training/workers.h"

namespace graft::cli {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
// Set by these; training ends after the step in progress.
std::atomic<bool> g_stop{false};
std::atomic<int> g_signal{SIGINT};  // of a worker that another's signal ends

void on_signal(int number) {
  g_signal = number;
  g_stop = true;
  // A second signal ends the process as usual.
  for (const int signal : kStopSignals) {
    if (std::signal(signal, SIG_DFL) == SIG_IGN) std::signal(signal, SIG_IGN);
  }
}

Status claim_outputs(const TrainArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  if (!options.train.teacher.empty()) outputs.reads("the teacher", options.train.teacher);
  for (const std::string& file : adapter_files(options.train.adapter)) {
    outputs.replaces("the adapter", file, options.in_place);
  }
  outputs.reads_data(options.data);
  outputs.reads_data(options.held_out);
  outputs.reads("the memory", options.memory);
  outputs.reads("the checkpoint store", options.checkpoint.folder);
  TRY(outputs.model("-o", options.output));
  TRY(outputs.file("--svg", options.svg));
  TRY(outputs.file("--profile", options.profile));
  TRY(outputs.stream("--metrics", options.metrics));
  TRY(outputs.model("--ema-output", options.evaluation.ema_output));
  TRY(outputs.file("--gate-report", options.evaluation.gate_report));
  std::vector<std::string> names;
  for (const auto& [name, file] : npy_file_names(split_list(options.fetch))) names.push_back(file);
  return outputs.folder("--fetch-out", options.fetch_folder, names);
}

// How a run ends: all have taken all steps, and worker 0 has written what it has to. Whoever is gone before that is
// replaced, worker 0 too.
Result<RunEnd> train_together(TrainRun& run, const PreparedRun& ready, Workers& workers) {
  TrainRun::GoOn go_on;
  if (workers.group() != nullptr) go_on = [&](const Status& why) { return workers.go_on(ready, why); };
  for (;;) {
    TRY_ASSIGN(const RunEnd end, run.take_steps(g_stop, go_on));
    if (end != RunEnd::done) return end;
    TRY_ASSIGN(const bool concluded, workers.conclude(ready, [&] { return run.finish(end); }));
    if (concluded) return end;
  }
}

Status train_on(graft_context* context, graft_model* model, const TrainArguments& options, Workers& workers) {
  const bool profiled = !options.profile.empty() && workers.leads();
  TRY_ASSIGN(const PreparedRun ready, prepare_run(context, model, options, workers.group(), RunRole::leads, profiled));
  if (workers.leads()) {
    TRY_ASSIGN(const graft_run_info info, ready.info());
    to_stderr("Training %llu tensors on %s: %s of device memory%s%s\n", static_cast<unsigned long long>(info.tensors),
              graft_device_name(context), bytes_text(info.device_bytes).c_str(), *info.note == '\0' ? "" : "; ",
              info.note);
    to_stderr("%s", info.explanation);
  }
  TrainRun run(options, ready);
  if (workers.leads()) TRY(run.open_store(workers.has_met()));
  workers.when_it_leads([&](bool leads) -> Status {
    if (!leads) return run.step_down(), ok_status();
    TRY(claim_outputs(options));
    return run.take_over();
  });
  const bool began_it = workers.leads();
  TRY(workers.begin(ready));
  if (began_it) TRY(run.begin());
  const auto end = train_together(run, ready, workers);
  if (workers.starts_anew()) return end.status();
  const Status others = workers.end(end.status());
  const bool ended_by_first = end.status().code() == Code::cancelled && !workers.leads();
  if (!ended_by_first) {
    TRY(end.status());
    TRY(others);
  }
  if (!ended_by_first && *end == RunEnd::done) return ok_status();
  exit_status = 128 + g_signal;
  return workers.leads() ? run.finish(RunEnd::stopped) : ok_status();
}

// A signal that was ignored when the run began, as by nohup, stays so.
void stop_at(int signal) {
  if (std::signal(signal, on_signal) == SIG_IGN) std::signal(signal, SIG_IGN);
}

Status train_with(graft_context* context, TrainArguments& options, Workers& workers) {
  TRY_ASSIGN(const auto model, open_trained(context, options, GRAFT_CHECK_AT_ONCE));
  Status trained = train_on(context, model.get(), options, workers);
  while (!trained.ok() && workers.starts_anew()) {
    to_stderr("%s\n", trained.message().c_str());
    TRY(workers.meet_anew());
    // What worker 0 wrote before it was lost is gone on from, if there is any.
    options.checkpoint.resume = !options.checkpoint.folder.empty();
    if (workers.starts_from_checkpoint()) {
      options.checkpoint.from.clear();
      options.checkpoint.warm_start.clear();
    }
    trained = train_on(context, model.get(), options, workers);
  }
  return trained;
}

}  // namespace

Status run_train(const TrainArguments& given) {
  TrainArguments options = given;
  TRY(checkpoint_options(options.checkpoint).status());
  if (options.checkpoint.resume && !options.checkpoint.warm_start.empty()) {
    return invalid("--resume and --warm-start exclude each other.");
  }
  if (options.fetch.empty() != options.fetch_folder.empty()) return invalid("--fetch NAMES goes with --fetch-out DIR.");
  if (options.steps > 0 && options.epochs > 0) return invalid("Give --steps or --epochs, not both.");
  TRY_ASSIGN(const auto workers, Workers::create(options));
  if (workers->leads()) TRY(claim_outputs(options));
  for (const int signal : kStopSignals) stop_at(signal);
  TRY_ASSIGN(auto context, open_context(workers->device()));
  TRY(train_with(context.get(), options, *workers));
  return close_context(std::move(context));
}

namespace {

void add_data_flags(CLI::App& app, TrainArguments& options) {
  const HelpGroup group(app, "Data");
  app.add_option(
         "--data", options.data,
         "idx:IMAGES,LABELS, csv:FILE?label=COL, npy:X.npy,Y.npy, folder:DIR, wav:DIR, ts:FILE, digits:, text:FILE or "
         "jsonl:FILE, with options as in ?count=N&skip=N (docs/reference/data.md)")
      ->required();
  app.add_option("--eval", options.held_out, "A data set to evaluate on before training and after each epoch");
  app.add_option("--eval-split", options.split, "Share of --data to evaluate on instead, as in 0.05: its last samples")
      ->check(number(0, 1, Ends::open));
  add_long_flag(app, options.text);
  app.add_option("--show-samples", options.text.show,
                 "Print the tokens of the first samples of text, and which of them are learned")
      ->check(whole(1, 1000));
  auto* in_order = app.add_flag("--no-shuffle", options.no_shuffle, "Take the samples in their order");
  app.add_flag("--keyed-order", options.keyed_order,
               "Order samples by a hash of each: one that is left out does not change the order of the others")
      ->excludes(in_order);
  app.add_option("--memory", options.memory, "Mix in samples of this memory (graft memory), with --keyed-order")
      ->excludes(in_order);
  app.add_option("--memory-share", options.memory_share, "Share of samples that --memory gives (0.25)")
      ->check(number(0, 1, Ends::open));
  app.add_option("--read-threads", options.read_threads,
                 "Threads that read samples, if each is a file (as many as cores, at most 8)")
      ->check(whole(1, 256));
  app.add_flag("--drop-last", options.drop_last, "Leave out a last batch that is not full");
}

void add_length_flags(CLI::App& app, TrainArguments& options) {
  const HelpGroup group(app, "Steps");
  app.add_option("--epochs", options.epochs, "Times through the data (1)")->check(whole(1));
  app.add_option("--steps", options.steps, "Optimizer steps, instead of epochs")->check(whole(1));
}

void add_plan_flags(CLI::App& app, TrainArguments& options) {
  const HelpGroup group(app, "Memory");
  app.add_option("--budget", options.budget, kBudgetHelp);
  app.add_flag("--no-fusion", options.no_fusion, "Give every op and every tensor its own dispatch (the same bits)");
}

void add_output_flags(CLI::App& app, TrainArguments& options) {
  const HelpGroup group(app, "Output");
  app.add_option("-o,--output", options.output,
                 "The trained model; with --lora, --adapter or --add-tokens, only what was trained");
  add_in_place_flag(app, options.in_place);
  app.add_option("--metrics", options.metrics, "Write a JSON object per step to this file");
  app.add_option("--tensorboard", options.tensorboard, "Write TensorBoard's event files to this folder");
  app.add_option("--svg", options.svg, "Draw the loss curve to this file");
  auto* fetch =
      app.add_option("--fetch", options.fetch, "Values of the forward pass, as in a,b: those of the last step");
  app.add_option("--fetch-out", options.fetch_folder, "Folder for them, NAME.npy each")->needs(fetch);
  app.add_option("--profile", options.profile,
                 "Write a trace of the last steps (Chrome, Perfetto) to this file; print what took most time and "
                 "memory");
  app.add_option("--profile-steps", options.profile_steps, "How many of the last steps (5)")->check(whole(1, 1000));
  app.add_flag("--quiet", options.quiet, "No progress");
  app.add_option("--config", options.config,
                 "A JSON file of flags, as a run writes it next to -o (OUT.config.json); flags given here override it");
}

std::shared_ptr<TrainArguments> add_train_arguments(CLI::App& app) {
  auto options = std::make_shared<TrainArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  add_data_flags(app, *options);
  add_length_flags(app, *options);
  add_train_flags(app, options->train);
  add_teacher_flag(app, options->train);
  add_plan_flags(app, *options);
  add_checkpoint_flags(app, options->checkpoint);
  add_evaluation_flags(app, options->evaluation);
  add_sample_flags(app, options->sample);
  add_output_flags(app, *options);
  add_worker_flags(app, options->workers);
  add_device_flags(app, options->device);
  {
    const HelpGroup group(app, "Device");
    app.add_flag("--recover-device", options->recover_device,
                 "If the device is lost, reopen it and resume; each step copies the state to the host");
  }
  add_pace_flags(app, options->device);
  app.callback([&app, options] {
    refuse_idle_train_flags(app, options->train);
    refuse_idle_evaluation_flags(app, *options);
    options->config_text = config_text(app);
    refuse_idle_checkpoint_flags(app, options->checkpoint);
    refuse_idle(app, options->memory.empty(), {"--memory-share"}, "without --memory.");
    refuse_idle(app, options->profile.empty(), {"--profile-steps"}, "without --profile.");
    refuse_idle(app, !options->workers.devices.empty(), {"--device"}, "with --devices.");
  });
  return options;
}

}  // namespace

Action add_train(CLI::App& app) {
  const auto options = add_train_arguments(app);
  return [options] { return run_train(*options); };
}

Result<TrainArguments> train_arguments(const std::string& config) {
  CLI::App app("", "train");
  const auto options = add_train_arguments(app);
  TRY_ASSIGN(std::vector<std::string> arguments, arguments_of(app, config));
  std::ranges::reverse(arguments);  // as CLI11 takes them
  try {
    app.parse(std::move(arguments));
  } catch (const CLI::Error& wrong) {
    return invalid("What the run was given is not understood: ", wrong.what());
  }
  return *options;
}

}  // namespace graft::cli
