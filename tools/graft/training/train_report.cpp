#include "tools/graft/training/train_report.h"

#include <cmath>
#include <cstdio>
#include <vector>

#include "tools/graft/shared/tensor_files.h"

namespace graft::cli {

std::string metrics_text(const graft_totals& totals) {
  char text[128];
  const double accuracy = std::isnan(totals.accuracy) ? 0 : totals.accuracy;
  if (!std::isnan(totals.reward_margin)) {
    std::snprintf(text, sizeof text, "loss %.4f, accuracy %.2f%%, reward margin %.4f", totals.loss, 100 * accuracy,
                  totals.reward_margin);
  } else if (!std::isnan(totals.accuracy)) {
    std::snprintf(text, sizeof text, "loss %.4f, accuracy %.2f%%", totals.loss, 100 * accuracy);
  } else if (!std::isnan(totals.perplexity)) {
    std::snprintf(text, sizeof text, "loss %.4f, perplexity %.4g", totals.loss, totals.perplexity);
  } else {
    std::snprintf(text, sizeof text, "loss %.6g", totals.loss);
  }
  return text;
}

nlohmann::ordered_json metrics_json(const char* kind, const graft_totals& totals) {
  const bool has_accuracy = !std::isnan(totals.accuracy);
  nlohmann::ordered_json row = {{"kind", kind}, {"loss", totals.loss}};
  if (has_accuracy) row["accuracy"] = totals.accuracy;
  if (!has_accuracy && !std::isnan(totals.perplexity)) row["perplexity"] = totals.perplexity;
  if (!std::isnan(totals.reward_margin)) row["reward_margin"] = totals.reward_margin;
  if (!std::isnan(totals.top5)) row["top5"] = totals.top5;
  return row;
}

TensorBoard::Scalars scalars_of(const graft_step_info& step, const graft_totals& totals) {
  TensorBoard::Scalars out = {{"loss", totals.loss}};
  if (!std::isnan(totals.accuracy)) out.emplace_back("accuracy", totals.accuracy);
  out.emplace_back("learning_rate", step.learning_rate);
  if (!std::isnan(step.gradient_norm)) out.emplace_back("gradient_norm", step.gradient_norm);
  if (!std::isnan(step.loss_scale)) out.emplace_back("loss_scale", step.loss_scale);
  return out;
}

Status each_parameter(graft_context* context, graft_trainer* trainer, const TensorBoard::Add& add) {
  std::vector<float> values;
  graft_tensor_info info = {};
  for (std::size_t i = 0; graft_trainer_parameter(trainer, i, &info) == GRAFT_OK; ++i) {
    std::size_t count = 1;
    for (const std::int64_t size : dims_of(info)) count *= static_cast<std::size_t>(size);
    if (info.dtype != GRAFT_F32 || count == 0) continue;
    const std::string name = info.name;
    values.resize(count);
    TRY(checked(graft_trainer_read(trainer, name.c_str(), values.data(), 4 * count, nullptr), context));
    add(name, values);
  }
  return ok_status();
}

Result<graft_totals> totals_of(graft_context* context, const graft_evaluation* evaluation) {
  graft_totals totals = {};
  totals.struct_size = sizeof totals;
  TRY(checked(graft_evaluation_totals(evaluation, &totals), context));
  return totals;
}

}  // namespace graft::cli
