#include "tools/bench/budget.h"

#include <string_view>

#include "tools/common/options.h"

namespace graft::cli {

Result<std::uint64_t> parse_budget(const std::string& text, const std::function<Result<std::uint64_t>()>& weights) {
  constexpr std::string_view kBeside = "weights+";
  if (text.empty()) return std::uint64_t{0};
  if (!text.starts_with(kBeside)) return parse_size(text);
  TRY_ASSIGN(const std::uint64_t beside, parse_size(text.substr(kBeside.size())));
  TRY_ASSIGN(const std::uint64_t bytes, weights());
  return bytes + beside;
}

Status set_budget(const std::string& text, const Graph& model, const train::TrainOptions& options,
                  const gpu::Target& target, train::PlanRequest& request) {
  if (text.empty()) return ok_status();
  const auto weights = [&]() -> Result<std::uint64_t> {
    TRY_ASSIGN(const train::TrainingPlan free, train::plan_training(model, options, request, target));
    return free.memory()[MemoryClass::weights];
  };
  TRY_ASSIGN(request.plan.budget, parse_budget(text, weights));
  request.shrink_micro_batch = true;
  return ok_status();
}

}  // namespace graft::cli
