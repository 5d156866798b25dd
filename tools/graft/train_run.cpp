#include "tools/graft/train_run.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "runtime/data/npy.h"
#include "runtime/session/data_hints.h"
#include "tools/bench/budget.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/checkpoint_flags.h"
#include "tools/graft/config_file.h"
#include "tools/graft/consumers.h"
#include "tools/graft/evaluation_report.h"
#include "tools/graft/output.h"
#include "tools/graft/train_samples.h"
#include "tools/graft/workers.h"

namespace graft::cli {
namespace {

/// Steps that the worker which is gone may have taken without writing them down: it writes one once the next is done.
constexpr std::size_t kMostRecent = 4;
constexpr std::chrono::seconds kTryStoreAgain{5};

std::string metrics_text(const train::Metrics& metrics, const TrainFlags& flags) {
  char text[128];
  if (is_preference(flags)) {
    std::snprintf(text, sizeof text, "loss %.4f, accuracy %.2f%%, reward margin %.4f", metrics.loss(),
                  100 * metrics.accuracy(), metrics.reward_margin());
  } else if (metrics.has_correct) {
    std::snprintf(text, sizeof text, "loss %.4f, accuracy %.2f%%", metrics.loss(), 100 * metrics.accuracy());
  } else if (is_cross_entropy(flags)) {
    std::snprintf(text, sizeof text, "loss %.4f, perplexity %.4g", metrics.loss(), metrics.perplexity());
  } else {
    std::snprintf(text, sizeof text, "loss %.6g", metrics.loss());
  }
  return text;
}

nlohmann::ordered_json metrics_json(const char* kind, const train::Metrics& metrics, const TrainFlags& flags) {
  nlohmann::ordered_json row = {{"kind", kind}, {"loss", metrics.loss()}};
  if (metrics.has_correct) row["accuracy"] = metrics.accuracy();
  if (!metrics.has_correct && is_cross_entropy(flags)) row["perplexity"] = metrics.perplexity();
  if (is_preference(flags)) row["reward_margin"] = metrics.reward_margin();
  if (metrics.has_top5) row["top5"] = metrics.top5_accuracy();
  return row;
}

TensorBoard::Scalars scalars_of(const train::StepResult& result) {
  TensorBoard::Scalars out = {{"loss", result.metrics.loss()}};
  if (result.metrics.has_correct) out.emplace_back("accuracy", result.metrics.accuracy());
  out.emplace_back("learning_rate", result.learning_rate);
  if (result.gradient_norm) out.emplace_back("gradient_norm", *result.gradient_norm);
  if (result.loss_scale) out.emplace_back("loss_scale", *result.loss_scale);
  return out;
}

Status each_parameter(train::Trainer& trainer, const TensorBoard::Add& add) {
  std::vector<float> values;
  for (const train::NamedTensor& tensor : trainer.named_parameters()) {
    if (tensor.dtype != DType::f32 || tensor.bytes == 0) continue;
    values.resize(tensor.bytes / sizeof(float));
    TRY(trainer.read(tensor.name, std::as_writable_bytes(std::span(values))));
    add(tensor.name, values);
  }
  return ok_status();
}

}  // namespace

// What -o names; with --ema and `ema` the running mean.
Status TrainRun::save_weights(const std::string& path, bool ema) {
  TRY(copy_to_model(trainer_, model_, default_host_allocator(), false, ema));
  keep_classes(data::class_names(loader_.source()), model_);
  keep_pooling(loader_.source().fields(), model_);
  if (!options_.train.has_adapters()) return save_output(path, saver_of(model_));
  TRY_ASSIGN(const Model adapter, adapter_of(model_));
  return save_output(path, saver_of(adapter));
}

// What follows from an evaluation of the state as it is now.
Status TrainRun::follow(const std::vector<train::MetricValue>& values) {
  TRY_ASSIGN(const train::Verdict verdict, train::observe(trainer_, monitors_.watch, values));
  if (verdict.learning_rate) std::printf("  no better: the learning rate is now %g\n", *verdict.learning_rate);
  if (verdict.best) {
    TRY(save_weights(options_.output, options_.train.ema > 0));
    std::printf("  the best so far: wrote %s\n", options_.output.c_str());
    kept_best_ = true;
  }
  if (verdict.stop) std::printf("  no better for %s: training ends\n", options_.evaluation.early_stop.c_str());
  stop_ = stop_ || verdict.stop;
  return ok_status();
}

// The evaluation before the first step counts where a resumed run was saved just before it.
Status TrainRun::evaluate(const char* when, bool counts) {
  if (ready_.held_out == nullptr) return ok_status();
  if (profile_ != nullptr) profile_->pause();
  EvaluationOptions options;
  options.metrics = monitors_.metrics;
  TRY_ASSIGN(Evaluation evaluation, evaluate_trainer(trainer_, *ready_.held_out, options));
  if (profile_ != nullptr) profile_->resume();
  const train::Metrics& metrics = evaluation.totals;
  std::vector<MetricRow> shown;
  for (std::size_t i = 0; i < monitors_.shown; ++i) {
    const train::MetricValue& value = evaluation.values[i];
    shown.push_back({value.name, value.value, value.per_class});
  }
  std::printf("%s: held-out %s%s\n", when, metrics_text(metrics, options_.train).c_str(), text_of(shown).c_str());
  std::fflush(stdout);
  const auto step = trainer_.state().step;
  held_out_losses_.push_back({static_cast<double>(step), metrics.loss()});
  auto row = metrics_json("held_out", metrics, options_.train);
  row["step"] = step;
  row.update(json_of(shown));
  metrics_.write(row);
  if (board_) board_->held_out(step, row);
  return counts && monitors_.watch.watches() ? follow(evaluation.values) : ok_status();
}

// Whether the state was saved after an epoch or so many steps, before their evaluation.
bool TrainRun::is_evaluation_due() const {
  const train::TrainingState& state = trainer_.state();
  if (state.step == 0 || state.samples_done != 0 || state.evaluated_at >= state.step) return false;
  const std::uint64_t every = options_.evaluation.every;
  if (every > 0) return state.step % every == 0;
  return state.cursor.position == 0 || state.cursor.position == state.cursor.samples;
}

// Of the worker that leads, before it evaluates or writes anything.
Status TrainRun::prepare() {
  TRY_ASSIGN(monitors_, Monitors::create(options_));
  if (options_.tensorboard.empty()) return ok_status();
  TRY_ASSIGN(board_, TensorBoard::open(options_.tensorboard, trainer_.state().step));
  return ok_status();
}

// Prints what the model says now, where that was asked for.
Status TrainRun::show_samples() {
  const SampleFlags& flags = options_.sample;
  if (flags.prompts.empty()) return ok_status();
  TRY_ASSIGN(const auto texts, generate_samples(device_, model_, trainer_, flags));
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto step = trainer_.state().step;
    std::printf("sample after %llu steps: %s|%s\n", static_cast<unsigned long long>(step), flags.prompts[i].c_str(),
                texts[i].c_str());
    metrics_.write({{"kind", "sample"}, {"step", step}, {"prompt", flags.prompts[i]}, {"text", texts[i]}});
  }
  std::fflush(stdout);
  return ok_status();
}

