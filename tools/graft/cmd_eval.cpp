// graft eval: loss and accuracy on a data set.
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "runtime/session/preference.h"
#include "runtime/session/training.h"
#include "tools/bench/device.h"
#include "tools/bench/model_io.h"
#include "tools/common/numbers.h"
#include "tools/common/options.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/evaluation_report.h"
#include "tools/graft/open_data.h"
#include "tools/graft/output.h"
#include "tools/graft/train_flags.h"

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

void print(const Evaluation& evaluation, std::uint64_t samples, const EvalArguments& options,
           const std::vector<std::string>& names) {
  const train::Metrics& metrics = evaluation.totals;
  const bool perplexity = !metrics.has_correct && is_cross_entropy(options.train);
  if (options.json) {
    nlohmann::ordered_json row = {{"loss", metrics.loss()}, {"samples", samples}};
    if (metrics.has_correct) row["accuracy"] = metrics.accuracy();
    if (is_preference(options.train)) row["reward_margin"] = metrics.reward_margin();
    if (perplexity) row["perplexity"] = metrics.perplexity();
    if (metrics.has_top5) row["top5"] = metrics.top5_accuracy();
    row.update(json_of(evaluation.values));
    if (evaluation.confusion) row["confusion"] = json_of(*evaluation.confusion);
    if (evaluation.confusion && !names.empty()) row["class_names"] = names;
    std::printf("%s\n", row.dump(2).c_str());
    return;
  }
  std::printf("loss %.6g", metrics.loss());
  if (perplexity) std::printf(", perplexity %.4g", metrics.perplexity());
  if (metrics.has_correct) std::printf(", accuracy %.2f%%", 100 * metrics.accuracy());
  if (is_preference(options.train)) std::printf(", reward margin %.4f", metrics.reward_margin());
  if (metrics.has_top5) std::printf(", top-5 %.2f%%", 100 * metrics.top5_accuracy());
  std::printf("%s (%llu samples)\n", text_of(evaluation.values).c_str(), static_cast<unsigned long long>(samples));
  constexpr std::uint64_t kMostInText = 40;
  if (evaluation.confusion && evaluation.confusion->classes <= kMostInText) {
    std::printf("%s", confusion_text(*evaluation.confusion, names).c_str());
  }
}

Status run_eval(const EvalArguments& options) {
  TRY_ASSIGN(AdaptedModel opened, open_adapted(options.path, options.train.adapter, when(options.check)));
  TextInfo info;
  TextFlags text = options.text;
  text.preference = preference_of(options.train);
  text.pooling = options.train.pooling;
  TRY_ASSIGN(auto source,
             open_data(options.data, opened.get(), options.train.seq, hints_of(opened.get()), false, text, &info));
  print_summary("Data: ", info, options.json);
  TRY_ASSIGN(const std::optional<Model> masked, model_for(*source, opened.get()));
  const Model& model = masked ? *masked : opened.get();
  TRY_ASSIGN(train::TrainOptions train_options, cli::train_options(options.train, 0));
  if (has_pairs(*source)) train_options.bindings.erase("seq");  // of one text, of which samples hold two
  bind_length(*source, model, train_options.bindings);
  EvaluationOptions evaluation_options;
  evaluation_options.train = train_options;
  evaluation_options.confusion = !options.confusion.empty();
  TRY_ASSIGN(evaluation_options.metrics, train::parse_metrics(options.metric));
  Outputs outputs;
  outputs.reads("the model", options.path);
  outputs.reads_data(options.data);
  TRY(outputs.file("--confusion", options.confusion));
  TRY_ASSIGN(auto device, OpenDevice::open(options.device));
  device->give_to(evaluation_options.trainer.program);
  if (needs_reference(options.train)) {
    ReferenceOptions how{.batch = options.train.batch, .precision = train_options.precision};
    for (const auto& [name, size] : train_options.bindings) {
      if (name != "seq") how.bindings.emplace(name, size);
    }
    how.trainer = evaluation_options.trainer;
    TRY_ASSIGN(auto references, log_probabilities(device->device(), opened.base, *source, how));
    TRY_ASSIGN(source, with_references(std::move(source), std::move(references)));
  }
  TRY_ASSIGN(const Evaluation evaluation, evaluate_model(device->device(), model, *source, evaluation_options));
  const auto* known = data::class_names(*source);
  const std::vector<std::string> names = known != nullptr ? *known : classes_of(opened.get());
  print(evaluation, source->size().value_or(evaluation.totals.count), options, names);
  if (evaluation.confusion) TRY(write_text(options.confusion, confusion_svg(*evaluation.confusion, names)));
  return device->close();
}

}  // namespace

Action add_eval(CLI::App& app) {
  auto options = std::make_shared<EvalArguments>();
  app.add_option("MODEL", options->path, "A .graft file")->required();
  app.add_option("--data", options->data, "A data set, as graft train takes it")->required();
  app.add_option("--batch", options->train.batch, "Samples on the device at once (32)")->check(whole(1, INT32_MAX));
  app.add_option("--bind", options->train.bind, "Sizes of named dimensions other than the batch");
  app.add_flag("--json", options->json, "Print JSON");
  app.add_option("--metric", options->metric, cat("More of them, as in f1,auroc: ", train::metric_names()));
  app.add_option("--confusion", options->confusion, "Print the confusion matrix and draw it to this SVG file");
  add_long_flag(app, options->text);
  add_precision_flag(app, options->train.precision);
  add_loss_flags(app, options->train);
  add_check_flag(app, options->check);
  add_device_flags(app, options->device);
  add_pace_flags(app, options->device);
  app.callback([&app, options] { refuse_idle_train_flags(app, options->train); });
  return [options] { return run_eval(*options); };
}

}  // namespace graft::cli
