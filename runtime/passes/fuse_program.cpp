#include "runtime/passes/fuse_program.h"

#include <algorithm>
#include <iterator>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/ops/binary/binary_table.h"
#include "runtime/ops/unary/unary_table.h"

namespace graft::passes {
namespace {

namespace unary = ops::unary;
namespace binary = ops::binary;

constexpr std::uint64_t kMostElements = 0xffffffffu;

bool is_unary(Op op) { return op >= Op::neg && op < Op::unary_grad; }

/// Others make a pipeline slow to compile.
bool fits(binary_fn::Fn fn) {
  return fn == binary_fn::add || fn == binary_fn::sub || fn == binary_fn::mul || fn == binary_fn::div ||
         fn == binary_fn::maximum || fn == binary_fn::minimum;
}

class Maker {
 public:
  Maker(const Graph& graph, const Node& node) : graph_(graph), node_(node) {
    made_.program.count = graph.value(node.outputs[0]).shape.elements();
  }

  std::optional<ValueProgram> run() {
    // Functions that take or give integers or booleans are none of these either.
    for (const auto* const values : {&node_.inputs, &node_.outputs}) {
      for (const ValueId v : *values) {
        if (v.valid() && (graph_.value(v).dtype != DType::f32 || !graph_.value(v).shape.is_constant())) return {};
      }
    }
    if (made_.program.count == 0 || made_.program.count > kMostElements || !make()) return {};
    return std::move(made_);
  }

 private:
  bool make() {
    switch (node_.op) {
      case Op::gated: return gated();
      case Op::gated_grad: return gated_grad();
      case Op::unary_grad: return slope();
      case Op::add:
      case Op::sub:
      case Op::mul:
      case Op::div:
      case Op::maximum:
      case Op::minimum: return binary();
      default: return is_unary(node_.op) && unary();
    }
  }

  /// The register of an input; false where it is no broadcast that programs know.
  bool operand(std::size_t input, std::uint32_t& reg) {
    const ValueId v = node_.inputs[input];
    const auto at = broadcast_operand(graph_.value(node_.outputs[0]).shape, graph_.value(v).shape);
    if (!at) return false;
    const auto& operands = made_.operands;
    reg = static_cast<std::uint32_t>(std::find(operands.begin(), operands.end(), v) - operands.begin());
    if (reg == operands.size()) {
      made_.operands.push_back(v);
      made_.program.operands.push_back(*at);
    }
    return true;
  }

  std::uint32_t step(FusedStep step) {
    made_.program.steps.push_back(step);
    return fused_fn::inputs + static_cast<std::uint32_t>(made_.program.steps.size()) - 1;
  }

  void result(std::size_t output, std::uint32_t reg) {
    const Stored stored = stored_as(graph_.value(node_.outputs[output]).storage);
    made_.program.steps[reg - fused_fn::inputs].rounded = stored;
    made_.program.outputs.push_back(reg);
    made_.results.push_back(node_.outputs[output]);
  }

  bool unary() {
    const unary_fn::Fn fn = unary::function(node_.op, node_.attrs).fn;
    const unary::Params params = unary::params(node_.op, node_.attrs);
    std::uint32_t x = 0;
    if (!operand(0, x)) return false;
    result(0, step({fused_fn::unary, fn, x, 0, params.alpha, params.beta}));
    return true;
  }

  bool slope() {
    const Op op = static_cast<Op>(node_.attrs.integer("fn"));
    const unary::Function function = unary::function(op, node_.attrs);
    const unary::Params params = unary::params(op, node_.attrs);
    const bool known = function.slope == unary::Slope::of_x || function.slope == unary::Slope::of_y;
    std::uint32_t saved = 0, dy = 0;
    if (!known || !operand(function.slope == unary::Slope::of_x ? 0 : 1, saved) || !operand(2, dy)) return false;
    result(0, step({fused_fn::slope, function.fn, saved, dy, params.alpha, params.beta}));
    return true;
  }

  bool binary() {
    const binary_fn::Fn fn = binary::function(node_.op, node_.attrs);
    std::uint32_t a = 0, b = 0;
    if (!fits(fn) || !operand(0, a) || !operand(1, b)) return false;
    result(0, step({fused_fn::binary, fn, a, b}));
    return true;
  }

