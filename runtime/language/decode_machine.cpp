#include "runtime/language/decode_machine.h"

#include <algorithm>
#include <utility>

#include "runtime/exec/plan_fused.h"
#include "runtime/kernels/kernel_proof.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/precision.h"
#include "runtime/plan/stream_choice.h"
#include "runtime/session/session.h"

namespace graft {
namespace {

/// Residents that keep to the budget, and plans over them.
struct DecodePlans {
  Residents residents;
  std::vector<Plan> plans;

  std::vector<const Plan*> pointers() const {
    std::vector<const Plan*> out;
    for (const Plan& plan : plans) out.push_back(&plan);
    return out;
  }
  std::uint64_t bytes() const { return bytes_together(residents, pointers()); }
};

Result<DecodePlans> plan_decoding(gpu::Device& device, std::span<const Graph> graphs, const GeneratorOptions& options) {
  std::vector<Graph> fused;
  for (const Graph& graph : graphs) {
    GRAFT_TRY_ASSIGN(Graph as_run, fused_graph(graph, device.target(), options.plan));
    fused.push_back(std::move(as_run));
  }
  std::vector<const Graph*> run;
  for (const Graph& graph : fused) run.push_back(&graph);
  GRAFT_TRY_ASSIGN(Residents residents, residents_within(device.target(), run, options.plan));
  DecodePlans out = {std::move(residents), std::vector<Plan>(graphs.size())};
  const auto make = [&]() -> Status {
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      GRAFT_TRY_ASSIGN(out.plans[i], plan_fused(graphs[i], device.target(), out.residents, options.plan));
    }
    return ok_status();
  };
  const std::vector<const Plan*> plans = out.pointers();
  GRAFT_TRY(make_proven(options.program.proof, device, make, [&] { return std::span<const Plan* const>(plans); }));
  return out;
}

}  // namespace

Result<std::vector<Graph>> decode_graphs(const Graph& graph, const GeneratorOptions& options, std::uint32_t context,
                                         std::span<const DecodeForm> forms) {
  GRAFT_TRY(passes::check_precision(options.precision));
  if (!is_float(options.cache) && options.cache != DType::q8_0) {
    return invalid("Caches would be of ", dtype_name(options.cache), "; they are f32, f16, bf16 or q8_0.");
  }
  std::uint32_t longest = 0;
  for (const DecodeForm& form : forms) longest = std::max(longest, options.forget ? form.tokens : 0);
  const passes::WeightNames weights = passes::low_precision_weights(graph);
  std::vector<Graph> out;
  for (const DecodeForm& form : forms) {
    GRAFT_TRY_ASSIGN(out.emplace_back(), passes::decode_graph(graph, form.tokens, context, form.logits, options.cache,
                                                              longest, form.slots));
    GRAFT_TRY(passes::store_results(out.back(), options.precision, weights, passes::Parameters::frozen));
  }
  return out;
}

Result<std::uint64_t> DecodeMachine::bytes_of(gpu::Device& device, std::span<const Graph> graphs,
                                              const GeneratorOptions& options) {
  GRAFT_TRY_ASSIGN(const DecodePlans planned, plan_decoding(device, graphs, options));
  return planned.bytes();
}

Result<std::unique_ptr<DecodeMachine>> DecodeMachine::create(gpu::Device& device, const Model& model,
                                                             std::vector<Graph> graphs, const GeneratorOptions& options,
                                                             const NameOfWork& work) {
  std::unique_ptr<DecodeMachine> out(new DecodeMachine());
  GRAFT_TRY_ASSIGN(DecodePlans planned, plan_decoding(device, graphs, options));
  if (const std::uint64_t need = planned.bytes(); options.plan.budget != 0 && need > options.plan.budget) {
    return error(Code::out_of_memory, work, " needs ", bytes_text(need), ", more than the budget of ",
                 bytes_text(options.plan.budget), ".");
  }
  GRAFT_TRY_ASSIGN(out->memory_, Memory::create(device, planned.residents, planned.pointers()));
  GRAFT_TRY(upload_weights(*out->memory_, model, graphs[0]));
  ProgramOptions first = options.program;
  first.cancellable_build = true;
  GRAFT_TRY(out->create_programs(std::move(planned.plans), first));
  out->device_ = &device;
  out->model_ = &model;
  out->adapters_ = LiveAdapters(model.graph, base_text(model));
  out->program_options_ = options.program;
  out->reopen_ = options.reopen;
  out->graph_ = std::move(graphs[0]);
  return out;
}

Status DecodeMachine::create_programs(std::vector<Plan> plans, const ProgramOptions& options) {
  for (Plan& plan : plans) {
    GRAFT_TRY_ASSIGN(programs_.emplace_back(), Program::create(*memory_, std::move(plan), options));
  }
  return ok_status();
}

std::span<const float> DecodeMachine::output_row(std::size_t program, std::size_t row, std::size_t width) const {
  const auto bytes = programs_[program]->output(std::size_t{0});
  return std::span(reinterpret_cast<const float*>(bytes.data()), bytes.size() / sizeof(float))
      .subspan(row * width, width);
}

std::vector<const Plan*> DecodeMachine::plans() const {
  std::vector<const Plan*> all;
  if (paused_) {
    for (const Plan& plan : paused_->plans) all.push_back(&plan);
  } else {
    for (const auto& program : programs_) all.push_back(&program->plan());
  }
  return all;
}

std::string DecodeMachine::streaming() const { return streaming_text(residents(), plans()); }

Status DecodeMachine::try_pause() {
  if (paused_) return ok_status();
  for (const auto& program : programs_) GRAFT_TRY(program->settle());
  Paused paused = as_paused({}, false);
  GRAFT_TRY(read_residents(*memory_, changes_on_device, paused.state));
  give_back();
  paused_ = std::move(paused);
  return ok_status();
}

DecodeMachine::Paused DecodeMachine::as_paused(HostState state, bool lost) const {
  std::vector<Plan> copies;
  for (const Plan* plan : plans()) copies.push_back(*plan);
  return {residents(), std::move(copies), std::move(state), lost};
}

void DecodeMachine::give_back() {
  programs_.clear();
  memory_.reset();
}

/// What was paused, on the device.
Status DecodeMachine::put_back() {
  GRAFT_TRY_ASSIGN(memory_, Memory::create(*device_, paused_->residents, plans()));
  GRAFT_TRY(upload_weights(*memory_, *model_, graph_));
  GRAFT_TRY(write_residents(*memory_, paused_->state));
  return create_programs(paused_->plans, program_options_);
}

Status DecodeMachine::swap_adapters(const Model* adapter) {
  GRAFT_TRY(adapters_.swap(*memory_, adapter));
  return reopen_ ? keep_adapters() : ok_status();
}

/// What the device alone has but for the caches: all of it or, where a call fails, none.
Status DecodeMachine::keep_adapters() {
  const auto wanted = [](const Resident& of) { return changes_on_device(of) && of.kind != ValueKind::state; };
  GRAFT_TRY(read_residents(*memory_, wanted, next_kept_));
  std::swap(kept_, next_kept_);
  return ok_status();
}

}  // namespace graft
