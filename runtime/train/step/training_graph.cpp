#include "runtime/core/features.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/passes/bind.h"
#include "runtime/train/step/training_graph.h"

#include <algorithm>

#include "runtime/autodiff/autodiff.h"
#include "runtime/core/source_order.h"
#include "runtime/passes/pipeline.h"
#include "runtime/passes/train_mode.h"
#include "runtime/train/step/layer_rates.h"
#include "runtime/train/step/optimizer.h"

namespace graft::train {
namespace {

Result<ValueId> loss_sum_state(Graph& graph) {
  return graph.add_value(std::string(kLossSumState), DType::f32, {}, ValueKind::state);
}

Status add_backward(TrainingGraph& out, const TrainOptions& options, bool accumulate) {
  Graph& graph = out.graph;
  const std::vector<bool> leads = differentiable(graph, {{out.loss.sum, kNoValue}});
  std::vector<ValueId> parameters, blocked;
  for (const ValueId id : graph.of_kind(ValueKind::parameter)) {
    const bool is_f32 = graph.value(id).dtype == DType::f32;
    if (is_f32) (leads[id.index] ? parameters : blocked).push_back(id);
    if (!is_f32 || !leads[id.index]) out.untrained.push_back(graph.value(id).name);
  }
  if (parameters.empty()) std::swap(parameters, blocked);  // the gradient's error says what stands in the way
  for (std::size_t i = 0; i < blocked.size(); ++i) {
    if (i == 0) {
      out.note +=
          cat(out.note.empty() ? "" : " ", "Not trained, for all ways to the loss lead through what has no gradient: ");
    }
    out.note += cat(i > 0 ? ", \"" : "\"", graph.value(blocked[i]).name, i + 1 < blocked.size() ? "\"" : "\".");
  }
  if (parameters.empty())
    return invalid("There is nothing to train: the loss depends on no parameter that is not frozen.");
  std::map<std::string, double, std::less<>> rates;
  if (kHasOptimizers && options.layer_decay != 1) rates = layer_rates(graph, options.layer_decay);
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  const ValueId mean = b.node(Op::step_scalar, {}, {{"field", std::string("loss_weight")}}, "weight");
  GRAFT_TRY(b.status());
  GRAFT_TRY_ASSIGN(const ValueId weight, add_loss_scale(graph, mean, options));
  GRAFT_TRY_ASSIGN(const std::vector<ValueId> gradients, add_gradients(graph, {{out.loss.sum, weight}}, parameters));

  std::vector<Update> updates;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const std::string name = graph.value(parameters[i]).name;
    TrainedTensor tensor{.name = name, .group = group_of(options, name)};
    tensor.source_perm = graph.value(parameters[i]).source_perm;
    if (const auto rate = rates.find(name); rate != rates.end()) tensor.rate_scale = rate->second;
    for (auto& state : optimizer_state(options.optimizer, name, graph.value(parameters[i]).shape, tensor.source_perm)) {
      tensor.optimizer_state.push_back(std::move(state.name));
    }
    if (accumulate) {
      tensor.accumulator = name + "/gradient";
      GRAFT_TRY_ASSIGN(const ValueId sum, graph.add_value(tensor.accumulator, DType::f32,
                                                          graph.value(parameters[i]).shape, ValueKind::state));
      GRAFT_TRY(graph.add_node(Op::accumulate, {sum, gradients[i]}, {}, "accumulate/" + name));
    }
    updates.push_back({parameters[i], gradients[i], tensor.rate_scale, tensor.source_perm});
    out.tensors.push_back(std::move(tensor));
  }
  if (accumulate && loss_scaling_of(options)) {
    GRAFT_TRY_ASSIGN(const ValueId sum, loss_sum_state(graph));
    GRAFT_TRY(graph.add_node(Op::accumulate, {sum, out.loss.sum}, {}, cat("accumulate/", kLossSumState)));
  }
  if (accumulate) return {};
  GRAFT_TRY_ASSIGN(const ValueId norm, add_updates(graph, std::move(updates), out.loss.sum, options));
  if (norm.valid()) graph.add_output(std::string(kSquaredNormOutput), norm);
  return {};
}

bool any_matches(const std::vector<std::string>& patterns, std::string_view name) {
  return std::any_of(patterns.begin(), patterns.end(), [&](const std::string& p) { return matches(p, name); });
}

/// A misspelt name must not pass for a choice: every pattern stands for some parameter, every binding for a symbol.
Status check_names(const Graph& model, const TrainOptions& options) {
  std::vector<std::string> patterns = options.freeze;
  const auto& adamw = options.optimizer.adamw_parameters;
  if (options.optimizer.kind == OptimizerKind::muon) patterns.insert(patterns.end(), adamw.begin(), adamw.end());
  for (const ParameterGroup& group : options.groups) patterns.push_back(group.pattern);
  const auto parameters = model.of_kind(ValueKind::parameter);
  for (const std::string& pattern : patterns) {
    const bool used = std::any_of(parameters.begin(), parameters.end(),
                                  [&](ValueId id) { return matches(pattern, model.value(id).name); });
    if (!used) return invalid("No parameter of the model matches \"", pattern, "\".");
  }
  const auto symbols = model.symbols();
  for (const auto& [name, size] : options.bindings) {
    if (std::find(symbols.begin(), symbols.end(), name) != symbols.end()) continue;
    return invalid("The model has no dimension named \"", name, "\".");
  }
  return {};
}

Status add_fetched(Graph& graph, const Graph& bound, const std::vector<ValueId>& values, const TrainOptions& options) {
  for (const std::string& name : options.fetch) {
    GRAFT_TRY_ASSIGN(const ValueId id, bound.resolve(name));
    const ValueId value = values[id.index];
    if (!value.valid()) return invalid("\"", name, "\" cannot be fetched: training does not compute it.");
    GRAFT_TRY_ASSIGN(const ValueId ordered, to_source_order(graph, value, SourcePerm(graph.value(value).source_perm)));
    graph.add_output(cat(kFetchPrefix, name), ordered);
  }
  return {};
}

/// The training graph's own update of running statistics stays: they are brought back once the slots are done.
void give_out_statistics(TrainingGraph& out) {
  for (const Node& node : std::vector<Node>(out.graph.nodes())) {
    if (node.op != Op::batch_norm_update) continue;
    const auto name = [&](std::size_t input) { return out.graph.value(node.inputs[input]).name; };
    SlotStatistic statistic{name(0), name(1), cat(kSlotPrefix, name(0)), cat(kSlotPrefix, name(1)), node.attrs};
    out.graph.add_output(statistic.mean, node.inputs[2]);
    out.graph.add_output(statistic.var, node.inputs[3]);
    out.statistics.push_back(std::move(statistic));
  }
}

/// The same graph with the running means of parameters in their place, moved once more as Trainer::read_ema() does.
Result<Graph> with_ema(const Graph& graph, LossNodes& loss, const Residents& trained, double ema) {
  Graph out;
  std::vector<ValueId> values(graph.values().size(), kNoValue);
  Builder b(out);
  b.set_scope("ema/", kNoNode);
  for (std::uint32_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (value.kind == ValueKind::temporary) continue;
    GRAFT_TRY_ASSIGN(values[i], out.add_value_like(value));
    const Resident* const mean = trained.find(cat(value.name, kEma));
    if (mean == nullptr || value.kind != ValueKind::parameter) continue;
    GRAFT_TRY_ASSIGN(const ValueId past, out.add_value(mean->name, DType::f32, Shape(value.shape), ValueKind::state));
    values[i] = b.add(past, b.scale(b.sub(values[i], past), 1 - ema));
    GRAFT_TRY(b.status());
    out.mutable_value(values[i]).source_perm = value.source_perm;
  }
  for (const Node& node : graph.nodes()) {
    std::vector<ValueId> inputs;
    std::vector<std::string> names;
    for (const ValueId input : node.inputs) inputs.push_back(input.valid() ? values[input.index] : kNoValue);
    for (const ValueId output : node.outputs) names.push_back(graph.value(output).name);
    GRAFT_TRY_ASSIGN(const NodeId id, out.add_node(node.op, std::move(inputs), node.attrs, node.name, names));
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      values[node.outputs[i].index] = out.node(id).outputs[i];
      out.mutable_value(out.node(id).outputs[i]).source_perm = graph.value(node.outputs[i]).source_perm;
    }
  }
  for (const Output& output : graph.outputs()) out.add_output(output.name, values[output.value.index]);
  loss.follow([&](ValueId id) { return values[id.index]; });
  return out;
}

