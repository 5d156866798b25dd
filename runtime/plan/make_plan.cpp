#include <algorithm>
#include <limits>
#include <optional>

#include "platform/base/cancel.h"
#include "platform/base/checked.h"
#include "runtime/core/features.h"
#include "runtime/core/liveness.h"
#include "runtime/core/op_def.h"
#include "runtime/plan/draft.h"
#include "runtime/plan/schedule.h"

namespace graft {
namespace {

constexpr int kOrderRounds = 4;

/// Sizes are checked here once, so that all sums that follow stay far from 2^64.
Status measure_values(Draft& d) {
  const std::uint64_t limit = d.residents.segment_bytes();
  d.bytes.reserve(d.graph.values().size());
  for (const Value& value : d.graph.values()) {
    GRAFT_TRY_ASSIGN(const std::uint64_t bytes, checked_device_bytes(value));
    if (bytes > limit) {
      return error(Code::out_of_memory, "Value \"", value.name, "\" of shape ", value.shape.text(), " needs ",
                   bytes_text(bytes), ", but one allocation of this device holds ", bytes_text(limit), ".");
    }
    d.bytes.push_back(bytes);
  }
  return ok_status();
}

Status check_residents(const Draft& d) {
  if (d.residents.segment_bytes() != segment_bytes_of(d.target.caps) ||
      d.residents.alignment() != block_alignment_of(d.target.caps)) {
    return invalid("The residents were laid out for a device with other limits than \"", d.target.caps.device_name,
                   "\".");
  }
  for (std::size_t v = 0; v < d.graph.values().size(); ++v) {
    const Value& value = d.graph.values()[v];
    if (value.kind == ValueKind::temporary || value.kind == ValueKind::input) continue;
    const Resident* resident = d.residents.find(value.name);
    if (resident == nullptr) return invalid("The value \"", value.name, "\" is not among the residents.");
    if (resident->dtype != value.dtype || resident->shape != value.shape) {
      return invalid("The value \"", value.name, "\" is ", dtype_name(value.dtype), value.shape.text(),
                     " in the graph, but ", dtype_name(resident->dtype), resident->shape.text(), " as a resident.");
    }
    if (resident->stored != stored_dtype(value)) {
      return invalid("The value \"", value.name, "\" is kept as ", dtype_name(stored_dtype(value)),
                     " by the graph, but as ", dtype_name(resident->stored), " as a resident.");
    }
  }
  return ok_status();
}

struct Touched {
  Space space;
  bool written;
  std::uint64_t begin;
  std::uint64_t end;
};

bool conflicts(const std::vector<Touched>& since_barrier, const Touched& next) {
  for (const Touched& t : since_barrier) {
    if ((t.written || next.written) && t.space == next.space && t.begin < next.end && next.begin < t.end) return true;
  }
  return false;
}

}  // namespace

void use_order(Draft& d, std::vector<NodeId> order, bool in_place) {
  d.order = std::move(order);
  d.storages = find_storages(d.graph, d.order, d.roots, d.bytes, in_place);
  d.scratch.clear();
  for (std::uint32_t p = 0; p < d.order.size(); ++p) {
    d.scratch.push_back(static_cast<std::uint32_t>(d.storages.blocks.size()));
    for (const std::uint64_t bytes : d.emissions[d.order[p].index].scratch) {
      d.storages.blocks.push_back({bytes, p + 1, p + 1});
    }
  }
  d.live = live_bytes(d.storages.blocks, static_cast<std::uint32_t>(d.order.size()) + 2);
}

namespace {

void choose_order(Draft& d, std::vector<std::vector<NodeId>> orders, bool in_place) {
  std::size_t best = 0;
  std::uint64_t best_peak = 0;
  for (std::size_t i = 0; i < orders.size(); ++i) {
    use_order(d, orders[i], in_place);
    if (i == 0 || peak(d) < best_peak) {
      best = i;
      best_peak = peak(d);
    }
  }
  use_order(d, std::move(orders[best]), in_place);
}

/// Bytes that the arena may have; nullopt: any number.
Result<std::optional<std::uint64_t>> arena_limit(const Plan& plan, const PlanOptions& options) {
  std::optional<std::uint64_t> limit;
  if (options.arena_limit != 0) limit = options.arena_limit;
  if (options.budget == 0) return limit;
  const std::uint64_t rest = plan.memory.total() - plan.transient_bytes;
  if (rest > options.budget) {
    return error(Code::out_of_memory, "The plan needs ", bytes_text(plan.memory.total()), " (", bytes_text(rest),
                 " of it beside its arena), more than the budget of ", bytes_text(options.budget), ".");
  }
  const std::uint64_t left = options.budget - rest;
  return std::optional(limit ? std::min(*limit, left) : left);
}

/// What a plan's arena must be within for the plan to be taken, as far as that is known before it is made.
std::uint64_t largest_arena(const PlanOptions& options) {
  if (options.least_memory) return 0;
  std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t limit : {options.arena_limit, options.budget}) {
    if (limit != 0) largest = std::min(largest, limit);
  }
  return largest;
}

/// Laid out, with updates that wait for others where that keeps the peak within `limit`. An arena above `largest` will
/// not be taken.
Result<Plan> plan_waiting(const Draft& arranged, const PlanOptions& options, std::uint64_t limit,
                          std::uint64_t largest) {
  Draft d = arranged;
  if (options.merge) gather_updates(d, options, limit);
  // What will not be taken anyway needs no good offsets, which take most of the time.
  const bool hopeless = options.recompute && !options.least_memory && peak(d) > largest;
  lay_out(d, hopeless ? std::numeric_limits<std::uint64_t>::max() : good_arena(d));
  // Waiting raises no peak, but may make good offsets hard to find: it is not worth more than a little memory.
  constexpr std::uint64_t kLittle = 128;
  if (options.merge && !hopeless && d.arena.bytes > good_arena(d)) {
    Draft at_once = arranged;
    lay_out(at_once, good_arena(at_once));
    if (at_once.arena.bytes + at_once.arena.bytes / kLittle < d.arena.bytes) return finish_plan(at_once, options);
  }
  return finish_plan(d, options);
}

/// Updates wait at no cost in memory, and then not at all, where other offsets are better. False, with the latter plan,
/// where its arena exceeds `limit`.
Result<bool> plan_in_order(const Draft& d, const PlanOptions& options, std::uint64_t limit, Plan& plan) {
  for (const std::uint64_t allowed : {peak(d), std::uint64_t{0}}) {
    GRAFT_TRY_ASSIGN(plan, plan_waiting(d, options, allowed, limit));
    if (plan.transient_bytes <= limit) return true;
  }
  return false;
}

}  // namespace

