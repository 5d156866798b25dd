// LSTM, GRU and RNN: a direction each, as graft has them. The product of the inputs with W is part of ONNX's op again.
#include <algorithm>
#include <charconv>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/export/onnx_writer.h"

namespace graft::convert {
namespace {

bool is_recurrent(Op op) { return op == Op::lstm || op == Op::gru || op == Op::rnn; }

ValueId input(const Node& node, std::size_t i) { return i < node.inputs.size() ? node.inputs[i] : kNoValue; }

/// A product that makes the gates of recurrent ops and nothing else: x [steps, rows, elements] by W [gates, elements].
bool makes_gates(const OnnxWriter& w, const Node& node) {
  if (node.op != Op::matmul || node.attrs.flag("trans_a") || !node.attrs.flag("trans_b")) return false;
  if (w.shape(node.inputs[0]).rank() != 3 || w.shape(node.inputs[1]).rank() != 2) return false;
  bool read = false;
  for (const Node& other : w.graph().nodes()) {
    for (std::size_t i = 0; i < other.inputs.size(); ++i) {
      if (other.inputs[i] != node.outputs[0]) continue;
      if (!is_recurrent(other.op) || i != 0) return false;
      read = true;
    }
  }
  const auto& outputs = w.graph().outputs();
  return read &&
         std::none_of(outputs.begin(), outputs.end(), [&](const Output& o) { return o.value == node.outputs[0]; });
}

std::string with_axis(OnnxWriter& w, const std::string& x, std::int64_t axis) {
  return x.empty() ? x : w.add("Unsqueeze", {x, w.ints({axis})});
}

std::string zeros(OnnxWriter& w, std::int64_t count) {
  return w.numbers({count}, std::vector<float>(static_cast<std::size_t>(count)));
}

/// "Sigmoid,LeakyRelu(0.1)" as ONNX's three lists.
Status write_activations(OnnxWriter& w, const std::string& text) {
  onnx::AttributeProto names, alphas, betas;
  names.set_name("activations");
  names.set_type(onnx::AttributeProto::STRINGS);
  alphas.set_name("activation_alpha");
  alphas.set_type(onnx::AttributeProto::FLOATS);
  betas.set_name("activation_beta");
  betas.set_type(onnx::AttributeProto::FLOATS);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of("(,", at), text.size());
    names.add_strings(text.substr(at, end - at));
    at = end + 1;
    if (end == text.size() || text[end] == ',') continue;
    for (auto* const list : {&alphas, &betas}) {
      float number = 0;
      const auto parsed = std::from_chars(text.data() + at, text.data() + text.size(), number);
      if (parsed.ec != std::errc()) return corrupt("its activations are \"", text, "\"");
      list->add_floats(number);
      at = static_cast<std::size_t>(parsed.ptr - text.data()) + 1;
      if (at > text.size() || text[at - 1] == ')') break;
    }
    if (at < text.size() && text[at] == ',') ++at;
  }
  onnx::NodeProto& node = w.last_node();
  *node.add_attribute() = names;
  if (alphas.floats_size() != 0) *node.add_attribute() = alphas;
  if (betas.floats_size() != 0) *node.add_attribute() = betas;
  return {};
}

Status write_direction(OnnxWriter& w, const Node& node) {
  const bool lstm = node.op == Op::lstm, gru = node.op == Op::gru;
  const std::int64_t hidden = w.shape(node.inputs[1])[1].value(), gates = w.shape(node.inputs[1])[0].value();
  const NodeId producer = w.graph().value(node.inputs[0]).producer;
  std::string x, weight, bias;
  if (producer.valid() && makes_gates(w, w.graph().node(producer))) {
    const Node& product = w.graph().node(producer);
    x = w.name(product.inputs[0]);
    weight = w.name(product.inputs[1]);
    if (const ValueId added = input(product, 2); added.valid()) bias = w.name(added);
  } else {  // gates that something else makes pass through the product
    std::vector<float> identity(static_cast<std::size_t>(gates * gates));
    for (std::int64_t i = 0; i < gates; ++i) identity[static_cast<std::size_t>(i * gates + i)] = 1;
    x = w.name(node.inputs[0]);
    weight = w.numbers({gates, gates}, identity);
  }
  std::string inner;
  if (const ValueId v = gru ? input(node, 4) : kNoValue; v.valid()) inner = w.name(v);
  if (!bias.empty() || !inner.empty()) {
    std::vector<std::string> parts = {bias.empty() ? zeros(w, gates) : bias};
    if (inner.empty()) {
      parts.push_back(zeros(w, gates));
    } else {
      parts.push_back(zeros(w, 2 * hidden));
      parts.push_back(inner);
    }
    bias = w.add("Concat", parts, {{"axis", std::int64_t{0}}});
  }
  const auto named = [&](std::size_t i) {
    const ValueId v = input(node, i);
    return v.valid() ? w.name(v) : std::string();
  };
  std::vector<std::string> inputs = {x,
                                     with_axis(w, weight, 0),
                                     with_axis(w, w.name(node.inputs[1]), 0),
                                     with_axis(w, bias, 0),
                                     named(lstm ? 4 : 3),
                                     with_axis(w, named(2), 0)};
  if (lstm) {
    inputs.push_back(with_axis(w, named(3), 0));
    inputs.push_back(with_axis(w, named(5), 0));
  }
  while (inputs.back().empty()) inputs.pop_back();
  if (node.attrs.number("cell_clip") > 0) return unsupported("ONNX has no recurrent layer whose cells are limited.");
  std::vector<OnnxWriter::Attr> attrs = {{"hidden_size", hidden}};
  if (node.attrs.flag("reverse")) attrs.push_back({"direction", std::string("reverse")});
  if (const double clip = node.attrs.number("clip"); clip > 0) attrs.push_back({"clip", clip});
  if (node.attrs.flag("input_forget")) attrs.push_back({"input_forget", std::int64_t{1}});
  if (node.attrs.flag("linear_before_reset")) attrs.push_back({"linear_before_reset", std::int64_t{1}});
  const std::size_t results = lstm ? 3 : 2;
  const auto made = w.add_all(lstm ? "LSTM" : gru ? "GRU" : "RNN", inputs, results, attrs);
  if (const std::string text = node.attrs.text("activations"); !text.empty()) GRAFT_TRY(write_activations(w, text));
  // The directions' axis stands behind the steps, and before the rows of the last states.
  for (std::size_t k = 0; k < results; ++k) {
    w.is(node.outputs[k], w.add("Squeeze", {made[k], w.ints({k == 0 ? 1 : 0})}));
  }
  return {};
}

}  // namespace

Result<bool> write_recurrent(OnnxWriter& w, const Node& node) {
  if (makes_gates(w, node)) {
    w.is(node.outputs[0], "");  // its readers take the operands
    return true;
  }
  if (!is_recurrent(node.op)) return false;
  GRAFT_TRY(write_direction(w, node));
  return true;
}

}  // namespace graft::convert