// Shows the last step once it is as durable as was asked; the device has gone on meanwhile.
void TrainRun::acknowledge() {
  if (!waiting_) return;
  if (checkpointer_ != nullptr) checkpointer_->acknowledge();
  const Waiting step = std::move(*waiting_);
  waiting_.reset();
  progress_->update(step.step, step.text);
  metrics_.write(step.row);
}

// Tells that the device was short of memory, once each time.
void TrainRun::show_shortages() {
  const auto step = static_cast<unsigned long long>(trainer_.state().step);
  if (trainer_.heap_overdrawn() && !overdrawn_) {
    progress_->finish();
    std::fprintf(stderr, "By step %llu the driver allows no more memory than is held, but no plan is smaller.\n", step);
  }
  overdrawn_ = trainer_.heap_overdrawn();
  if (trainer_.shortages() == shortages_) return;
  shortages_ = trainer_.shortages();
  progress_->finish();
  const auto& reasons = trainer_.plan().choice.reasons;
  std::fprintf(stderr, "The device was short of memory by step %llu; training goes on with %s of it. %s\n", step,
               bytes_text(trainer_.device_bytes()).c_str(), reasons.empty() ? "" : reasons.front().c_str());
}

// What there is to show of the step that was just taken.
TrainRun::Waiting TrainRun::step_shown(const train::StepResult& result) const {
  const auto step = trainer_.state().step;
  auto row = metrics_json("step", result.metrics, options_.train);
  row["step"] = step;
  row["epoch"] = trainer_.state().epoch;
  row["lr"] = result.learning_rate;
  row["submissions"] = result.submissions;
  if (result.loss_scale) {
    row["loss_scale"] = *result.loss_scale;
    row["skipped_steps"] = result.skipped_steps;
    if (result.skipped) row["skipped"] = true;
  }
  if (result.gradient_norm) row["gradient_norm"] = *result.gradient_norm;
  if (shortages_ != 0) row["shortages"] = shortages_;
  if (overdrawn_) row["heap_overdrawn"] = true;
  std::string text = metrics_text(result.metrics, options_.train);
  if (const auto sections = trainer_.sections(); !sections.empty()) {
    std::string shares;
    for (const train::WorkerSection& section : sections) {
      shares += cat(shares.empty() ? "" : "/", section.slots);
      row["shares"].push_back(section.slots);
      row["computing"].push_back(1e-9 * static_cast<double>(section.computing_ns));
    }
    text += cat(", shares ", shares);
  }
  if (result.skipped_steps > 0) text += cat(", ", result.skipped_steps, " steps left out (overflow)");
  return {step, std::move(text), std::move(row)};
}

