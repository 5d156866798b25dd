#include "runtime/distribute/slot_sum.h"

#include <algorithm>
#include <cstring>

#include "runtime/core/op_id.gen.h"

namespace graft::distribute {
namespace {

Result<Graph> sum_graph(std::uint64_t elements) {
  Graph graph;
  const Shape shape{static_cast<std::int64_t>(elements)};
  GRAFT_TRY_ASSIGN(const ValueId sum, graph.add_value("sum", DType::f32, shape, ValueKind::state));
  GRAFT_TRY_ASSIGN(const ValueId slot, graph.add_value("slot", DType::f32, shape, ValueKind::input));
  GRAFT_TRY(graph.add_node(Op::accumulate, {sum, slot}, {}, "add"));
  return graph;
}

struct PlannedSum {
  Residents residents;
  Plan plan;
};

Result<PlannedSum> plan_sum(const gpu::Target& target, std::uint64_t elements) {
  GRAFT_TRY_ASSIGN(const Graph graph, sum_graph(elements));
  PlannedSum made{Residents(target.caps), {}};
  GRAFT_TRY(made.residents.add(graph));
  GRAFT_TRY_ASSIGN(made.plan, make_plan(graph, target, made.residents, {}));
  return made;
}

}  // namespace

Result<MemoryByClass> SlotSum::planned(const gpu::Target& target, std::uint64_t elements) {
  GRAFT_TRY_ASSIGN(const PlannedSum sum, plan_sum(target, elements));
  const Plan* const plans[] = {&sum.plan};
  MemoryByClass memory = Memory::planned(sum.residents, plans);
  memory[MemoryClass::staging] += Capture::planned_bytes(sum.residents, Capture::What::gradients);
  return memory;
}

Result<std::unique_ptr<SlotSum>> SlotSum::create(gpu::Device& device, std::uint64_t elements) {
  std::unique_ptr<SlotSum> made(new SlotSum(elements * sizeof(float)));
  GRAFT_TRY_ASSIGN(auto sum, plan_sum(device.target(), elements));
  auto& [residents, plan] = sum;
  const Plan* const plans[] = {&plan};
  GRAFT_TRY_ASSIGN(made->memory_, Memory::create(device, residents, plans));
  ProgramOptions options;
  options.cancellable = false;
  GRAFT_TRY_ASSIGN(made->program_, Program::create(*made->memory_, std::move(plan), options));
  GRAFT_TRY_ASSIGN(made->sum_, Capture::create(*made->memory_, options.timeout, Capture::What::gradients));
  return made;
}

Status SlotSum::add(std::span<const std::span<const std::byte>> slots, std::span<std::byte> out) {
  if (slots.size() == 1) {
    std::ranges::copy(slots[0], out.begin());
    return ok_status();
  }
  for (std::size_t at = 0; at < out.size(); at += bytes_) {
    const std::size_t bytes = std::min<std::size_t>(bytes_, out.size() - at);
    GRAFT_TRY(sum_->fill(0));
    for (const std::span<const std::byte> slot : slots) {
      std::memcpy(program_->input(0).data(), slot.data() + at, bytes);  // what is behind them goes into no result
      GRAFT_TRY(program_->run({}, {}));
    }
    GRAFT_TRY(sum_->take());
    std::memcpy(out.data() + at, sum_->entries()[0].bytes.data(), bytes);
  }
  return ok_status();
}

}  // namespace graft::distribute
