#include "tools/convert/onnx/import/fold.h"

#include <algorithm>

namespace graft::convert {

std::int64_t FoldContext::attr(std::string_view name, std::int64_t fallback) const {
  return integer_of(node, name, fallback);
}

std::optional<std::vector<std::int64_t>> FoldContext::ints(std::size_t i) const {
  if (!has(i) || in(i).symbolic() || !is_integer(in(i).type)) return std::nullopt;
  return in(i).ints;
}

std::optional<std::vector<std::int64_t>> FoldContext::ints_of(std::string_view name, std::size_t i) const {
  if (const OnnxAttr* found = node.attrs.of_kind(name, OnnxAttr::Kind::integers)) return found->integers;
  return ints(i);
}

bool FoldContext::out(HostTensor tensor) const {
  // What is picked out of a symbolic shape may hold no symbol itself: the sequence of [batch, sequence].
  if (tensor.symbolic() && std::ranges::all_of(tensor.symbols, &Dim::is_constant)) {
    for (const Dim& dim : tensor.symbols) tensor.ints.push_back(dim.value());
    tensor.symbols.clear();
  }
  outputs.push_back(std::move(tensor));
  return true;
}

bool fold_node(const OnnxNode& node, std::int64_t opset, const std::vector<const HostTensor*>& inputs,
               const std::vector<const Shape*>& shapes, std::vector<HostTensor>& outputs) {
  static const std::map<std::string_view, const FoldEntry*> kFolds = [] {
    std::map<std::string_view, const FoldEntry*> all;
    for (const FoldEntry* table : {kFoldMoves, kFoldMaths, kFoldContents}) {
      for (const FoldEntry* entry = table; entry->op != nullptr; ++entry) all.emplace(entry->op, entry);
    }
    return all;
  }();
  const auto found = kFolds.find(node.op);
  if (found == kFolds.end()) {
    const RuleEntry* rule = find_rule(node.op);
    const bool unary = rule != nullptr && rule->target != Op::count_ && rule->max_inputs == 1;
    if (!unary || inputs.size() != 1 || inputs[0] == nullptr) return false;
    outputs.clear();
    return fold_unary({node, opset, inputs, shapes, outputs}, rule->target);
  }
  const FoldEntry& entry = *found->second;
  if (inputs.size() < entry.inputs) return false;
  for (std::size_t i = 0; i < entry.inputs; ++i) {
    if (inputs[i] == nullptr) return false;
  }
  const bool by_shape = node.op == "Shape" || node.op == "Size";
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const bool given = !node.inputs[i].empty();
    if (given && (by_shape ? shapes[i] == nullptr : inputs[i] == nullptr)) return false;
  }
  outputs.clear();
  return entry.fold({node, opset, inputs, shapes, outputs}) && !outputs.empty();
}

}  // namespace graft::convert