  /// The activation of gated(), in the order of its names.
  std::optional<std::uint32_t> activation() const {
    const std::string name = node_.attrs.text("activation");
    if (name == "silu") return unary_fn::silu;
    if (name == "gelu") return unary_fn::gelu;
    if (name == "gelu_tanh") return unary_fn::gelu_tanh;
    return std::nullopt;
  }

  /// activation(gate) * up.
  bool gated() {
    const auto fn = activation();
    std::uint32_t gate = 0, up = 0;
    if (!fn || !operand(0, gate) || !operand(1, up)) return false;
    const std::uint32_t active = step({fused_fn::unary, *fn, gate});
    result(0, step({fused_fn::binary, binary_fn::mul, active, up}));
    return true;
  }

  /// dgate = dy * up * slope(gate), dup = dy * activation(gate).
  bool gated_grad() {
    const auto fn = activation();
    std::uint32_t gate = 0, up = 0, dy = 0;
    if (!fn || !operand(0, gate) || !operand(1, up) || !operand(2, dy)) return false;
    const std::uint32_t active = step({fused_fn::unary, *fn, gate});
    const std::uint32_t dup = step({fused_fn::binary, binary_fn::mul, dy, active});
    const std::uint32_t both = step({fused_fn::binary, binary_fn::mul, dy, up});
    result(0, step({fused_fn::slope, *fn, gate, both}));
    result(1, dup);
    return true;
  }

  const Graph& graph_;
  const Node& node_;
  ValueProgram made_;
};

}  // namespace

std::optional<ValueProgram> elementwise_program(const Graph& graph, const Node& node) {
  if (node.outputs.empty()) return std::nullopt;
  return Maker(graph, node).run();
}

ValueProgram source_program(const Graph& graph, const Node& node) {
  const Value& out = graph.value(node.outputs[0]);
  FusedStep source{.kind = fused_fn::source, .rounded = stored_as(out.storage)};
  return {{out.shape.elements(), {}, {source}, {fused_fn::inputs}}, {}, {node.outputs[0]}};
}

std::optional<ValueProgram> join_programs(const std::vector<std::uint32_t>& roots, const ValueProgram& first,
                                          const std::vector<bool>& kept, const ValueProgram& second) {
  ValueProgram out = first;
  out.program.outputs.clear();
  out.results.clear();
  const auto shift = static_cast<std::uint32_t>(first.program.steps.size());
  std::vector<std::uint32_t> registers;  // of the second's operands
  for (std::size_t i = 0; i < second.operands.size(); ++i) {
    const ValueId v = second.operands[i];
    const auto link = std::find_if(first.results.begin(), first.results.end(),
                                   [&](ValueId r) { return roots[r.index] == roots[v.index]; });
    if (link != first.results.end()) {
      if (!second.program.is_whole(i)) return std::nullopt;
      registers.push_back(first.program.outputs[static_cast<std::size_t>(link - first.results.begin())]);
      continue;
    }
    const FusedOperand& at = second.program.operands[i];
    std::size_t same = 0;
    while (same < out.operands.size() && !(out.operands[same] == v && out.program.operands[same] == at)) ++same;
    if (same == out.operands.size()) {
      out.operands.push_back(v);
      out.program.operands.push_back(at);
    }
    registers.push_back(static_cast<std::uint32_t>(same));
  }
  const auto moved = [&](std::uint32_t reg) { return reg < fused_fn::inputs ? registers[reg] : reg + shift; };
  for (FusedStep step : second.program.steps) {
    step.a = moved(step.a);
    step.b = step.kind == fused_fn::unary ? 0 : moved(step.b);
    out.program.steps.push_back(step);
  }
  for (std::size_t i = 0; i < second.results.size(); ++i) {
    out.program.outputs.push_back(second.program.outputs[i] + shift);
    out.results.push_back(second.results[i]);
  }
  for (std::size_t i = 0; i < first.results.size(); ++i) {
    if (!kept[i]) continue;
    out.program.outputs.push_back(first.program.outputs[i]);
    out.results.push_back(first.results[i]);
  }
  return out;
}

}  // namespace graft::passes