/// The model bound, with its inputs as samples give them.
Result<Graph> bind_inputs(const Graph& model, std::int64_t samples, const TrainOptions& options) {
  GRAFT_TRY_ASSIGN(Graph bound, bind_batch(model, samples, options.bindings));
  if (options.inputs.empty()) return bound;
  for (const passes::PackedInput& input : options.inputs) {
    if (std::ranges::find(options.fetch, input.name) == options.fetch.end()) continue;
    return invalid("The input \"", input.name, "\" is given in a format of its own, and cannot be fetched.");
  }
  return passes::pack_inputs(bound, options.inputs);
}

/// Runs the passes over a forward graph with its loss.
Status prepare(Graph& graph, LossNodes& loss, bool inference) {
  GRAFT_TRY_ASSIGN(passes::Prepared prepared, passes::prepare(graph, {}, {.inference = inference}));
  graph = std::move(prepared.graph);
  loss.follow([&](ValueId id) { return prepared.values[id.index]; });
  return {};
}

}  // namespace

Result<std::string> batch_symbol(const Graph& model) {
  std::string symbol;
  for (const ValueId id : model.inputs()) {
    const Value& input = model.value(id);
    if (input.shape.rank() == 0 || input.shape[0].is_constant()) continue;
    const Dim& dim = input.shape[0];
    if (!dim.is_symbol() || (!symbol.empty() && symbol != dim.symbols())) {
      return unsupported("The batch axis of the model's input \"", input.name, "\" is ", dim.text(),
                         "; all inputs must begin with one and the same symbol.");
    }
    symbol = dim.symbols();
  }
  return symbol;
}

