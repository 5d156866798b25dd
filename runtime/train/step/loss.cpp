#include "runtime/train/step/loss.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "platform/base/names.h"
#include "platform/base/text.h"
#include "runtime/core/built_ops.gen.h"
#include "runtime/core/counted_rows.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/source_order.h"
#include "runtime/train/step/loss_kinds.h"

namespace graft::train {
namespace {

/// The head, where the loss can take its product with it, so that the logits never exist as a whole.
std::optional<Head> find_head(const Graph& graph, ValueId logits, const TrainOptions& options) {
  if constexpr (!is_built(Op::linear_cross_entropy)) return {};
  const LossOptions& term = options.loss;
  const bool plain = options.more_losses.empty() && options.sample_weights.empty() && !options.predictions &&
                     term.kind == Loss::cross_entropy && term.class_weights.empty() && term.weight == 1;
  if (!plain) return {};
  const Value& value = graph.value(logits);
  const auto last = static_cast<std::int64_t>(value.shape.rank()) - 1;
  const std::int64_t axis = term.class_axis.value_or(-1);
  if (!value.producer.valid() || last < 2 || (axis != -1 && axis != last)) return {};
  if (term.target_shape && is_dense(term, value.shape)) return {};
  if (!term.class_axis && term.target_shape &&
      *term.target_shape != Shape(std::vector<Dim>(value.shape.begin() + 1, value.shape.end() - 1))) {
    return {};
  }
  return head_of_logits(graph, logits);
}

ValueId sum_of(Builder& b, ValueId rows) { return b.reduce_sum(rows, {}, false); }

Status add_head_loss(TermBuilder& t, const Head& head) {
  Graph& graph = t.b.graph();
  t.loss.classes = head.classes(graph);
  const Shape hidden = graph.value(head.hidden).shape;
  t.loss.class_axes[0] = hidden.rank() - 1;
  GRAFT_TRY_ASSIGN(const ValueId target,
                   t.target(DType::i32, Shape(std::vector<Dim>(hidden.begin(), hidden.end() - 1))));
  t.loss.counts[0] = {static_cast<double>(hidden.elements(1, hidden.rank() - 1)), true, t.options.ignore_index, {}};
  t.loss.sum = sum_of(t.b, head_costs(t.b, head, target,
                                      {{"ignore_index", std::int64_t{t.options.ignore_index}},
                                       {"label_smoothing", t.options.label_smoothing}}));
  return t.b.status();
}

/// Right answers of the first term, where it has labels of the class axis.
void count_correct(Builder& b, LossNodes& loss, const LossOptions& term, ValueId prediction) {
  const bool counts = term.kind == Loss::cross_entropy || term.kind == Loss::focal || term.kind == Loss::distill;
  const std::size_t axis = loss.class_axes[0];
  if (!counts || axis == 0 || !b.status().ok()) return;
  Ints perm;
  const std::size_t rank = b.shape(prediction).rank();
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) perm.push_back(static_cast<std::int64_t>(i));
  }
  perm.push_back(static_cast<std::int64_t>(axis));
  const ValueId logits = axis + 1 == rank ? prediction : b.transpose(prediction, std::move(perm));
  const auto count = [&](std::int64_t k) {
    return b.node(Op::topk_correct, {logits, loss.targets[0]},
                  {{"k", k}, {"ignore_index", std::int64_t{term.ignore_index}}});
  };
  loss.correct = count(1);
  if (loss.classes > 5) loss.top5 = count(5);
}

/// Another name of the same tensor.
bool is_same_view(const Graph& graph, const Node& node) {
  return node.op == Op::reshape && graph.value(node.inputs[0]).shape == graph.value(node.outputs[0]).shape;
}

bool takes_logits(Loss loss, Op op) {
  const bool softmax = op == Op::softmax || op == Op::log_softmax;
  switch (loss) {
    case Loss::cross_entropy:
    case Loss::kl:
    case Loss::ctc: return softmax;
    case Loss::bce: return op == Op::sigmoid;
    case Loss::focal:
    case Loss::dice: return softmax || op == Op::sigmoid;
    default: return false;
  }
}

Result<ValueId> loss_input(const Graph& graph, ValueId value, const LossOptions& options, std::string* note) {
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
  if (!takes_logits(options.kind, op)) return value;
  if (note != nullptr) {
    *note += cat(note->empty() ? "" : " ", "The output \"", graph.value(value).name, "\" is a ", op_name(op),
                 "; the loss takes what goes into it, for it does the same itself.");
  }
  return graph.node(producer).inputs[0];
}