Status TrainRun::on_step(const train::StepResult& result) {
  acknowledge();
  losses_.push_back({static_cast<double>(trainer_.state().step), result.metrics.loss()});
  if (!leads_) {
    recent_.push_back(step_shown(result));
    if (recent_.size() > kMostRecent) recent_.pop_front();
    return ok_status();
  }
  if (checkpointer_ == nullptr && !no_store_.ok()) TRY(take_store());
  if (checkpointer_ != nullptr) TRY(checkpointer_->record(result));
  show_shortages();
  waiting_ = step_shown(result);
  if (checkpointer_ == nullptr) acknowledge();
  if (board_) board_->step(trainer_.state().step, scalars_of(result));
  if (const std::uint64_t often = options_.evaluation.every; often > 0 && trainer_.state().step % often == 0) {
    acknowledge();
    progress_->finish();
    TRY(evaluate(cat("step ", trainer_.state().step).c_str(), true));
  }
  const std::uint64_t every = options_.sample.every;
  if (every == 0 || trainer_.state().step % every != 0) return ok_status();
  acknowledge();
  progress_->finish();
  return show_samples();
}

Status TrainRun::on_epoch() {
  epoch_at_ = trainer_.state().step;
  if (!leads_) return ok_status();
  acknowledge();
  progress_->finish();
  std::printf("epoch %llu: %s\n", static_cast<unsigned long long>(trainer_.state().epoch) + 1,
              metrics_text(trainer_.state().epoch_metrics, options_.train).c_str());
  if (board_) {
    TRY(board_->epoch(trainer_.state().step,
                      [&](const TensorBoard::Add& add) { return each_parameter(trainer_, add); }));
  }
  if (options_.evaluation.every == 0) TRY(evaluate("  after it", true));
  return options_.sample.every == 0 ? show_samples() : ok_status();
}

