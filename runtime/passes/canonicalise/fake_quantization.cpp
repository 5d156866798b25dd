// A number that is quantized and dequantized alike is fake-quantized: one kernel, and gradients go straight through.
#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/match.h"
#include "runtime/passes/passes.h"

namespace graft::passes {
namespace {

/// Whether two values hold the same numbers: one value, or constants whose contents are equal.
bool same_numbers(const Match& m, ValueId a, ValueId b) {
  if (a == b) return true;
  if (!a.valid() || !b.valid()) return false;
  if (m.shape(a).element_count().value() != m.shape(b).element_count().value()) return false;
  const std::vector<double> x = m.contents(a), y = m.contents(b);
  return !x.empty() && x == y;
}

/// No zero point is one of zeros.
bool same_zero_points(const Match& m, ValueId a, ValueId b) {
  const auto zeros = [&](ValueId v) {
    const std::vector<double> x = m.contents(v);
    return !x.empty() && std::all_of(x.begin(), x.end(), [](double zero) { return zero == 0; });
  };
  if (a.valid() != b.valid()) return zeros(a.valid() ? a : b);
  return same_numbers(m, a, b);
}

Result<bool> quantized_and_back(Rewriter& r, const Match& m, const Node& node) {
  if (node.op != Op::dequantize || node.attrs.has("shape")) return false;
  const Node* quantize = r.producer(node.inputs[0], Op::quantize);
  if (quantize == nullptr) return false;
  const auto input = [](const Node& n, std::size_t i) { return i < n.inputs.size() ? n.inputs[i] : kNoValue; };
  if (quantize->attrs.text("type") != node.attrs.text("type") ||
      quantize->attrs.integer("block_size") != node.attrs.integer("block_size") ||
      !same_numbers(m, quantize->inputs[1], node.inputs[1]) ||
      !same_zero_points(m, input(*quantize, 2), input(node, 2))) {
    return false;
  }
  const bool one = m.shape(node.inputs[1]).element_count().value() == Dim(1);
  if (!one && quantize->attrs.integer("axis") != node.attrs.integer("axis")) return false;
  GRAFT_TRY(r.replace(node.outputs[0], Op::fake_quantize, r.at(quantize->inputs), quantize->attrs));
  return true;
}

constexpr Rule kRules[] = {quantized_and_back};

}  // namespace

Result<PassGraph> fake_quantization(const PassGraph& graph, const PrepareOptions&) {
  return apply_rules(graph, kRules);
}

}  // namespace graft::passes
