#include "runtime/session/documents.h"

#include "runtime/core/build.h"
#include "runtime/core/copy_graph.h"
#include "runtime/session/adapter.h"
#include "runtime/session/decode_graph.h"

namespace graft {
namespace {

class DocumentAdapter {
 public:
  DocumentAdapter(const Graph& source, const Shape& shape) : source_(source), shape_(shape) {}

  Status adapt(Graph& out, const Node& node, std::vector<ValueId>& inputs, Attrs& attrs) {
    if (!documents_.valid()) {
      GRAFT_TRY_ASSIGN(documents_, out.add_value(std::string(kDocumentsInput), DType::i32, shape_, ValueKind::input));
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
    inputs[at] = documents_;
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
    const ValueId places = b.node(Op::positions, {}, {{"shape", Shape{shape_[1]}}}, "documents/places");
    position_ = b.node(Op::sub, {places, documents_}, {}, "documents/positions");
    GRAFT_TRY(b.status());
    return position_;
  }

  const Graph& source_;
  Shape shape_;
  ValueId documents_;
  ValueId position_;
  std::size_t attentions_ = 0;
};

}  // namespace

Result<Model> with_documents(const Model& base) {
  GRAFT_TRY_ASSIGN(const DecoderPorts ports, decoder_ports(base.graph));
  DocumentAdapter adapter(base.graph, base.graph.value(ports.tokens).shape);
  GRAFT_TRY_ASSIGN(GraphCopy copy,
                   copy_graph(base.graph, [&](Graph& out, const Node& node, auto& inputs, Attrs& attrs) {
                     return adapter.adapt(out, node, inputs, attrs);
                   }));
  if (adapter.attentions() == 0) return unsupported("The model has no attention that could keep documents apart.");
  for (const Output& output : base.graph.outputs()) {
    copy.graph.add_output(output.name, copy.values[output.value.index]);
  }
  Model model;
  model.graph = std::move(copy.graph);
  GRAFT_TRY(borrow_rest(base, model));
  return model;
}

}  // namespace graft