std::optional<std::size_t> batch_axis(const Value& input, std::string_view symbol) {
  const Shape shape = source_shape(input);
  if (shape.rank() == 0) return std::nullopt;
  if (symbol.empty()) return 0;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    if (std::ranges::count(shape[axis].names(), symbol) > 0) return axis;
  }
  return std::nullopt;
}

Result<Graph> bind_batch(const Graph& model, std::int64_t samples, const Bindings& bindings) {
  GRAFT_TRY_ASSIGN(const std::string symbol, batch_symbol(model));
  Bindings all = bindings;
  if (!symbol.empty()) {
    all.insert_or_assign(symbol, samples);
  } else if (!model.inputs().empty()) {
    const Value& input = model.value(model.inputs().front());
    if (input.shape.rank() == 0 || input.shape[0] != Dim(samples)) {
      return invalid("The model's input \"", input.name, "\" has the shape ", input.shape.text(),
                     ", which fixes its batch, but ", samples,
                     " samples are to run at once. Convert the model with a named batch axis, or take its batch size.");
    }
  }
  return graft::bind(model, all);
}

Result<TrainingGraph> build_training_graph(const Graph& model, std::int64_t samples, const TrainOptions& options,
                                           GradientUse use) {
  TrainingGraph out;
  GRAFT_TRY(check_names(model, options));
  GRAFT_TRY_ASSIGN(const Graph bound, bind_inputs(model, samples, options));
  GRAFT_TRY_ASSIGN(LossInputs targets, loss_inputs(bound, options, &out.note));
  const passes::TrainModeOptions mode{options.freeze, options.batch_statistics, options.batch_norm_momentum,
                                      options.neftune_alpha};
  GRAFT_TRY_ASSIGN(passes::TrainModeGraph forward, passes::to_train_mode(bound, all_of(targets), mode));
  for (const ValueId id : bound.of_kind(ValueKind::parameter)) {
    const bool left_out = !forward.values[id.index].valid() && !any_matches(options.freeze, bound.value(id).name);
    if (left_out) out.untrained.push_back(bound.value(id).name);
  }
  out.graph = std::move(forward.graph);
  for (auto& of : targets) {
    for (ValueId& id : of) id = forward.values[id.index];
  }
  TrainOptions alone = options;
  alone.predictions = false;
  GRAFT_TRY_ASSIGN(out.loss, add_loss(out.graph, targets, samples, alone));
  if (!out.loss.note.empty()) out.note += cat(out.note.empty() ? "" : " ", out.loss.note, ".");
  add_loss_outputs(out.graph, out.loss);
  GRAFT_TRY(add_fetched(out.graph, bound, forward.values, options));
  if (kHasGroups && use == GradientUse::slot) give_out_statistics(out);
  GRAFT_TRY(prepare(out.graph, out.loss, false));
  out.rules = passes::input_rules(out.graph);
  out.packed = passes::packed_shapes(out.graph);
  GRAFT_TRY(add_backward(out, options, use != GradientUse::step));
  GRAFT_TRY_ASSIGN(out.precision,
                   passes::store_results(out.graph, options.precision, passes::low_precision_weights(model),
                                         passes::Parameters::trained));
  return out;
}