std::string_view space_name(Space space) {
  static constexpr std::string_view kNames[] = {"resident", "transient", "step_state",    "upload",
                                                "readback", "stream",    "stream staging"};
  return kNames[static_cast<std::size_t>(space)];
}

std::uint64_t peak(const Draft& draft) { return *std::max_element(draft.live.begin(), draft.live.end()); }

Status arrange(Draft& d, const PlanOptions& options, const std::vector<NodeId>& preferred, std::uint64_t workspace) {
  GRAFT_TRY(cancel_point());
  GRAFT_TRY(measure_values(d));
  GRAFT_TRY(check_residents(d));
  d.roots = alias_roots(d.graph);
  GRAFT_TRY_ASSIGN(auto orders, candidate_orders(d.graph, d.roots, d.bytes, options.reorder, preferred));
  GRAFT_TRY(emit_nodes(d, orders[0], workspace));
  choose_order(d, std::move(orders), options.in_place);
  // The best order is a better start than the graph's own: again, as long as that helps.
  for (int round = 0; options.reorder && round < kOrderRounds; ++round) {
    GRAFT_TRY(cancel_point());
    const std::uint64_t before = peak(d);
    GRAFT_TRY_ASSIGN(orders, candidate_orders(d.graph, d.roots, d.bytes, true, d.order));
    choose_order(d, std::move(orders), options.in_place);
    if (peak(d) >= before) break;
  }
  return ok_status();
}

