#include "runtime/train/optimizer.h"

#include <algorithm>
#include <cmath>

namespace graft::train {
namespace {

// squared_norm takes up to 255 inputs.
constexpr std::size_t kNormInputs = 255;

ValueId add_squared_norm(Builder& b, const std::vector<Update>& updates) {
  ValueId total = kNoValue;
  for (std::size_t first = 0; first < updates.size(); first += kNormInputs) {
    std::vector<ValueId> gradients;
    for (std::size_t i = first; i < std::min(first + kNormInputs, updates.size()); ++i) {
      gradients.push_back(updates[i].gradient);
    }
    const ValueId part = b.node(Op::squared_norm, std::move(gradients), {}, "squared_norm");
    total = total.valid() ? b.add(total, part) : part;
  }
  return total;
}

double weight_decay_of(const TrainOptions& options, std::uint32_t group) {
  if (group == 0) return options.optimizer.weight_decay;
  return options.groups[group - 1].weight_decay.value_or(options.optimizer.weight_decay);
}

Result<ValueId> state_value(Graph& graph, const std::string& name, const Shape& shape) {
  const ValueId found = graph.find_value(name);
  if (found.valid()) return found;
  return graph.add_value(name, DType::f32, shape, ValueKind::state);
}

Status add_step(Builder& b, const Update& update, ValueId factor, const TrainOptions& options) {
  Graph& graph = b.graph();
  const OptimizerOptions& o = options.optimizer;
  const std::string name = graph.value(update.parameter).name;
  const Shape shape = graph.value(update.parameter).shape;
  const std::uint32_t group = group_of(options, name);
  std::vector<ValueId> inputs = {update.parameter, update.gradient};
  for (const std::string& state : optimizer_state_names(o, name)) {
    GRAFT_TRY_ASSIGN(const ValueId value, state_value(graph, state, shape));
    inputs.push_back(value);
  }
  Attrs attrs;
  attrs.set("group", std::int64_t{group});
  attrs.set("weight_decay", weight_decay_of(options, group));
  if (o.kind == OptimizerKind::sgd) {
    inputs.resize(3, kNoValue);
    attrs.set("momentum", o.momentum);
    attrs.set("dampening", o.dampening);
    attrs.set("nesterov", std::int64_t{o.nesterov});
  } else {
    attrs.set("beta1", o.beta1);
    attrs.set("beta2", o.beta2);
    attrs.set("epsilon", o.epsilon);
    attrs.set("decoupled", std::int64_t{o.kind == OptimizerKind::adamw});
  }
  inputs.push_back(factor);
  while (!inputs.back().valid()) inputs.pop_back();
  b.nodes(o.kind == OptimizerKind::sgd ? Op::sgd_step : Op::adam_step, std::move(inputs), std::move(attrs), name);
  return b.status();
}

}  // namespace

std::uint32_t group_of(const TrainOptions& options, std::string_view parameter) {
  for (std::size_t i = 0; i < options.groups.size(); ++i) {
    if (matches(options.groups[i].pattern, parameter)) return static_cast<std::uint32_t>(i + 1);
  }
  return 0;
}

std::vector<std::string> optimizer_state_names(const OptimizerOptions& options, std::string_view parameter) {
  if (options.kind != OptimizerKind::sgd) return {cat(parameter, "/exp_avg"), cat(parameter, "/exp_avg_sq")};
  if (options.momentum != 0) return {cat(parameter, "/momentum_buffer")};
  return {};
}

Result<ValueId> add_updates(Graph& graph, std::vector<Update> updates, const TrainOptions& options) {
  Builder b(graph);
  b.set_scope("update/", kNoNode);
  if (options.clip_value > 0) {
    for (Update& update : updates) {
      update.gradient = b.node(Op::clip, {update.gradient}, {{"min", -options.clip_value}, {"max", options.clip_value}},
                               "clip_value");
    }
  }
  ValueId norm = kNoValue, factor = kNoValue;
  if (options.clip_norm > 0) {
    norm = add_squared_norm(b, updates);
    factor = b.node(Op::clip_factor, {norm}, {{"max_norm", options.clip_norm}}, "clip_factor");
  }
  GRAFT_TRY(b.status());
  for (const Update& update : updates) GRAFT_TRY(add_step(b, update, factor, options));
  return norm;
}

void set_step(const TrainOptions& options, std::uint64_t step, StepState& state) {
  const OptimizerOptions& o = options.optimizer;
  const double rate = o.learning_rate * learning_rate_factor(options.schedule, step);
  const auto t = static_cast<double>(step + 1);
  const bool adam = o.kind != OptimizerKind::sgd;
  const auto correction1 = static_cast<float>(adam ? 1 - std::pow(o.beta1, t) : 1.0);
  const auto correction2 = static_cast<float>(adam ? 1 - std::pow(o.beta2, t) : 1.0);
  for (std::size_t group = 0; group <= options.groups.size(); ++group) {
    const double scale = group == 0 ? 1.0 : options.groups[group - 1].learning_rate_scale;
    state.learning_rate[group] = static_cast<float>(rate * scale);
    state.bias_correction1[group] = correction1;
    state.bias_correction2[group] = correction2;
  }
  state.step = static_cast<std::uint32_t>(step);
}

}  // namespace graft::train
