// From a budget to a plan.
#include <algorithm>
#include <cstdio>
#include <limits>
#include <span>

#include "platform/base/checked.h"
#include "runtime/core/features.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/train/plan/training_draft.h"

namespace graft::train {
namespace {

std::string samples_text(std::int64_t samples) { return cat(samples, samples == 1 ? " sample" : " samples"); }

std::int64_t first_micro_batch(const TrainOptions& options) {
  return options.micro_batch == 0 ? options.batch : options.micro_batch;
}

/// Bytes of a run beside its arena; none of it depends on what is computed again.
std::uint64_t fixed_bytes(const TrainingPlan& plan) { return plan.memory().total() - plan.arena_bytes(); }

/// Nothing where all workspace is as it would be without a budget.
std::string tiling_text(const TrainingPlan& plan) {
  std::uint64_t nodes = 0;
  const PlanNode* most = nullptr;
  const auto saved = [](const PlanNode& node) { return node.whole_scratch_bytes - node.scratch_bytes; };
  for (const Plan* p : plan.plans()) {
    for (const PlanNode& node : p->nodes) {
      if (saved(node) == 0) continue;
      ++nodes;
      if (most == nullptr || saved(node) > saved(*most)) most = &node;
    }
  }
  if (most == nullptr) return "";
  return cat("Partial sums of ", nodes, nodes == 1 ? " node" : " nodes", " take turns in less workspace (\"",
             most->name, "\": ", bytes_text(most->scratch_bytes), " instead of ", bytes_text(most->whole_scratch_bytes),
             "), to the same bits: it is ", bytes_text(plan.memory().total()), ".");
}

std::string recompute_text(const TrainingPlan& plan) {
  const Plan& step = plan.training.front().plan;
  if (step.recomputed.empty()) {
    const std::string tiled = tiling_text(plan);
    if (!tiled.empty()) return tiled;
    return cat(
        "With each gradient used as soon as it is complete, instead of all in as few dispatches as can be, it is ",
        bytes_text(plan.memory().total()), ".");
  }
  char percent[32];
  std::snprintf(percent, sizeof percent, "%.1f",
                100.0 * static_cast<double>(step.recomputed_flops) /
                    static_cast<double>(std::max<std::uint64_t>(step.flops - step.recomputed_flops, 1)));
  return cat("Computing ", step.recomputed.size(), step.recomputed.size() == 1 ? " result" : " results",
             " again in the backward pass brings it to ", bytes_text(plan.memory().total()), " at ", percent,
             " % more FLOPs.");
}

/// Sizes of the arena that are weighed against what is streamed.
constexpr std::uint64_t kArenas = 16;

/// The work of the cheapest choice within a peak, by a curve: between two points, part of what the lower one computes
/// again is kept.
std::uint64_t work_again(const std::vector<RecomputePoint>& curve, std::uint64_t peak) {
  const auto work = [](const RecomputePoint& p) { return static_cast<double>(p.extra_flops + 4 * p.extra_bytes); };
  const auto below =
      std::find_if(curve.begin(), curve.end(), [&](const RecomputePoint& point) { return point.peak <= peak; });
  if (below == curve.begin()) return 0;
  const RecomputePoint& above = *(below - 1);
  if (below == curve.end()) return above.extra_flops + 4 * above.extra_bytes;
  const double share = static_cast<double>(above.peak - peak) / static_cast<double>(above.peak - below->peak);
  return static_cast<std::uint64_t>(work(above) + share * (work(*below) - work(above)));
}

/// What needs no choice: no budget is given.
Result<TrainingPlan> draft_plan(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                const gpu::Target& target) {
  GRAFT_TRY_ASSIGN(TrainingDraft draft, draft_training(model, options, request, target, first_micro_batch(options)));
  return std::move(draft.plan);
}

/// Ops that work on a micro-batch as a whole: with a smaller one, a step is another.
constexpr Op kStatistics[] = {Op::batch_norm_train};
constexpr Op kMasks[] = {Op::dropout, Op::random_uniform};

/// Whether a training step has one of these ops.
bool holds(const TrainingPlan& plan, std::span<const Op> ops) {
  if (plan.training.empty()) return false;
  return std::ranges::any_of(plan.training.front().plan.nodes, [&](const PlanNode& node) {
    return std::ranges::any_of(ops, [&](Op op) { return node.op == op_name(op); });
  });
}

class Chooser {
 public:
  Chooser(const Graph& model, const TrainOptions& options, const PlanRequest& request, const gpu::Target& target)
      : model_(model), options_(options), request_(request), target_(target), budget_(request.plan.budget) {}

