#include "tools/convert/onnx/proto/onnx_uses.h"

#include <algorithm>

namespace graft::convert {

bool is_one_of(std::string_view text, std::initializer_list<std::string_view> all) {
  return std::find(all.begin(), all.end(), text) != all.end();
}

namespace {

/// Whether a gradient goes from the node's results to its input i.
bool carries_gradient(const OnnxNode& node, std::size_t i) {
  if (is_one_of(node.op, {"Equal", "Less",   "LessOrEqual", "Greater", "GreaterOrEqual",
                          "Not",   "And",    "Or",          "Xor",     "Shape",
                          "Size",  "ArgMax", "ArgMin",      "NonZero", "NonMaxSuppression",
                          "IsNaN", "IsInf",  "OneHot",      "Range",   "ConstantOfShape"})) {
    return false;
  }
  if (is_one_of(node.op, {"QuantizeLinear", "DequantizeLinear"})) return i == 0;  // scales are kept
  if (is_one_of(node.op, {"QLinearConv", "QLinearMatMul", "ConvInteger", "MatMulInteger", "DynamicQuantizeLinear"})) {
    return false;
  }
  if (node.op == "Cast") {
    const auto to = node.attrs.find("to");
    return to == node.attrs.end() || is_float(static_cast<ElemType>(to->second.integer));
  }
  return !is_one_of(node.op, {"Where", "If"}) || i != 0;
}

bool only_moves(const OnnxNode& node, std::size_t i) {
  return i == 0 && is_one_of(node.op, {"Slice", "Unsqueeze", "Squeeze", "Reshape", "Transpose", "Cast", "Identity",
                                       "Expand", "Gather", "Flatten", "Tile"});
}

}  // namespace

void OnnxUses::add(const OnnxGraph& graph) {
  for (const OnnxNode& node : graph.nodes) {
    const std::size_t n = nodes_.size();
    nodes_.push_back(&node);
    for (const std::string& output : node.outputs) producers_.emplace(output, n);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) readers_[node.inputs[i]].push_back({n, i});
    for (const auto& [name, attr] : node.attrs) {
      if (attr.graph == nullptr) continue;
      add(*attr.graph);
      for (const OnnxValue& result : attr.graph->outputs) {
        taken_[result.name].insert(taken_[result.name].end(), node.outputs.begin(), node.outputs.end());
      }
    }
  }
}

OnnxUses::OnnxUses(const OnnxGraph& graph) {
  add(graph);
  std::vector<std::string_view> open;
  for (const OnnxValue& output : graph.outputs) {
    open.push_back(output.name);
    outputs_.insert(output.name);
  }
  while (!open.empty()) {
    const std::string_view name = open.back();
    open.pop_back();
    if (!reached_.insert(name).second) continue;
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) continue;
    const OnnxNode& node = *nodes_[producer->second];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (carries_gradient(node, i)) open.push_back(node.inputs[i]);
    }
    for (const auto& [attr_name, attr] : node.attrs) {
      if (attr.graph == nullptr) continue;
      for (const OnnxValue& result : attr.graph->outputs) open.push_back(result.name);
    }
  }
}

std::set<std::string_view> OnnxUses::purposes(std::string_view name,
                                              std::initializer_list<std::string_view> more) const {
  constexpr std::size_t kMost = 4096;
  std::set<std::string_view> found, seen;
  std::vector<std::string_view> open = {name};
  while (!open.empty()) {
    if (seen.size() == kMost) return {"?"};
    const std::string_view value = open.back();
    open.pop_back();
    if (!seen.insert(value).second) continue;
    if (outputs_.contains(value)) found.insert("");
    if (const auto taken = taken_.find(value); taken != taken_.end()) {
      open.insert(open.end(), taken->second.begin(), taken->second.end());
    }
    const auto readers = readers_.find(value);
    if (readers == readers_.end()) continue;
    for (const auto& [n, i] : readers->second) {
      const OnnxNode& node = *nodes_[n];
      if (only_moves(node, i) || is_one_of(node.op, more)) {
        open.insert(open.end(), node.outputs.begin(), node.outputs.end());
      } else {
        found.insert(node.op);
      }
    }
  }
  return found;
}

const OnnxNode* OnnxUses::maker(std::string_view name) const {
  constexpr int kMostMoves = 16;
  for (int moves = 0; moves < kMostMoves; ++moves) {
    const auto producer = producers_.find(name);
    if (producer == producers_.end()) return nullptr;
    const OnnxNode& node = *nodes_[producer->second];
    if (node.op == "Constant") return nullptr;
    if (node.inputs.empty() || !only_moves(node, 0)) return &node;
    name = node.inputs[0];
  }
  return nullptr;
}

bool OnnxUses::is_normalised(const OnnxNode* node) const {
  if (node == nullptr) return false;
  if (is_one_of(node->op, {"InstanceNormalization", "LayerNormalization", "GroupNormalization"})) return true;
  if (node->inputs.size() != 2) return false;
  const OnnxNode *first = maker(node->inputs[0]), *second = maker(node->inputs[1]);
  const auto is = [](const OnnxNode* made, std::string_view op) { return made != nullptr && made->op == op; };
  const auto inverts = [&](const OnnxNode* made) {
    return is(made, "Reciprocal") ||
           (is(made, "Div") && made->inputs.size() == 2 && is(maker(made->inputs[1]), "Sqrt"));
  };
  if (node->op == "Mul") return inverts(first) || inverts(second);
  if (node->op != "Div") return false;
  return is(second, "Sqrt") || (second == nullptr && is(first, "Sub") && maker(first->inputs.back()) == nullptr);
}

bool OnnxUses::is_scale_or_shift(std::string_view name) const {
  const auto fits = [&](const std::pair<std::size_t, std::size_t>& use) {
    const OnnxNode& node = *nodes_[use.first];
    if (node.inputs.size() != 2) return false;
    const OnnxNode* other = maker(node.inputs[1 - use.second]);
    if (node.op == "Mul" || other == nullptr) return is_normalised(other);
    if (node.op != "Add") return false;
    if (is_one_of(other->op, {"MatMul", "Gemm", "Conv", "ConvTranspose", "Einsum"}) || is_normalised(other))
      return true;
    return other->op == "Mul" && std::any_of(other->inputs.begin(), other->inputs.end(),
                                             [&](const std::string& input) { return is_normalised(maker(input)); });
  };
  const auto readers = readers_.find(name);
  return readers != readers_.end() && std::all_of(readers->second.begin(), readers->second.end(), fits);
}

}  // namespace graft::convert
