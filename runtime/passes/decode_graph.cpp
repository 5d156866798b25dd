#include "runtime/passes/decode_graph.h"

#include <algorithm>
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/bind.h"

#include "runtime/core/copy_graph.h"
#include "runtime/core/op_def.h"
#include "shaders/cache/cache_base.h"

namespace graft::passes {
namespace {

/// Makes nodes go on at the step state's position; counts the attentions among them.
class DecodeAdapter {
 public:
  struct Found {
    std::size_t attentions = 0;
    ValueId places, positions;  ///< once they are made, where there are slots
  };
  DecodeAdapter(std::uint32_t capacity, DType cache, std::uint32_t longest, const DecodeSlots& slots,
                std::uint32_t tokens, Found& found)
      : capacity_(capacity), cache_(cache), longest_(longest), slots_(slots), tokens_(tokens), found_(found) {}

  Status operator()(Graph& out, const Node& node, std::vector<ValueId>& inputs, Attrs& attrs) const {
    if (slots_.slots != 0) GRAFT_TRY(make_places(out));
    const auto has = [&](std::size_t i) { return i < inputs.size() && inputs[i].valid(); };
    if (node.op == Op::rope && has(1))
      return unsupported("Its positions are given, and cannot go on from step to step.");
    if (node.op == Op::attention) {
      ++found_.attentions;
      if (!attrs.flag("causal") || has(3)) {
        return unsupported("Its attention is not causal or is masked, so that it cannot go on token by token.");
      }
      const std::int64_t window = forgets(attrs.integer("window")) ? attrs.integer("window") : 0;
      GRAFT_TRY_ASSIGN(inputs[1], append(out, cat("cache/", node.name, "/keys"), inputs[1], window));
      GRAFT_TRY_ASSIGN(inputs[2], append(out, cat("cache/", node.name, "/values"), inputs[2], window));
      if (window != 0) attrs.set("forgets", std::int64_t{1});
    }
    const bool counts = node.op == Op::rope || node.op == Op::attention || node.op == Op::positions;
    if (counts) attrs.set("from_step", std::int64_t{1});
    return counts && slots_.slots != 0 ? place(out, node.op, inputs, attrs) : ok_status();
  }

 private:
  /// The input, and what it says of each token.
  Status make_places(Graph& out) const {
    if (found_.places.valid()) return ok_status();
    GRAFT_TRY_ASSIGN(found_.places, out.add_value(std::string(kPlacesInput), DType::i32,
                                                  Shape{std::int64_t{slots_.items}, 4}, ValueKind::input));
    Attrs attrs;
    attrs.set("shape", Shape{std::int64_t{slots_.items}, std::int64_t{tokens_}});
    attrs.set("from_step", std::int64_t{1});
    GRAFT_TRY_ASSIGN(const NodeId node,
                     out.add_node(Op::positions, {found_.places}, std::move(attrs), "cache/positions"));
    found_.positions = out.node(node).outputs[0];
    return ok_status();
  }

  /// A node's own places in place of the step state's.
  Status place(const Graph& out, Op op, std::vector<ValueId>& inputs, Attrs& attrs) const {
    if (op == Op::rope) {
      attrs.set("from_step", std::int64_t{0});
      if (inputs.size() < 2) inputs.push_back(kNoValue);
      inputs[1] = found_.positions;
    } else if (op == Op::attention) {
      inputs.resize(6, kNoValue);
      inputs[5] = found_.places;
    } else {
      const Shape shape = attrs.shape("shape");
      if (shape.elements() != tokens_) {
        return unsupported("It counts ", shape.text(), " positions, which are not those of a text's tokens.");
      }
      attrs.set("shape", out.value(found_.positions).shape);
      inputs = {found_.places};
    }
    return ok_status();
  }

  bool forgets(std::int64_t window) const {
    return longest_ != 0 && window > 0 && window < capacity_ &&
           cache_places(static_cast<std::uint64_t>(window), longest_) < capacity_;
  }

  Result<ValueId> append(Graph& out, const std::string& name, ValueId given, std::int64_t window) const {
    Shape shape = out.value(given).shape;
    shape[1] = capacity_;
    if (slots_.slots != 0) shape[0] = std::int64_t{slots_.slots};
    if (window != 0) shape[1] = static_cast<std::int64_t>(cache_places(static_cast<std::uint64_t>(window), longest_));
    const bool blocks = is_quantized(cache_);
    if (blocks && (shape.elements(2, 4) % dtype_block(cache_).elements != 0 || shape.elements(3, 4) % 4 != 0)) {
      return unsupported("It has ", shape[2].text(), " heads of keys with ", shape[3].text(),
                         " elements each; caches of ", dtype_name(cache_), " hold a token's in blocks of ",
                         dtype_block(cache_).elements, ".");
    }
    GRAFT_TRY_ASSIGN(const ValueId cache,
                     out.add_value(name, blocks ? cache_ : out.value(given).dtype, shape, ValueKind::state));
    Attrs attrs;
    if (window != 0) attrs.set("window", window);
    std::vector<ValueId> inputs = {cache, given};
    if (slots_.slots != 0) inputs.push_back(found_.places);
    GRAFT_TRY_ASSIGN(const NodeId node,
                     out.add_node(Op::cache_append, std::move(inputs), std::move(attrs), name + "/append"));
    const ValueId appended = out.node(node).outputs[0];
    if (!blocks) out.mutable_value(cache).storage = out.mutable_value(appended).storage = cache_;
    return appended;
  }

  std::uint32_t capacity_;
  DType cache_;
  std::uint32_t longest_;
  DecodeSlots slots_;
  std::uint32_t tokens_;
  Found& found_;
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
  if (tokens.dtype != DType::i32 || tokens.shape.rank() != 2 || !tokens.shape[0].is_symbol() ||
      !tokens.shape[1].is_symbol() || tokens.shape[0] == tokens.shape[1]) {
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

Result<Graph> decode_graph(const Graph& graph, std::uint32_t tokens, std::uint32_t capacity, bool logits, DType cache,
                           std::uint32_t longest, const DecodeSlots& slots) {
  GRAFT_TRY_ASSIGN(const DecoderPorts ports, decoder_ports(graph));
  GRAFT_TRY_ASSIGN(const Graph bound, bind(graph, {{ports.batch, slots.items}, {ports.seq, tokens}}));
  DecodeAdapter::Found found;
  GRAFT_TRY_ASSIGN(GraphCopy copy, copy_graph(bound, DecodeAdapter(capacity, cache, longest, slots, tokens, found)));
  if (found.attentions == 0) return unsupported("The model has no attention, so that nothing carries a text on.");
  if (logits) copy.graph.add_output(bound.value(ports.logits).name, copy.values[ports.logits.index]);
  return std::move(copy.graph);
}

std::vector<std::uint32_t> forgetting_windows(const Graph& decoding) {
  std::vector<std::uint32_t> out;
  for (const Node& node : decoding.nodes()) {
    if (node.op != Op::cache_append || !node.attrs.has("window")) continue;
    const auto window = static_cast<std::uint32_t>(node.attrs.integer("window"));
    if (std::ranges::find(out, window) == out.end()) out.push_back(window);
  }
  return out;
}

}  // namespace graft::passes
