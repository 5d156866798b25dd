#include "tools/graft/training/train_run.h"

#include "interface/flags.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/evaluation_report.h"
#include "tools/graft/shared/checkpoint_flags.h"
#include "tools/graft/shared/config_file.h"
#include "tools/graft/shared/consumers.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/tensor_files.h"
#include "tools/graft/training/train_report.h"
#include "tools/graft/training/train_samples.h"

namespace graft::cli {
namespace {

/// Steps that the worker which is gone may have taken without writing them down: it writes one once the next is done.
constexpr std::size_t kMostRecent = 4;
constexpr std::chrono::seconds kTryStoreAgain{5};

/// The first line of some.
std::string first_line(const char* lines) {
  const std::string text = lines;
  return text.substr(0, text.find('\n'));
}

}  // namespace

// What -o names; with --ema and `ema` the running mean.
Status TrainRun::save_weights(const std::string& path, bool ema) {
  TRY(ready_.store(ema));
  return save_output(path, [&](const std::string& to) {
    return checked(options_.train.has_adapters() ? graft_model_save_adapters(ready_.model, to.c_str())
                                                 : graft_model_save(ready_.model, to.c_str()),
                   context_);
  });
}

// What follows from an evaluation of the state as it is now.
Status TrainRun::follow(const graft_evaluation* evaluation) {
  const graft_watch_options watch = monitors_.watched();
  graft_verdict verdict = {};
  verdict.struct_size = sizeof verdict;
  TRY(checked(graft_trainer_observe(trainer_, evaluation, &watch, &verdict), context_));
  if (verdict.slower != 0) to_stdout("  no better: the learning rate is now %g\n", verdict.learning_rate);
  if (verdict.best != 0) {
    TRY(save_weights(options_.output, options_.train.options.ema > 0));
    to_stdout("  the best so far: wrote %s\n", options_.output.c_str());
    kept_best_ = true;
  }
  if (verdict.stop != 0) to_stdout("  no better for %s: training ends\n", options_.evaluation.early_stop.c_str());
  stop_ = stop_ || verdict.stop != 0;
  return ok_status();
}

// The evaluation before the first step counts where a resumed run was saved just before it.
Status TrainRun::evaluate(const char* when, bool counts) {
  if (!ready_.held_out) return ok_status();
  graft_evaluation_options how = {};
  how.struct_size = sizeof how;
  how.metrics = monitors_.metrics.c_str();
  graft_evaluation* made = nullptr;
  const graft_status evaluated = graft_evaluate_trainer(trainer_, ready_.held_out.get(), &how, &made);
  const Owned<graft_evaluation> evaluation(made);
  TRY(checked(evaluated, context_));
  TRY_ASSIGN(const graft_totals totals, totals_of(context_, made));
  std::vector<MetricRow> shown = metrics_of(made);
  shown.resize(std::min(shown.size(), monitors_.shown));
  to_stdout("%s: held-out %s%s\n", when, metrics_text(totals).c_str(), text_of(shown).c_str());
  std::fflush(stdout);
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  held_out_losses_.push_back({static_cast<double>(place.step), totals.loss});
  auto row = metrics_json("held_out", totals);
  row["step"] = place.step;
  row.update(json_of(shown));
  metrics_.write(row);
  if (board_) board_->held_out(place.step, row);
  // A worker 0 that is gone may have observed it, and told all.
  return counts && monitors_.watches() && place.evaluated_at < place.step ? follow(made) : ok_status();
}

// Whether the state was saved after an epoch or so many steps, before their evaluation.
Result<bool> TrainRun::is_evaluation_due() const {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  if (place.step == 0 || place.samples_done != 0 || place.evaluated_at >= place.step) return false;
  const std::uint64_t every = options_.evaluation.every;
  return every > 0 ? place.step % every == 0 : place.between_epochs != 0;
}

// Of the worker that leads, before it evaluates or writes anything.
Status TrainRun::prepare() {
  TRY_ASSIGN(monitors_, Monitors::create(context_, options_));
  if (options_.tensorboard.empty()) return ok_status();
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  TRY_ASSIGN(board_, TensorBoard::open(options_.tensorboard, place.step));
  return ok_status();
}

// Prints what the model says now, where that was asked for.
Status TrainRun::show_samples() {
  const SampleFlags& flags = options_.sample;
  if (flags.prompts.empty()) return ok_status();
  TRY_ASSIGN(const auto texts, generate_samples(context_, trainer_, flags));
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::uint64_t step = place.step;
    to_stdout("sample after %llu steps: %s|%s\n", static_cast<unsigned long long>(step), flags.prompts[i].c_str(),
              texts[i].c_str());
    metrics_.write({{"kind", "sample"}, {"step", step}, {"prompt", flags.prompts[i]}, {"text", texts[i]}});
  }
  std::fflush(stdout);
  return ok_status();
}

