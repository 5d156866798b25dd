#include "tools/graft/training/monitor_flags.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "graft/gate.h"
#include "tools/common/help.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/evaluation_report.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/training/prepared_run.h"

namespace graft::cli {
namespace {

std::vector<std::string> classes_of_model(graft_model* model) {
  std::vector<std::string> names;
  while (const char* name = graft_model_class(model, names.size())) names.emplace_back(name);
  return names;
}

nlohmann::ordered_json json_of(const graft_gate_result& result, graft_model* model, bool has_old,
                               const graft_comparison* comparison, const std::vector<std::string>& names) {
  nlohmann::ordered_json out = {{"passed", result.passed != 0}};
  if (*result.reason != '\0') out["reason"] = result.reason;
  out["metrics"] = nlohmann::ordered_json::array();
  graft_gate_row row = {};
  row.struct_size = sizeof row;
  for (std::size_t i = 0; graft_gate_condition(model, i, &row) == GRAFT_OK; ++i) {
    nlohmann::ordered_json metric = {{"metric", row.metric}, {"new", number_json(row.now)}};
    if (has_old) metric["old"] = number_json(row.before);
    metric["holds"] = row.holds != 0;
    metric["no_worse"] = row.no_worse != 0;
    out["metrics"].push_back(std::move(metric));
  }
  if (comparison != nullptr) out["comparison"] = cli::json_of(*comparison, names);
  return out;
}

// "loss,patience=3,min-delta=0.01"
Status parse_early_stop(graft_context* context, const std::string& text, Monitors& out) {
  const std::vector<std::string> parts = split_list(text);
  if (parts.empty()) return invalid("--early-stop takes METRIC,patience=N.");
  out.early_stop = parts[0];
  TRY(checked(graft_metrics_check(context, out.early_stop.c_str(), nullptr), context));
  bool has_patience = false;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    TRY_ASSIGN(const auto pair, parse_assignment(parts[i], "--early-stop METRIC,"));
    const char* const end = pair.second.data() + pair.second.size();
    std::from_chars_result read{};
    if (pair.first == "patience") {
      read = std::from_chars(pair.second.data(), end, out.watch.stop_patience);
      has_patience = true;
    } else if (pair.first == "min-delta") {
      read = std::from_chars(pair.second.data(), end, out.watch.min_delta);
    } else {
      return invalid("--early-stop knows patience and min-delta, not \"", pair.first, "\".");
    }
    if (read.ec != std::errc() || read.ptr != end || !(out.watch.min_delta >= 0)) {
      return invalid("--early-stop ", pair.first, "=", pair.second, " is no number of 0 or more.");
    }
  }
  if (!has_patience || out.watch.stop_patience == 0) {
    return invalid("--early-stop takes METRIC,patience=N, with evaluations to wait of 1 or more.");
  }
  return ok_status();
}

Result<Owned<graft_model>> open_old(graft_context* context, const TrainArguments& options) {
  const std::string& against = options.evaluation.against;
  if (!options.train.has_adapters()) return open_adapted(context, against, {}, GRAFT_CHECK_AT_ONCE);
  AdapterFlags adapter = options.train.adapter;
  adapter.files = {against};
  return open_adapted(context, options.path, adapter, GRAFT_CHECK_AT_ONCE);
}

/// "live.rejected.graft" of "live.graft".
std::string rejected_path(const std::string& path) {
  const std::size_t slash = path.find_last_of('/'), dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  const std::size_t name = slash == std::string::npos ? 0 : slash + 1, end = has_ending ? dot : path.size();
  return path.substr(0, name) + fitting_name(path.substr(name, end - name), ".rejected" + path.substr(end));
}

}  // namespace

void add_evaluation_flags(CLI::App& app, EvaluationFlags& flags) {
  const HelpGroup group(app, "Evaluation");
  app.add_option("--metric", flags.metric, cat("Metrics of the held-out data, as in f1,auroc: ", graft_metric_names()));
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
  refuse_idle(app, options.train.options.schedule != GRAFT_PLATEAU, {"--plateau-metric", "--patience"},
              "without --schedule plateau.");
  refuse_idle(app, flags.gates.empty(), {"--against", "--gate-margin", "--gate-report"}, "without --gate.");
  refuse_idle(app, flags.against.empty(), {"--gate-margin"}, "without --against.");
  refuse_idle(app, options.output.empty(), {"--keep-best", "--gate"}, "without -o, the file that it is about.");
  refuse_idle(app, options.train.options.ema == 0, {"--ema-output"}, "without --ema.");
}