  Result<TrainingPlan> run() {
    GRAFT_TRY_ASSIGN(std::optional<TrainingPlan> plan, try_sizes(&Chooser::same_step));
    if (plan) return *std::move(plan);
    if (budget_ != 0 && request_.plan.stream && request_.training) {
      reasons_.resize(1);
      reasons_.push_back(cat("Nothing below ", bytes_text(least_), " would do with all weights on the device."));
      GRAFT_TRY_ASSIGN(plan, try_sizes(&Chooser::streaming));
      if (plan) return *std::move(plan);
    }
    if (least_ == 0) return error_;
    return nothing_fits();
  }

 private:
  using Attempt = Result<TrainingPlan> (Chooser::*)(std::int64_t micro);

  /// The largest micro-batch of those allowed with which the attempt does not run out of memory.
  Result<std::optional<TrainingPlan>> try_sizes(Attempt attempt) {
    for (std::int64_t micro = first_micro_batch(options_);; micro = ceil_div(micro, std::int64_t{2})) {
      auto plan = (this->*attempt)(micro);
      if (plan.ok()) {
        plan->choice = {budget_, unconstrained_, std::move(reasons_)};
        return std::optional(std::move(plan).value());
      }
      error_ = plan.status();
      if (error_.code() != Code::out_of_memory) return error_;
      if (micro == 1 || !request_.shrink_micro_batch) return std::optional<TrainingPlan>();
    }
  }

  /// As fitting(). A smaller micro-batch gives batch norm other statistics: frozen weights are streamed first, which
  /// gives the same bits.
  Result<TrainingPlan> same_step(std::int64_t micro) {
    auto plan = fitting(micro);
    const bool streams = budget_ != 0 && request_.plan.stream && request_.training && has_statistics_;
    if (plan.ok() || plan.status().code() != Code::out_of_memory || !streams) return plan;
    const std::size_t said = reasons_.size() - 1;
    const std::string least = bytes_text(previous_least_);
    auto streamed = streaming(micro);
    if (streamed.ok()) {
      reasons_[said] = cat("With all weights on the device, a micro-batch of ", samples_text(micro), " needs at least ",
                           least, "; smaller ones would change batch norm's statistics.");
    }
    return streamed;
  }

  /// A plan with micro-batches of this size that keeps to the budget.
  Result<TrainingPlan> fitting(std::int64_t micro) {
    GRAFT_TRY_ASSIGN(TrainingDraft draft, draft_training(model_, options_, request_, target_, micro));
    const std::uint64_t total = draft.plan.memory().total();
    if (budget_ == 0) return std::move(draft.plan);
    has_statistics_ = holds(draft.plan, kStatistics);
    explain_free(micro, total);
    if (total <= budget_) return std::move(draft.plan);
    if (request_.plan.tile_workspace) {
      GRAFT_TRY_ASSIGN(const bool enough, replan(draft, {.recompute = false}));
      if (enough) {
        reasons_.push_back(recompute_text(draft.plan));
        return std::move(draft.plan);
      }
    }
    GRAFT_TRY_ASSIGN(draft, draft_training(model_, options_, request_, target_, micro, little_staging()));
    const std::uint64_t less = draft.plan.memory().total();
    bool fits = less <= budget_;
    std::string recomputed;
    if (!fits && request_.plan.recompute && request_.training) {
      GRAFT_TRY_ASSIGN(fits, replan(draft, {}));
      if (fits) recomputed = recompute_text(draft.plan);
      // If not, it now is the least that there is with this size.
    }
    if (!fits) {
      note_least(draft.plan);
      reasons_.emplace_back();
      return too_much(micro, draft.plan);
    }
    if (less < total) {
      reasons_.push_back(cat("With less staging, so that weights come and go in pieces of at most ",
                             bytes_text(kLeastTransferBytes), ", it is ", bytes_text(less), "."));
    }
    if (!recomputed.empty()) reasons_.push_back(std::move(recomputed));
    return std::move(draft.plan);
  }