Result<train::FitEnd> TrainRun::take_steps(const std::atomic<bool>& stop, train::SlotExchange* exchange,
                                           const std::function<Status(const Status&)>& go_on) {
  if (!progress_) progress_.emplace("step", ready_.total_steps, options_.quiet || !leads_);
  train::FitOptions fit_options;
  fit_options.steps = options_.steps;
  // A signal waits for a step that brings what a checkpoint needs of the other workers.
  std::atomic<bool> stop_now{false};
  const auto can_stop = [&] { return checkpointer_ == nullptr || trainer_.has_whole_state(); };
  const std::atomic<bool>* const stop_flag = trainer_.is_sharded() ? &stop_now : &stop;
  fit_options.stop = leads_ ? stop_flag : nullptr;
  fit_options.end = [&] { return stop_; };
  trainer_.set_wants_whole_state(
      [&] { return checkpointer_ != nullptr && (stop || checkpointer_->wants_whole_state()); });
  fit_options.observer = profile_;
  fit_options.stop_within_steps = checkpointer_ != nullptr;
  fit_options.on_step = [&](const train::StepResult& result) -> Status {
    if (exchange != nullptr) TRY(Workers::after_step(ready_, *exchange));
    TRY(on_step(result));
    stop_now = stop && can_stop();
    return ok_status();
  };
  if (exchange != nullptr) {
    fit_options.go_on = [&](const Status& why) -> Status {
      acknowledge();
      progress_->finish();
      TRY(go_on(why));
      fit_options.stop = leads_ ? stop_flag : nullptr;  // it may be another that leads now
      return ok_status();
    };
  }
  fit_options.on_epoch = [&](const train::Trainer&) { return on_epoch(); };
  auto end = train::fit(trainer_, loader_, fit_options);
  trainer_.set_wants_whole_state(nullptr);
  TRY(end.status());
  acknowledge();
  return end;
}

