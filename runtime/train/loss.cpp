#include "runtime/train/loss.h"

#include <optional>

#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::train {
namespace {

/// The class axis last: logits [N, C, ...] -> [N, ..., C].
ValueId classes_last(Builder& b, ValueId logits, std::size_t axis) {
  const std::size_t rank = b.shape(logits).rank();
  if (axis + 1 == rank) return logits;
  Ints perm;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) perm.push_back(static_cast<std::int64_t>(i));
  }
  perm.push_back(static_cast<std::int64_t>(axis));
  return b.transpose(logits, std::move(perm));
}

Result<ValueId> add_target(Graph& graph, DType dtype, Shape shape) {
  std::string name = "label";
  for (int suffix = 1; graph.find_value(name).valid(); ++suffix) name = cat("label_", suffix);
  return graph.add_value(std::move(name), dtype, std::move(shape), ValueKind::input);
}

ValueId sum_of(Builder& b, ValueId rows) { return b.reduce_sum(rows, {}, false); }

/// The head of a language model: logits [batch, .., classes] = hidden W^T with a weight W [classes, d] of its own.
struct Head {
  ValueId hidden;
  ValueId weight;
};

/// The head, where the loss can take its product with it, so that the logits never exist as a whole.
std::optional<Head> find_head(const Graph& graph, ValueId logits, const LossOptions& options) {
  const Value& value = graph.value(logits);
  const auto last = static_cast<std::int64_t>(value.shape.rank()) - 1;
  const std::int64_t axis = options.class_axis.value_or(-1);
  if (!value.producer.valid() || last < 2 || (axis != -1 && axis != last)) return {};
  const Node& node = graph.node(value.producer);
  const bool product = node.op == Op::matmul && node.attrs.flag("trans_b") && !node.attrs.flag("trans_a");
  if (!product || node.inputs.size() > 2) return {};
  const Value& weight = graph.value(node.inputs[1]);
  if (weight.shape.rank() != 2 || weight.producer.valid()) return {};
  return Head{node.inputs[0], node.inputs[1]};
}

Result<LossNodes> add_head_loss(Graph& graph, const Head& head, const LossOptions& options) {
  LossNodes loss;
  loss.classes = graph.value(head.weight).shape[0].value();
  const Shape& hidden = graph.value(head.hidden).shape;
  GRAFT_TRY_ASSIGN(loss.target,
                   add_target(graph, DType::i32, Shape(std::vector<Dim>(hidden.begin(), hidden.end() - 1))));
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  loss.sum = sum_of(
      b, b.node(Op::linear_cross_entropy, {head.hidden, head.weight, loss.target},
                {{"ignore_index", std::int64_t{options.ignore_index}}, {"label_smoothing", options.label_smoothing}}));
  GRAFT_TRY(b.status());
  return loss;
}

Result<LossNodes> add_cross_entropy(Graph& graph, ValueId prediction, const LossOptions& options, bool metrics) {
  const Shape shape = graph.value(prediction).shape;
  if (shape.rank() < 2) {
    return invalid("Cross entropy needs an output of a batch axis and a class axis; \"", graph.value(prediction).name,
                   "\" has the shape ", shape.text(), ".");
  }
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(options.class_axis.value_or(1), shape.rank(), "class axis"));
  if (axis == 0) return invalid("The class axis cannot be 0, the batch axis.");
  LossNodes loss;
  loss.classes = shape[axis].value();
  std::vector<Dim> rows;
  for (std::size_t i = 0; i < shape.rank(); ++i) {
    if (i != axis) rows.push_back(shape[i]);
  }
  GRAFT_TRY_ASSIGN(loss.target, add_target(graph, DType::i32, Shape(std::move(rows))));
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  const ValueId logits = classes_last(b, prediction, axis);
  const std::int64_t ignore = options.ignore_index;
  loss.sum = sum_of(b, b.node(Op::cross_entropy, {logits, loss.target},
                              {{"ignore_index", ignore}, {"label_smoothing", options.label_smoothing}}));
  const auto count_correct = [&](std::int64_t k) {
    return b.node(Op::topk_correct, {logits, loss.target}, {{"k", k}, {"ignore_index", ignore}});
  };
  if (metrics) loss.correct = count_correct(1);
  if (metrics && loss.classes > 5) loss.top5 = count_correct(5);
  GRAFT_TRY(b.status());
  return loss;
}

/// Another name of the same tensor.
bool is_same_view(const Graph& graph, const Node& node) {
  return node.op == Op::reshape && graph.value(node.inputs[0]).shape == graph.value(node.outputs[0]).shape;
}

}  // namespace

Result<ValueId> loss_input(const Graph& graph, const LossOptions& options, std::string* note) {
  if (graph.outputs().empty()) return invalid("The model has no output to take a loss of.");
  ValueId value = graph.outputs().front().value;
  if (!options.output.empty()) {
    GRAFT_TRY_ASSIGN(value, graph.resolve(options.output));
  }
  if (graph.value(value).dtype != DType::f32) {
    return invalid("No loss can be taken of \"", graph.value(value).name, "\": it is of type ",
                   dtype_name(graph.value(value).dtype), ".");
  }
  NodeId producer = graph.value(value).producer;
  while (producer.valid() && is_same_view(graph, graph.node(producer))) {
    producer = graph.value(graph.node(producer).inputs[0]).producer;
  }
  if (!producer.valid()) return value;
  const Op op = graph.node(producer).op;
  const bool softmax = options.kind == Loss::cross_entropy && (op == Op::softmax || op == Op::log_softmax);
  const bool sigmoid = options.kind == Loss::bce && op == Op::sigmoid;
  if (!softmax && !sigmoid) return value;
  if (note != nullptr) {
    *note = cat("The output \"", graph.value(value).name, "\" is a ", op_name(op),
                "; the loss takes what goes into it, for it does the same itself.");
  }
  return graph.node(producer).inputs[0];
}

Result<LossNodes> add_loss(Graph& graph, ValueId prediction, const LossOptions& options, bool metrics) {
  if (options.kind == Loss::cross_entropy) {
    const std::optional<Head> head = find_head(graph, prediction, options);
    return head ? add_head_loss(graph, *head, options) : add_cross_entropy(graph, prediction, options, metrics);
  }
  LossNodes loss;
  GRAFT_TRY_ASSIGN(loss.target, add_target(graph, DType::f32, graph.value(prediction).shape));
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  if (options.kind == Loss::bce) {
    // -z log(s(x)) - (1 - z) log(1 - s(x)) = softplus(x) - x z, without overflow for any x.
    loss.sum = sum_of(b, b.sub(b.node(Op::softplus, {prediction}), b.mul(prediction, loss.target)));
  } else {
    const Op distance = options.kind == Loss::mse ? Op::square : Op::abs;
    loss.sum = sum_of(b, b.node(distance, {b.sub(prediction, loss.target)}));
  }
  GRAFT_TRY(b.status());
  return loss;
}

void add_loss_outputs(Graph& graph, const LossNodes& loss) {
  graph.add_output(std::string(kLossOutput), loss.sum);
  if (loss.correct.valid()) graph.add_output(std::string(kCorrectOutput), loss.correct);
  if (loss.top5.valid()) graph.add_output(std::string(kTop5Output), loss.top5);
}

}  // namespace graft::train
