#include "runtime/language/text_inputs.h"

#include <algorithm>
#include <numeric>

#include "runtime/core/op_id.gen.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/decode_graph.h"

namespace graft {
namespace {

constexpr std::uint32_t kAnyLength = 16;
constexpr std::string_view kPoolings[] = {"mean", "last", "cls"};

bool is_state(const Value& value, const Shape& tokens) {
  return value.dtype == DType::f32 && value.shape.rank() == 3 && value.shape[0] == tokens[0] &&
         value.shape[1] == tokens[1] && value.shape[2].is_constant();
}

bool is_scale(const Graph& graph, NodeId node) { return node.valid() && graph.node(node).op == Op::affine; }

/// The product of which `output` is the scaled and capped result; not valid where it is no such.
NodeId product_of(const Graph& graph, ValueId output) {
  NodeId by = graph.value(output).producer;
  while (is_scale(graph, by) || (by.valid() && graph.node(by).op == Op::tanh)) {
    by = graph.value(graph.node(by).inputs[0]).producer;
  }
  return by.valid() && graph.node(by).op == Op::matmul ? by : NodeId();
}

/// What a head reads, before what it may be scaled by. kNoValue where `output` is no head's.
ValueId before_head(const Graph& graph, ValueId output) {
  const NodeId by = product_of(graph, output);
  if (!by.valid()) return kNoValue;
  ValueId hidden = graph.node(by).inputs[0];
  while (is_scale(graph, graph.value(hidden).producer)) hidden = graph.node(graph.value(hidden).producer).inputs[0];
  return hidden;
}

/// Whether no token sees those behind it.
bool is_causal(const Graph& graph) {
  return passes::decoder_ports(graph).ok() && passes::decode_graph(graph, 1, kAnyLength, false).ok();
}

bool contains(const std::string& name, std::string_view part) { return name.find(part) != std::string::npos; }

}  // namespace

std::string_view pooling_name(Pooling pooling) { return kPoolings[static_cast<std::size_t>(pooling)]; }

Result<Pooling> parse_pooling(std::string_view name) {
  const auto* const found = std::ranges::find(kPoolings, name);
  if (found != std::end(kPoolings)) return static_cast<Pooling>(found - std::begin(kPoolings));
  return invalid("There is no pooling \"", name, "\"; there are mean, last and cls.");
}

std::optional<Pooling> pooling_of(const Metadata& metadata) {
  const auto found = metadata.find(kMetaPooling);
  if (found == metadata.end()) return std::nullopt;
  const auto pooling = parse_pooling(found->second);
  return pooling.ok() ? std::optional(*pooling) : std::nullopt;
}

bool normalizes(const Metadata& metadata) {
  const auto found = metadata.find(kMetaNormalize);
  return found != metadata.end() && found->second == "yes";
}

void remember_pooling(Pooling pooling, bool normalize, Metadata& metadata) {
  metadata.insert_or_assign(std::string(kMetaPooling), std::string(pooling_name(pooling)));
  metadata.insert_or_assign(std::string(kMetaNormalize), normalize ? "yes" : "no");
}

Result<TextInputs> text_inputs_of(const Graph& graph) {
  TextInputs out;
  const std::vector<ValueId> inputs = graph.inputs();
  if (inputs.empty()) return unsupported("The model has no input; one of texts takes token ids.");
  const Value& tokens = graph.value(inputs[0]);
  for (const ValueId id : inputs) {
    const Value& value = graph.value(id);
    const bool fits = value.dtype == DType::i32 && value.shape.rank() == 2 && value.shape == tokens.shape;
    if (!fits || !value.shape[0].is_symbol() || !value.shape[1].is_symbol() || value.shape[0] == value.shape[1]) {
      return unsupported("The input \"", value.name, "\" is ", dtype_name(value.dtype), value.shape.text(),
                         "; a model of texts takes i32[batch, seq].");
    }
    TextInput::Role role = TextInput::Role::tokens;
    if (id != inputs[0]) {
      if (contains(value.name, "mask")) {
        role = TextInput::Role::mask;
      } else if (contains(value.name, "type") || contains(value.name, "segment")) {
        role = TextInput::Role::segment;
      } else if (contains(value.name, "position")) {
        role = TextInput::Role::position;
      } else {
        return unsupported("What the model's input \"", value.name,
                           "\" holds for a text is not known: it is neither a mask nor segments nor positions.");
      }
    }
    out.inputs.push_back({value.name, role});
  }
  out.batch = tokens.shape[0].symbols();
  out.seq = tokens.shape[1].symbols();
  const bool masked =
      std::ranges::any_of(out.inputs, [](const TextInput& input) { return input.role == TextInput::Role::mask; });
  out.pads = masked || is_causal(graph);
  return out;
}

Result<ValueId> hidden_state_of(const Graph& graph, std::string_view of) {
  const Shape& tokens = graph.value(graph.inputs()[0]).shape;
  if (!of.empty()) {
    GRAFT_TRY_ASSIGN(const ValueId id, graph.resolve(of));
    if (is_state(graph.value(id), tokens)) return id;
    return invalid("The value \"", of, "\" is ", dtype_name(graph.value(id).dtype), graph.value(id).shape.text(),
                   "; embeddings are pooled of f32[batch, seq, width].");
  }
  for (const std::string_view name : {kSentenceOutput, std::string_view("last_hidden_state")}) {
    for (const Output& output : graph.outputs()) {
      if (output.name == name && is_state(graph.value(output.value), tokens)) return output.value;
    }
  }
  if (const auto ports = passes::decoder_ports(graph); ports.ok()) {
    const ValueId id = before_head(graph, ports->logits);
    if (id.valid() && is_state(graph.value(id), tokens)) return id;
  }
  if (graph.outputs().size() == 1 && is_state(graph.value(graph.outputs()[0].value), tokens)) {
    return graph.outputs()[0].value;
  }
  return unsupported(
      "The model has no head whose input would be its last hidden state, and no output \"last_hidden_state\": name the "
      "value that is to be pooled.");
}

NodeId head_of(const Graph& graph) {
  const auto ports = passes::decoder_ports(graph);
  return ports.ok() ? product_of(graph, ports->logits) : NodeId();
}

std::int64_t table_rows(const Graph& graph) {
  for (const Node& node : graph.nodes()) {
    const bool looks_up =
        node.op == Op::gather && node.inputs[1] == graph.inputs()[0] && node.attrs.integer("axis") == 0;
    if (!looks_up) continue;
    const Dim& rows = graph.value(node.inputs[0]).shape[0];
    if (rows.is_constant()) return rows.value();
  }
  return 0;
}

void fill_text_row(TextInput::Role role, std::span<const text::TokenId> tokens, std::span<std::int32_t> row) {
  const std::size_t count = std::min(tokens.size(), row.size());
  std::ranges::fill(row, 0);
  switch (role) {
    case TextInput::Role::tokens: std::copy_n(tokens.begin(), count, row.begin()); break;
    case TextInput::Role::mask: std::fill_n(row.begin(), count, 1); break;
    case TextInput::Role::segment: break;
    case TextInput::Role::position: std::iota(row.begin(), row.end(), 0); break;
  }
}

void fill_pooling_row(Pooling pooling, std::size_t count, std::span<float> row) {
  std::ranges::fill(row, 0.0F);
  count = std::min(count, row.size());
  if (count == 0) return;
  switch (pooling) {
    case Pooling::mean: std::fill_n(row.begin(), count, 1 / static_cast<float>(count)); break;
    case Pooling::last: row[count - 1] = 1; break;
    case Pooling::cls: row[0] = 1; break;
  }
}

}  // namespace graft
