#include "runtime/plan/stream_choice.h"

#include <algorithm>

#include "platform/base/stable_sort.h"
#include "runtime/core/features.h"

namespace graft {

StreamChoice::StreamChoice(const Residents& residents, const gpu::Caps& caps, std::span<const Plan* const> plans,
                           bool parameters)
    : residents_(residents), staged_(stages_streams(caps)), written_(residents.entries().size(), 0) {
  for (const Plan* plan : plans) find_uses(*plan);
  std::vector<std::uint64_t> unit(written_.size(), 0);
  for (const auto& uses : uses_) {
    for (const StreamUse& use : uses) unit[use.resident] = std::max(unit[use.resident], use.bytes);
  }
  for (std::uint32_t i = 0; i < unit.size(); ++i) {
    const ValueKind kind = residents.entries()[i].kind;
    const bool frozen = kind == ValueKind::constant || (parameters && kind == ValueKind::parameter);
    if (frozen && written_[i] == 0) candidates_.push_back({i, unit[i]});
  }
  graft::stable_sort(candidates_.begin(), candidates_.end(),
                     [](const Candidate& a, const Candidate& b) { return a.unit < b.unit; });
}

/// Of the residents none of which is streamed: they lie by rising offsets.
std::uint32_t StreamChoice::resident_at(std::uint64_t offset) const {
  const auto& all = residents_.entries();
  const auto next = std::upper_bound(all.begin(), all.end(), offset,
                                     [](std::uint64_t o, const Resident& resident) { return o < resident.offset; });
  return static_cast<std::uint32_t>(next - all.begin()) - 1;
}

void StreamChoice::find_uses(const Plan& plan) {
  auto& uses = uses_.emplace_back();
  for (std::uint32_t s = 0; s < plan.steps.size(); ++s) {
    for (const PlanBinding& b : plan.steps[s].bindings) {
      if (b.space != Space::resident) continue;
      const std::uint32_t resident = resident_at(b.offset);
      if (b.access != Access::read) written_[resident] = 1;
      uses.push_back({s, resident, b.offset - residents_.entries()[resident].offset, b.size});
    }
  }
}

StreamLayout StreamChoice::layout(const std::vector<StreamUse>& uses, const Streaming& streaming) const {
  std::vector<char> streamed(written_.size(), 0);
  for (std::size_t i = 0; i < streamed.size(); ++i) {
    streamed[i] = streaming.names.contains(residents_.entries()[i].name);
  }
  std::vector<StreamUse> of_streamed;
  for (const StreamUse& use : uses) {
    if (streamed[use.resident] != 0) of_streamed.push_back(use);
  }
  return lay_out_streams(of_streamed, streaming, staged_, residents_.alignment(), residents_.segment_bytes());
}

std::uint64_t StreamChoice::bytes(const Streaming& streaming) const {
  std::uint64_t ring = 0;
  std::uint64_t staging = 0;
  for (const auto& uses : uses_) {
    const StreamLayout laid = layout(uses, streaming);
    ring = std::max(ring, laid.bytes);
    staging = std::max(staging, laid.staging_bytes);
  }
  return residents_.streamed(streaming).bytes() + ring + staging;
}

std::uint64_t StreamChoice::brought(const Streaming& streaming) const {
  std::uint64_t bytes = 0;
  if (uses_.empty()) return bytes;
  for (const Refill& refill : layout(uses_.front(), streaming).refills) bytes += refill.bytes;
  return bytes;
}

Streaming StreamChoice::first(std::size_t count, bool ahead) const {
  Streaming streaming;
  streaming.range = residents_.streaming().range;
  streaming.ahead = ahead;
  for (std::size_t i = 0; i < count; ++i) {
    streaming.names.insert(residents_.entries()[candidates_[i].resident].name);
    streaming.window = std::max(streaming.window, candidates_[i].unit);
  }
  return streaming;
}

Streaming StreamChoice::widened(Streaming streaming, std::uint64_t bytes) const {
  for (;;) {
    Streaming wider = streaming;
    wider.window *= 2;
    if (streaming.window == 0 || wider.window > residents_.bytes() || this->bytes(wider) > bytes) return streaming;
    streaming = std::move(wider);
  }
}

std::optional<Streaming> StreamChoice::within(std::uint64_t bytes) const {
  for (const bool ahead : {true, false}) {
    std::uint64_t stays = residents_.bytes();
    for (std::size_t count = 1; count <= candidates_.size(); ++count) {
      const std::uint64_t gone = residents_.entries()[candidates_[count - 1].resident].device_bytes;
      stays -= std::min(stays, gone / residents_.alignment() * residents_.alignment());
      // A bound that costs nothing to know: without the ring, and without what rounding up may give back.
      const std::uint64_t slack = count * residents_.alignment();
      if (stays > bytes + slack && count != candidates_.size()) continue;
      Streaming streaming = first(count, ahead);
      if (this->bytes(streaming) <= bytes) return widened(std::move(streaming), bytes);
    }
  }
  return std::nullopt;
}

Streaming StreamChoice::least() const {
  Streaming best = first(candidates_.size(), false);
  std::uint64_t least = bytes(best);
  for (std::size_t count = 1; count < candidates_.size(); ++count) {
    // Between those of one size only the last matters: each further one costs nothing in the ring.
    if (candidates_[count].unit == candidates_[count - 1].unit) continue;
    Streaming streaming = first(count, false);
    const std::uint64_t need = bytes(streaming);
    if (need >= least) continue;
    least = need;
    best = std::move(streaming);
  }
  return best;
}

std::uint64_t bytes_together(const Residents& residents, std::span<const Plan* const> plans) {
  std::uint64_t arena = 0, upload = residents.transfer_bytes(), readback = upload, ring = 0, staging = 0;
  bool step_state = false;
  for (const Plan* plan : plans) {
    arena = std::max(arena, plan->transient_bytes);
    upload = std::max(upload, plan->upload_bytes);
    readback = std::max(readback, plan->readback_bytes);
    ring = std::max(ring, plan->stream_bytes);
    staging = std::max(staging, plan->stream_staging_bytes);
    step_state = step_state || plan->uses_step_state;
  }
  return residents.bytes() + arena + upload + readback + ring + staging + (step_state ? sizeof(StepState) : 0);
}

namespace {

Result<std::vector<Plan>> make_plans(std::span<const Graph* const> graphs, const gpu::Target& target,
                                     const Residents& residents, const PlanOptions& options) {
  std::vector<Plan> plans;
  for (const Graph* graph : graphs) {
    GRAFT_TRY_ASSIGN(Plan plan, make_plan(*graph, target, residents, options));
    plans.push_back(std::move(plan));
  }
  return plans;
}

std::vector<const Plan*> pointers(const std::vector<Plan>& plans) {
  std::vector<const Plan*> all;
  all.reserve(plans.size());
  for (const Plan& plan : plans) all.push_back(&plan);
  return all;
}

}  // namespace

Result<Residents> residents_within(const gpu::Target& target, std::span<const Graph* const> graphs,
                                   const PlanOptions& options) {
  Residents residents(target.caps);
  if constexpr (!kHasBudgets) {
    if (options.budget != 0) return left_out("budgets of memory", "budgets");
    for (const Graph* graph : graphs) GRAFT_TRY(residents.add(*graph));
    return residents;
  }
  for (const std::uint64_t transfer : {ResidentOptions{}.transfer_bytes, kLeastTransferBytes}) {
    residents = Residents(target.caps, {.transfer_bytes = transfer, .streaming = {}});
    for (const Graph* graph : graphs) GRAFT_TRY(residents.add(*graph));
    if (options.budget == 0) return residents;
    const auto plans = make_plans(graphs, target, residents, options);
    if (plans.ok() && bytes_together(residents, pointers(*plans)) <= options.budget) return residents;
    if (!plans.ok() && plans.status().code() != Code::out_of_memory) return plans.status();
  }
  if (!options.stream) return residents;
  PlanOptions free = options;
  free.budget = 0;
  residents = residents.streamed({.range = kStreamRange});
  GRAFT_TRY_ASSIGN(const std::vector<Plan> plans, make_plans(graphs, target, residents, free));
  const StreamChoice choice(residents, target.caps, pointers(plans), true);
  if (!choice.any()) return residents;
  const std::uint64_t rest = bytes_together(residents, pointers(plans)) - residents.bytes();
  auto streaming = choice.within(options.budget > rest ? options.budget - rest : 0);
  // Where that is too much, what computing results again saves is make_plan's business.
  return residents.streamed(streaming ? *std::move(streaming) : choice.least());
}

std::string streaming_text(const Residents& residents, std::span<const Plan* const> plans) {
  if constexpr (!kHasBudgets) return {};
  std::uint64_t count = 0;
  std::uint64_t bytes = 0;
  std::uint64_t all = 0;
  std::uint64_t all_bytes = 0;
  for (const Resident& resident : residents.entries()) {
    const bool weight = resident.memory_class == MemoryClass::weights || resident.streamed;
    all += weight ? 1 : 0;
    all_bytes += weight ? resident.device_bytes : 0;
    count += resident.streamed ? 1 : 0;
    bytes += resident.streamed ? resident.device_bytes : 0;
  }
  if (count == 0 || plans.empty()) return {};
  std::uint64_t ring = 0;
  std::uint64_t brought = 0;
  for (const Plan* plan : plans) ring = std::max(ring, plan->stream_bytes + plan->stream_staging_bytes);
  for (const Refill& refill : plans.front()->refills) brought += refill.bytes;
  return cat("Of ", all, " frozen weights, ", count, " (", bytes_text(bytes), " of ", bytes_text(all_bytes),
             ") are streamed from the host through a ring of ", bytes_text(ring), ": ", bytes_text(brought),
             " for each run of the first plan, in ", plans.front()->refills.size(), " pieces",
             residents.streaming().ahead ? ", one stretch ahead of the device." : ", without working ahead.");
}

}  // namespace graft
