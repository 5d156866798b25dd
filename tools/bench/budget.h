// --budget of the commands that plan a step: so many bytes in all, or so many beside the frozen weights.
#pragma once

#include <functional>
#include <string>

#include "runtime/train/training_plan.h"
#include "tools/common/status.h"

namespace graft::cli {

/// What --budget says of itself in the help of plan and train.
inline constexpr char kBudgetHelp[] =
    "Largest device memory, as in 512MiB, or weights+150MB for so much beside the frozen weights: workspace and "
    "staging shrink, results are computed again, micro-batches shrink, frozen weights are streamed from the file, in "
    "this order";

/// "512MiB", or "weights+150MB", for which `weights` is asked for the bytes of the frozen weights. 0 for an empty text.
Result<std::uint64_t> parse_budget(const std::string& text, const std::function<Result<std::uint64_t>()>& weights);

/// Puts a budget on a run, smaller micro-batches allowed; leaves `request` alone where `text` is empty. A budget beside
/// the weights costs one more planning.
Status set_budget(const std::string& text, const Graph& model, const train::TrainOptions& options,
                  const gpu::Target& target, train::PlanRequest& request);

}  // namespace graft::cli