Result<Graph> build_update_graph(const TrainingGraph& accumulating, const TrainOptions& options,
                                 std::optional<std::uint32_t> owner) {
  Graph graph;
  std::vector<Update> updates;
  for (const TrainedTensor& tensor : accumulating.tensors) {
    const Value& parameter = accumulating.graph.value(accumulating.graph.find_value(tensor.name));
    Update update{kNoValue, kNoValue, tensor.rate_scale, tensor.source_perm, !owner || tensor.owner == *owner};
    GRAFT_TRY_ASSIGN(update.parameter, graph.add_value(tensor.name, DType::f32, parameter.shape, ValueKind::parameter));
    GRAFT_TRY_ASSIGN(update.gradient,
                     graph.add_value(tensor.accumulator, DType::f32, parameter.shape, ValueKind::state));
    updates.push_back(update);
  }
  std::vector<ValueId> accumulators;
  accumulators.reserve(updates.size() + 1);
  for (const Update& update : updates) accumulators.push_back(update.gradient);
  ValueId loss = kNoValue;
  if (loss_scaling_of(options)) {
    GRAFT_TRY_ASSIGN(loss, loss_sum_state(graph));
    accumulators.push_back(loss);
  } else {
    Builder b(graph);
    b.set_scope("update/", kNoNode);
    loss = b.node(Op::step_scalar, {}, {{"field", std::string("loss_weight")}}, "weight");
    GRAFT_TRY(b.status());
  }
  TrainOptions together = options;
  together.optimizer_in_backward = false;  // all gradients are there: one verdict
  GRAFT_TRY_ASSIGN(const ValueId norm, add_updates(graph, updates, loss, together));
  for (const ValueId accumulator : accumulators) {
    const std::string name = graph.value(accumulator).name;
    GRAFT_TRY(graph.add_node(Op::zero_state, {accumulator}, {}, "zero/" + name));
  }
  if (norm.valid()) graph.add_output(std::string(kSquaredNormOutput), norm);
  return graph;
}