  /// The same with as many frozen weights streamed as it takes: first with the arena as it comes, then with an arena
  /// that computing results again makes smaller.
  Result<TrainingPlan> streaming(std::int64_t micro) {
    ResidentOptions residents = little_staging();
    residents.streaming.range = kStreamRange;
    GRAFT_TRY_ASSIGN(TrainingDraft draft, draft_training(model_, options_, request_, target_, micro, residents));
    for (const bool least : {false, true}) {
      if (least && !request_.plan.recompute) break;
      if (least) GRAFT_TRY(replan(draft, {.least = true}).status());
      const StreamChoice choice(draft.plan.residents, target_.caps, draft.plan.plans(), false);
      if (!choice.any()) break;
      const std::uint64_t rest = draft.plan.memory().total() - draft.plan.residents.bytes();
      auto within = choice.within(budget_ > rest ? budget_ - rest : 0);
      if (!within && !least && request_.plan.recompute) continue;
      std::vector<Streaming> all;
      if (within && least) {
        GRAFT_TRY_ASSIGN(all, balanced(draft, choice));
      }
      all.push_back(within ? *std::move(within) : choice.least());
      for (Streaming& streaming : all) {
        residents.streaming = std::move(streaming);
        GRAFT_TRY_ASSIGN(TrainingDraft streamed, draft_training(model_, options_, request_, target_, micro, residents));
        bool fits = streamed.plan.memory().total() <= budget_;
        // What is left over relaxes the recomputing, unless that upsets what was weighed.
        for (const bool force : {false, true}) {
          if (fits || !least || (force && took_least_)) break;
          GRAFT_TRY_ASSIGN(fits, replan(streamed, {.least = force}));
        }
        if (fits) {
          explain_streaming(micro, streamed.plan);
          return std::move(streamed.plan);
        }
        if (&streaming == &all.back()) note_least(streamed.plan);  // others need not work with what they need
      }
    }
    return too_much(micro, draft.plan);
  }

  /// More than the fewest streamed, where that saves more work than it costs: the room goes to results that need not be
  /// computed again. At most one; none where the fewest are best. `draft` is the least that there is.
  Result<std::vector<Streaming>> balanced(const TrainingDraft& draft, const StreamChoice& choice) const {
    std::vector<Streaming> best;
    const Plan& step = draft.plan.training.front().plan;
    const std::uint64_t fixed = fixed_bytes(draft.plan) - draft.plan.residents.bytes();
    GRAFT_TRY_ASSIGN(const auto curve, recompute_estimate(draft.graphs.training.front().graph, target_,
                                                          draft.plan.residents, request_.plan));
    const std::uint64_t most = budget_ > fixed ? std::min(budget_ - fixed, curve.front().peak) : 0;
    std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
    for (std::uint64_t i = 0; i <= kArenas && step.transient_bytes < most; ++i) {
      const std::uint64_t arena = step.transient_bytes + (most - step.transient_bytes) / kArenas * i;
      auto streaming = choice.within(budget_ - fixed - arena);
      if (!streaming) break;
      const std::uint64_t work =
          work_again(curve, arena) + work_of_streamed_byte(target_.caps) * choice.brought(*streaming);
      if (work >= least) continue;
      least = work;
      best.assign(1, *std::move(streaming));
    }
    return best;
  }

