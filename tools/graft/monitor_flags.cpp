#include "tools/graft/monitor_flags.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "runtime/lora/adapter.h"
#include "runtime/session/text_data.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/evaluation_report.h"
#include "tools/graft/open_data.h"
#include "tools/graft/output.h"

namespace graft::cli {
namespace {

/// As reports have it. Refers to both.
graft_comparison comparison_of(const train::Comparison& from, std::vector<graft_class_change>& changes) {
  changes.clear();
  for (const train::ClassComparison& one : from.classes) {
    changes.push_back({one.label, one.rows, one.old_right, one.new_right});
  }
  return {sizeof(graft_comparison),
          from.samples,
          from.rows,
          from.both_right,
          from.only_old,
          from.only_new,
          from.neither,
          from.p_value,
          from.exact ? 1 : 0,
          from.changed.data(),
          from.changed.size(),
          from.lost.data(),
          from.lost.size(),
          from.gained.data(),
          from.gained.size(),
          changes.data(),
          changes.size(),
          from.task == train::Task::regression ? 1 : 0};
}

nlohmann::ordered_json json_of(const GateReport& report, const std::vector<std::string>& names) {
  nlohmann::ordered_json out = {{"passed", report.passed}};
  if (!report.reason.empty()) out["reason"] = report.reason;
  out["metrics"] = nlohmann::ordered_json::array();
  for (const GateRow& row : report.rows) {
    nlohmann::ordered_json metric = {{"metric", row.metric}, {"new", number_json(row.now)}};
    if (row.before) metric["old"] = number_json(*row.before);
    metric["holds"] = row.holds;
    metric["no_worse"] = row.no_worse;
    out["metrics"].push_back(std::move(metric));
  }
  std::vector<graft_class_change> changes;
  if (report.comparison) out["comparison"] = cli::json_of(comparison_of(*report.comparison, changes), names);
  return out;
}

bool uses_adapters(const TrainArguments& options) { return options.train.has_adapters(); }

// "loss,patience=3,min-delta=0.01"
Result<train::Watch::EarlyStop> parse_early_stop(const std::string& text) {
  const std::vector<std::string> parts = split_list(text);
  train::Watch::EarlyStop stop;
  stop.patience = 0;
  if (parts.empty()) return invalid("--early-stop takes METRIC,patience=N.");
  TRY_ASSIGN(stop.metric, train::parse_metric(parts[0]));
  bool has_patience = false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    TRY_ASSIGN(const auto pair, parse_assignment(parts[i], "--early-stop METRIC,"));
    const char* const end = pair.second.data() + pair.second.size();
    std::from_chars_result read{};
    if (pair.first == "patience") {
      read = std::from_chars(pair.second.data(), end, stop.patience);
      has_patience = true;
    } else if (pair.first == "min-delta") {
      read = std::from_chars(pair.second.data(), end, stop.min_delta);
    } else {
      return invalid("--early-stop knows patience and min-delta, not \"", pair.first, "\".");
    }
    if (read.ec != std::errc() || read.ptr != end || !(stop.min_delta >= 0)) {
      return invalid("--early-stop ", pair.first, "=", pair.second, " is no number of 0 or more.");
    }
  }
  if (!has_patience || stop.patience == 0) {
    return invalid("--early-stop takes METRIC,patience=N, with evaluations to wait of 1 or more.");
  }
  return stop;
}

std::size_t place_of(std::vector<train::Metric>& metrics, const train::Metric& metric) {
  const auto found = std::ranges::find(metrics, metric.name, &train::Metric::name);
  if (found != metrics.end()) return static_cast<std::size_t>(found - metrics.begin());
  metrics.push_back(metric);
  return metrics.size() - 1;
}

Result<AdaptedModel> open_old(const TrainArguments& options) {
  const std::string& against = options.evaluation.against;
  if (!uses_adapters(options)) return open_adapted(against, {}, WeightCheck::at_once);
  AdapterFlags adapter = options.train.adapter;
  adapter.files = {against};
  return open_adapted(options.path, adapter, WeightCheck::at_once);
}

Result<Evaluation> evaluate_for_gate(gpu::Device& device, const Model& model, data::Source& held_out,
                                     const EvaluationOptions& options) {
  if (!has_packed_sequences(held_out)) return evaluate_model(device, model, held_out, options);
  TRY_ASSIGN(const Model masked, with_packed_sequences(model));
  return evaluate_model(device, masked, held_out, options);
}

Status save_result(const std::string& path, const TrainArguments& options, const Model& model) {
  if (!uses_adapters(options)) return save_output(path, saver_of(model));
  TRY_ASSIGN(const Model adapter, adapter_of(model));
  return save_output(path, saver_of(adapter));
}

}  // namespace

void add_evaluation_flags(CLI::App& app, EvaluationFlags& flags) {
  app.add_option("--metric", flags.metric,
                 cat("Metrics of the held-out data, as in f1,auroc: ", train::metric_names()));
  app.add_option("--eval-every", flags.every, "Steps between evaluations, instead of epochs")->check(whole(1));
  app.add_option("--early-stop", flags.early_stop,
                 "METRIC,patience=N: stop where N evaluations in a row are no better (min-delta=X: by X)");
  app.add_option("--keep-best", flags.keep_best, "-o holds the weights of the best evaluation by this metric");
  app.add_option("--plateau-metric", flags.plateau_metric, "What the plateau schedule looks at (loss)");
  app.add_option("--patience", flags.patience, "Evaluations that may be no better before the plateau's rate falls (10)")
      ->check(whole(0));
  app.add_option("--ema-output", flags.ema_output, "The model with the running mean of the weights (--ema)");
  app.add_option("--gate", flags.gates,
                 "METRIC>=X (or <=): -o is replaced only where this holds on the held-out data; repeatable");
  app.add_option("--against", flags.against,
                 "The model in use: the new one may not be worse by more than the margin, in the gate's metrics");
  app.add_option("--gate-margin", flags.gate_margin, "How much worse it may be (0)")->check(not_negative());
  app.add_option("--gate-report", flags.gate_report, "What the gate found, as JSON (default: beside -o)");
}