/// The outputs of a term that names none: the first ones, and where there are several terms, the next for each.
Result<std::vector<ValueId>> outputs_of_term(const Graph& graph, const LossOptions& term, std::size_t number,
                                             bool several) {
  const std::vector<std::string> names = split_names(term.output);
  const std::size_t wanted = outputs_of(term.kind);
  std::vector<ValueId> values;
  for (const std::string& name : names) {
    GRAFT_TRY_ASSIGN(const ValueId value, graph.resolve(name));
    values.push_back(value);
  }
  const auto& outputs = graph.outputs();
  if (names.empty() && wanted == 1 && !outputs.empty()) {
    values.push_back(outputs[several ? std::min(number, outputs.size() - 1) : 0].value);
  }
  for (std::size_t i = 0; names.empty() && wanted > 1 && i < std::min(wanted, outputs.size()); ++i) {
    values.push_back(outputs[i].value);
  }
  if (values.size() == wanted) return values;
  return invalid("The loss ", loss_name(term.kind), " is taken of ", wanted, wanted == 1 ? " output" : " outputs", "; ",
                 values.size(), names.empty() ? " the model has." : " are named.");
}

/// The loss of each row, multiplied by its sample's weight.
ValueId by_sample(Builder& b, ValueId rows, ValueId weights) {
  if (!b.status().ok()) return kNoValue;
  const Shape shape = b.shape(rows);
  const Dim samples = b.shape(weights)[0];
  const bool has_batch = shape.rank() > 0 && shape[0] == samples;
  if (!has_batch && samples != Dim(1)) {
    b.fail(invalid("Losses of shape ", shape.text(), " cannot be weighed by ", samples.text(),
                   " samples: their first axis is not the batch."));
    return kNoValue;
  }
  std::vector<Dim> dims(std::max<std::size_t>(shape.rank(), 1), Dim(1));
  dims[0] = samples;
  return b.mul(rows, b.reshape(weights, Shape(std::move(dims))));
}

Status add_sample_weights(Graph& graph, std::int64_t samples, const TrainOptions& options, LossNodes& loss) {
  if (options.sample_weights.empty()) return ok_status();
  loss.weights_field = options.sample_weights;
  std::string name = options.sample_weights;
  while (graph.find_value(name).valid()) name += "_weights";
  GRAFT_TRY_ASSIGN(loss.sample_weights, graph.add_value(name, DType::f32, Shape::of({samples}), ValueKind::input));
  return ok_status();
}

/// One term's sum over rows; with several terms times what makes means of them.
Result<ValueId> term_sum(TermBuilder& t, bool several) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(ValueId rows, add_term(t));
  GRAFT_TRY(b.status());
  if (t.loss.sample_weights.valid()) rows = by_sample(b, rows, t.loss.sample_weights);
  ValueId sum = sum_of(b, rows);
  if (t.options.weight != 1) sum = b.scale(sum, t.options.weight);
  if (!several) return sum;
  const auto index = static_cast<std::int64_t>(t.number);
  return b.mul(sum, b.node(Op::step_scalar, {}, {{"field", std::string("term_weight")}, {"index", index}}));
}

}  // namespace

namespace {

const Node* producer_of(const Graph& graph, ValueId v, Op op) {
  const NodeId producer = graph.value(v).producer;
  return producer.valid() && graph.node(producer).op == op ? &graph.node(producer) : nullptr;
}

struct Scaled {
  ValueId of;
  double by;
};
/// A value that is another one times a number.
std::optional<Scaled> scaled(const Graph& graph, ValueId v) {
  const Node* node = producer_of(graph, v, Op::affine);
  if (node == nullptr || node->attrs.number("beta") != 0) return {};
  return Scaled{node->inputs[0], node->attrs.number("alpha")};
}

/// Of cap tanh(x / cap) x and the cap.
std::optional<Scaled> capped(const Graph& graph, ValueId logits) {
  const auto outer = scaled(graph, logits);
  const Node* tanh = outer ? producer_of(graph, outer->of, Op::tanh) : nullptr;
  const auto inner = tanh != nullptr ? scaled(graph, tanh->inputs[0]) : std::nullopt;
  if (!inner || !(outer->by > 0) || std::abs(outer->by * inner->by - 1) > 1e-6) return {};
  return Scaled{inner->of, outer->by};
}

/// hidden W^T with a matrix W.
const Node* head_product(const Graph& graph, ValueId logits) {
  const Node* const node = producer_of(graph, logits, Op::matmul);
  const bool plain = node != nullptr && node->attrs.flag("trans_b") && !node->attrs.flag("trans_a") &&
                     node->inputs.size() == 2 && graph.value(node->inputs[1]).shape.rank() == 2;
  return plain ? node : nullptr;
}

/// [hidden W^T, hidden R^T] side by side; of the first all columns, or those from 0 on that a slice takes.
std::optional<Head> head_of_both(const Graph& graph, const Node& joined) {
  const Shape& shape = graph.value(joined.outputs[0]).shape;
  const auto last = static_cast<std::int64_t>(shape.rank()) - 1;
  const std::int64_t axis = joined.attrs.integer("axis");
  if (joined.inputs.size() != 2 || (axis != -1 && axis != last)) return {};
  ValueId first = joined.inputs[0];
  const Shape& taken = graph.value(first).shape;
  if (const Node* const slice = producer_of(graph, first, Op::slice)) {
    const Shape& whole = graph.value(slice->inputs[0]).shape;
    const Ints starts = slice->attrs.integers("starts");
    const Ints steps = slice->attrs.integers("steps");
    const bool from_0 = std::ranges::all_of(starts, [](std::int64_t at) { return at == 0; }) &&
                        std::ranges::all_of(steps, [](std::int64_t by) { return by == 1; });
    if (!from_0 || whole.rank() != shape.rank() || !std::equal(whole.begin(), whole.end() - 1, taken.begin()))
      return {};
    first = slice->inputs[0];
  }
  const Node* const own = head_product(graph, first);
  const Node* const behind = head_product(graph, joined.inputs[1]);
  if (own == nullptr || behind == nullptr || own->inputs[0] != behind->inputs[0]) return {};
  const Value& weight = graph.value(own->inputs[1]);
  if (weight.producer.valid() || weight.kind != ValueKind::constant || !taken.back().is_constant()) return {};
  if (!graph.value(behind->inputs[1]).shape.is_constant()) return {};
  return Head{own->inputs[0], own->inputs[1], 0, behind->inputs[1], taken.back().value()};
}

}  // namespace

