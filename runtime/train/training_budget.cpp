// From a budget to a plan.
#include <algorithm>
#include <cstdio>

#include "platform/base/checked.h"
#include "runtime/train/training_draft.h"

namespace graft::train {
namespace {

std::string samples_text(std::int64_t samples) { return cat(samples, samples == 1 ? " sample" : " samples"); }

std::int64_t first_micro_batch(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : options.micro_batch;
}

/// Bytes of a run beside its arena; none of it depends on what is computed again.
std::uint64_t fixed_bytes(const TrainingPlan& plan) { return plan.memory().total() - plan.arena_bytes(); }

std::string recompute_text(const TrainingPlan& plan) {
  const Plan& step = plan.training.front().plan;
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f",
                100.0 * static_cast<double>(step.recomputed_flops) /
                    static_cast<double>(std::max<std::uint64_t>(step.flops - step.recomputed_flops, 1)));
  return cat("Computing ", step.recomputed.size(), step.recomputed.size() == 1 ? " result" : " results",
             " again in the backward pass brings it to ", bytes_text(plan.memory().total()), " at ", percent,
             " % more FLOPs.");
}

class Chooser {
 public:
  Chooser(const Graph& model, const TrainOptions& options, const PlanRequest& request, const gpu::Caps& caps)
      : model_(model), options_(options), request_(request), caps_(caps), budget_(request.plan.budget) {}

  Result<TrainingPlan> run() {
    for (std::int64_t micro = first_micro_batch(options_);; micro = ceil_div(micro, std::int64_t{2})) {
      auto plan = fitting(micro);
      if (plan.ok()) {
        plan->choice = {budget_, unconstrained_, std::move(reasons_)};
        return plan;
      }
      if (plan.status().code() != Code::out_of_memory) return plan;
      const bool last = micro == 1 || !request_.shrink_micro_batch;
      if (last && least_ == 0) return plan;
      if (last) return nothing_fits();
    }
  }

 private:
  /// A plan with micro-batches of this size that keeps to the budget.
  Result<TrainingPlan> fitting(std::int64_t micro) {
    GRAFT_TRY_ASSIGN(TrainingDraft draft, draft_training(model_, options_, request_, caps_, micro));
    const std::uint64_t total = draft.plan.memory().total();
    if (budget_ == 0) return std::move(draft.plan);
    explain_free(micro, total);
    if (total <= budget_) return std::move(draft.plan);
    if (request_.plan.recompute && request_.training) {
      GRAFT_TRY_ASSIGN(const bool fits, recompute(draft));
      if (fits) {
        reasons_.push_back(recompute_text(draft.plan));
        return std::move(draft.plan);
      }
      // It now is the least that there is with this size.
    }
    note_least(draft.plan);
    return error(Code::out_of_memory, "Training with ", samples_text(micro), " at once needs ",
                 draft.plan.memory().total(), " bytes, but the budget is ", budget_, " bytes.");
  }

  void explain_free(std::int64_t micro, std::uint64_t total) {
    if (unconstrained_ == 0) {
      unconstrained_ = total;
      reasons_.push_back(cat("With everything saved, ", samples_text(micro), " at once need ", bytes_text(total),
                             total <= budget_ ? ", within" : ", more than", " the budget of ", bytes_text(budget_),
                             "."));
      return;
    }
    reasons_.back() =
        cat("A micro-batch of ", previous_, " needs at least ", bytes_text(previous_least_), " even so; with ", micro,
            " it is ", bytes_text(total), " with everything saved, and gradients are accumulated over ",
            ceil_div(options_.batch, micro), " micro-batches.");
  }

