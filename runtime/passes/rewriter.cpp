#include "runtime/passes/rewriter.h"

#include "platform/base/text.h"
#include "runtime/core/op_def.h"

namespace graft::passes {
namespace {

/// What a pruned graph keeps: nodes, and values that are not made by nodes.
struct Needed {
  std::vector<bool> nodes;
  std::vector<bool> values;
};

Needed find_needed(const PassGraph& in) {
  const Graph& graph = in.graph;
  Needed needed{std::vector<bool>(graph.nodes().size()), in.pinned};
  for (const Output& output : graph.outputs()) needed.values[output.value.index] = true;
  for (std::size_t n = graph.nodes().size(); n-- > 0;) {
    const Node& node = graph.nodes()[n];
    bool wanted = op_def(node.op).mutates != 0;
    for (const ValueId out : node.outputs) wanted = wanted || needed.values[out.index];
    needed.nodes[n] = wanted;
    if (!wanted) continue;
    for (const ValueId input : node.inputs) {
      if (input.valid()) needed.values[input.index] = true;
    }
  }
  return needed;
}

/// Drops nodes that nothing needs, and weights that had readers (`read`) and have none left.
Result<PassGraph> prune_unread(const PassGraph& in, const std::vector<bool>& read) {
  const Needed needed = find_needed(in);
  Graph out;
  std::vector<ValueId> map(in.graph.values().size(), kNoValue);
  for (std::uint32_t v = 0; v < in.graph.values().size(); ++v) {
    const Value& value = in.graph.values()[v];
    if (value.kind == ValueKind::temporary) continue;
    const bool weight = value.kind == ValueKind::constant || value.kind == ValueKind::parameter;
    if (weight && read[v] && !needed.values[v]) continue;
    GRAFT_TRY_ASSIGN(map[v], out.add_value_like(value));
  }
  for (std::size_t n = 0; n < in.graph.nodes().size(); ++n) {
    if (!needed.nodes[n]) continue;
    const Node& node = in.graph.nodes()[n];
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? map[input.index] : kNoValue);
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(in.graph.value(output).name);
    GRAFT_TRY_ASSIGN(const NodeId id, out.add_node(node.op, std::move(inputs), node.attrs, node.name, names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId made = out.node(id).outputs[i];
      map[node.outputs[i].index] = made;
      out.mutable_value(made).source_perm = in.graph.value(node.outputs[i]).source_perm;
      out.mutable_value(made).storage = in.graph.value(node.outputs[i]).storage;
    }
  }
  for (const Output& output : in.graph.outputs()) out.add_output(output.name, map[output.value.index]);
  PassGraph made(std::move(out));
  for (std::size_t v = 0; v < map.size(); ++v) {
    if (in.pinned[v] && map[v].valid()) made.pin(map[v]);
  }
  made.values.clear();
  for (const ValueId v : in.values) made.values.push_back(v.valid() ? map[v.index] : kNoValue);
  return made;
}

}  // namespace

PassGraph::PassGraph(Graph begin) : graph(std::move(begin)), pinned(graph.values().size()) {
  for (std::uint32_t v = 0; v < graph.values().size(); ++v) values.push_back({v});
}

Rewriter::Rewriter(const PassGraph& source)
    : source_(source),
      builder_(out_),
      map_(source.graph.values().size(), kNoValue),
      readers_(source.graph.values().size()),
      output_(source.graph.values().size()),
      kept_(source.graph.values().size()) {
  const Graph& graph = source.graph;
  for (std::uint32_t n = 0; n < graph.nodes().size(); ++n) {
    for (const ValueId input : graph.nodes()[n].inputs) {
      if (input.valid()) readers_[input.index].push_back({n});
    }
  }
  for (const Output& output : graph.outputs()) output_[output.value.index] = true;
  for (std::uint32_t v = 0; v < graph.values().size(); ++v) {
    if (graph.values()[v].kind == ValueKind::temporary) continue;
    auto made = out_.add_value_like(graph.values()[v]);
    if (made.ok()) {
      map_[v] = *made;
    } else {
      builder_.fail(made.status());
    }
  }
  for (const ValueId v : source.values) {
    if (v.valid()) kept_[v.index] = true;
  }
  named_.assign(out_.values().size(), true);
}

const Node* Rewriter::producer(ValueId v) const {
  if (!v.valid() || !value(v).producer.valid()) return nullptr;
  return &source().node(value(v).producer);
}

const Node* Rewriter::producer(ValueId v, Op op) const {
  const Node* node = producer(v);
  return node != nullptr && node->op == op && node->outputs[0] == v ? node : nullptr;
}

std::vector<ValueId> Rewriter::at(const std::vector<ValueId>& values) const {
  std::vector<ValueId> out;
  out.reserve(values.size());
  for (const ValueId v : values) out.push_back(at(v));
  return out;
}

Status Rewriter::copy(const Node& node, std::vector<ValueId> inputs, Attrs attrs) {
  GRAFT_TRY(builder_.status());
  std::vector<std::string> names;
  names.reserve(node.outputs.size());
  for (const ValueId output : node.outputs) {
    names.push_back(value(output).name);
    claim(names.back());
  }
  GRAFT_TRY_ASSIGN(const NodeId id, out_.add_node(node.op, std::move(inputs), std::move(attrs), node.name, names));
  named_.resize(out_.values().size());
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId made = out_.node(id).outputs[i];
    const Value& from = value(node.outputs[i]);
    map_[node.outputs[i].index] = made;
    named_[made.index] = kept_[node.outputs[i].index];
    out_.mutable_value(made).source_perm = from.source_perm;
    out_.mutable_value(made).storage = from.storage;
  }
  return {};
}

