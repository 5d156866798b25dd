#include "platform/base/names.h"
#include "runtime/core/features.gen.h"
#include "runtime/lora/adapter.h"
#include "runtime/passes/packed_sequences.h"
#include "runtime/run_state/training.h"
#include "runtime/text/tokenizer/vocabulary_bytes.h"

namespace graft {
namespace {

constexpr std::string_view kScope = "teacher/";
constexpr std::string_view kTeacherLogits = "teacher/logits";

struct TextPorts {
  ValueId tokens;
  ValueId starts;  ///< of texts in samples that hold several; may be kNoValue
  ValueId logits;
  std::string output;
};

/// `whose`: "model" or "teacher".
Result<TextPorts> text_ports(const Graph& graph, std::string_view whose) {
  TextPorts out;
  std::size_t others = 0;
  for (const ValueId id : graph.inputs()) {
    const bool starts = graph.value(id).name == passes::kSequenceStartsInput;
    (starts ? out.starts : out.tokens) = id;
    others += starts ? 0 : 1;
  }
  for (const Output& output : graph.outputs()) {
    if (output.name != "logits" && graph.outputs().size() != 1) continue;
    out.logits = output.value;
    out.output = output.name;
  }
  const auto is = [&](ValueId id, DType dtype, std::size_t rank) {
    return id.valid() && graph.value(id).dtype == dtype && graph.value(id).shape.rank() == rank;
  };
  const bool text = others == 1 && is(out.tokens, DType::i32, 2) && is(out.logits, DType::f32, 3);
  if (text && graph.value(out.logits).shape.back().is_constant()) return out;
  return unsupported("The ", whose,
                     " is no language model: distillation is of models that take token ids alone and give ",
                     "logits of each.");
}

/// Both must know the same tokens, where both say which they know.
Status check_vocabularies(const Model& model, const Model& teacher) {
  if (!model.tokenizer || !teacher.tokenizer || model.tokenizer->bytes == teacher.tokenizer->bytes) return ok_status();
  if constexpr (kHasText) {
    const auto bytes_of = [](const Model& of) { return std::as_bytes(std::span(of.tokenizer->bytes)); };
    const auto own = text::vocabulary_from_bytes(bytes_of(model));
    const auto theirs = text::vocabulary_from_bytes(bytes_of(teacher));
    if (!own.ok() || !theirs.ok()) return ok_status();  // said where the tokenizer is needed
    for (std::size_t i = 0; i < std::min(own->tokens.size(), theirs->tokens.size()); ++i) {
      if (own->tokens[i].text == theirs->tokens[i].text) continue;
      return invalid("Token ", i, " is \"", own->tokens[i].text, "\" for the model and \"", theirs->tokens[i].text,
                     "\" for its teacher; both must have one vocabulary.");
    }
  }
  return ok_status();
}

Status check_alike(const Graph& model, const TextPorts& own, const Graph& teacher, const TextPorts& theirs) {
  const Shape& tokens = model.value(own.tokens).shape;
  const Shape& their_tokens = teacher.value(theirs.tokens).shape;
  if (tokens != their_tokens) {
    return unsupported("The model takes tokens ", tokens.text(), " and its teacher ", their_tokens.text(),
                       "; the dimensions must have the same names.");
  }
  const std::int64_t size = model.value(own.logits).shape.back().value();
  const std::int64_t their_size = teacher.value(theirs.logits).shape.back().value();
  if (size == their_size) return ok_status();
  return invalid("The model gives logits of ", size, " tokens and its teacher of ", their_size,
                 "; both must have one vocabulary.");
}

/// Adds the teacher's graph to the model's; gives its logits.
Result<ValueId> join(Graph& out, const TextPorts& own, const Graph& teacher, const TextPorts& theirs) {
  std::vector<ValueId> values(teacher.values().size(), kNoValue);
  for (std::uint32_t i = 0; i < values.size(); ++i) {
    Value value = teacher.values()[i];
    if (value.kind == ValueKind::temporary) continue;
    if (value.kind == ValueKind::input) {
      values[i] = theirs.tokens == ValueId{i} ? own.tokens : own.starts;
      continue;
    }
    if (value.kind == ValueKind::state) return unsupported("The teacher keeps state from step to step.");
    value.name.insert(0, kScope);
    value.kind = ValueKind::constant;
    GRAFT_TRY_ASSIGN(values[i], out.add_value_like(value));
  }
  for (const Node& node : teacher.nodes()) {
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? values[input.index] : kNoValue);
    for (const ValueId output : node.outputs) names.push_back(cat(kScope, teacher.value(output).name));
    GRAFT_TRY_ASSIGN(const NodeId made,
                     out.add_node(node.op, std::move(inputs), node.attrs, cat(kScope, node.name), names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      const ValueId output = out.node(made).outputs[i];
      values[node.outputs[i].index] = output;
      out.mutable_value(output).source_perm = teacher.value(node.outputs[i]).source_perm;
    }
  }
  return values[theirs.logits.index];
}

}  // namespace

Result<Model> with_teacher(const Model& model, const Model& teacher) {
  GRAFT_TRY(teacher.check_before_use());
  GRAFT_TRY_ASSIGN(const TextPorts own, text_ports(model.graph, "model"));
  Graph graph = teacher.graph;
  if (own.starts.valid()) {
    GRAFT_TRY_ASSIGN(graph, passes::packed_sequences(teacher.graph));
  }
  GRAFT_TRY_ASSIGN(const TextPorts theirs, text_ports(graph, "teacher"));
  GRAFT_TRY(check_alike(model.graph, own, graph, theirs));
  GRAFT_TRY(check_vocabularies(model, teacher));
  Model out;
  out.graph = model.graph;
  GRAFT_TRY(borrow_rest(model, out));
  GRAFT_TRY_ASSIGN(const ValueId logits, join(out.graph, own, graph, theirs));
  out.graph.add_output(std::string(kTeacherLogits), logits);
  for (std::uint32_t i = 0; i < teacher.graph.values().size(); ++i) {
    if (!teacher.weight({i})) continue;
    const ValueId value = out.graph.find_value(cat(kScope, teacher.graph.values()[i].name));
    GRAFT_TRY(out.borrow_weight(value, teacher, {i}));
  }
  return out;
}

Status learn_from_teacher(const Graph& taught, double weight, train::TrainOptions& options) {
  train::LossOptions& loss = options.loss;
  if (!options.more_losses.empty() || loss.kind != train::Loss::cross_entropy || !loss.class_weights.empty()) {
    return invalid("A teacher goes with the loss ce alone, without weights of classes.");
  }
  if (loss.output.empty()) {
    const bool named = taught.resolve("logits").ok();
    loss.output = named ? "logits" : quoted_name(taught.outputs().front().name);
  }
  loss.output += cat(",", kTeacherLogits);
  loss.kind = train::Loss::distill;
  loss.distill_weight = weight;
  return ok_status();
}

train::TrainOptions without_teacher(train::TrainOptions options) {
  train::LossOptions& loss = options.loss;
  if (loss.kind != train::Loss::distill) return options;
  loss.kind = train::Loss::cross_entropy;
  loss.output.resize(std::min(find_separator(loss.output, ","), loss.output.size()));
  loss.temperature.reset();
  return options;
}

}  // namespace graft
