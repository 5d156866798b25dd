// graft compare: what changed from one model to another, on the same data.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/session/gate.h"
#include "runtime/session/text_data.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/evaluation_report.h"
#include "tools/graft/open_data.h"
#include "tools/graft/train_flags.h"

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
  Evaluation evaluation;
  std::vector<std::string> names;  ///< of classes
};

Result<Compared> evaluate_one(OpenDevice& device, const std::string& path, const CompareArguments& options) {
  TRY_ASSIGN(const Model model, open_model(path, WeightCheck::at_once));
  TRY_ASSIGN(const auto source, open_data(options.data, model, options.train.seq, hints_of(model)));
  EvaluationOptions evaluation;
  TRY_ASSIGN(evaluation.train, cli::train_options(options.train, 0));
  bind_length(*source, model, evaluation.train.bindings);
  TRY_ASSIGN(evaluation.metrics, train::parse_metrics(options.metric));
  evaluation.outcomes = true;
  device.give_to(evaluation.trainer.program);
  TRY_ASSIGN(Evaluation made, evaluate_model(device.device(), model, *source, evaluation));
  const auto* known = data::class_names(*source);
  return Compared{std::move(made), known != nullptr ? *known : classes_of(model)};
}

nlohmann::ordered_json totals_json(const Evaluation& evaluation) {
  nlohmann::ordered_json row = {{"loss", number_json(evaluation.totals.loss())}};
  if (evaluation.totals.has_correct) row["accuracy"] = evaluation.totals.accuracy();
  row.update(json_of(evaluation.values));
  return row;
}

void print_totals(const char* which, const Evaluation& evaluation) {
  std::printf("%s: loss %.6g", which, evaluation.totals.loss());
  if (evaluation.totals.has_correct) std::printf(", accuracy %.2f%%", 100 * evaluation.totals.accuracy());
  std::printf("%s\n", text_of(evaluation.values).c_str());
}

Status run_compare(const CompareArguments& options) {
  TRY_ASSIGN(auto device, OpenDevice::open(options.device));
  auto before = evaluate_one(*device, options.before, options);
  if (!before.ok()) return std::move(before).status().with_context(cat("Of the old model \"", options.before, "\""));
  auto now = evaluate_one(*device, options.now, options);
  if (!now.ok()) return std::move(now).status().with_context(cat("Of the new model \"", options.now, "\""));
  TRY_ASSIGN(const train::Comparison comparison, train::compare(before->evaluation.outcomes, now->evaluation.outcomes));
  if (options.json) {
    nlohmann::ordered_json out = {{"old", totals_json(before->evaluation)}, {"new", totals_json(now->evaluation)}};
    out["comparison"] = json_of(comparison, now->names);
    std::printf("%s\n", out.dump(2).c_str());
  } else {
    print_totals("old", before->evaluation);
    print_totals("new", now->evaluation);
    std::printf("%s", text_of(comparison, now->names).c_str());
  }
  return device->close();
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