void Rewriter::replace(ValueId v, ValueId made) {
  if (!made.valid()) return;  // the builder has failed, and finish() says so
  map_[v.index] = made;
  named_.resize(out_.values().size());
  const Value& from = value(v);
  if (out_.value(made).shape != from.shape || out_.value(made).dtype != from.dtype) {
    builder_.fail(internal_error("A pass replaces \"", from.name, "\", ", dtype_name(from.dtype), from.shape.text(),
                                 ", by ", dtype_name(out_.value(made).dtype), out_.value(made).shape.text(), "."));
    return;
  }
  if (named_[made.index]) return;
  if (out_.value(made).name != from.name) claim(from.name);
  if (!out_.rename_value(made, from.name)) return;
  named_[made.index] = true;
  out_.mutable_value(made).source_perm = from.source_perm;
}

void Rewriter::name(ValueId made, ValueId v, SourcePerm order) {
  if (!made.valid()) return;
  named_.resize(out_.values().size());
  if (named_[made.index]) return;
  const std::string& wanted = value(v).name;
  if (out_.value(made).name != wanted) claim(wanted);
  named_[made.index] = out_.rename_value(made, wanted);
  out_.mutable_value(made).source_perm = std::move(order);
}

void Rewriter::claim(const std::string& name) {
  const ValueId taker = out_.find_value(name);
  if (!taker.valid()) return;
  named_.resize(out_.values().size());
  for (int i = 1; !named_[taker.index] && !out_.rename_value(taker, cat(name, "~", i)); ++i) {
  }
}

Status Rewriter::replace(ValueId v, Op op, std::vector<ValueId> inputs, Attrs attrs) {
  const Node* before = producer(v);
  replace(v, builder_.node(op, std::move(inputs), std::move(attrs), before != nullptr ? before->name : value(v).name));
  return builder_.status();
}

Result<PassGraph> Rewriter::finish() {
  GRAFT_TRY(builder_.status());
  for (const Output& output : source().outputs()) out_.add_output(output.name, at(output.value));
  PassGraph made(std::move(out_));
  for (std::size_t v = 0; v < map_.size(); ++v) {
    if (source_.pinned[v] && map_[v].valid()) made.pin(map_[v]);
  }
  made.values.clear();
  for (const ValueId v : source_.values) made.values.push_back(at(v));
  // Weights that a pattern swallowed, or that another stands for now.
  std::vector<bool> read(made.graph.values().size());
  for (std::size_t v = 0; v < readers_.size(); ++v) {
    const ValueId copy = made.graph.find_value(source().values()[v].name);
    if (!readers_[v].empty() && copy.valid()) read[copy.index] = true;
  }
  return prune_unread(made, read);
}

Result<PassGraph> prune(const PassGraph& in) {
  std::vector<bool> read(in.graph.values().size());
  for (const Node& node : in.graph.nodes()) {
    for (const ValueId input : node.inputs) {
      if (input.valid()) read[input.index] = true;
    }
  }
  return prune_unread(in, read);
}
}  // namespace graft::passes
