#include "tests/support/plan_checks.h"

#include <sstream>

#include "runtime/exec/plan_fused.h"

namespace graft::test {
namespace {

void write_text(std::ostream& out, const Step& step) {
  out << "step " << static_cast<int>(step.kind) << (step.barrier_before ? " barrier" : "") << " node " << step.node
      << " kernel " << step.kernel << " groups " << step.groups[0] << ',' << step.groups[1] << ',' << step.groups[2]
      << " flops " << step.flops << " bytes " << step.bytes << " push";
  for (const std::byte b : step.push) out << ' ' << static_cast<int>(b);
  for (const PlanBinding& b : step.bindings) {
    out << " | " << space_name(b.space) << ' ' << static_cast<int>(b.access) << ' ' << b.value << ' ' << b.offset << '+'
        << b.size;
  }
  for (const PlanBinding& b : step.windows) {
    out << " window " << space_name(b.space) << ' ' << b.offset << '+' << b.size;
  }
  out << ' ' << step.merged << '\n';
}

void write_text(std::ostream& out, const PlanPort& port) {
  out << "port " << port.name << ' ' << port.value << ' ' << dtype_name(port.dtype) << port.shape.text() << ' '
      << port.bytes << " @" << port.staging_offset << ' ' << port.used << '\n';
}

}  // namespace

std::string plan_text(const Plan& plan) {
  std::ostringstream out;
  for (const PlanNode& n : plan.nodes) {
    out << "node " << n.node << ' ' << n.name << ' ' << n.op << ' ' << n.parts << ' ' << n.backward << ' '
        << n.merged_into << ' ' << n.steps << " flops " << n.flops << " bytes " << n.bytes << " scratch "
        << n.scratch_bytes << " of " << n.whole_scratch_bytes << " live " << n.live_bytes << '\n';
  }
  for (const Step& step : plan.steps) write_text(out, step);
  for (const PlanKernel& k : plan.kernels) {
    out << "kernel " << shaders::kernel_info(k.id).name << ' ' << k.bindings << ' ' << k.push_bytes;
    for (const std::uint32_t word : k.specialization) out << ' ' << word;
    for (const Share& share : k.shares) out << " in " << int{share.buffer} << '+' << int{share.word};
    out << '\n';
  }
  for (const PlanValue& v : plan.values) {
    out << "value " << v.value << ' ' << v.name << ' ' << memory_class_name(v.memory_class) << ' '
        << space_name(v.space) << ' ' << v.offset << '+' << v.bytes << " [" << v.first << ", " << v.last << "] root "
        << v.root << " storage " << v.storage << ' ' << v.empty << '\n';
  }
  for (const PlanPort& port : plan.inputs) write_text(out, port);
  for (const PlanPort& port : plan.outputs) write_text(out, port);
  for (const SavedValue& s : plan.saved) {
    out << "saved " << s.value << ' ' << s.name << ' ' << s.bytes << ' ' << s.producer;
    for (const std::string& reader : s.readers) out << ' ' << reader;
    out << '\n';
  }
  for (const std::uint32_t word : plan.tables) out << word << ' ';
  for (const std::uint64_t bytes : plan.memory.bytes) out << bytes << ' ';
  out << plan.segment_bytes << ' ' << plan.alignment << ' ' << plan.resident_bytes << ' ' << plan.transient_bytes << ' '
      << plan.upload_bytes << ' ' << plan.readback_bytes << ' ' << plan.uses_step_state << ' ' << plan.lower_bound
      << ' ' << plan.peak_node << ' ' << plan.flops << ' ' << plan.barriers << '\n';
  return out.str();
}

Result<Plan> checked_plan(const Graph& graph, const gpu::Target& target, const PlanOptions& options) {
  Residents residents(target.caps);
  GRAFT_TRY(residents.add(graph));
  GRAFT_TRY_ASSIGN(Plan plan, plan_fused(graph, target, residents, options));
  GRAFT_TRY(check_hazards(plan));
  GRAFT_TRY(check_memory(plan));
  GRAFT_TRY_ASSIGN(const Plan again, plan_fused(graph, target, residents, options));
  EXPECT_EQ(plan_text(plan), plan_text(again));
  EXPECT_GE(plan.transient_bytes, plan.lower_bound);
  return plan;
}

void expect_every_barrier_needed(const Plan& plan) {
  std::uint32_t barriers = 0;
  for (std::size_t s = 0; s < plan.steps.size(); ++s) {
    if (!plan.steps[s].barrier_before) continue;
    ++barriers;
    Plan without = plan;
    without.steps[s].barrier_before = false;
    EXPECT_FALSE(check_hazards(without).ok()) << "the barrier before step " << s << " is not missed";
  }
  EXPECT_EQ(barriers, plan.barriers);
}

std::size_t dispatches(const Plan& plan) {
  std::size_t count = 0;
  for (const Step& step : plan.steps) count += step.kind == StepKind::dispatch;
  return count;
}

const PlanValue* find_value(const Plan& plan, std::string_view name) {
  for (const PlanValue& v : plan.values) {
    if (v.name == name) return &v;
  }
  return nullptr;
}

int position(const Plan& plan, std::string_view node) {
  for (std::size_t i = 0; i < plan.nodes.size(); ++i) {
    if (plan.nodes[i].name == node) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace graft::test