// Shows the last step once it is as durable as was asked; the device has gone on meanwhile.
Status TrainRun::acknowledge() {
  if (!waiting_) return ok_status();
  if (keeps_) TRY(checked(graft_checkpoint_acknowledge(trainer_), context_));
  show_waiting();
  return ok_status();
}

void TrainRun::show_waiting() {
  if (!waiting_) return;
  const Waiting step = std::move(*waiting_);
  waiting_.reset();
  progress_->update(step.step, step.text);
  metrics_.write(step.row);
}

// Tells that the device was short of memory, once each time.
Status TrainRun::show_shortages(std::uint64_t step) {
  TRY_ASSIGN(const graft_run_info info, ready_.info());
  if (info.heap_overdrawn != 0 && !overdrawn_) {
    progress_->finish();
    to_stderr("By step %llu the driver allows no more memory than is held, but no plan is smaller.\n",
              static_cast<unsigned long long>(step));
  }
  overdrawn_ = info.heap_overdrawn != 0;
  if (info.shortages == shortages_) return ok_status();
  shortages_ = info.shortages;
  progress_->finish();
  to_stderr("The device was short of memory by step %llu; training goes on with %s of it. %s\n",
            static_cast<unsigned long long>(step), bytes_text(info.device_bytes).c_str(),
            first_line(info.explanation).c_str());
  return ok_status();
}

// What there is to show of the step that was just taken.
TrainRun::Waiting TrainRun::step_shown(const graft_step_info& step, const graft_totals& totals) const {
  auto row = metrics_json("step", totals);
  row["step"] = step.step;
  row["epoch"] = step.epoch;
  row["lr"] = step.learning_rate;
  row["submissions"] = step.submissions;
  row["samples"] = totals.samples;
  row["seconds"] = std::round(1000 * watch_.seconds()) / 1000;  // since this process began the run
  if (!std::isnan(step.loss_scale)) {
    row["loss_scale"] = step.loss_scale;
    row["skipped_steps"] = step.skipped_steps;
    if (step.skipped != 0) row["skipped"] = true;
  }
  if (!std::isnan(step.gradient_norm)) row["gradient_norm"] = step.gradient_norm;
  if (shortages_ != 0) row["shortages"] = shortages_;
  if (overdrawn_) row["heap_overdrawn"] = true;
  std::string text = metrics_text(totals);
  std::string shares;
  graft_worker_report worker = {};
  worker.struct_size = sizeof worker;
  for (std::size_t i = 0; shared_ && graft_trainer_worker(trainer_, i, &worker) == GRAFT_OK; ++i) {
    shares += cat(shares.empty() ? "" : "/", worker.micro_batches);
    row["shares"].push_back(worker.micro_batches);
    row["computing"].push_back(1e-9 * static_cast<double>(worker.computing_ns));
  }
  if (!shares.empty()) text += cat(", shares ", shares);
  if (step.skipped_steps > 0) text += cat(", ", step.skipped_steps, " steps left out (overflow)");
  return {step.step, std::move(text), std::move(row)};
}

