// References of fused nodes: the op that they are made around by its own reference, and programs step by step.
#include <array>
#include <optional>

#include "runtime/core/op_def.h"
#include "runtime/ops/fused_program.h"
#include "runtime/reference/elementwise_math.h"
#include "runtime/reference/ref_context.h"

namespace graft::ops::fused_elementwise {
namespace {

double value_of(const FusedStep& step, const double* registers) {
  const double a = registers[step.a];
  if (step.kind == fused_fn::unary) {
    return ref::unary_value(static_cast<unary_fn::Fn>(step.fn), a, step.alpha, step.beta);
  }
  const double b = registers[step.b];
  if (step.kind == fused_fn::binary) return ref::binary_value(static_cast<binary_fn::Fn>(step.fn), a, b);
  return b * ref::unary_slope(static_cast<unary_fn::Fn>(step.fn), a, step.alpha, step.beta);
}

/// Operands are inputs from `first` on; results the tensors given. What a source computed stands in the first of them.
void run_program(RefContext& c, const FusedProgram& program, std::size_t first,
                 const std::vector<RefTensor*>& results) {
  std::array<double, fused_fn::inputs + fused_fn::steps> registers{};
  for (std::size_t i = 0; i < program.count; ++i) {
    for (std::size_t o = 0; o < program.operands.size(); ++o) {
      registers[o] = c.in(first + o)[i / program.operands[o].div % program.operands[o].mod];
    }
    for (std::size_t s = 0; s < program.steps.size(); ++s) {
      const bool source = program.steps[s].kind == fused_fn::source;
      registers[fused_fn::inputs + s] = source ? results[0]->data[i] : value_of(program.steps[s], registers.data());
    }
    for (std::size_t o = 0; o < results.size(); ++o) results[o]->data[i] = registers[program.outputs[o]];
  }
}

void run_main(RefContext& c, const Node& main, std::vector<RefTensor*> inputs) {
  std::vector<RefTensor*> outputs = c.output_tensors();
  inputs.resize(main.inputs.size());
  outputs.resize(main.outputs.size());
  RefContext inner(c.graph(), main, std::move(inputs), std::move(outputs), c.step_state());
  ref_function(main.op)(inner);
}

}  // namespace

void ref_fused_elementwise(RefContext& c) {
  const auto program = fused_program(c.attrs(), c.out().size());
  run_program(c, *program, 0, c.output_tensors());
}

void ref_fused_epilogue(RefContext& c) {
  const auto program = fused_program(c.attrs(), c.out().size());
  const std::size_t further = program->outputs.size() - 1;
  const auto main = main_node(c.node(), c.inputs() - program->operands.size(), c.output_tensors().size() - further);
  run_main(c, *main, c.input_tensors());
  std::vector<RefTensor*> results = {c.output_tensors()[0]};
  if (further != 0) results.push_back(c.output_tensors().back());
  run_program(c, *program, main->inputs.size(), results);
}

void ref_fused_add_norm(RefContext& c) {
  RefTensor& sum = *c.output_tensors().back();
  for (std::size_t i = 0; i < sum.data.size(); ++i) sum.data[i] = c.in(0)[i] + c.in(c.inputs() - 1)[i];
  const auto main = main_node(c.node(), c.inputs() - 1, c.output_tensors().size() - 1);
  std::vector<RefTensor*> inputs = c.input_tensors();
  inputs[0] = &sum;
  run_main(c, *main, std::move(inputs));
}

}  // namespace graft::ops::fused_elementwise
