// --budget of the commands that plan a step: so many bytes in all, or so many beside the frozen weights.
#pragma once

#include <functional>
#include <string>

#include "runtime/train/plan/training_plan.h"
#include "tools/common/options.h"

namespace graft::cli {

/// "512MiB", or "weights+150MB", for which `weights` is asked for the bytes of the frozen weights. 0 for an empty text.
Result<std::uint64_t> parse_budget(const std::string& text, const std::function<Result<std::uint64_t>()>& weights);

/// Puts a budget on a run, smaller micro-batches allowed; leaves `request` alone where `text` is empty. A budget beside
/// the weights costs one more planning.
Status set_budget(const std::string& text, const Graph& model, const train::TrainOptions& options,
                  const gpu::Target& target, train::PlanRequest& request);

}  // namespace graft::cli
