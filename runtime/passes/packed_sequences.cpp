#include "runtime/passes/packed_sequences.h"

#include "runtime/core/build.h"
#include "runtime/core/copy_graph.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/decode_graph.h"

namespace graft::passes {
namespace {

class SequenceMasker {
 public:
  SequenceMasker(const Graph& source, const Shape& shape) : source_(source), shape_(shape) {}

  Status adapt(Graph& out, const Node& node, std::vector<ValueId>& inputs, Attrs& attrs) {
    if (!starts_.valid()) {
      GRAFT_TRY_ASSIGN(starts_, out.add_value(std::string(kSequenceStartsInput), DType::i32, shape_, ValueKind::input));
    }
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!is_place(node.inputs[i])) continue;
      GRAFT_TRY_ASSIGN(inputs[i], position(out));
    }
    const bool masks = node.op == Op::attention;
    if (!masks && node.op != Op::rope) return {};
    const std::size_t at = masks ? 3 : 1;
    inputs.resize(std::max(inputs.size(), at + 1), kNoValue);
    if (inputs[at].valid() || attrs.flag("from_step")) {
      return unsupported("Its ", masks ? "mask is" : "positions are", " given already.");
    }
    if (!masks) {
      GRAFT_TRY_ASSIGN(inputs[at], position(out));
      return {};
    }
    ++attentions_;
    inputs[at] = starts_;
    return {};
  }

  std::size_t attentions() const { return attentions_; }

 private:
  /// A token's index in its row, as learned positions are looked up by.
  bool is_place(ValueId value) const {
    if (!value.valid()) return false;
    const NodeId producer = source_.value(value).producer;
    return producer.valid() && source_.node(producer).op == Op::positions;
  }

  /// A token's position in its text.
  Result<ValueId> position(Graph& out) {
    if (position_.valid()) return position_;
    Builder b(out);
    const ValueId places = b.node(Op::positions, {}, {{"shape", Shape{shape_[1]}}}, "sequence_starts/places");
    position_ = b.node(Op::sub, {places, starts_}, {}, "sequence_starts/positions");
    GRAFT_TRY(b.status());
    return position_;
  }

  const Graph& source_;
  Shape shape_;
  ValueId starts_;
  ValueId position_;
  std::size_t attentions_ = 0;
};

}  // namespace

Result<Graph> packed_sequences(const Graph& graph) {
  GRAFT_TRY_ASSIGN(const DecoderPorts ports, decoder_ports(graph));
  SequenceMasker masker(graph, graph.value(ports.tokens).shape);
  GRAFT_TRY_ASSIGN(GraphCopy copy, copy_graph(graph, [&](Graph& out, const Node& node, auto& inputs, Attrs& attrs) {
                     return masker.adapt(out, node, inputs, attrs);
                   }));
  if (masker.attentions() == 0) return unsupported("The model has no attention that could keep sequences apart.");
  for (const Output& output : graph.outputs()) copy.graph.add_output(output.name, copy.values[output.value.index]);
  return std::move(copy.graph);
}

}  // namespace graft::passes
