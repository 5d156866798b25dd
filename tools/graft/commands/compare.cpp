// graft compare: what changed from one model to another, on the same data.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/evaluation_report.h"
#include "tools/graft/training/public_data.h"
#include "tools/graft/training/train_wishes.h"

namespace graft::cli {
namespace {

struct CompareArguments {
  DeviceFlags device;
  TrainFlags train;
  std::string before;
  std::string now;
  std::string data;
  std::string metric;
  bool json = false;
};

struct Compared {
  Owned<graft_evaluation> evaluation;
  graft_totals totals = {};
  std::vector<MetricRow> metrics;
};

Result<Compared> evaluate_one(graft_context* context, const std::string& path, const CompareArguments& options) {
  TRY_ASSIGN(const auto model, open_model(context, path, GRAFT_CHECK_AT_ONCE));
  TRY_ASSIGN(const auto set, open_held_out(context, model.get(), options.data, options.train));
  TrainWishes wanted;
  TRY(wanted.read(options.train));
  const graft_trainer_options training = wanted.options();
  graft_evaluation_options how = {};
  how.struct_size = sizeof how;
  how.metrics = options.metric.c_str();
  how.outcomes = 1;
  how.training = &training;
  graft_evaluation* made = nullptr;
  const graft_status evaluated = graft_evaluate_model(model.get(), set.get(), &how, &made);
  Compared out{.evaluation = Owned<graft_evaluation>(made)};
  TRY(checked(evaluated, context));
  out.totals.struct_size = sizeof out.totals;
  TRY(checked(graft_evaluation_totals(made, &out.totals), context));
  out.metrics = metrics_of(made);
  return out;
}

nlohmann::ordered_json totals_json(const Compared& one) {
  nlohmann::ordered_json row = {{"loss", number_json(one.totals.loss)}};
  if (!std::isnan(one.totals.accuracy)) row["accuracy"] = one.totals.accuracy;
  row.update(json_of(one.metrics));
  return row;
}

void print_totals(const char* which, const Compared& one) {
  to_stdout("%s: loss %.6g", which, one.totals.loss);
  if (!std::isnan(one.totals.accuracy)) to_stdout(", accuracy %.2f%%", 100 * one.totals.accuracy);
  to_stdout("%s\n", text_of(one.metrics).c_str());
}

Status compare(const CompareArguments& options, graft_context* context) {
  auto before = evaluate_one(context, options.before, options);
  if (!before.ok()) return std::move(before).status().with_context(cat("Of the old model \"", options.before, "\""));
  auto now = evaluate_one(context, options.now, options);
  if (!now.ok()) return std::move(now).status().with_context(cat("Of the new model \"", options.now, "\""));
  graft_comparison comparison = {};
  comparison.struct_size = sizeof comparison;
  TRY(checked(graft_evaluations_compare(before->evaluation.get(), now->evaluation.get(), &comparison), context));
  const std::vector<std::string> names = class_names(now->evaluation.get());
  if (options.json) {
    nlohmann::ordered_json out = {{"old", totals_json(*before)}, {"new", totals_json(*now)}};
    out["comparison"] = json_of(comparison, names);
    to_stdout("%s\n", out.dump(2).c_str());
  } else {
    print_totals("old", *before);
    print_totals("new", *now);
    to_stdout("%s", text_of(comparison, names).c_str());
  }
  return ok_status();
}

Status run_compare(const CompareArguments& options) {
  TRY_ASSIGN(auto context, open_context(options.device));
  TRY(compare(options, context.get()));
  return close_context(std::move(context));
}

}  // namespace

Action add_compare(CLI::App& app) {
  auto options = std::make_shared<CompareArguments>();
  app.add_option("OLD", options->before, "A .graft file")->required();
  app.add_option("NEW", options->now, "Another, of the same task")->required();
  app.add_option("--data", options->data, "A data set, as graft train takes it")->required();
  app.add_option("--metric", options->metric, "Metrics to show, as graft eval takes them");
  app.add_option("--batch", options->train.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--bind", options->train.bind, "Sizes of named dimensions other than the batch");
  app.add_flag("--json", options->json, "Print JSON");
  add_precision_flag(app, options->train.precision);
  add_plain_loss_flags(app, options->train);
  add_device_flags(app, options->device);
  add_pace_flags(app, options->device);
  app.callback([&app, options] { refuse_idle_train_flags(app, options->train); });
  return [options] { return run_compare(*options); };
}

}  // namespace graft::cli