std::optional<Head> head_of_logits(const Graph& graph, ValueId logits) {
  if (const auto cap = capped(graph, logits)) {
    auto head = head_of_logits(graph, cap->of);
    if (!head || head->softcap != 0) return {};
    head->softcap = cap->by;
    return head;
  }
  if (const Node* const joined = producer_of(graph, logits, Op::concat)) return head_of_both(graph, *joined);
  const Node* const product = head_product(graph, logits);
  if (product == nullptr || graph.value(product->inputs[1]).producer.valid()) return {};
  return Head{product->inputs[0], product->inputs[1]};
}

std::int64_t Head::classes(const Graph& graph) const {
  if (!rows.valid()) return graph.value(weight).shape[0].value();
  return first_row + graph.value(rows).shape[0].value();
}

ValueId head_costs(Builder& b, const Head& head, ValueId labels, Attrs attrs) {
  attrs.set("softcap", head.softcap);
  if (!head.rows.valid()) return b.node(Op::linear_cross_entropy, {head.hidden, head.weight, labels}, std::move(attrs));
  attrs.set("first_row", head.first_row);
  return b.node(Op::linear_cross_entropy, {head.hidden, head.weight, labels, head.rows}, std::move(attrs));
}

Result<LossInputs> loss_inputs(const Graph& graph, const TrainOptions& options, std::string* note) {
  if (graph.outputs().empty()) return invalid("The model has no output to take a loss of.");
  const auto terms = loss_terms(options);
  LossInputs inputs;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    GRAFT_TRY_ASSIGN(const auto values, outputs_of_term(graph, *terms[i], i, terms.size() > 1));
    std::vector<ValueId>& of = inputs.emplace_back();
    for (const ValueId value : values) {
      GRAFT_TRY(check_no_counted_rows(graph, value));
      GRAFT_TRY_ASSIGN(const ValueId input, loss_input(graph, value, *terms[i], note));
      of.push_back(input);
    }
  }
  return inputs;
}

std::vector<ValueId> all_of(const LossInputs& inputs) {
  std::vector<ValueId> all;
  for (const auto& of : inputs) all.insert(all.end(), of.begin(), of.end());
  return all;
}

Result<LossNodes> add_loss(Graph& graph, const LossInputs& inputs, std::int64_t samples, const TrainOptions& options) {
  const auto terms = loss_terms(options);
  LossNodes loss;
  loss.targets.assign(terms.size(), kNoValue);
  loss.predictions.assign(terms.size(), kNoValue);
  loss.fields.resize(terms.size());
  loss.class_axes.assign(terms.size(), 0);
  loss.counts.resize(terms.size());
  GRAFT_TRY(add_sample_weights(graph, samples, options, loss));
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    TermBuilder t{b, *terms[i], {}, samples, i, loss};
    loss.fields[i] = terms[i]->target;
    if (const auto head =
            is_built(Op::linear_cross_entropy) && i == 0 ? find_head(graph, inputs[0][0], options) : std::nullopt) {
      GRAFT_TRY(add_head_loss(t, *head));
      return loss;
    }
    for (const ValueId value : inputs[i]) {
      GRAFT_TRY_ASSIGN(const ValueId ordered,
                       to_source_order(graph, value, SourcePerm(graph.value(value).source_perm)));
      t.of.push_back(ordered);
    }
    GRAFT_TRY_ASSIGN(const ValueId sum, term_sum(t, terms.size() > 1));
    loss.sum = i == 0 ? sum : b.add(loss.sum, sum);
    loss.predictions[i] = t.prediction.valid() ? t.prediction : t.of[0];
    if (i == 0 && options.metrics) count_correct(b, loss, *terms[0], t.of[0]);
  }
  GRAFT_TRY(b.status());
  return loss;
}

void add_loss_outputs(Graph& graph, const LossNodes& loss) {
  graph.add_output(std::string(kLossOutput), loss.sum);
  if (loss.correct.valid()) graph.add_output(std::string(kCorrectOutput), loss.correct);
  if (loss.margin.valid()) graph.add_output(std::string(kMarginOutput), loss.margin);
  if (loss.top5.valid()) graph.add_output(std::string(kTop5Output), loss.top5);
}

}  // namespace graft::train