/// A process that is killed gives one thing back after another, and the store's lock with the last of its threads.
Status TrainRun::open_checkpointer(const CheckpointOptions& checkpoint, std::chrono::milliseconds patience) {
  CheckpointOptions all = checkpoint;
  all.report = [](const std::string& text) { std::fprintf(stderr, "checkpoint: %s\n", text.c_str()); };
  all.late_sync = true;
  all.model_file = std::filesystem::absolute(options_.path).string();
  Configuration configuration = configuration_of(trainer_);
  add_data(options_, ready_, configuration);
  const auto until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    auto opened = Checkpointer::open(os::system_files(), all, trainer_, model_, configuration);
    if (opened.ok()) checkpointer_ = std::move(opened).value();
    const Status status = opened.status();
    if (status.code() != Code::io_error || std::chrono::steady_clock::now() >= until) return status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status TrainRun::open_store(bool anew) {
  leads_ = true;
  TRY_ASSIGN(const CheckpointOptions checkpoint, checkpoint_options(options_.checkpoint));
  if (!options_.checkpoint.warm_start.empty()) TRY(warm_start(options_.checkpoint.warm_start, trainer_));
  if (checkpoint.folder.empty()) return ok_status();
  TRY(open_checkpointer(checkpoint, anew ? std::chrono::seconds(10) : std::chrono::seconds(0)));
  TRY_ASSIGN(const std::uint64_t step, checkpointer_->begin(&loader_));
  if (checkpoint.resume) std::fprintf(stderr, "Going on from step %llu.\n", static_cast<unsigned long long>(step));
  return ok_status();
}

Status TrainRun::begin() {
  if (profile_ != nullptr) profile_->set_next(trainer_.state().step + 1);
  if (!options_.metrics.empty()) TRY(metrics_.open(options_.metrics, trainer_.state().step));
  if (const TextInfo& info = ready_.training_info; info.is_text && trainer_.state().step == 0) {
    nlohmann::ordered_json row = {{"kind", "data"}};
    row.update(nlohmann::ordered_json::parse(graft::json_of(info.summary)));
    metrics_.write(row);
  }
  TRY(prepare());
  TRY(evaluate("before", is_evaluation_due()));
  TRY(show_samples());
  watch_.restart();
  return ok_status();
}

// The store of the worker that is gone. Where another process holds it still, the run goes on without, and looks again:
// a worker that stands still may come back, and must not find that two have written.
Status TrainRun::take_store() {
  TRY_ASSIGN(CheckpointOptions checkpoint, checkpoint_options(options_.checkpoint));
  if (checkpoint.folder.empty() || std::chrono::steady_clock::now() < try_store_at_) return ok_status();
  checkpoint.resume = true;
  checkpoint.from.clear();
  checkpoint.looks_deep = false;
  const Status opened = open_checkpointer(checkpoint, std::chrono::milliseconds(200));
  if (!opened.ok()) {
    if (no_store_.ok()) {
      std::fprintf(stderr, "checkpoint: %s Training goes on without, and looks again.\n", opened.message().c_str());
    }
    no_store_ = opened;
    try_store_at_ = std::chrono::steady_clock::now() + kTryStoreAgain;
    return ok_status();
  }
  no_store_ = {};
  Status taken = checkpointer_->take_over(&loader_);
  if (!taken.ok()) checkpointer_.reset();
  return taken;
}

// Steps that are done, but whose rows the file lacks.
Status TrainRun::write_what_is_missing() {
  if (!options_.metrics.empty()) TRY(metrics_.open(options_.metrics, trainer_.state().step));
  for (const Waiting& step : recent_) {
    if (step.step > metrics_.last_step() && step.step <= trainer_.state().step) metrics_.write(step.row);
  }
  recent_.clear();
  TRY(prepare());
  if (trainer_.state().step == 0) TRY(evaluate("before", false));
  if (epoch_at_ == trainer_.state().step) return on_epoch();
  const std::uint64_t every = options_.sample.every;
  return trainer_.state().step == 0 || (every != 0 && trainer_.state().step % every == 0) ? show_samples()
                                                                                          : ok_status();
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
  checkpointer_.reset();
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
  if (checkpointer_ == nullptr) return ok_status();
  const bool ahead = checkpointer_->to_replay() > 0;
  TRY(checkpointer_->save());
  if (!ahead) {
    std::printf("Checkpoint of step %llu in %s", static_cast<unsigned long long>(trainer_.state().step),
                options_.checkpoint.options.folder.c_str());
  } else {
    std::printf("The journal in %s is ahead", options_.checkpoint.options.folder.c_str());
  }
  if (checkpointer_->replayed() > 0) {
    std::printf("; %llu steps after the last snapshot were run again and agree with the journal",
                static_cast<unsigned long long>(checkpointer_->replayed()));
  }
  if (const std::uint64_t skipped = checkpointer_->skipped(); skipped > 0) {
    std::printf("; %llu %s skipped: the one before was not yet on storage", static_cast<unsigned long long>(skipped),
                skipped == 1 ? "snapshot was" : "snapshots were");
  }
  std::printf("; keeping it took %.1f%% of the time.\n", 100 * checkpointer_->seconds() / watch_.seconds());
  return ok_status();
}

// What --fetch asked for, of the last step.
Status TrainRun::write_fetched() const {
  const auto& names = trainer_.options().fetch;
  if (names.empty()) return ok_status();
  TRY(os::make_directories(os::system_files(), options_.fetch_folder));
  for (const std::string& name : names) {
    TRY_ASSIGN(const train::FetchedValue value, trainer_.fetch(name));
    const std::string path = options_.fetch_folder + "/" + npy_file_name(name);
    TRY(data::write_npy(os::system_files(), path, value.dtype, value.shape, value.bytes));
    std::printf("%s  %s%s\n", path.c_str(), std::string(dtype_name(value.dtype)).c_str(), value.shape.text().c_str());
  }
  return ok_status();
}

Status TrainRun::write_loss_curve() const {
  if (options_.svg.empty()) return ok_status();
  const std::string caption = cat(options_.data, ", batch ", trainer_.options().batch, ", ",
                                  train::optimizer_name(trainer_.options().optimizer.kind), ", learning rate ",
                                  trainer_.options().optimizer.learning_rate);
  return write_text(options_.svg, loss_svg("Loss", losses_, held_out_losses_, caption));
}

namespace {

/// Refers to it.
ProfileReport report_of(const Consumers& from) {
  ProfileReport out;
  out.info = {sizeof out.info,    from.steps,         1e3 * from.step_seconds, 1e3 * from.device_seconds,
              from.dispatches,    from.barriers,      from.submissions,        from.peak_node.c_str(),
              from.arena_at_peak, from.resident_bytes};
  const auto copy = [](const std::vector<Consumer>& rows, std::vector<graft_profile_row>& to) {
    for (const Consumer& row : rows) {
      to.push_back({sizeof(graft_profile_row), row.name.c_str(), row.op.c_str(), row.nodes, row.calls,
                    1e3 * row.seconds, row.flops, row.bytes, row.peak_bytes});
    }
  };
  copy(from.nodes, out.nodes);
  copy(from.ops, out.ops);
  for (std::size_t i = 0; i < std::size(kHostPhaseNames); ++i) {
    out.phases.push_back({sizeof(graft_profile_phase), kHostPhaseNames[i].data(), 1e3 * from.host_seconds[i],
                          1e3 * from.total_host_seconds[i]});
  }
  return out;
}

}  // namespace

Status TrainRun::write_profile() const {
  if (profile_ == nullptr) return ok_status();
  const Consumers consumers = consumers_of(*profile_);
  print_consumers(report_of(consumers));
  return write_trace(os::system_files(), options_.profile, *profile_, consumers);
}

Status TrainRun::write_ema() {
  const std::string& path = options_.evaluation.ema_output;
  if (path.empty()) return ok_status();
  TRY(save_weights(path, true));
  std::printf("Wrote %s.\n", path.c_str());
  return ok_status();
}

Status TrainRun::write_model(train::FitEnd end) {
  if (options_.output.empty()) return ok_status();
  TRY(write_result(end));
  // All flags, beside the result: `graft train --config` takes them again.
  return options_.config_text.empty() ? ok_status()
                                      : write_text(options_.output + ".config.json", options_.config_text);
}

Status TrainRun::write_result(train::FitEnd end) {
  const train::MonitorState& best = trainer_.state().monitors[static_cast<std::size_t>(train::Monitor::best)];
  if (monitors_.watch.best && best.seen > 0 && (kept_best_ || std::filesystem::exists(options_.output))) {
    std::printf("%s holds the weights of step %llu, whose %s of %.6g was the best.\n", options_.output.c_str(),
                static_cast<unsigned long long>(best.best_step), monitors_.watch.best->name.c_str(), best.best);
    return ok_status();
  }
  if (!options_.evaluation.gates.empty()) {
    if (end == train::FitEnd::stopped) {
      std::printf("Stopped before its end: the gate was not asked, and %s is as it was.\n", options_.output.c_str());
      return ok_status();
    }
    TRY(copy_to_model(trainer_, model_, default_host_allocator(), false, options_.train.ema > 0));
    keep_classes(data::class_names(loader_.source()), model_);
    keep_pooling(loader_.source().fields(), model_);
    TRY(trainer_.pause());  // room for both models
    train::TrainerOptions trainer_options;
    opened_.give_to(trainer_options.program);
    return pass_gate(device_, options_, trainer_.options(), trainer_options, model_, *ready_.held_out);
  }
  TRY(save_weights(options_.output, false));
  std::printf("Wrote %s.\n", options_.output.c_str());
  return ok_status();
}

Status TrainRun::finish(train::FitEnd end) {
  if (end == train::FitEnd::stopped) {
    const train::TrainingState& state = trainer_.state();
    std::printf("Stopped after step %llu%s.\n", static_cast<unsigned long long>(state.step),
                state.samples_done == 0 ? "" : cat(" and ", state.samples_done, " samples of the next").c_str());
  }
  // Whatever fails, the rest is written all the same; the first failure is the run's.
  const Status all[] = {save_checkpoint(), write_loss_curve(), write_fetched(),   write_profile(),
                        write_ema(),       write_model(end),   metrics_.outcome()};
  const auto* const failed = std::ranges::find_if(all, [](const Status& status) { return !status.ok(); });
  return failed == std::end(all) ? ok_status() : *failed;
}

}  // namespace graft::cli