void refuse_idle_evaluation_flags(const CLI::App& app, const TrainArguments& options) {
  const EvaluationFlags& flags = options.evaluation;
  const bool held_out = !options.held_out.empty() || options.split > 0;
  refuse_idle(app, !held_out, {"--metric", "--eval-every", "--early-stop", "--keep-best", "--gate"},
              "without held-out data: give --eval or --eval-split.");
  refuse_idle(app, options.train.schedule != "plateau", {"--plateau-metric", "--patience"},
              "without --schedule plateau.");
  refuse_idle(app, flags.gates.empty(), {"--against", "--gate-margin", "--gate-report"}, "without --gate.");
  refuse_idle(app, flags.against.empty(), {"--gate-margin"}, "without --against.");
  refuse_idle(app, options.output.empty(), {"--keep-best", "--gate"}, "without -o, the file that it is about.");
  refuse_idle(app, options.train.ema == 0, {"--ema-output"}, "without --ema.");
}

Result<Monitors> Monitors::create(const TrainArguments& options) {
  Monitors out;
  const EvaluationFlags& flags = options.evaluation;
  TRY_ASSIGN(out.metrics, train::parse_metrics(flags.metric));
  out.shown = out.metrics.size();
  out.watch.patience = flags.patience;
  out.watch.factor = options.train.gamma;
  if (options.train.schedule == "plateau") {
    if (options.held_out.empty() && options.split == 0) {
      return invalid("--schedule plateau looks at held-out data: give --eval or --eval-split.");
    }
    if (!(out.watch.factor < 1))
      return invalid("--gamma ", out.watch.factor, " must be below 1 for the plateau schedule.");
    TRY_ASSIGN(out.watch.plateau, train::parse_metric(flags.plateau_metric));
    place_of(out.metrics, *out.watch.plateau);
  }
  if (!flags.early_stop.empty()) {
    TRY_ASSIGN(out.watch.early_stop, parse_early_stop(flags.early_stop));
    place_of(out.metrics, out.watch.early_stop->metric);
  }
  if (!flags.keep_best.empty()) {
    TRY_ASSIGN(out.watch.best, train::parse_metric(flags.keep_best));
    place_of(out.metrics, *out.watch.best);
  }
  if (!flags.gates.empty() && out.watch.best)
    return invalid("--keep-best and --gate both decide what -o holds; give one.");
  if ((out.watch.plateau || out.watch.early_stop) && options.workers.number > 1) {
    return invalid(out.watch.plateau ? "--schedule plateau" : "--early-stop",
                   " goes by evaluations, which one of several workers makes alone; give --workers 1.");
  }
  return out;
}

bool Monitors::needs_predictions() const { return std::ranges::any_of(metrics, train::needs_predictions); }

Status pass_gate(gpu::Device& device, const TrainArguments& options, const train::TrainOptions& train_options,
                 const train::TrainerOptions& trainer_options, Model& model, data::Source& held_out) {
  const EvaluationFlags& flags = options.evaluation;
  EvaluationOptions evaluation;
  evaluation.train = without_teacher(train_options);
  evaluation.train.optimizer.ema = 0;  // of the weights as they are in the model
  evaluation.train.freeze.clear();
  evaluation.train.fetch.clear();
  evaluation.outcomes = true;
  evaluation.trainer.program = trainer_options.program;
  GateOptions gate;
  gate.margin = flags.gate_margin;
  for (const std::string& text : flags.gates) {
    TRY_ASSIGN(GateCondition condition, parse_gate_condition(text));
    evaluation.metrics.push_back(condition.metric);
    gate.conditions.push_back(std::move(condition));
  }
  TRY_ASSIGN(const Evaluation now, evaluate_for_gate(device, model, held_out, evaluation));
  std::optional<Evaluation> before;
  if (!flags.against.empty()) {
    TRY_ASSIGN(AdaptedModel old, open_old(options));
    auto made = evaluate_for_gate(device, old.get(), held_out, evaluation);
    if (!made.ok()) return std::move(made).status().with_context(cat("Of the old model \"", flags.against, "\""));
    before.emplace(std::move(made).value());
  }
  TRY_ASSIGN(const GateReport report, judge(now, before ? &*before : nullptr, gate));
  const std::string path = report.passed ? options.output : rejected_path(options.output);
  TRY(save_result(path, options, model));
  const std::string report_path = flags.gate_report.empty() ? options.output + ".gate.json" : flags.gate_report;
  auto json = json_of(report, classes_of(model));
  json["written"] = path;
  TRY(write_text(report_path, json.dump(2) + "\n"));
  if (report.comparison) {
    std::vector<graft_class_change> changes;
    std::printf("%s", text_of(comparison_of(*report.comparison, changes), classes_of(model)).c_str());
  }
  if (report.passed) {
    std::printf("The gate holds. Wrote %s.\n", options.output.c_str());
    return ok_status();
  }
  return error(Code::invalid_argument, "The gate refused the new model. ", report.reason, " \"", options.output,
               "\" is as it was; the new one is \"", path, "\", the report \"", report_path, "\".");
}

}  // namespace graft::cli
