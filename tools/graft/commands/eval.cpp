// graft eval: loss and accuracy on a data set.
#include <cmath>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/evaluation_report.h"
#include "tools/graft/shared/output.h"
#include "tools/graft/shared/put_adapters.h"
#include "tools/graft/shared/text_flags.h"
#include "tools/graft/training/public_data.h"
#include "tools/graft/training/train_wishes.h"

namespace graft::cli {
namespace {

struct EvalArguments {
  DeviceFlags device;
  TrainFlags train;
  TextFlags text;
  std::string path;
  std::string data;
  bool check = false;
  bool json = false;
  std::string metric;
  std::string confusion;
};

void print(const graft_evaluation* evaluation, const graft_totals& totals, std::uint64_t samples,
           const EvalArguments& options, const std::vector<std::string>& names) {
  const bool has_accuracy = !std::isnan(totals.accuracy), has_top5 = !std::isnan(totals.top5);
  const bool perplexity = !has_accuracy && !std::isnan(totals.perplexity);
  const std::vector<MetricRow> metrics = metrics_of(evaluation);
  const Confusion confusion = confusion_of(evaluation);
  if (options.json) {
    nlohmann::ordered_json row = {{"loss", totals.loss}, {"samples", samples}};
    if (has_accuracy) row["accuracy"] = totals.accuracy;
    if (!std::isnan(totals.reward_margin)) row["reward_margin"] = totals.reward_margin;
    if (perplexity) row["perplexity"] = totals.perplexity;
    if (has_top5) row["top5"] = totals.top5;
    row.update(json_of(metrics));
    if (confusion.classes > 0) row["confusion"] = json_of(confusion);
    if (confusion.classes > 0 && !names.empty()) row["class_names"] = names;
    to_stdout("%s\n", row.dump(2).c_str());
    return;
  }
  to_stdout("loss %.6g", totals.loss);
  if (perplexity) to_stdout(", perplexity %.4g", totals.perplexity);
  if (has_accuracy) to_stdout(", accuracy %.2f%%", 100 * totals.accuracy);
  if (!std::isnan(totals.reward_margin)) to_stdout(", reward margin %.4f", totals.reward_margin);
  if (has_top5) to_stdout(", top-5 %.2f%%", 100 * totals.top5);
  to_stdout("%s (%llu samples)\n", text_of(metrics).c_str(), static_cast<unsigned long long>(samples));
  constexpr std::uint64_t kMostInText = 40;
  if (confusion.classes > 0 && confusion.classes <= kMostInText) {
    to_stdout("%s", confusion_text(confusion, names).c_str());
  }
}

Status evaluate(const EvalArguments& options, graft_context* context) {
  TRY_ASSIGN(const auto model,
             open_adapted(context, options.path, options.train.adapter, when_to_check(options.check)));
  TRY_ASSIGN(const auto set, open_held_out(context, model.get(), options.data, options.train, options.text.on_long));
  TRY(print_summary(context, "Data: ", set.get(), options.json));
  TrainWishes wanted;
  TRY(wanted.read(options.train));
  Outputs outputs;
  outputs.reads("the model", options.path);
  outputs.reads_data(options.data);
  TRY(outputs.file("--confusion", options.confusion));
  if (needs_reference(options.train)) {
    const graft_reference_options reference = wanted.reference();
    TRY(checked(graft_data_add_reference_with(set.get(), model.get(), &reference), context));
  }
  const graft_trainer_options training = wanted.options();
  graft_evaluation_options how = {};
  how.struct_size = sizeof how;
  how.metrics = options.metric.c_str();
  how.confusion = options.confusion.empty() ? 0 : 1;
  how.training = &training;
  graft_evaluation* made = nullptr;
  const graft_status evaluated = graft_evaluate_model(model.get(), set.get(), &how, &made);
  const Owned<graft_evaluation> evaluation(made);
  TRY(checked(evaluated, context));
  graft_totals totals = {};
  totals.struct_size = sizeof totals;
  TRY(checked(graft_evaluation_totals(made, &totals), context));
  const std::uint64_t samples = graft_data_samples(set.get());
  const std::vector<std::string> names = class_names(made);
  print(made, totals, samples != 0 ? samples : totals.samples, options, names);
  if (!options.confusion.empty()) TRY(write_text(options.confusion, confusion_svg(confusion_of(made), names)));
  return ok_status();
}

Status run_eval(const EvalArguments& options) {
  TRY_ASSIGN(auto context, open_context(options.device));
  TRY(evaluate(options, context.get()));
  return close_context(std::move(context));
}

}  // namespace

Action add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option("--data", options->data, "A data set, as graft train takes it")->required();
  app.add_option("--batch", options->train.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--bind", options->train.bind, "Sizes of named dimensions other than the batch");
  app.add_flag("--json", options->json, "Print JSON");
  app.add_option("--metric", options->metric, cat("More of them, as in f1,auroc: ", graft_metric_names()));
  app.add_option("--confusion", options->confusion, "Print the confusion matrix and draw it to this SVG file");
  add_long_flag(app, options->text);
  add_precision_flag(app, options->train.precision);
  add_loss_and_adapter_flags(app, options->train);
  add_check_flag(app, options->check);
  add_device_flags(app, options->device);
  add_pace_flags(app, options->device);
  app.callback([&app, options] { refuse_idle_train_flags(app, options->train); });
  return [options] { return run_eval(*options); };
}

}  // namespace graft::cli
