#include "runtime/train/step/optimizer.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "platform/base/checked.h"
#include "runtime/core/features.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/train/step/composed_steps.h"
#include "shaders/adam8/codes.h"
#include "shaders/loss_scale/loss_scale_state.h"

namespace graft::train {
namespace {

// squared_norm takes up to 255 inputs.
constexpr std::size_t kNormInputs = 255;

/// squared_norm or overflow_count of all of them.
ValueId add_total(Builder& b, Op op, std::span<const ValueId> values) {
  ValueId total = kNoValue;
  for (std::size_t first = 0; first < values.size(); first += kNormInputs) {
    const auto some = values.subspan(first, std::min(kNormInputs, values.size() - first));
    const ValueId part = b.node(op, {some.begin(), some.end()}, {}, op_name(op));
    total = total.valid() ? b.add(total, part) : part;
  }
  return total;
}

/// The state that keeps w0 of the proximal term.
OptimizerState anchor_state(std::string_view parameter, const Shape& shape) {
  return {cat(parameter, kAnchor), DType::f32, shape};
}

OptimizerState ema_state(std::string_view parameter, const Shape& shape) {
  return {cat(parameter, kEma), DType::f32, shape};
}

Shape source_dims(const Shape& shape, const SourcePerm& perm) {
  std::vector<Dim> dims(shape.begin(), shape.end());
  for (std::size_t i = 0; i < perm.size() && perm.size() == dims.size(); ++i) dims[perm[i]] = shape[i];
  return Shape(std::move(dims));
}

ValueId add_total(Builder& b, Op op, const std::vector<Update>& updates) {
  std::vector<ValueId> gradients;
  gradients.reserve(updates.size());
  for (const Update& update : updates) gradients.push_back(update.gradient);
  return add_total(b, op, gradients);
}

Result<ValueId> scale_state(Graph& graph) {
  const ValueId found = graph.find_value(kLossScaleState);
  if (found.valid()) return found;
  return graph.add_value(std::string(kLossScaleState), DType::f32, Shape::of({kLossScaleFields}), ValueKind::state);
}

void clip_values(Builder& b, std::vector<Update>& updates, const TrainOptions& options, ValueId inverse) {
  for (Update& update : updates) {
    if (inverse.valid()) update.gradient = b.mul(update.gradient, inverse);
    update.gradient =
        b.node(Op::clip, {update.gradient}, {{"min", -options.clip_value}, {"max", options.clip_value}}, "clip_value");
  }
}

/// Clipping, and a step only where neither the loss nor a gradient overflowed; the control of the optimizer's kernels,
/// and the squared norm.
Result<std::vector<ValueId>> add_scaled(Builder& b, std::vector<Update>& updates, ValueId loss,
                                        const LossScaling& scaling, const TrainOptions& options) {
  Graph& graph = b.graph();
  GRAFT_TRY_ASSIGN(const ValueId state, scale_state(graph));
  std::vector<ValueId> inputs = {state, add_total(b, Op::overflow_count, updates)};
  if (options.clip_value > 0) {
    const ValueId one = b.full({}, 1);
    const auto scale = b.nodes(Op::loss_scale, {one, state}, {{"initial", scaling.initial}}, "loss_scale");
    GRAFT_TRY(b.status());
    clip_values(b, updates, options, scale[1]);
  }
  inputs.push_back(options.clip_norm > 0 ? add_total(b, Op::squared_norm, updates) : kNoValue);
  inputs.push_back(loss);
  const OptimizerOptions& o = options.optimizer;
  Attrs attrs;
  attrs.set("initial", scaling.initial);
  attrs.set("growth_factor", scaling.growth_factor);
  attrs.set("backoff_factor", scaling.backoff_factor);
  attrs.set("interval", static_cast<double>(scaling.growth_interval));
  attrs.set("max_norm", options.clip_norm);
  attrs.set("unscaled", std::int64_t{options.clip_value > 0});
  if (corrects_bias(o.kind)) {
    attrs.set("corrections", std::int64_t{kAdamCorrections});
    attrs.set("beta1", o.beta1);
    attrs.set("beta2", o.beta2);
  } else if (o.kind == OptimizerKind::adafactor) {
    attrs.set("corrections", std::int64_t{kAdafactorCorrections});
    attrs.set("beta2_decay", o.beta2_decay);
  } else if (o.kind == OptimizerKind::adagrad) {
    attrs.set("corrections", std::int64_t{kStepCount});
  }
  auto control = b.nodes(Op::loss_scale_step, std::move(inputs), std::move(attrs), "loss_scale_step");
  GRAFT_TRY(b.status());
  graph.add_output(std::string(kLossScaleState), state);
  return control;
}

/// Clipping without loss scaling: the factor of the gradients, which is NaN where the loss or a gradient is not finite;
/// then nothing is changed. The norm tells; without it elements are counted, before clipping by value hides them.
ValueId add_guarded(Builder& b, std::vector<Update>& updates, ValueId loss, const TrainOptions& options,
                    ValueId& norm) {
  const bool by_norm = options.clip_norm > 0;
  ValueId total = by_norm && options.clip_value == 0 ? kNoValue : add_total(b, Op::overflow_count, updates);
  ValueId seen = loss;
  if (by_norm && total.valid()) {
    // Both are needed: what the count says takes the place of the loss.
    seen = b.node(Op::clip_factor, {total, loss}, {}, "finite");
  }
  if (options.clip_value > 0) clip_values(b, updates, options, kNoValue);
  if (by_norm) total = norm = add_total(b, Op::squared_norm, updates);
  const ValueId factor =
      b.node(Op::clip_factor, {total, seen}, {{"max_norm", options.clip_norm}}, by_norm ? "clip_factor" : "finite");
  b.graph().add_output(std::string(kUpdateFactorOutput), factor);
  return factor;
}

double weight_decay_of(const TrainOptions& options, std::uint32_t group) {
  if (group == 0) return options.optimizer.weight_decay;
  return options.groups[group - 1].weight_decay.value_or(options.optimizer.weight_decay);
}

Result<ValueId> state_value(Graph& graph, const OptimizerState& state) {
  const ValueId found = graph.find_value(state.name);
  if (found.valid()) return found;
  return graph.add_value(state.name, state.dtype, state.shape, ValueKind::state);
}

/// Gradients with mu (w - w0) added.
Status add_proximal(Builder& b, std::vector<Update>& updates, double mu) {
  if (mu == 0) return ok_status();
  for (Update& update : updates) {
    const Value& parameter = b.graph().value(update.parameter);
    GRAFT_TRY_ASSIGN(const ValueId anchor, state_value(b.graph(), anchor_state(parameter.name, parameter.shape)));
    update.gradient = b.add(update.gradient, b.scale(b.sub(update.parameter, anchor), mu));
  }
  return b.status();
}

bool uses_8_bits(const OptimizerOptions& options, const Shape& shape) {
  return kHasOptimizers && options.kind == OptimizerKind::adamw8bit && shape.elements() >= kMinElementsOf8Bit;
}

/// Before the step moves the parameters.
Status add_ema(Builder& b, const std::vector<Update>& updates, const std::vector<ValueId>& factors, double ema) {
  for (std::size_t i = 0; i < updates.size() && ema > 0; ++i) {
    const Value& parameter = b.graph().value(updates[i].parameter);
    GRAFT_TRY_ASSIGN(const ValueId mean, state_value(b.graph(), ema_state(parameter.name, Shape(parameter.shape))));
    std::vector<ValueId> inputs = {mean, updates[i].parameter, factors[std::min(i, factors.size() - 1)]};
    b.nodes(Op::moment_update, std::move(inputs), {{"weight", 1 - ema}, {"lerp", std::int64_t{1}}}, "ema");
  }
  return b.status();
}

std::vector<OptimizerState> moments(const OptimizerOptions& options, std::string_view parameter, const Shape& shape,
                                    const SourcePerm& source_perm) {
  if (uses_8_bits(options, shape)) {
    const auto words = static_cast<std::int64_t>(ceil_div<std::uint64_t>(shape.elements(), 4));
    const auto blocks = static_cast<std::int64_t>(ceil_div(shape.elements(), codes::kCodeBlock));
    std::vector<OptimizerState> states;
    for (const std::string_view moment : {"exp_avg", "exp_avg_sq"}) {
      states.push_back({cat(parameter, '/', moment, "_codes"), DType::i32, Shape::of({words})});
      states.push_back({cat(parameter, '/', moment, "_scales"), DType::f32, Shape::of({blocks})});
    }
    return states;
  }
  const auto like = [&](std::string_view name) { return OptimizerState{cat(parameter, '/', name), DType::f32, shape}; };
  if constexpr (!kHasOptimizers) {
    if (options.kind != OptimizerKind::sgd) return {like("exp_avg"), like("exp_avg_sq")};
    if (options.momentum == 0) return {};
    return {like("momentum_buffer")};
  }
  switch (options.kind) {
    case OptimizerKind::sgd:
      if (options.momentum != 0) return {like("momentum_buffer")};
      return {};
    case OptimizerKind::lion: return {like("exp_avg")};
    case OptimizerKind::adagrad: return {like("sum")};
    case OptimizerKind::rmsprop: {
      std::vector<OptimizerState> states = {like("square_avg")};
      if (options.momentum != 0) states.push_back(like("momentum_buffer"));
      if (options.centered) states.push_back(like("grad_avg"));
      return states;
    }
    case OptimizerKind::adafactor: {
      std::vector<OptimizerState> states;
      for (auto& [name, dims] : adafactor_state(source_dims(shape, source_perm))) {
        states.push_back({cat(parameter, '/', name), DType::f32, std::move(dims)});
      }
      return states;
    }
    case OptimizerKind::muon:
      if (is_orthogonal(options, parameter, shape)) return {like("momentum_buffer")};
      return {like("exp_avg"), like("exp_avg_sq")};
    default: return {like("exp_avg"), like("exp_avg_sq")};
  }
}

/// Each parameter has a verdict of its own, so that none waits for another's gradient.
std::vector<ValueId> add_separate_guards(Builder& b, std::vector<Update>& updates, ValueId loss,
                                         const TrainOptions& options) {
  std::vector<ValueId> factors;
  for (const Update& update : updates) {
    const ValueId count = b.node(Op::overflow_count, {update.gradient}, {}, op_name(Op::overflow_count));
    factors.push_back(b.node(Op::clip_factor, {count, loss}, {}, "finite"));
  }
  if (options.clip_value > 0) clip_values(b, updates, options, kNoValue);
  const ValueId refused = add_total(b, Op::overflow_count, factors);
  b.graph().add_output(std::string(kSeparateFactorsOutput), b.node(Op::clip_factor, {refused, loss}, {}, "finite"));
  return factors;
}

/// The step of an optimizer that is one op.
void set_step_inputs(const OptimizerOptions& o, const std::vector<ValueId>& state, std::vector<ValueId>& inputs,
                     Attrs& attrs) {
  std::size_t next = 0;
  const auto take = [&](bool given) { inputs.push_back(given ? state[next++] : kNoValue); };
  const auto take_all = [&] { inputs.insert(inputs.end(), state.begin(), state.end()); };
  switch (o.kind) {
    case OptimizerKind::sgd:
      take(o.momentum != 0);
      attrs.set("momentum", o.momentum);
      attrs.set("dampening", o.dampening);
      attrs.set("nesterov", std::int64_t{o.nesterov});
      return;
    case OptimizerKind::rmsprop:
      take(true);
      take(o.momentum != 0);
      take(o.centered);
      attrs.set("alpha", o.alpha);
      attrs.set("epsilon", o.epsilon);
      attrs.set("momentum", o.momentum);
      return;
    case OptimizerKind::adagrad:
      take_all();
      attrs.set("lr_decay", o.lr_decay);
      attrs.set("initial", o.initial_accumulator_value);
      attrs.set("epsilon", o.epsilon);
      return;
    case OptimizerKind::lion:
      take_all();
      attrs.set("beta1", o.beta1);
      attrs.set("beta2", o.beta2);
      return;
    default:
      take_all();
      attrs.set("beta1", o.beta1);
      attrs.set("beta2", o.beta2);
      attrs.set("epsilon", o.epsilon);
      attrs.set("decoupled", std::int64_t{o.kind != OptimizerKind::adam});
  }
}

Op step_op(const OptimizerOptions& o, const Shape& shape) {
  if constexpr (!kHasOptimizers) return o.kind == OptimizerKind::sgd ? Op::sgd_step : Op::adam_step;
  switch (o.kind) {
    case OptimizerKind::sgd: return Op::sgd_step;
    case OptimizerKind::lion: return Op::lion_step;
    case OptimizerKind::rmsprop: return Op::rmsprop_step;
    case OptimizerKind::adagrad: return Op::adagrad_step;
    default: return uses_8_bits(o, shape) ? Op::adam8_step : Op::adam_step;
  }
}

Status add_step(Builder& b, const Update& update, ValueId factor, const TrainOptions& options) {
  Graph& graph = b.graph();
  const OptimizerOptions& o = options.optimizer;
  const std::string name = graph.value(update.parameter).name;
  const Shape shape = graph.value(update.parameter).shape;
  const std::uint32_t group = group_of(options, name);
  std::vector<ValueId> states;
  for (const OptimizerState& state : moments(o, name, shape, update.source_perm)) {
    GRAFT_TRY_ASSIGN(const ValueId value, state_value(graph, state));
    states.push_back(value);
  }
  Attrs attrs;
  attrs.set("group", std::int64_t{group});
  attrs.set("weight_decay", weight_decay_of(options, group));
  if (update.rate_scale != 1) attrs.set("rate_scale", update.rate_scale);
  if (const bool orthogonal = kHasOptimizers && is_orthogonal(o, name, shape);
      kHasOptimizers && (orthogonal || o.kind == OptimizerKind::lamb || o.kind == OptimizerKind::adafactor)) {
    ComposedStep step{b, o, update, std::move(states), factor, std::move(attrs)};
    return orthogonal ? add_muon(step) : o.kind == OptimizerKind::lamb ? add_lamb(step) : add_adafactor(step);
  }
  std::vector<ValueId> inputs = {update.parameter, update.gradient};
  set_step_inputs(o, states, inputs, attrs);
  inputs.push_back(factor);
  while (!inputs.back().valid()) inputs.pop_back();
  b.nodes(step_op(o, shape), std::move(inputs), std::move(attrs), name);
  return b.status();
}

}  // namespace

std::uint32_t group_of(const TrainOptions& options, std::string_view parameter) {
  for (std::size_t i = 0; i < options.groups.size(); ++i) {
    if (matches(options.groups[i].pattern, parameter)) return static_cast<std::uint32_t>(i + 1);
  }
  return 0;
}

std::vector<OptimizerState> optimizer_state(const OptimizerOptions& options, std::string_view parameter,
                                            const Shape& shape, const SourcePerm& source_perm) {
  std::vector<OptimizerState> states = moments(options, parameter, shape, source_perm);
  if (kHasOptimizers && options.proximal > 0) states.push_back(anchor_state(parameter, shape));
  if (kHasOptimizers && options.ema > 0) states.push_back(ema_state(parameter, shape));
  return states;
}

Result<ValueId> add_updates(Graph& graph, std::vector<Update> updates, ValueId loss, const TrainOptions& options) {
  Builder b(graph);
  b.set_scope("update/", kNoNode);
  if constexpr (kHasOptimizers) GRAFT_TRY(add_proximal(b, updates, options.optimizer.proximal));
  ValueId norm = kNoValue;
  std::vector<ValueId> factors;  // one for each update, or one for all
  if (const auto scaling = loss_scaling_of(options); kHasHalves && scaling) {
    GRAFT_TRY_ASSIGN(const auto control, add_scaled(b, updates, loss, *scaling, options));
    factors = {control[0]};
    if (options.clip_norm > 0) norm = control[1];
  } else if (options.optimizer_in_backward) {
    factors = add_separate_guards(b, updates, loss, options);
  } else {
    factors = {add_guarded(b, updates, loss, options, norm)};
  }
  GRAFT_TRY(b.status());
  if constexpr (kHasOptimizers) GRAFT_TRY(add_ema(b, updates, factors, options.optimizer.ema));
  for (std::size_t i = 0; i < updates.size(); ++i) {
    if (!updates[i].steps) continue;
    GRAFT_TRY(add_step(b, updates[i], factors[std::min(i, factors.size() - 1)], options));
  }
  return norm;
}

Result<ValueId> add_loss_scale(Graph& graph, ValueId weight, const TrainOptions& options) {
  const auto scaling = loss_scaling_of(options);
  if (!kHasHalves || !scaling) return weight;
  GRAFT_TRY_ASSIGN(const ValueId state, scale_state(graph));
  Builder b(graph);
  b.set_scope("loss/", kNoNode);
  const ValueId scaled = b.node(Op::loss_scale, {weight, state}, {{"initial", scaling->initial}}, "scale");
  GRAFT_TRY(b.status());
  return scaled;
}

void set_step(const TrainOptions& options, std::uint64_t step, StepState& state) {
  const OptimizerOptions& o = options.optimizer;
  const double rate = o.learning_rate * learning_rate_factor(options.schedule, step);
  const auto t = static_cast<double>(step + 1);
  const bool adam = corrects_bias(o.kind);
  auto correction1 = static_cast<float>(adam ? 1 - std::pow(o.beta1, t) : 1.0);
  auto correction2 = static_cast<float>(adam ? 1 - std::pow(o.beta2, t) : 1.0);
  if (o.kind == OptimizerKind::adafactor) {  // the weight of this step's squares, and the most of a relative step
    correction1 = static_cast<float>(std::pow(t, o.beta2_decay));
    correction2 = static_cast<float>(1 / std::sqrt(t));
  }
  for (std::size_t group = 0; group <= options.groups.size(); ++group) {
    const double scale = group == 0 ? 1.0 : options.groups[group - 1].learning_rate_scale;
    state.learning_rate[group] = static_cast<float>(rate * scale);
    state.bias_correction1[group] = correction1;
    state.bias_correction2[group] = correction2;
  }
  state.step = static_cast<std::uint32_t>(step);
}

}  // namespace graft::train
