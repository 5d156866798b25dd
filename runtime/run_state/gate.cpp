#include "runtime/run_state/gate.h"

#include <charconv>
#include <cmath>

#include "platform/base/text.h"

namespace graft {

Result<Evaluation> evaluate_trainer(train::Trainer& trainer, data::Source& source, const EvaluationOptions& options) {
  GRAFT_TRY_ASSIGN(auto metrics, train::MetricSet::create(options.metrics, trainer.options(), options.confusion));
  Evaluation out{{}, {}, {}, train::Outcomes(trainer.options())};
  train::EvaluationReader reader;
  if (trainer.options().predictions) {
    reader = [&](const train::EvaluatedBatch& batch) -> Status {
      GRAFT_TRY(metrics.add(batch));
      return options.outcomes ? out.outcomes.add(batch) : ok_status();
    };
  }
  const auto begin = [&] {
    metrics.clear();
    out.outcomes.clear();
  };
  GRAFT_TRY_ASSIGN(out.totals, trainer.evaluate(source, reader, begin));
  GRAFT_TRY_ASSIGN(out.values, metrics.values(out.totals));
  out.confusion = metrics.confusion();
  if (options.confusion && !out.confusion) {
    return invalid("A confusion matrix is of classes; the loss ", train::loss_name(trainer.options().loss.kind),
                   " has none.");
  }
  return out;
}

Result<Evaluation> evaluate_model(gpu::Device& device, const Model& model, data::Source& source,
                                  const EvaluationOptions& options) {
  EvaluationOptions own = options;
  own.train.predictions = options.outcomes || options.confusion;
  for (const train::Metric& metric : options.metrics) {
    own.train.predictions = own.train.predictions || train::needs_predictions(metric);
  }
  own.train.micro_batch = 0;
  own.trainer.request.training = false;
  own.trainer.request.evaluation_samples = source.size();
  GRAFT_TRY_ASSIGN(const auto trainer, create_trainer(device, model, own.train, source.fields(), own.trainer));
  return evaluate_trainer(*trainer, source, own);
}

Result<GateCondition> parse_gate_condition(std::string_view text) {
  GateCondition condition;
  condition.text = text;
  std::size_t at = text.find(">=");
  condition.at_least = at != std::string_view::npos;
  if (!condition.at_least) at = text.find("<=");
  if (at == std::string_view::npos) {
    return invalid("A gate is METRIC>=X or METRIC<=X, as in accuracy>=0.9; \"", text, "\" is not that.");
  }
  GRAFT_TRY_ASSIGN(condition.metric, train::parse_metric(text.substr(0, at)));
  const std::string_view number = text.substr(at + 2);
  const auto [end, failure] = std::from_chars(number.data(), number.data() + number.size(), condition.bound);
  if (failure != std::errc() || end != number.data() + number.size() || !std::isfinite(condition.bound)) {
    return invalid("The bound of the gate \"", text, "\" is no number.");
  }
  if (condition.at_least != train::larger_is_better(condition.metric)) {
    return invalid("The gate \"", text, "\" asks for a bad ", condition.metric.name, ": ",
                   condition.at_least ? "smaller" : "larger", " values are better ones.");
  }
  return condition;
}

Result<GateReport> judge(const Evaluation& now, const Evaluation* before, const GateOptions& options) {
  if (!(options.margin >= 0) || !std::isfinite(options.margin)) {
    return invalid("The margin of the gate is ", options.margin, "; it must be 0 or more.");
  }
  GateReport report;
  report.passed = true;
  const auto fail = [&](std::string why) {
    if (report.passed) report.reason = std::move(why);
    report.passed = false;
  };
  for (std::size_t i = 0; i < options.conditions.size(); ++i) {
    const GateCondition& condition = options.conditions[i];
    GateRow row{condition.metric.name, now.values[i].value, {}, true, true};
    // NaN holds nothing.
    row.holds = condition.at_least ? row.now >= condition.bound : row.now <= condition.bound;
    if (!row.holds) fail(cat("The ", row.metric, " is ", row.now, ", but ", condition.text, " is asked for."));
    if (before != nullptr) {
      row.before = before->values[i].value;
      const double worse = condition.at_least ? *row.before - row.now : row.now - *row.before;
      row.no_worse = worse <= options.margin || std::isnan(*row.before);
      if (!row.no_worse) {
        fail(cat("The ", row.metric, " is ", row.now, ", and was ", *row.before, ": worse by more than the margin of ",
                 options.margin, "."));
      }
    }
    report.rows.push_back(std::move(row));
  }
  if (before != nullptr) {
    GRAFT_TRY_ASSIGN(report.comparison, train::compare(before->outcomes, now.outcomes));
  }
  return report;
}

std::string rejected_path(const std::string& path) {
  const std::size_t slash = path.find_last_of('/'), dot = path.rfind('.');
  const bool has_ending = dot != std::string::npos && (slash == std::string::npos || dot > slash + 1);
  return has_ending ? cat(path.substr(0, dot), ".rejected", path.substr(dot)) : path + ".rejected";
}

}  // namespace graft