  void explain_streaming(std::int64_t micro, const TrainingPlan& plan) {
    if (micro < first_micro_batch(options_)) {
      reasons_.push_back(cat("Gradients are accumulated over ", ceil_div(options_.batch, micro), " micro-batches."));
    }
    const bool recomputes = plan.training.front().plan.recomputed_flops != 0;
    reasons_.push_back(streaming_text(plan.residents, plan.plans()));
    if (recomputes) reasons_.push_back(recompute_text(plan));
  }

  static ResidentOptions little_staging() { return {.transfer_bytes = kLeastTransferBytes, .streaming = {}}; }

  Status too_much(std::int64_t micro, const TrainingPlan& plan) const {
    return error(Code::out_of_memory, "Training with ", samples_text(micro), " at once needs ",
                 bytes_text(plan.memory().total()), ", but the budget is ", budget_, " bytes.");
  }

  void explain_free(std::int64_t micro, std::uint64_t total) {
    if (unconstrained_ == 0) {
      unconstrained_ = total;
      reasons_.push_back(cat("With everything saved, a micro-batch of ", samples_text(micro), " needs ",
                             bytes_text(total), total <= budget_ ? ", within" : ", more than", " the budget of ",
                             bytes_text(budget_), "."));
      return;
    }
    reasons_.back() =
        cat("A micro-batch of ", previous_, " needs at least ", bytes_text(previous_least_), " even so; with ", micro,
            " it is ", bytes_text(total), " with everything saved, and gradients are accumulated over ",
            ceil_div(options_.batch, micro), " micro-batches.");
  }

  struct Replanning {
    bool recompute = true;  ///< false: only what costs no FLOPs
    bool least = false;     ///< takes the least memory, whatever it costs
  };

  /// Replans what exceeds the budget; false where that does not suffice, with the least there is in place of it (but
  /// not without recomputing, which is a first try).
  Result<bool> replan(TrainingDraft& draft, Replanning how) {
    const std::uint64_t fixed = fixed_bytes(draft.plan);
    PlanOptions options = request_.plan;
    options.budget = 0;
    options.arena_limit = budget_ > fixed ? budget_ - fixed : 0;
    if (!how.recompute && options.arena_limit == 0) return false;
    options.recompute = false;
    for (std::size_t i = 0; i < draft.plan.evaluation.size(); ++i) {
      GRAFT_TRY(tighten(draft.graphs.evaluation[i].graph, draft, options, how, draft.plan.evaluation[i].plan));
    }
    options.recompute = request_.plan.recompute && how.recompute;
    options.least_memory = how.least || options.arena_limit == 0 || !can_fit(draft.plan, options.arena_limit);
    if (options.least_memory && !how.recompute) return false;
    for (std::size_t i = 0; i < draft.plan.training.size(); ++i) {
      GRAFT_TRY(tighten(draft.graphs.training[i].graph, draft, options, how, draft.plan.training[i].plan));
    }
    took_least_ = options.least_memory;
    return draft.plan.memory().total() <= budget_;
  }

  /// Another plan of `graph` in the place of one that is too large; the least, and options.least_memory, where none
  /// fits.
  Status tighten(const Graph& graph, const TrainingDraft& draft, PlanOptions& options, Replanning how, Plan& plan) {
    if (!options.least_memory && plan.transient_bytes <= options.arena_limit) return {};
    auto tight = make_plan(graph, target_, draft.plan.residents, options);
    if (!tight.ok() && tight.status().code() == Code::out_of_memory && !options.least_memory) {
      if (!how.recompute) return {};
      options.least_memory = true;
      tight = make_plan(graph, target_, draft.plan.residents, options);
    }
    GRAFT_TRY_ASSIGN(plan, std::move(tight));
    return {};
  }

