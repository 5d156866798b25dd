#include "runtime/ops/fused_program.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "platform/base/checked.h"
#include "runtime/ops/choice.h"
#include "runtime/ops/elementwise.h"
#include "shaders/binary/binary_fn.h"
#include "shaders/fused_elementwise/fused_elementwise_push.h"
#include "shaders/kernels.gen.h"
#include "shaders/unary/unary_fn.h"

namespace graft {
namespace {

constexpr std::string_view kSteps = "fused_steps";            // kStepInts of each
constexpr std::string_view kParameters = "fused_parameters";  // alpha and beta of each, as the bits of a double
constexpr std::string_view kOperands = "fused_operands";      // div and mod of each
constexpr std::string_view kOutputs = "fused_outputs";        // a register of each
constexpr std::size_t kStepInts = 5;

static_assert(static_cast<std::uint32_t>(Stored::f16) == fused_fn::to_f16 &&
              static_cast<std::uint32_t>(Stored::bf16) == fused_fn::to_bf16);

Status malformed() { return invalid("Its attributes hold no program of elementwise functions."); }

Result<std::uint32_t> checked_number(std::int64_t value, std::uint64_t limit) {
  if (value < 0 || static_cast<std::uint64_t>(value) > limit) return malformed();
  return static_cast<std::uint32_t>(value);
}

Result<FusedStep> step_of(const std::int64_t* ints, std::int64_t alpha, std::int64_t beta, std::uint64_t operands,
                          std::size_t index) {
  FusedStep step;
  GRAFT_TRY_ASSIGN(step.kind, checked_number(ints[0], fused_fn::source));
  GRAFT_TRY_ASSIGN(step.fn, checked_number(ints[1], 255));
  GRAFT_TRY_ASSIGN(step.a, checked_number(ints[2], fused_fn::inputs + fused_fn::steps));
  GRAFT_TRY_ASSIGN(step.b, checked_number(ints[3], fused_fn::inputs + fused_fn::steps));
  GRAFT_TRY_ASSIGN(const std::uint32_t rounded, checked_number(ints[4], fused_fn::to_bf16));
  const auto known = [&](std::uint32_t reg) {
    return reg < fused_fn::inputs ? reg < operands : reg - fused_fn::inputs < index;
  };
  const bool reads_b = step.kind == fused_fn::binary || step.kind == fused_fn::slope;
  const bool source = step.kind == fused_fn::source;
  if (source ? index != 0 : !known(step.a) || (reads_b && !known(step.b))) return malformed();
  step.alpha = std::bit_cast<double>(alpha);
  step.beta = std::bit_cast<double>(beta);
  step.rounded = static_cast<Stored>(rounded);
  return step;
}

/// Whether a step reads the register. What is only stored is rounded by the store.
bool is_read(const FusedProgram& program, std::size_t reg) {
  return std::any_of(program.steps.begin(), program.steps.end(), [&](const FusedStep& s) {
    if (s.kind == fused_fn::source) return false;
    return s.a == reg || (s.kind != fused_fn::unary && s.b == reg);
  });
}

/// As is_frequent(), for any step.
bool is_frequent_step(const FusedStep& step) {
  if (step.kind == fused_fn::source) return true;
  if (step.kind == fused_fn::binary) {
    return step.fn == binary_fn::add || step.fn == binary_fn::sub || step.fn == binary_fn::mul;
  }
  return is_frequent(step.fn);
}

/// The kernel that knows few functions and steps, if they suffice: drivers compile it many times faster.
shaders::KernelId kernel_of(const FusedProgram& program, const gpu::Target& target) {
  using enum shaders::KernelId;
  const bool few = std::all_of(program.steps.begin(), program.steps.end(), is_frequent_step);
  const bool is_short = few && program.steps.size() <= fused_fn::short_steps;
  if (is_short && !is_avoided(target, fused_elementwise__f32_short)) return fused_elementwise__f32_short;
  return few && !is_avoided(target, fused_elementwise__f32_few) ? fused_elementwise__f32_few : fused_elementwise__f32;
}

}  // namespace

bool is_frequent(std::uint32_t fn) {
  switch (fn) {
    case unary_fn::tanh:
    case unary_fn::sigmoid:
    case unary_fn::relu:
    case unary_fn::gelu:
    case unary_fn::gelu_tanh:
    case unary_fn::silu:
    case unary_fn::erf:
    case unary_fn::affine:
    case unary_fn::clip: return true;
    default: return false;
  }
}

Result<FusedProgram> fused_program(const Attrs& attrs, std::uint64_t count) {
  const Ints steps = attrs.integers(kSteps);
  const Ints parameters = attrs.integers(kParameters);
  const Ints operands = attrs.integers(kOperands);
  const Ints outputs = attrs.integers(kOutputs);
  const std::size_t n = steps.size() / kStepInts;
  const bool sizes = n != 0 && n <= fused_fn::steps && steps.size() == n * kStepInts && parameters.size() == 2 * n &&
                     operands.size() % 2 == 0 && operands.size() / 2 <= fused_fn::inputs && !outputs.empty() &&
                     outputs.size() <= fused_fn::outputs;
  if (!sizes || count > 0xffffffffu) return malformed();
  FusedProgram program;
  program.count = count;
  for (std::size_t i = 0; i < operands.size(); i += 2) {
    FusedOperand operand;
    GRAFT_TRY_ASSIGN(operand.div, checked_number(operands[i], count));
    GRAFT_TRY_ASSIGN(operand.mod, checked_number(operands[i + 1], count));
    if (operand.div == 0 || operand.mod == 0 || count % (std::uint64_t{operand.div} * operand.mod) != 0) {
      return malformed();
    }
    program.operands.push_back(operand);
  }
  for (std::size_t i = 0; i < n; ++i) {
    GRAFT_TRY_ASSIGN(program.steps.emplace_back(), step_of(&steps[i * kStepInts], parameters[2 * i],
                                                           parameters[2 * i + 1], program.operands.size(), i));
  }
  for (const std::int64_t reg : outputs) {
    GRAFT_TRY_ASSIGN(program.outputs.emplace_back(), checked_number(reg, fused_fn::inputs + n - 1));
    if (program.outputs.back() < fused_fn::inputs) return malformed();
  }
  if (program.outputs[0] != fused_fn::inputs + n - 1) return malformed();
  return program;
}

void set_fused_program(Attrs& attrs, const FusedProgram& program) {
  Ints steps, parameters, operands, outputs;
  for (const FusedStep& s : program.steps) {
    for (const std::uint32_t word : {s.kind, s.fn, s.a, s.b, static_cast<std::uint32_t>(s.rounded)}) {
      steps.push_back(word);
    }
    for (const double parameter : {s.alpha, s.beta}) parameters.push_back(std::bit_cast<std::int64_t>(parameter));
  }
  for (const FusedOperand& operand : program.operands) {
    operands.push_back(operand.div);
    operands.push_back(operand.mod);
  }
  outputs.assign(program.outputs.begin(), program.outputs.end());
  attrs.set(kSteps, std::move(steps));
  attrs.set(kParameters, std::move(parameters));
  attrs.set(kOperands, std::move(operands));
  attrs.set(kOutputs, std::move(outputs));
}

std::optional<FusedOperand> broadcast_operand(const Shape& out, const Shape& operand) {
  std::uint64_t div = 1;
  std::uint64_t mod = 1;
  enum { before, within, after } part = before;
  for (std::size_t axis = 0; axis < out.rank(); ++axis) {  // from the innermost
    const auto dim = static_cast<std::uint64_t>(out[out.rank() - 1 - axis].value());
    if (dim == 1) continue;
    const bool repeated = axis >= operand.rank() || operand[operand.rank() - 1 - axis].value() == 1;
    if (part == before && repeated) {
      div *= dim;
    } else if (repeated) {
      part = after;
    } else {
      if (part == after) return std::nullopt;
      part = within;
      mod *= dim;
    }
  }
  if (mod == 1) div = 1;  // one element for all
  if (div > 0xffffffffu || mod > 0xffffffffu) return std::nullopt;
  return FusedOperand{static_cast<std::uint32_t>(div), static_cast<std::uint32_t>(mod)};
}

std::uint32_t read_mode(const FusedProgram& program, std::size_t operand) {
  const FusedOperand& at = program.operands[operand];
  if (program.is_whole(operand)) return fused_fn::same;
  if (at.mod == 1) return fused_fn::one;
  if (at.div == 1 && at.mod % 4 == 0) return fused_fn::row;
  return at.div % 4 == 0 ? fused_fn::column : fused_fn::any;
}

std::uint32_t step_code(const FusedProgram& program, std::size_t step) {
  const FusedStep& s = program.steps[step];
  const std::uint32_t rounded = is_read(program, fused_fn::inputs + step) ? static_cast<std::uint32_t>(s.rounded) : 0;
  return rounded << 24 | s.kind << 16 | s.fn << 8 | s.a << 4 | s.b;
}

bool fits_kernel(const FusedProgram& program) {
  return program.operands.size() <= fused_fn::inputs && program.steps.size() <= fused_fn::steps &&
         program.outputs.size() <= fused_fn::outputs;
}

bool fits_epilogue(const FusedProgram& program, std::uint64_t columns) {
  for (std::size_t i = 0; i < program.operands.size(); ++i) {
    const FusedOperand& at = program.operands[i];
    const bool row = at.div == 1 && at.mod == columns;
    if (!program.is_whole(i) && at.mod != 1 && !row) return false;
  }
  return program.has_source() && std::all_of(program.steps.begin(), program.steps.end(), is_frequent_step) &&
         program.operands.size() <= fused_fn::epilogue_inputs && program.steps.size() <= 1 + fused_fn::epilogue_steps &&
         program.outputs.size() <= fused_fn::epilogue_outputs;
}

Result<Node> main_node(const Node& fused, std::size_t inputs, std::size_t outputs) {
  const std::string name = fused.attrs.text(kFusedMain);
  Node node;
  if (name.starts_with(kFusedPrefix) || find_op(name, &node.op) == nullptr) {
    return invalid("The attribute \"", kFusedMain, "\" is \"", name, "\", which is no op that can be fused.");
  }
  node.attrs.declared_by(op_def(node.op).attrs);
  if (inputs > fused.inputs.size() || outputs > fused.outputs.size()) return malformed();
  node.name = fused.name;
  node.inputs.assign(fused.inputs.begin(), fused.inputs.begin() + static_cast<std::ptrdiff_t>(inputs));
  node.outputs.assign(fused.outputs.begin(), fused.outputs.begin() + static_cast<std::ptrdiff_t>(outputs));
  for (const auto& [key, value] : fused.attrs.items()) {
    if (!key.starts_with(kFusedPrefix)) node.attrs.set(key, value);
  }
  return node;
}

std::string op_label(const Node& node) {
  const std::string main = node.attrs.text(kFusedMain);
  return main.empty() ? std::string(op_name(node.op)) : "fused " + main;
}

Status emit_fused(Emitter& e, const FusedProgram& program, const std::vector<Binding>& operands,
                  const std::vector<Binding>& results) {
  constexpr std::uint64_t kVectors = fused_fn::invocations * fused_fn::vectors;  // of a workgroup
  push::FusedElementwisePush push{};
  static_assert(std::size(push.div) == fused_fn::inputs && std::size(push.mod) == fused_fn::inputs &&
                std::size(push.alpha) == fused_fn::steps && std::size(push.beta) == fused_fn::steps);
  auto modes = static_cast<std::uint32_t>(operands.size()) << (4 * fused_fn::inputs);
  for (std::size_t i = 0; i < fused_fn::inputs; ++i) {
    const bool used = i < operands.size();
    modes |= (used ? read_mode(program, i) : fused_fn::one) << (4 * i);
    push.div[i] = used ? program.operands[i].div : 1;
    push.mod[i] = used ? program.operands[i].mod : 1;
  }
  std::uint32_t further = 0;
  for (std::size_t i = 1; i < results.size(); ++i) further |= program.outputs[i] << (8 * (i - 1));
  std::vector<std::uint32_t> constants = {modes, further, static_cast<std::uint32_t>(program.steps.size())};
  for (std::size_t i = 0; i < fused_fn::steps; ++i) {
    const bool used = i < program.steps.size();
    constants.push_back(used ? step_code(program, i) : 0);
    push.alpha[i] = used ? static_cast<float>(program.steps[i].alpha) : 0;
    push.beta[i] = used ? static_cast<float>(program.steps[i].beta) : 0;
  }
  const std::uint64_t limit = max_bound_elements(e.caps());
  for (std::uint64_t first = 0; first < program.count; first += limit) {
    const std::uint64_t count = std::min(limit, program.count - first);
    push.first = static_cast<std::uint32_t>(first);
    push.count = static_cast<std::uint32_t>(count);
    std::vector<Binding> bindings;
    for (std::size_t i = 0; i < fused_fn::inputs; ++i) {  // a binding that goes unused holds what another does
      const std::size_t operand = i < operands.size() ? i : 0;
      const bool whole = program.is_whole(operand);
      bindings.push_back(whole ? element_range(operands[operand], first, count) : operands[operand]);
    }
    for (std::size_t i = 0; i < fused_fn::outputs; ++i) {
      bindings.push_back(element_range(results[i < results.size() ? i : 0], first, count));
    }
    e.dispatch(kernel_of(program, e.target()), {}, std::move(bindings), push,
               e.spread(ceil_div(count / 4 + count % 4, kVectors)));
    e.dispatches().back().specialization = constants;
  }
  return ok_status();
}

}  // namespace graft