Status TrainRun::on_step(const graft_step_info& step, const graft_totals& totals) {
  show_waiting();  // the step before: where a checkpoint is open, it is durable now
  losses_.push_back({static_cast<double>(step.step), totals.loss});
  if (!leads_) {
    recent_.push_back(step_shown(step, totals));
    if (recent_.size() > kMostRecent) recent_.pop_front();
    return ok_status();
  }
  if (!keeps_ && !no_store_.ok()) TRY(take_store());
  TRY(show_shortages(step.step));
  waiting_ = step_shown(step, totals);
  if (!keeps_) TRY(acknowledge());
  if (board_) board_->step(step.step, scalars_of(step, totals));
  if (const std::uint64_t often = options_.evaluation.every; often > 0 && step.step % often == 0) {
    TRY(acknowledge());
    progress_->finish();
    TRY(evaluate(cat("step ", step.step).c_str(), true));
  }
  const std::uint64_t every = options_.sample.every;
  if (every == 0 || step.step % every != 0) return ok_status();
  TRY(acknowledge());
  progress_->finish();
  return show_samples();
}

Status TrainRun::on_epoch() {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  epoch_at_ = place.step;
  if (!leads_) return ok_status();
  TRY(acknowledge());
  progress_->finish();
  graft_totals totals = {};
  totals.struct_size = sizeof totals;
  TRY(checked(graft_trainer_epoch(trainer_, &totals), context_));
  to_stdout("epoch %llu: %s\n", static_cast<unsigned long long>(place.epoch) + 1, metrics_text(totals).c_str());
  if (board_) {
    TRY(board_->epoch(place.step,
                      [&](const TensorBoard::Add& add) { return each_parameter(context_, trainer_, add); }));
  }
  if (options_.evaluation.every == 0) TRY(evaluate("  after it", true));
  return options_.sample.every == 0 ? show_samples() : ok_status();
}

// A signal waits for a step that brings what a checkpoint needs of the other workers.
Result<bool> TrainRun::stops(const std::atomic<bool>& stop) const {
  if (!leads_ || !stop) return false;
  if (!keeps_ || !shared_) return true;
  int is_whole = 1;
  TRY(checked(graft_trainer_request_whole(trainer_, &is_whole), context_));
  return is_whole != 0;
}

// One more step; how the run ends instead.
Result<std::optional<RunEnd>> TrainRun::take_step(const std::atomic<bool>& stop, const GoOn& go_on) {
  TRY_ASSIGN(const bool stopped, stops(stop));
  if (stopped) return std::optional(RunEnd::stopped);
  Status taken;
  int more = 1, done = 0;
  while (taken.ok() && more != 0 && done == 0) {
    taken = checked(graft_train_next_part(trainer_, ready_.loader.get(), &more, &done), context_);
    if (taken.ok() && more != 0 && done == 0 && leads_ && keeps_ && stop) return std::optional(RunEnd::stopped);
  }
  if (!taken.ok()) {
    if (!go_on) return taken;
    TRY(acknowledge());
    progress_->finish();
    TRY(go_on(taken));
    return std::optional<RunEnd>();  // the step comes again
  }
  if (more == 0) return std::optional(RunEnd::done);
  graft_step_info step = {};
  step.struct_size = sizeof step;
  graft_totals totals = {};
  totals.struct_size = sizeof totals;
  TRY(checked(graft_trainer_last_step(trainer_, &step, &totals), context_));
  TRY(on_step(step, totals));
  if (step.ends_epoch != 0) TRY(on_epoch());
  return std::optional<RunEnd>();
}

Result<RunEnd> TrainRun::take_steps(const std::atomic<bool>& stop, const GoOn& go_on) {
  if (!progress_) progress_.emplace("step", ready_.total_steps, options_.quiet || !leads_);
  shared_ = go_on != nullptr;
  for (;;) {
    TRY_ASSIGN(const graft_run_place place, ready_.place());
    // The others hear that the run ends as they begin the next step.
    const bool is_done = (stop_ && !shared_) || (options_.steps != 0 && place.step >= options_.steps) ||
                         (options_.stop_at != 0 && place.step >= options_.stop_at);
    std::optional<RunEnd> end = RunEnd::done;
    if (!is_done) {
      TRY_ASSIGN(end, take_step(stop, go_on));
    }
    if (!end) continue;
    TRY(acknowledge());
    return *end;
  }
}

