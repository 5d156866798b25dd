// fused_epilogue(main's inputs.., operands..; fused_main, a program) -> main's outputs.., another result?: an op that
// does the elementwise ops behind its output 0 before it stores it. The last output is what lies between, where that is
// wanted too. Made by passes::fuse() after differentiation; no file holds one.
#include <algorithm>
#include <bit>

#include "platform/base/checked.h"
#include "runtime/core/node_check.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/shape.h"
#include "runtime/ops/fused_elementwise/epilogue.h"
#include "runtime/ops/fused_program.h"
#include "shaders/kernels.gen.h"

namespace graft {

using shaders::KernelId;

const std::size_t kEpilogueBindings = fused_fn::epilogue_inputs + fused_fn::epilogue_outputs - 1;

namespace {

struct EpilogueKernel {
  KernelId kernel;
  KernelId with;
  std::size_t out;  // binding
};

constexpr EpilogueKernel kKernels[] = {
    {KernelId::matmul__f32, KernelId::matmul__f32_epilogue, 3},
    {KernelId::matmul__f32_coopmat, KernelId::matmul__f32_coopmat_epilogue, 3},
    {KernelId::matmul__f32_coopmat_bf16, KernelId::matmul__f32_coopmat_bf16_epilogue, 3},
    {KernelId::matmul_split_sum__f32, KernelId::matmul_split_sum__f32_epilogue, 2},
    {KernelId::conv__f32, KernelId::conv__f32_epilogue, 3},
    {KernelId::conv__f32_coopmat, KernelId::conv__f32_coopmat_epilogue, 3},
    {KernelId::conv__f32_coopmat_bf16, KernelId::conv__f32_coopmat_bf16_epilogue, 3},
    {KernelId::conv_grad_data__f32, KernelId::conv_grad_data__f32_epilogue, 3},
    {KernelId::conv_grad_data__f32_coopmat, KernelId::conv_grad_data__f32_coopmat_epilogue, 3},
    {KernelId::conv_grad_data__f32_coopmat_bf16, KernelId::conv_grad_data__f32_coopmat_bf16_epilogue, 3},
    {KernelId::norm_apply__f32, KernelId::norm_apply__f32_epilogue, 5},
    {KernelId::layer_norm_grad__f32, KernelId::layer_norm_grad__f32_epilogue, 5},
    {KernelId::rms_norm_grad__f32, KernelId::rms_norm_grad__f32_epilogue, 4},
};

/// It is there, and neither it nor it with the tile that was chosen failed its self-test.
bool may_use(const gpu::Target& target, KernelId kernel, const std::vector<Choice>& choices) {
  if (!shaders::kernel_info(kernel).built() || is_avoided(target, kernel)) return false;
  const std::string_view name = shaders::kernel_info(kernel).name;
  return target.advice.avoided.empty() || std::none_of(choices.begin(), choices.end(), [&](const Choice& choice) {
           return target.advice.avoided.contains(cat(name, "/", choice.variant->name));
         });
}

bool is_of(const Binding& binding, ValueId value) {
  return binding.slot.kind == Slot::Kind::value && binding.slot.index == value.index;
}

}  // namespace

std::optional<EpiloguePlace> find_epilogue_place(Emitter& main) {
  const Binding whole = main.out();
  const ValueId result{whole.slot.index};
  std::optional<EpiloguePlace> place;
  for (std::size_t d = 0; d < main.dispatches().size(); ++d) {
    const DispatchDesc& dispatch = main.dispatches()[d];
    const auto touching = std::count_if(dispatch.bindings.begin(), dispatch.bindings.end(),
                                        [&](const Binding& b) { return is_of(b, result); });
    if (touching == 0) continue;
    if (place || touching != 1) return std::nullopt;
    const auto* const row = std::find_if(std::begin(kKernels), std::end(kKernels),
                                         [&](const EpilogueKernel& k) { return k.kernel == dispatch.kernel; });
    if (row == std::end(kKernels) || !may_use(main.target(), row->with, main.choices())) return std::nullopt;
    const Binding& out = dispatch.bindings[row->out];
    const bool all = is_of(out, result) && out.access == Access::write && !out.as_stored && out.slot.offset == 0 &&
                     out.slot.size == whole.slot.size;
    if (!all || dispatch.specialization.size() > fused_fn::epilogue_constants) return std::nullopt;
    place = EpiloguePlace{d, row->out, row->with};
  }
  return place;
}

std::uint64_t epilogue_columns(const Graph& graph, const Node& main) {
  const Shape& out = graph.value(main.outputs[0]).shape;
  if (main.op == Op::layer_norm_grad || main.op == Op::rms_norm_grad) {
    const auto axis = normalize_axis(main.attrs.integer("axis"), out.rank());
    return axis.ok() ? out.elements(*axis, out.rank()) : 0;
  }
  const bool by_vector = main.op == Op::matmul && graph.value(main.inputs[1]).shape.rank() == 1;
  return by_vector || out.rank() == 0 ? 1 : out.elements(out.rank() - 1, out.rank());
}

namespace ops::fused_elementwise {
namespace epilogue {
namespace {

constexpr AttrSpec kAttrs[] = {attr::text(kFusedMain).needed(), attr::integer(kFusedNodes).needed()};

struct Parts {
  Node main;
  FusedProgram program;
};

/// `outputs`: of the fused node; 0 where they are not known yet.
Result<Parts> parts_of(const Node& node, std::uint64_t count) {
  GRAFT_TRY_ASSIGN(FusedProgram program, fused_program(node.attrs, count));
  const std::size_t further = program.outputs.size() - 1;
  if (!program.has_source() || program.operands.size() > node.inputs.size()) {
    return invalid("Its program is not the epilogue of what it computes.");
  }
  const std::size_t outputs = node.outputs.empty() ? 0 : node.outputs.size() - further;
  GRAFT_TRY_ASSIGN(Node main, main_node(node, node.inputs.size() - program.operands.size(), outputs));
  return Parts{std::move(main), std::move(program)};
}

/// Elements of the main op's output 0 can be counted once its inputs are known, and are needed to read the program.
Result<InferContext> infer_main(const Graph& graph, const Node& main) {
  GRAFT_TRY(check_node(graph, main));
  InferContext context(graph, main);
  GRAFT_TRY(op_def(main.op).infer(context));
  return context;
}

Status infer(InferContext& c) {
  const Ints operands = c.attrs().integers("fused_operands");
  const std::size_t own = c.inputs() - std::min(c.inputs(), operands.size() / 2);
  GRAFT_TRY_ASSIGN(const Node main, main_node(c.node(), own, 0));
  GRAFT_TRY_ASSIGN(InferContext inner, infer_main(c.graph(), main));
  const Shape out = inner.results()[0].shape;
  if (inner.results()[0].dtype != DType::f32 || !out.is_constant()) {
    return invalid("What is to be done behind its result needs a result of type f32 and of known size.");
  }
  GRAFT_TRY_ASSIGN(const Parts parts, parts_of(c.node(), out.elements()));
  for (std::size_t i = 0; i < parts.program.operands.size(); ++i) {
    const std::size_t input = own + i;
    if (!c.has(input)) return invalid("Its input ", input, ", an operand of its epilogue, is missing.");
    GRAFT_TRY(c.expect_dtype(input, DType::f32));
    if (c.shape(input).is_constant() && c.shape(input).elements() == parts.program.operands[i].mod) continue;
    return invalid("Its input ", input, " has the shape ", c.shape(input).text(), "; ", parts.program.operands[i].mod,
                   " elements are needed.");
  }
  for (const auto& result : inner.results()) c.output(result.dtype, result.shape);
  for (std::size_t i = 1; i < parts.program.outputs.size(); ++i) c.output(DType::f32, out);
  return ok_status();
}

/// The op by itself, whose result goes to scratch memory, and then what is behind it.
Status emit_apart(Emitter& e, const FusedProgram& program, const std::vector<Binding>& operands,
                  const std::vector<Binding>& results) {
  const Slot between = e.scratch(results[0].slot.size);
  for (DispatchDesc& dispatch : e.dispatches()) {
    for (Binding& binding : dispatch.bindings) {
      if (!is_of(binding, e.node().outputs[0])) continue;
      if (binding.as_stored) return unsupported("Its kernel stores elements of 16 bits, with nothing behind them.");
      binding.slot.kind = Slot::Kind::scratch;
      binding.slot.index = between.index;
    }
  }
  FusedProgram behind = program;
  behind.operands.insert(behind.operands.begin(), {1, static_cast<std::uint32_t>(program.count)});
  for (FusedStep& step : behind.steps) {  // register 0 is what was computed
    if (step.kind == fused_fn::source) continue;
    for (std::uint32_t* const reg : {&step.a, &step.b}) *reg += *reg < fused_fn::inputs ? 1 : 0;
  }
  std::vector<Binding> all = {{between, Access::read}};
  all.insert(all.end(), operands.begin(), operands.end());
  return emit_fused(e, behind, all, results);
}

void add_epilogue(DispatchDesc& dispatch, const EpiloguePlace& place, const FusedProgram& program,
                  const std::vector<Binding>& operands, const std::vector<Binding>& results) {
  dispatch.kernel = place.with;
  auto modes = static_cast<std::uint32_t>(operands.size()) << 8;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::uint32_t mode = read_mode(program, i);
    modes |= (mode == fused_fn::same || mode == fused_fn::one ? mode : fused_fn::row) << (4 * i);
  }
  auto& constants = dispatch.specialization;
  constants.resize(fused_fn::epilogue_constants);
  constants.insert(constants.end(), {modes, program.outputs.size() > 1 ? program.outputs[1] : 0,
                                     static_cast<std::uint32_t>(program.steps.size() - 1), step_code(program, 0)});
  const auto of_steps = [&](auto word) {
    for (std::size_t i = 1; i <= fused_fn::epilogue_steps; ++i) {
      constants.push_back(i < program.steps.size() ? word(i) : 0);
    }
  };
  of_steps([&](std::size_t i) { return step_code(program, i); });
  of_steps([&](std::size_t i) { return spec(static_cast<float>(program.steps[i].alpha)); });
  of_steps([&](std::size_t i) { return spec(static_cast<float>(program.steps[i].beta)); });
  // A binding that goes unused holds what another does.
  for (std::size_t i = 0; i < fused_fn::epilogue_inputs; ++i) {
    dispatch.bindings.push_back(i < operands.size() ? operands[i] : dispatch.bindings[0]);
  }
  dispatch.bindings.push_back(results.back());
}

Status emit(Emitter& e) {
  GRAFT_TRY_ASSIGN(const Parts parts, parts_of(e.node(), e.out_shape().elements()));
  Emitter main(e.graph(), parts.main, e.target(), e.workspace_left());
  GRAFT_TRY(op_def(parts.main.op).emit(main));
  if (parts.program.count == 0) return ok_status();
  const auto place = find_epilogue_place(main);
  for (const std::uint64_t bytes : main.scratch_sizes()) e.scratch(bytes);  // numbered as there
  e.withhold(main.withheld());
  for (const Choice& choice : main.choices()) e.note(choice);
  e.dispatches() = std::move(main.dispatches());
  std::vector<Binding> operands, results = {e.out()};
  for (std::size_t i = parts.main.inputs.size(); i < e.inputs(); ++i) operands.push_back(e.in(i));
  if (parts.program.outputs.size() > 1) results.push_back(e.out(e.node().outputs.size() - 1));
  if (!place || !fits_epilogue(parts.program, epilogue_columns(e.graph(), parts.main))) {
    return emit_apart(e, parts.program, operands, results);
  }
  add_epilogue(e.dispatches()[place->dispatch], *place, parts.program, operands, results);
  return ok_status();
}

std::uint64_t flops(const Graph& graph, const Node& node) {
  const std::uint64_t elements = graph.value(node.outputs[0]).shape.elements();
  const auto parts = parts_of(node, elements);
  const OpDef& main = op_def(parts->main.op);
  const std::uint64_t own = main.flops != nullptr ? main.flops(graph, parts->main) : elements;
  return own + static_cast<std::uint64_t>(node.attrs.integer(kFusedNodes) - 1) * elements;
}

/// What the kernel reads of operands it reads where it stores, so that results may stand in their place.
std::uint32_t inplace(const Graph& graph, const Node& node, std::size_t output) {
  const auto program = fused_program(node.attrs, graph.value(node.outputs[0]).shape.elements());
  const bool elementwise = output == 0 || (program->outputs.size() > 1 && output + 1 == node.outputs.size());
  std::uint32_t mask = 0;
  for (std::size_t i = 0; elementwise && i < program->operands.size(); ++i) {
    if (program->is_whole(i)) mask |= 1u << (node.inputs.size() - program->operands.size() + i);
  }
  return mask;
}

}  // namespace
}  // namespace epilogue

extern const OpDef op_fused_epilogue;
const OpDef op_fused_epilogue = {.name = "fused_epilogue",
                                 .attrs = epilogue::kAttrs,
                                 .max_inputs = 16,  // those of any op, and the operands
                                 .infer = epilogue::infer,
                                 .emit = epilogue::emit,
                                 .gradient = NoGrad{"ops are fused after differentiation"},
                                 .flops = epilogue::flops,
                                 .inplace = epilogue::inplace,
                                 .any_attrs = true};

}  // namespace ops::fused_elementwise
}  // namespace graft
