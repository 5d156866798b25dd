#include "runtime/report/layers.h"

#include <algorithm>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/source_order.h"
#include "runtime/passes/bind.h"

namespace graft {
namespace {

std::uint64_t flops_of(const Graph& graph, const Node& node) {
  const OpDef& def = op_def(node.op);
  if (def.alias_input >= 0) return 0;
  if (def.flops != nullptr) return def.flops(graph, node);
  std::uint64_t count = 0;
  for (const ValueId id : node.outputs) count += graph.value(id).shape.elements();
  return count;
}

/// Symbols that an input has behind its first axis: lengths, heights, widths.
std::vector<std::string> inner_symbols(const Graph& graph, const std::vector<std::string>& among) {
  std::vector<std::string> out;
  for (const std::string& symbol : among) {
    bool inner = false;
    for (const ValueId id : graph.inputs()) {
      const Shape& shape = graph.value(id).shape;
      for (std::size_t axis = 1; axis < shape.rank(); ++axis) inner = inner || shape[axis] == Dim::symbol(symbol);
    }
    if (inner) out.push_back(symbol);
  }
  return out;
}

/// Pictures of one pixel are too small for most networks: the smallest power of two that the graph takes, if any.
void enlarge(const Graph& graph, const std::vector<std::string>& filled, Bindings& bindings) {
  constexpr std::int64_t kMost = 1024;
  const std::vector<std::string> inner = inner_symbols(graph, filled);
  if (inner.empty()) return;
  Bindings tried = bindings;
  for (std::int64_t size = 1; size <= kMost; size *= 2) {
    for (const std::string& symbol : inner) tried[symbol] = size;
    if (!graft::bind(graph, tried).ok()) continue;
    bindings = std::move(tried);
    return;
  }
}

}  // namespace

Result<Bindings> complete_bindings(const Model& model, const Bindings& given, bool fill) {
  const std::vector<std::string> symbols = model.graph.symbols();
  for (const auto& [name, size] : given) {
    if (std::find(symbols.begin(), symbols.end(), name) != symbols.end()) continue;
    std::string known;
    for (const std::string& symbol : symbols) known += (known.empty() ? "" : ", ") + symbol;
    return invalid("The model has no dimension named \"", name, "\"; it has ", known.empty() ? "none" : known, ".");
  }
  Bindings bindings = given;
  std::string unbound;
  std::vector<std::string> filled;
  for (const std::string& symbol : symbols) {
    if (bindings.contains(symbol)) continue;
    if (const auto found = model.symbol_defaults.find(symbol); found != model.symbol_defaults.end()) {
      bindings[symbol] = found->second;
    } else if (fill) {
      bindings[symbol] = 1;
      filled.push_back(symbol);
    } else {
      unbound += (unbound.empty() ? "" : ",") + symbol + "=N";
    }
  }
  enlarge(model.graph, filled, bindings);
  if (!unbound.empty()) return invalid("The model has dimensions without a size; give --bind ", unbound, ".");
  return bindings;
}

// Names and symbolic shapes come from the model; FLOPs from its bound twin, which has the same nodes.
Result<std::vector<Layer>> layers_of(const Model& model, const Bindings& bindings) {
  const Graph& graph = model.graph;
  GRAFT_TRY_ASSIGN(const Graph bound, bind(graph, bindings));
  std::vector<Layer> layers;
  std::vector<bool> counted(graph.values().size());
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    if (node.op == Op::transpose && node.name.find(kLayoutSuffix) != std::string::npos) continue;
    Layer layer{node.name, std::string(op_name(node.op)), source_shape(graph.value(node.outputs[0])).text(), 0, 0, 0};
    for (const ValueId id : node.inputs) {
      if (!id.valid() || counted[id.index]) continue;
      const Value& value = graph.value(id);
      if (value.kind != ValueKind::parameter && value.kind != ValueKind::constant && value.kind != ValueKind::state) {
        continue;
      }
      counted[id.index] = true;  // a tied weight belongs to its first use
      const std::uint64_t elements = value.shape.is_constant() ? value.shape.elements() : 0;
      layer.bytes += storage_bytes(value.dtype, elements);
      if (value.kind == ValueKind::parameter) layer.parameters += elements;
    }
    layer.flops = flops_of(bound, bound.nodes()[i]);
    layers.push_back(std::move(layer));
  }
  return layers;
}

}  // namespace graft