/// A process that is killed gives one thing back after another, and the store's lock with the last of its threads.
Result<graft_checkpoint_info> TrainRun::open_checkpoint(graft_checkpoint_options checkpoint,
                                                        std::chrono::milliseconds patience) {
  const std::string model_file = std::filesystem::absolute(options_.path).string();
  checkpoint.report = [](void*, const char* text) { to_stderr("checkpoint: %s\n", text); };
  checkpoint.late = 1;
  checkpoint.model_file = model_file.c_str();
  checkpoint.data = options_.data.c_str();
  checkpoint.loader = ready_.loader.get();
  // For `graft checkpoint forget`, which takes steps again.
  const std::string here = std::filesystem::current_path().string();
  const graft_pair said[] = {{kRunFlags, options_.config_text.c_str()}, {kRunFolder, here.c_str()}};
  if (!options_.memory.empty() || options_.data.starts_with("memory:")) {
    checkpoint.metadata = said;
    checkpoint.metadata_count = std::size(said);
  }
  graft_checkpoint_info info = {};
  info.struct_size = sizeof info;
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Status opened = checked(graft_checkpoint_open(trainer_, &checkpoint, &info), context_);
    keeps_ = opened.ok();
    if (keeps_) return info;
    if (opened.code() != Code::io_error || std::chrono::steady_clock::now() >= until) return opened;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status TrainRun::open_store(bool anew) {
  leads_ = true;
  TRY_ASSIGN(const graft_checkpoint_options checkpoint, checkpoint_options(options_.checkpoint));
  if (!options_.checkpoint.warm_start.empty()) TRY(warm_start(context_, options_.checkpoint.warm_start, trainer_));
  if (options_.checkpoint.folder.empty()) return ok_status();
  TRY_ASSIGN(const graft_checkpoint_info info,
             open_checkpoint(checkpoint, anew ? std::chrono::seconds(10) : std::chrono::seconds(0)));
  if (checkpoint.resume != 0) {
    to_stderr("Going on from step %llu.\n", static_cast<unsigned long long>(info.step));
  }
  return ok_status();
}

Status TrainRun::begin() {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  if (!options_.metrics.empty()) TRY(metrics_.open(options_.metrics, place.step));
  graft_data_summary summary = {};
  summary.struct_size = sizeof summary;
  TRY(checked(graft_data_describe(ready_.source.get(), &summary), context_));
  if (summary.is_text != 0 && place.step == 0) {
    nlohmann::ordered_json row = {{"kind", "data"}};
    row.update(nlohmann::ordered_json::parse(summary.json));
    metrics_.write(row);
  }
  TRY(prepare());
  TRY_ASSIGN(const bool due, is_evaluation_due());
  TRY(evaluate("before", due));
  TRY(show_samples());
  watch_ = Stopwatch(Clock::wall);
  return ok_status();
}

// The store of the worker that is gone. Where another process holds it still, the run goes on without, and looks again:
// a worker that stands still may come back, and must not find that two have written.
Status TrainRun::take_store() {
  TRY_ASSIGN(graft_checkpoint_options checkpoint, checkpoint_options(options_.checkpoint));
  if (options_.checkpoint.folder.empty() || std::chrono::steady_clock::now() < try_store_at_) return ok_status();
  checkpoint.take_over = 1;
  checkpoint.from = nullptr;
  const Status opened = open_checkpoint(checkpoint, std::chrono::milliseconds(200)).status();
  if (opened.code() == Code::io_error) {
    if (no_store_.ok()) {
      to_stderr("checkpoint: %s Training goes on without, and looks again.\n", opened.message().c_str());
    }
    no_store_ = opened;
    try_store_at_ = std::chrono::steady_clock::now() + kTryStoreAgain;
    return ok_status();
  }
  no_store_ = {};
  return opened;
}

// Steps that are done, but whose rows the file lacks.
Status TrainRun::write_what_is_missing() {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  if (!options_.metrics.empty()) TRY(metrics_.open(options_.metrics, place.step));
  for (const Waiting& step : recent_) {
    if (step.step > metrics_.last_step() && step.step <= place.step) metrics_.write(step.row);
  }
  recent_.clear();
  TRY(prepare());
  if (place.step == 0) TRY(evaluate("before", false));
  if (const std::uint64_t often = options_.evaluation.every; often > 0 && place.step > 0 && place.step % often == 0) {
    TRY(evaluate(cat("step ", place.step).c_str(), true));
  }
  if (epoch_at_ == place.step) return on_epoch();
  const std::uint64_t every = options_.sample.every;
  return place.step == 0 || (every != 0 && place.step % every == 0) ? show_samples() : ok_status();
}

Status TrainRun::take_over() {
  leads_ = true;
  progress_.emplace("step", ready_.total_steps, options_.quiet);
  try_store_at_ = {};
  TRY(take_store());
  return write_what_is_missing();
}

void TrainRun::step_down() {
  leads_ = false;
  waiting_.reset();
  if (keeps_) static_cast<void>(graft_checkpoint_close(trainer_));
  keeps_ = false;
  metrics_ = MetricsFile();
  board_.reset();
  progress_.emplace("step", ready_.total_steps, true);
}

Status TrainRun::save_checkpoint() {
  if (!no_store_.ok()) {
    try_store_at_ = {};
    TRY(take_store());
    TRY(Status(no_store_));
  }
  if (!keeps_) return ok_status();
  const auto describe = [&](graft_checkpoint_state& state) {
    state.struct_size = sizeof state;
    return checked(graft_checkpoint_describe(trainer_, &state), context_);
  };
  graft_checkpoint_state state = {};
  TRY(describe(state));
  const bool ahead = state.journalled > 0;
  TRY(checked(graft_checkpoint_save(trainer_, nullptr), context_));
  TRY(describe(state));
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  if (!ahead) {
    to_stdout("Checkpoint of step %llu in %s", static_cast<unsigned long long>(place.step),
              options_.checkpoint.folder.c_str());
  } else {
    to_stdout("The journal in %s is ahead", options_.checkpoint.folder.c_str());
  }
  if (state.replayed > 0) {
    to_stdout("; %llu steps after the last snapshot were run again and agree with the journal",
              static_cast<unsigned long long>(state.replayed));
  }
  if (state.skipped > 0) {
    to_stdout("; %llu %s skipped: the one before was not yet on storage",
              static_cast<unsigned long long>(state.skipped), state.skipped == 1 ? "snapshot was" : "snapshots were");
  }
  to_stdout("; keeping it took %.1f%% of the time.\n", 100 * state.seconds / watch_.seconds());
  return ok_status();
}

// What --fetch asked for, of the last step.
Status TrainRun::write_fetched() const {
  const std::vector<std::string> names = split_list(options_.fetch);
  if (names.empty()) return ok_status();
  TRY(make_folders(options_.fetch_folder));
  const FileNames files = npy_file_names(names);
  for (const std::string& name : names) {
    const void* data = nullptr;
    std::size_t bytes = 0;
    graft_tensor_info info = {};
    TRY(checked(graft_trainer_fetch(trainer_, name.c_str(), &data, &bytes, &info), context_));
    info.name = name.c_str();
    TRY(write_array(options_.fetch_folder, files, info, {static_cast<const std::byte*>(data), bytes}));
  }
  return ok_status();
}

Status TrainRun::write_loss_curve() const {
  if (options_.svg.empty()) return ok_status();
  TRY_ASSIGN(const graft_run_info info, ready_.info());
  double rate = 0;
  TRY(checked(graft_trainer_learning_rate(trainer_, &rate), context_));
  const std::string caption = cat(options_.data, ", batch ", info.batch, ", ",
                                  word_of(kOptimizerWords, options_.train.options.optimizer), ", learning rate ", rate);
  return write_text(options_.svg, loss_svg("Loss", losses_, held_out_losses_, caption));
}

Status TrainRun::write_profile() const {
  if (!ready_.profile) return ok_status();
  TRY_ASSIGN(const ProfileReport report, report_of(context_, ready_.profile.get()));
  print_consumers(report);
  return checked(graft_profile_save_trace(ready_.profile.get(), options_.profile.c_str()), context_);
}

Status TrainRun::write_ema() {
  const std::string& path = options_.evaluation.ema_output;
  if (path.empty()) return ok_status();
  TRY(save_weights(path, true));
  to_stdout("Wrote %s.\n", path.c_str());
  return ok_status();
}

Status TrainRun::write_model(RunEnd end) {
  if (options_.output.empty()) return ok_status();
  TRY(write_result(end));
  // All flags, beside the result: `graft train --config` takes them again.
  const std::filesystem::path output(options_.output);
  const std::string name = fitting_name(output.filename().string(), ".config.json");
  return options_.config_text.empty() ? ok_status()
                                      : write_text((output.parent_path() / name).string(), options_.config_text);
}

Status TrainRun::write_result(RunEnd end) {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  if (!monitors_.best.empty() && place.best_seen > 0 && (kept_best_ || std::filesystem::exists(options_.output))) {
    to_stdout("%s holds the weights of step %llu, whose %s of %.6g was the best.\n", options_.output.c_str(),
              static_cast<unsigned long long>(place.best_step), monitors_.best.c_str(), place.best);
    return ok_status();
  }
  if (!options_.evaluation.gates.empty()) {
    if (end == RunEnd::stopped) {
      to_stdout("Stopped before its end: the gate was not asked, and %s is as it was.\n", options_.output.c_str());
      return ok_status();
    }
    TRY(ready_.store(options_.train.options.ema > 0));
    TRY(checked(graft_trainer_pause(trainer_), context_));  // room for both models
    return pass_gate(options_, ready_);
  }
  TRY(save_weights(options_.output, false));
  to_stdout("Wrote %s.\n", options_.output.c_str());
  return ok_status();
}

// Fails where more steps were left out than taken: what the run gives is not what was asked for. Says so where a tenth
// or more were.
Status TrainRun::check_learned() const {
  TRY_ASSIGN(const graft_run_place place, ready_.place());
  const std::string left_out =
      cat(place.skipped_steps, " of ", place.step,
          " steps were left out, since their loss or gradients were not finite in ", options_.train.precision, ".");
  if (2 * place.skipped_steps > place.step) {
    return invalid(left_out, " Too few were taken", options_.output.empty() ? "." : ": ", options_.output,
                   options_.output.empty() ? "" : " was not written.",
                   " A precision of bf16 or f32 reaches further, and a lower learning rate may help.");
  }
  const bool many = place.skipped_steps > 0 && 10 * place.skipped_steps >= place.step;
  if (many) to_stderr("Warning: %s\n", left_out.c_str());
  return ok_status();
}

Status TrainRun::finish(RunEnd end) {
  if (end == RunEnd::stopped) {
    TRY_ASSIGN(const graft_run_place place, ready_.place());
    to_stdout("Stopped after step %llu%s.\n", static_cast<unsigned long long>(place.step),
              place.samples_done == 0 ? "" : cat(" and ", place.samples_done, " samples of the next").c_str());
  }
  // Whatever fails, the rest is written all the same; the first failure is the run's.
  const Status learned = check_learned();
  const Status all[] = {learned,
                        save_checkpoint(),
                        write_loss_curve(),
                        write_fetched(),
                        write_profile(),
                        learned.ok() ? write_ema() : ok_status(),
                        learned.ok() ? write_model(end) : ok_status(),
                        metrics_.outcome()};
  const auto* const failed = std::ranges::find_if(all, [](const Status& status) { return !status.ok(); });
  return failed == std::end(all) ? ok_status() : *failed;
}

}  // namespace graft::cli