Result<Plan> finish_plan(const Draft& d, const PlanOptions& options) {
  Plan plan;
  plan.segment_bytes = d.residents.segment_bytes();
  plan.alignment = std::max<std::uint64_t>(d.target.caps.storage_buffer_alignment, 4);
  plan.resident_bytes = d.residents.bytes();
  plan.transient_bytes = d.arena.bytes;
  plan.lower_bound = peak(d);
  add_dispatches(d, plan);
  if (options.merge) merge_steps(d.target, plan);
  count_steps(plan);
  GRAFT_TRY(add_ports(d, plan));
  add_copies(d, plan);
  GRAFT_TRY(add_refills(d, plan));
  GRAFT_TRY(share_buffers(d, plan));
  drop_unused_kernels(plan);
  add_barriers(plan);
  add_report(d, plan);
  return plan;
}

Status does_not_fit(const Plan& plan, const PlanOptions& options, std::uint64_t limit) {
  if (options.budget == 0) {
    return error(Code::out_of_memory, "The plan's arena needs ", bytes_text(plan.transient_bytes), ", but ",
                 bytes_text(limit), " are left for it.");
  }
  return error(Code::out_of_memory, "The plan needs ", bytes_text(plan.memory.total()), ", more than the budget of ",
               bytes_text(options.budget), ".");
}

std::uint64_t good_arena(const Draft& d) {
  constexpr std::uint64_t kRoom = 512;
  const std::uint64_t bound = least_arena(d.storages.blocks, d.residents.alignment());
  return bound + bound / kRoom;
}

void lay_out(Draft& d, std::uint64_t enough) {
  d.arena = assign_offsets(d.storages.blocks, d.residents.alignment(), d.residents.segment_bytes(), enough);
}

void add_barriers(Plan& plan) {
  std::vector<Touched> since_barrier;
  std::vector<Touched> mine;
  for (Step& step : plan.steps) {
    mine.clear();
    bool hazard = false;
    // Windows and not only what is touched within them: validation layers, too, know only what is bound.
    for (const PlanBinding& b : bound_by(step)) {
      mine.push_back({b.space, b.access != Access::read, b.offset, b.offset + b.size});
      hazard = hazard || conflicts(since_barrier, mine.back());
    }
    if (hazard) {
      step.barrier_before = true;
      ++plan.barriers;
      since_barrier.clear();
    }
    since_barrier.insert(since_barrier.end(), mine.begin(), mine.end());
  }
}

Result<Plan> make_plan(const Graph& graph, const gpu::Target& target, const Residents& residents,
                       const PlanOptions& options) {
  Draft d{graph, target, residents, graph.nodes().size()};
  GRAFT_TRY(arrange(d, options));
  GRAFT_TRY_ASSIGN(Plan plan, plan_waiting(d, options, peak(d), largest_arena(options)));
  GRAFT_TRY_ASSIGN(const auto limit, arena_limit(plan, options));
  if (!options.least_memory && (!limit || plan.transient_bytes <= *limit)) return plan;
  const std::uint64_t enough = options.least_memory ? 0 : *limit;
  GRAFT_TRY_ASSIGN(bool fits, plan_in_order(d, options, enough, plan));
  if (fits) return plan;
  // Workspace goes as far as the limit asks, and then as far as it can: other offsets may be better.
  for (const std::uint64_t live : {enough, std::uint64_t{0}}) {
    const std::uint64_t before = peak(d);
    GRAFT_TRY(tile_workspace(d, options, live));
    if (peak(d) >= before && live != 0) continue;
    Plan tiled;
    GRAFT_TRY_ASSIGN(fits, plan_in_order(d, options, enough, tiled));
    if (tiled.transient_bytes < plan.transient_bytes) plan = std::move(tiled);
    if (fits) return plan;
  }
  if constexpr (!kHasBudgets) return does_not_fit(plan, options, enough);
  if (options.least_memory) {
    if (!options.recompute) return plan;
    GRAFT_TRY_ASSIGN(Plan least, plan_recomputing(d, options, 0));
    return least.transient_bytes < plan.transient_bytes ? least : plan;
  }
  if (options.recompute) return plan_recomputing(d, options, *limit);
  return does_not_fit(plan, options, *limit);
}

}  // namespace graft
