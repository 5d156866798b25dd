#include "runtime/exec/run_once.h"

#include "runtime/exec/memory.h"
#include "runtime/exec/plan_fused.h"
#include "runtime/exec/program.h"
#include "runtime/plan/hazards.h"

namespace graft {
namespace {

Status write_residents(Memory& memory, const Tensors& feeds) {
  for (const Resident& resident : memory.residents().entries()) {
    const auto it = feeds.find(resident.name);
    if (it == feeds.end()) return invalid("No bytes were given for the value \"", resident.name, "\".");
    if (it->second.size() != resident.bytes) {
      return invalid("The value \"", resident.name, "\" of shape ", resident.shape.text(), " takes ", resident.bytes,
                     " bytes, but was given ", it->second.size(), ".");
    }
    GRAFT_TRY(memory.write(resident.name, it->second));
  }
  return ok_status();
}

}  // namespace

Result<RunOnceResult> run_once(gpu::Device& device, const Graph& graph, const Tensors& feeds, const StepState& state,
                               const RunOnceOptions& options) {
  Residents residents(device.caps());
  GRAFT_TRY(residents.add(graph));
  GRAFT_TRY_ASSIGN(Plan plan, plan_fused(graph, device.target(), residents, options.plan));
  if (options.check_plan) {
    GRAFT_TRY(check_hazards(plan));
    GRAFT_TRY(check_memory(plan));
  }
  const Plan* const plans[] = {&plan};
  GRAFT_TRY_ASSIGN(const auto memory, Memory::create(device, residents, plans));
  memory->set_timeout(options.timeout);
  GRAFT_TRY(write_residents(*memory, feeds));
  GRAFT_TRY_ASSIGN(const auto program, Program::create(*memory, std::move(plan), {.timeout = options.timeout}));

  std::vector<Feed> inputs;
  for (const PlanPort& port : program->plan().inputs) {
    const auto it = feeds.find(port.name);
    if (it == feeds.end()) return invalid("No bytes were given for the input \"", port.name, "\".");
    inputs.push_back({port.name, it->second});
  }
  GRAFT_TRY(program->run(inputs, state));

  RunOnceResult result;
  for (std::size_t i = 0; i < program->plan().outputs.size(); ++i) {
    const auto bytes = program->output(i);
    result.outputs[program->plan().outputs[i].name].assign(bytes.begin(), bytes.end());
  }
  for (const Resident& resident : residents.entries()) {
    if (resident.kind == ValueKind::constant) continue;
    auto& bytes = result.residents[resident.name];
    bytes.resize(resident.bytes);
    GRAFT_TRY(memory->read(resident.name, bytes));
  }
  return result;
}

}  // namespace graft
