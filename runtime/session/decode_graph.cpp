#include "runtime/session/decode_graph.h"

#include "runtime/core/op_def.h"

namespace graft {
namespace {

bool is_symbol(const Dim& dim) {
  return dim.coefficient() == 1 && !dim.is_constant() && dim.symbols().find('*') == std::string::npos;
}

class DecodeCopier {
 public:
  DecodeCopier(const Graph& source, std::uint32_t capacity) : source_(source), capacity_(capacity) {}

  Result<Graph> run(ValueId logits) {
    values_.assign(source_.values().size(), kNoValue);
    for (std::uint32_t i = 0; i < source_.values().size(); ++i) {
      const Value& value = source_.value({i});
      if (value.kind == ValueKind::temporary) continue;
      GRAFT_TRY_ASSIGN(values_[i], out_.add_value(value.name, value.dtype, value.shape, value.kind));
    }
    for (const Node& node : source_.nodes()) {
      GRAFT_TRY(copy(node).with_context(cat("In the node \"", node.name, "\"")));
    }
    if (attentions_ == 0) return unsupported("The model has no attention, so that nothing carries a text on.");
    if (logits.valid()) out_.add_output(source_.value(logits).name, values_[logits.index]);
    return std::move(out_);
  }

 private:
  Result<ValueId> append(const std::string& name, ValueId given) {
    Shape shape = out_.value(given).shape;
    shape[1] = capacity_;
    GRAFT_TRY_ASSIGN(const ValueId cache, out_.add_value(name, out_.value(given).dtype, shape, ValueKind::state));
    GRAFT_TRY_ASSIGN(const NodeId node, out_.add_node(Op::cache_append, {cache, given}, {}, name + "/append"));
    return out_.node(node).outputs[0];
  }

  Status adapt(const Node& node, std::vector<ValueId>& inputs, Attrs& attrs) {
    const auto has = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
    if (node.op == Op::rope && has(1))
      return unsupported("Its positions are given, and cannot go on from step to step.");
    if (node.op == Op::attention) {
      ++attentions_;
      if (!attrs.flag("causal") || has(3)) {
        return unsupported("Its attention is not causal or is masked, so that it cannot go on token by token.");
      }
      GRAFT_TRY_ASSIGN(inputs[1], append(cat("cache/", node.name, "/keys"), inputs[1]));
      GRAFT_TRY_ASSIGN(inputs[2], append(cat("cache/", node.name, "/values"), inputs[2]));
    }
    const bool counts = node.op == Op::rope || node.op == Op::attention || node.op == Op::positions;
    if (counts) attrs.set("from_step", std::int64_t{1});
    return {};
  }

  Status copy(const Node& node) {
    std::vector<ValueId> inputs;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? values_[input.index] : kNoValue);
    Attrs attrs = node.attrs;
    GRAFT_TRY(adapt(node, inputs, attrs));
    std::vector<std::string> names;
    for (const ValueId output : node.outputs) names.push_back(source_.value(output).name);
    GRAFT_TRY_ASSIGN(const NodeId id, out_.add_node(node.op, std::move(inputs), std::move(attrs), node.name, names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) values_[node.outputs[i].index] = out_.node(id).outputs[i];
    return {};
  }

  const Graph& source_;
  std::uint32_t capacity_;
  Graph out_;
  std::vector<ValueId> values_;  // of the source, in out_
  std::size_t attentions_ = 0;
};

}  // namespace

Result<DecoderPorts> decoder_ports(const Graph& graph) {
  DecoderPorts ports;
  const std::vector<ValueId> inputs = graph.inputs();
  if (inputs.size() != 1) {
    return unsupported("The model has ", inputs.size(), " inputs; one that generates text takes token ids alone.");
  }
  ports.tokens = inputs[0];
  const Value& tokens = graph.value(ports.tokens);
  if (tokens.dtype != DType::i32 || tokens.shape.rank() != 2 || !is_symbol(tokens.shape[0]) ||
      !is_symbol(tokens.shape[1]) || tokens.shape[0] == tokens.shape[1]) {
    return unsupported("The input \"", tokens.name, "\" is ", dtype_name(tokens.dtype), tokens.shape.text(),
                       "; a model that generates text takes i32[batch, seq].");
  }
  ports.batch = tokens.shape[0].symbols();
  ports.seq = tokens.shape[1].symbols();
  for (const Output& output : graph.outputs()) {
    if (output.name == "logits" || graph.outputs().size() == 1) ports.logits = output.value;
  }
  if (!ports.logits.valid()) return unsupported("The model has no output \"logits\".");
  const Value& logits = graph.value(ports.logits);
  const Shape& shape = logits.shape;
  if (logits.dtype != DType::f32 || shape.rank() != 3 || shape[0] != tokens.shape[0] || shape[1] != tokens.shape[1] ||
      !shape[2].is_constant() || shape[2].value() < 1) {
    return unsupported("The output \"", logits.name, "\" is ", dtype_name(logits.dtype), shape.text(),
                       "; a model that generates text gives f32[batch, seq, vocabulary].");
  }
  ports.vocabulary = shape[2].value();
  return ports;
}

Result<Graph> decode_graph(const Graph& graph, std::uint32_t tokens, std::uint32_t capacity, bool logits) {
  GRAFT_TRY_ASSIGN(const DecoderPorts ports, decoder_ports(graph));
  GRAFT_TRY_ASSIGN(const Graph bound, bind(graph, {{ports.batch, 1}, {ports.seq, tokens}}));
  return DecodeCopier(bound, capacity).run(logits ? ports.logits : kNoValue);
}

}  // namespace graft