Result<Graph> build_statistics_graph(const TrainingGraph& slot) {
  Graph graph;
  for (const SlotStatistic& statistic : slot.statistics) {
    const Value& like = slot.graph.value(slot.graph.find_value(statistic.running_mean));
    const auto add = [&](const std::string& name, ValueKind kind) {
      return graph.add_value(name, DType::f32, like.shape, kind);
    };
    GRAFT_TRY_ASSIGN(const ValueId running_mean, add(statistic.running_mean, ValueKind::state));
    GRAFT_TRY_ASSIGN(const ValueId running_var, add(statistic.running_var, ValueKind::state));
    GRAFT_TRY_ASSIGN(const ValueId mean, add(statistic.mean, ValueKind::input));
    GRAFT_TRY_ASSIGN(const ValueId var, add(statistic.var, ValueKind::input));
    GRAFT_TRY(graph.add_node(Op::batch_norm_update, {running_mean, running_var, mean, var}, statistic.attrs,
                             cat("move/", statistic.running_mean)));
  }
  return graph;
}

Status add_hash(Graph& graph, const Residents& residents) {
  constexpr std::size_t kMaxInputs = 255;  // of state_hash
  std::vector<ValueId> inputs;
  const auto hash_inputs = [&]() -> Status {
    GRAFT_TRY_ASSIGN(const NodeId node, graph.add_node(Op::state_hash, inputs, {}, cat("hash", graph.nodes().size())));
    inputs = {graph.node(node).outputs[0]};  // the next one covers this one's
    return {};
  };
  for (const Resident& resident : residents.entries()) {
    // Tensors of elements of other sizes are not trained.
    const bool left_out = resident.kind == ValueKind::constant || resident.memory_class != MemoryClass::parameters ||
                          dtype_size(resident.stored) != 4;
    if (left_out) continue;
    if (inputs.size() == kMaxInputs) GRAFT_TRY(hash_inputs());
    ValueId value = graph.find_value(resident.name);
    if (!value.valid()) {
      GRAFT_TRY_ASSIGN(value, graph.add_value(resident.name, resident.dtype, resident.shape, resident.kind));
    }
    inputs.push_back(value);
  }
  GRAFT_TRY(hash_inputs());
  graph.add_output(std::string(kHashOutput), inputs.front());
  return ok_status();
}

Result<EvaluationGraph> build_evaluation_graph(const Graph& model, std::int64_t samples, const TrainOptions& options,
                                               const Residents* trained) {
  EvaluationGraph out;
  GRAFT_TRY_ASSIGN(out.graph, bind_inputs(model, samples, options));
  GRAFT_TRY_ASSIGN(const LossInputs targets, loss_inputs(out.graph, options, nullptr));
  out.graph.clear_outputs();
  GRAFT_TRY_ASSIGN(out.loss, add_loss(out.graph, targets, samples, options));
  add_loss_outputs(out.graph, out.loss);
  for (std::size_t i = 0; options.predictions && i < out.loss.predictions.size(); ++i) {
    out.graph.add_output(cat(kPredictionPrefix, i), out.loss.predictions[i]);
  }
  if (kHasOptimizers && options.optimizer.ema > 0 && trained != nullptr) {
    GRAFT_TRY_ASSIGN(out.graph, with_ema(out.graph, out.loss, *trained, options.optimizer.ema));
  }
  GRAFT_TRY(prepare(out.graph, out.loss, true));
  out.rules = passes::input_rules(out.graph);
  out.packed = passes::packed_shapes(out.graph);
  passes::WeightNames weights = passes::low_precision_weights(model);
  for (const Value& value : out.graph.values()) {
    const Resident* const resident = trained != nullptr ? trained->find(value.name) : nullptr;
    const bool parameter = trained != nullptr && value.kind == ValueKind::parameter;
    if (resident != nullptr ? !resident->low_precision() : parameter) weights.erase(value.name);
  }
  GRAFT_TRY(passes::store_results(out.graph, options.precision, weights, passes::Parameters::frozen));
  return out;
}

}  // namespace graft::train
