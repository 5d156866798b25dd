#include "runtime/train/step/composed_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "platform/base/text.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"
#include "runtime/core/source_order.h"

namespace graft::train {
namespace {

/// One number of the control of loss scaling.
ValueId control_field(Builder& b, ValueId control, std::int64_t field) {
  const ValueId part =
      b.node(Op::slice, {control}, {{"starts", Ints{field}}, {"ends", Ints{field + 1}}, {"steps", Ints{1}}});
  return b.reshape(part, {});
}

/// The gradient times its factor.
ValueId scaled_gradient(ComposedStep& s) {
  if (!s.factor.valid()) return s.update.gradient;
  const bool control = s.b.shape(s.factor).rank() > 0;
  return s.b.mul(s.update.gradient, control ? control_field(s.b, s.factor, 0) : s.factor);
}

ValueId moment(ComposedStep& s, ValueId state, ValueId x, Attrs attrs) {
  attrs.set("group", s.attrs.integer("group"));
  std::vector<ValueId> inputs = {state, x};
  if (s.factor.valid()) inputs.push_back(s.factor);
  return s.b.node(Op::moment_update, std::move(inputs), std::move(attrs));
}

ValueId step_number(ComposedStep& s, const char* field) {
  return s.b.node(Op::step_scalar, {}, {{"field", std::string(field)}, {"index", s.attrs.integer("group")}});
}

/// A correction of the step state, or of the control of loss scaling: then of the steps that were taken.
ValueId correction(ComposedStep& s, int which) {
  const bool control = s.factor.valid() && s.b.shape(s.factor).rank() > 0;
  if (control) return control_field(s.b, s.factor, which);
  return step_number(s, which == 1 ? "bias_correction1" : "bias_correction2");
}

Status apply(ComposedStep& s, ValueId direction, ValueId scale) {
  std::vector<ValueId> inputs = {s.update.parameter, direction, s.factor, scale};
  while (!inputs.back().valid()) inputs.pop_back();
  s.b.nodes(Op::apply_update, std::move(inputs), s.attrs, s.b.graph().value(s.update.parameter).name);
  return s.b.status();
}

ValueId norm_of(Builder& b, ValueId x) { return b.node(Op::squared_norm, {x}); }

/// A quintic iteration towards the orthogonal factor of x [rows, columns], rows <= columns; singular values end near 1.
ValueId orthogonalised(Builder& b, ValueId x, std::uint32_t steps) {
  constexpr double kA = 3.4445, kB = -4.775, kC = 2.0315, kEpsilon = 1e-7;
  const ValueId norm = b.affine(b.node(Op::sqrt, {norm_of(b, x)}), 1, kEpsilon);
  x = b.div(x, norm);
  for (std::uint32_t i = 0; i < steps; ++i) {
    const ValueId gram = b.node(Op::matmul, {x, x}, {{"trans_b", std::int64_t{1}}});
    const ValueId mixed = b.add(b.scale(gram, kB), b.scale(b.node(Op::matmul, {gram, gram}), kC));
    x = b.add(b.scale(x, kA), b.node(Op::matmul, {mixed, x}));
  }
  return x;
}

/// Graft's order of axes again.
ValueId from_source_order(Builder& b, ValueId x, const SourcePerm& perm) {
  if (perm.empty()) return x;
  Ints axes;
  for (const auto axis : perm) axes.push_back(static_cast<std::int64_t>(axis));
  return b.transpose(x, std::move(axes));
}

}  // namespace

Status add_lamb(ComposedStep& s) {
  Builder& b = s.b;
  const ValueId g = scaled_gradient(s);
  const double beta1 = s.options.beta1, beta2 = s.options.beta2;
  const ValueId m = moment(s, s.state[0], g, {{"decay", beta1}, {"weight", 1 - beta1}});
  const ValueId v = moment(s, s.state[1], g, {{"decay", beta2}, {"weight", 1 - beta2}, {"squared", std::int64_t{1}}});
  const ValueId size = b.affine(b.node(Op::sqrt, {b.div(v, correction(s, 2))}), 1, s.options.epsilon);
  ValueId direction = b.div(b.div(m, correction(s, 1)), size);
  const double decay = s.attrs.number("weight_decay");
  if (decay > 0) direction = b.add(direction, b.scale(s.update.parameter, decay));
  s.attrs.set("weight_decay", 0.0);
  // |w| / |direction|, and 1 where either is 0.
  const ValueId weight = norm_of(b, s.update.parameter), length = norm_of(b, direction);
  const ValueId zero = b.full({}, 0), one = b.full({}, 1);
  const ValueId ratio = b.node(Op::sqrt, {b.div(weight, b.node(Op::maximum, {length, b.full({}, 1e-37)}))});
  const ValueId by_length = b.node(Op::where, {b.node(Op::greater, {length, zero}), ratio, one});
  return apply(s, direction, b.node(Op::where, {b.node(Op::greater, {weight, zero}), by_length, one}));
}

bool is_orthogonal(const OptimizerOptions& options, std::string_view parameter, const Shape& shape) {
  if (options.kind != OptimizerKind::muon || shape.rank() < 2) return false;
  return std::ranges::none_of(options.adamw_parameters,
                              [&](const std::string& pattern) { return matches(pattern, parameter); });
}

Status add_muon(ComposedStep& s) {
  Builder& b = s.b;
  const ValueId g = scaled_gradient(s);
  const double momentum = s.options.momentum;
  const ValueId mean = moment(s, s.state[0], g, {{"weight", 1 - momentum}, {"lerp", std::int64_t{1}}});
  ValueId d = s.options.nesterov ? b.add(g, b.scale(b.sub(mean, g), momentum)) : mean;
  const SourcePerm perm =
      !s.update.source_perm.empty() && s.update.source_perm[0] != 0 ? s.update.source_perm : SourcePerm{};
  GRAFT_TRY(b.status());
  GRAFT_TRY_ASSIGN(d, to_source_order(b.graph(), d, perm));
  const Shape shape = b.shape(d);
  const auto rows = shape[0].value();
  const auto columns = static_cast<std::int64_t>(shape.elements(1, shape.rank()));
  ValueId x = b.reshape(d, Shape::of({rows, columns}));
  if (rows > columns) x = b.transpose(x, {1, 0});
  x = orthogonalised(b, x, s.options.ns_steps);
  if (rows > columns) x = b.transpose(x, {1, 0});
  const auto tall = static_cast<double>(rows) / static_cast<double>(std::max<std::int64_t>(columns, 1));
  const double adjust = s.options.adjust == MuonAdjust::original
                            ? std::sqrt(std::max(1.0, tall))
                            : 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
  x = from_source_order(b, b.reshape(b.scale(x, adjust), shape), perm);
  return apply(s, x, kNoValue);
}

std::vector<std::pair<std::string_view, Shape>> adafactor_state(const Shape& source) {
  if (source.rank() < 2) return {{"variance", source}};
  std::vector<Dim> rows(source.begin(), source.end()), columns = rows;
  rows.back() = Dim(1);
  columns[columns.size() - 2] = Dim(1);
  return {{"row_var", Shape(std::move(rows))}, {"col_var", Shape(std::move(columns))}};
}

Status add_adafactor(ComposedStep& s) {
  Builder& b = s.b;
  const double epsilon = std::numeric_limits<float>::epsilon();
  ValueId g = scaled_gradient(s);
  GRAFT_TRY(b.status());
  GRAFT_TRY_ASSIGN(g, to_source_order(b.graph(), g, s.update.source_perm));
  const ValueId square = b.node(Op::square, {g});
  const auto follow = [&](ValueId state, ValueId x) {
    return moment(s, state, x, {{"lerp", std::int64_t{1}}, {"from_step", std::int64_t{1}}});
  };
  const auto mean = [&](ValueId x, std::int64_t axis) {
    return b.node(Op::reduce_mean, {x}, {{"axes", Ints{axis}}, {"keepdims", std::int64_t{1}}});
  };
  ValueId variance = kNoValue;
  if (s.state.size() == 2) {
    const ValueId rows = follow(s.state[0], mean(square, -1)), columns = follow(s.state[1], mean(square, -2));
    const ValueId all = b.node(Op::maximum, {mean(rows, -2), b.full({}, epsilon)});
    variance = b.div(b.mul(rows, columns), all);
  } else {
    variance = follow(s.state[0], square);
  }
  const ValueId direction =
      b.mul(b.node(Op::rsqrt, {b.node(Op::maximum, {variance, b.full({}, epsilon * epsilon)})}), g);
  const auto elements = static_cast<double>(std::max<std::uint64_t>(s.b.shape(s.update.parameter).elements(), 1));
  const auto size = [&](ValueId x) { return b.node(Op::sqrt, {b.scale(norm_of(b, x), 1 / elements)}); };
  const ValueId clipped = b.node(Op::maximum, {b.scale(size(direction), 1 / s.options.clip_threshold), b.full({}, 1)});
  const ValueId least = b.node(Op::minimum, {step_number(s, "learning_rate"), correction(s, 2)});
  const ValueId rate = b.mul(b.node(Op::maximum, {size(s.update.parameter), b.full({}, s.options.epsilon2)}), least);
  s.attrs.set("absolute", std::int64_t{1});
  return apply(s, from_source_order(b, direction, s.update.source_perm), b.div(rate, clipped));
}

}  // namespace graft::train