Result<Monitors> Monitors::create(graft_context* context, const TrainArguments& options) {
  Monitors out;
  const EvaluationFlags& flags = options.evaluation;
  std::vector<std::string> names = split_list(flags.metric);
  TRY(checked(graft_metrics_check(context, flags.metric.c_str(), nullptr), context));
  out.shown = names.size();
  const auto look_at = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  const auto read = [&](const std::string& name, std::string& to) {
    to = name;
    look_at(name);
    return checked(graft_metrics_check(context, name.c_str(), nullptr), context);
  };
  out.watch.patience = flags.patience;
  if (options.train.options.schedule == GRAFT_PLATEAU) {
    if (options.held_out.empty() && options.split == 0) {
      return invalid("--schedule plateau looks at held-out data: give --eval or --eval-split.");
    }
    if (!(options.train.options.gamma < 1)) {
      return invalid("--gamma ", options.train.options.gamma, " must be below 1 for the plateau schedule.");
    }
    out.watch.factor = options.train.options.gamma;
    TRY(read(flags.plateau_metric, out.plateau));
  }
  if (!flags.early_stop.empty()) {
    TRY(parse_early_stop(context, flags.early_stop, out));
    look_at(out.early_stop);
  }
  if (!flags.keep_best.empty()) TRY(read(flags.keep_best, out.best));
  if (!flags.gates.empty() && !out.best.empty())
    return invalid("--keep-best and --gate both decide what -o holds; give one.");
  for (const std::string& name : names) out.metrics += (out.metrics.empty() ? "" : ",") + name;
  int predictions = 0;
  TRY(checked(graft_metrics_check(context, out.metrics.c_str(), &predictions), context));
  out.needs_predictions = predictions != 0;
  return out;
}

graft_watch_options Monitors::watched() const {
  graft_watch_options out = watch;
  out.no_snapshot = 1;  // a resume from the one before evaluates again
  if (!plateau.empty()) out.plateau = plateau.c_str();
  if (!early_stop.empty()) out.early_stop = early_stop.c_str();
  if (!best.empty()) out.best = best.c_str();
  return out;
}

Status pass_gate(const TrainArguments& options, const PreparedRun& run) {
  const EvaluationFlags& flags = options.evaluation;
  graft_context* const context = run.context;
  const graft_trainer_options training = run.wishes.of_evaluation();
  std::string conditions;
  for (const std::string& text : flags.gates) conditions += (conditions.empty() ? "" : ",") + text;
  graft_gate_options gate = {};
  gate.struct_size = sizeof gate;
  gate.conditions = conditions.c_str();
  gate.margin = flags.gate_margin;
  gate.training = &training;
  Owned<graft_model> old;
  if (!flags.against.empty()) {
    TRY_ASSIGN(old, open_old(context, options));
  }
  graft_gate_result result = {};
  result.struct_size = sizeof result;
  const Status judged = checked(graft_gate(run.model, old.get(), run.held_out.get(), &gate, nullptr, &result), context);
  if (constexpr std::string_view kOfOld = "Of the old model"; judged.message().starts_with(kOfOld)) {
    return {judged.code(), cat(kOfOld, " \"", flags.against, "\"", judged.message().substr(kOfOld.size()))};
  }
  TRY(Status(judged));
  const std::vector<std::string> names = classes_of_model(run.model);
  graft_comparison comparison = {};
  comparison.struct_size = sizeof comparison;
  const bool compared = graft_gate_compare(run.model, &comparison) == GRAFT_OK;
  const bool passed = result.passed != 0;
  const std::string path = passed ? options.output : rejected_path(options.output);
  const std::string reason = result.reason;
  auto json = json_of(result, run.model, old != nullptr, compared ? &comparison : nullptr, names);
  const std::string text = compared ? text_of(comparison, names) : std::string();
  TRY(save_output(path, [&](const std::string& to) {
    return checked(options.train.has_adapters() ? graft_model_save_adapters(run.model, to.c_str())
                                                : graft_model_save(run.model, to.c_str()),
                   context);
  }));
  const std::string report_path = flags.gate_report.empty() ? options.output + ".gate.json" : flags.gate_report;
  json["written"] = path;
  TRY(write_text(report_path, json.dump(2) + "\n"));
  to_stdout("%s", text.c_str());
  if (passed) {
    to_stdout("The gate holds. Wrote %s.\n", options.output.c_str());
    return ok_status();
  }
  return error(Code::invalid_argument, "The gate refused the new model. ", reason, " \"", options.output,
               "\" is as it was; the new one is \"", path, "\", the report \"", report_path, "\".");
}

}  // namespace graft::cli