  /// Replans what exceeds the budget; false, with the least there is in place of it, where that does not suffice.
  Result<bool> recompute(TrainingDraft& draft) {
    const std::uint64_t fixed = fixed_bytes(draft.plan);
    PlanOptions options = request_.plan;
    options.budget = 0;
    options.arena_limit = budget_ > fixed ? budget_ - fixed : 0;
    options.least_memory = options.arena_limit == 0 || !can_fit(draft.plan, options.arena_limit);
    for (std::size_t i = 0; i < draft.plan.training.size(); ++i) {
      Plan& plan = draft.plan.training[i].plan;
      if (!options.least_memory && plan.transient_bytes <= options.arena_limit) continue;
      auto tight = make_plan(draft.graphs.training[i].graph, caps_, draft.plan.residents, options);
      if (!tight.ok() && tight.status().code() == Code::out_of_memory && !options.least_memory) {
        options.least_memory = true;
        tight = make_plan(draft.graphs.training[i].graph, caps_, draft.plan.residents, options);
      }
      GRAFT_TRY_ASSIGN(plan, std::move(tight));
    }
    return draft.plan.memory().total() <= budget_;
  }

  /// Whether the plans that cannot be helped fit.
  static bool can_fit(const TrainingPlan& plan, std::uint64_t arena) {
    std::uint64_t bytes = plan.update ? plan.update->transient_bytes : 0;
    for (const SizedPlan& sized : plan.evaluation) bytes = std::max(bytes, sized.plan.transient_bytes);
    return bytes <= arena;
  }

  void note_least(TrainingPlan& plan) {
    const std::uint64_t need = plan.memory().total();
    previous_ = plan.micro_batch;
    previous_least_ = need;
    reasons_.emplace_back();
    if (least_ != 0 && need >= least_) return;
    least_ = need;
    least_plan_ = std::move(plan);
  }

  Status nothing_fits() const {
    const MemoryByClass memory = least_plan_->memory();
    const auto top = std::max_element(memory.bytes.begin(), memory.bytes.end()) - memory.bytes.begin();
    const auto top_class = static_cast<MemoryClass>(top);
    std::string where;
    if (top_class == MemoryClass::activations && !least_plan_->training.empty()) {
      const Plan& step = least_plan_->training.front().plan;
      if (step.peak_node != kNoIndex) where = cat(", at the node \"", step.nodes[step.peak_node].name, "\"");
    }
    return error(Code::out_of_memory, "Training does not fit a budget of ", bytes_text(budget_),
                 request_.shrink_micro_batch ? ", however small the micro-batch" : "",
                 ". The smallest budget that works is ", least_, " bytes, with ",
                 samples_text(least_plan_->micro_batch), " at once. Most of it are ", memory_class_name(top_class),
                 ": ", bytes_text(memory[top_class]), where, ".");
  }

  const Graph& model_;
  const TrainOptions& options_;
  const PlanRequest& request_;
  const gpu::Caps& caps_;
  std::uint64_t budget_;
  std::uint64_t unconstrained_ = 0;
  std::vector<std::string> reasons_;
  std::int64_t previous_ = 0;  ///< the micro-batch tried before, and the least it needs
  std::uint64_t previous_least_ = 0;
  std::uint64_t least_ = 0;
  std::optional<TrainingPlan> least_plan_;
};

}  // namespace

Result<TrainingPlan> plan_training(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                   const gpu::Caps& caps) {
  GRAFT_TRY(check(options));
  if (request.samples && *request.samples == 0) return invalid("There is no sample to train on.");
  return Chooser(model, options, request, caps).run();
}

Result<TrainingCurve> training_curve(const Graph& model, const TrainOptions& options, PlanRequest request,
                                     const gpu::Caps& caps) {
  GRAFT_TRY(check(options));
  request.plan.budget = 0;
  GRAFT_TRY_ASSIGN(const TrainingDraft draft,
                   draft_training(model, options, request, caps, first_micro_batch(options)));
  if (draft.plan.training.empty()) return invalid("There is no training step to draw a curve of.");
  TrainingCurve curve;
  curve.fixed_bytes = fixed_bytes(draft.plan);
  curve.flops = draft.plan.training.front().plan.flops;
  GRAFT_TRY_ASSIGN(curve.points,
                   recompute_curve(draft.graphs.training.front().graph, caps, draft.plan.residents, request.plan));
  return curve;
}

}  // namespace graft::train