  /// Whether the plans that cannot be helped fit.
  static bool can_fit(const TrainingPlan& plan, std::uint64_t arena) {
    std::uint64_t bytes = plan.update ? plan.update->transient_bytes : 0;
    for (const SizedPlan& sized : plan.evaluation) bytes = std::max(bytes, sized.plan.transient_bytes);
    return bytes <= arena;
  }

  void note_least(const TrainingPlan& plan) {
    const std::uint64_t need = plan.memory().total();
    previous_ = plan.micro_batch;
    previous_least_ = need;
    if (least_ != 0 && need >= least_) return;
    least_ = need;
    least_plan_ = plan;
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
                 samples_text(least_plan_->micro_batch), " at once",
                 least_plan_->residents.streaming().names.empty() ? "" : " and frozen weights streamed",
                 ". Most of it is ", memory_class_name(top_class), ": ", bytes_text(memory[top_class]), where, ".");
  }

  const Graph& model_;
  const TrainOptions& options_;
  const PlanRequest& request_;
  const gpu::Target& target_;
  std::uint64_t budget_;
  std::uint64_t unconstrained_ = 0;
  std::vector<std::string> reasons_;
  Status error_;                 ///< of the last attempt
  bool has_statistics_ = false;  ///< of a batch: a smaller micro-batch gives another step, not only other rounding
  bool took_least_ = false;      ///< the last recompute() took the least memory, whatever it costs
  std::int64_t previous_ = 0;    ///< the micro-batch tried before, and the least it needs
  std::uint64_t previous_least_ = 0;
  std::uint64_t least_ = 0;
  std::optional<TrainingPlan> least_plan_;
};

/// What makes a step in micro-batches another one than that of the whole batch; empty where nothing does.
std::string micro_batch_text(const TrainingPlan& plan, const TrainOptions& options) {
  if (plan.training.empty() || plan.micro_batch >= options.batch) return "";
  const bool statistics = holds(plan, kStatistics), masks = holds(plan, kMasks);
  if (!statistics && !masks) return "";
  return cat(statistics ? "Batch norm takes its statistics" : "Dropout and noise are drawn",
             statistics && masks ? ", and dropout and noise are drawn," : "", " for each micro-batch of ",
             samples_text(plan.micro_batch), ": the step is not that of one batch of ", options.batch, ".");
}

}  // namespace

Result<TrainingPlan> plan_training(const Graph& model, const TrainOptions& options, const PlanRequest& request,
                                   const gpu::Target& target) {
  GRAFT_TRY(check(options));
  if (request.samples && *request.samples == 0) return invalid("There is no sample to train on.");
  if (!kHasBudgets && request.plan.budget != 0) return left_out("budgets of memory", "budgets");
  PlanRequest kept = request;
  kept.shrink_micro_batch = request.shrink_micro_batch && !needs_whole_batch(options);
  GRAFT_TRY_ASSIGN(TrainingPlan plan, kHasBudgets ? Chooser(model, options, kept, target).run()
                                                  : draft_plan(model, options, request, target));
  if (std::string text = micro_batch_text(plan, options); !text.empty()) plan.choice.reasons.push_back(std::move(text));
  return plan;
}

Result<TrainingCurve> training_curve(const Graph& model, const TrainOptions& options, PlanRequest request,
                                     const gpu::Target& target) {
  GRAFT_TRY(check(options));
  request.plan.budget = 0;
  GRAFT_TRY_ASSIGN(const TrainingDraft draft,
                   draft_training(model, options, request, target, first_micro_batch(options)));
  if (draft.plan.training.empty()) return invalid("There is no training step to draw a curve of.");
  TrainingCurve curve;
  curve.fixed_bytes = fixed_bytes(draft.plan);
  curve.flops = draft.plan.training.front().plan.flops;
  GRAFT_TRY_ASSIGN(curve.points,
                   recompute_curve(draft.graphs.training.front().graph, target, draft.plan.residents, request.plan));
  return curve;
}

}  // namespace graft::train
