#include "runtime/train/step/loss_kinds.h"

#include <cmath>
#include <numeric>

#include "runtime/core/features.h"
#include "runtime/core/op_def.h"
#include "runtime/core/op_id.gen.h"

namespace graft::train {
namespace {

const Shape& shape_of(const TermBuilder& t, std::size_t i = 0) { return t.b.shape(t.of[i]); }
std::string_view name_of(const TermBuilder& t) { return t.b.graph().value(t.of[0]).name; }

/// Rows of a sample: means are over all of them, also where the first axis is not the batch.
double per_sample(const TermBuilder& t, const Shape& rows) {
  return static_cast<double>(rows.elements()) / static_cast<double>(t.samples);
}

ValueId to_float(Builder& b, ValueId v) {
  return b.node(Op::cast, {v}, {{"to", static_cast<std::int64_t>(DType::f32)}});
}
ValueId equals(Builder& b, ValueId v, double number, DType dtype) {
  return to_float(b, b.node(Op::equal, {v, b.full({}, number, dtype)}));
}

/// The class axis last: logits [N, C, ...] -> [N, ..., C].
ValueId axis_last(Builder& b, ValueId logits, std::size_t axis) {
  const std::size_t rank = b.shape(logits).rank();
  if (axis + 1 == rank) return logits;
  Ints perm;
  for (std::size_t i = 0; i < rank; ++i) {
    if (i != axis) perm.push_back(static_cast<std::int64_t>(i));
  }
  perm.push_back(static_cast<std::int64_t>(axis));
  return b.transpose(logits, std::move(perm));
}

Shape without_last(const Shape& shape) { return Shape(std::vector<Dim>(shape.begin(), shape.end() - 1)); }

/// Logits with their classes last, and labels.
struct Labelled {
  ValueId logits;
  ValueId labels;
  std::int64_t classes = 0;
};

Result<Labelled> with_labels(TermBuilder& t, std::int64_t usual_axis) {
  GRAFT_TRY_ASSIGN(const std::size_t axis, class_axis_of(t.options, name_of(t), shape_of(t), usual_axis, &t.loss.note));
  Labelled out;
  out.classes = shape_of(t)[axis].value();
  out.logits = axis_last(t.b, t.of[0], axis);
  GRAFT_TRY(t.b.status());
  GRAFT_TRY_ASSIGN(out.labels, t.target(DType::i32, without_last(t.b.shape(out.logits))));
  t.loss.class_axes[t.number] = axis;
  if (t.number == 0) t.loss.classes = out.classes;
  LossCount& count = t.loss.counts[t.number];
  count.per_sample = per_sample(t, t.b.shape(out.labels));
  count.by_label = true;
  count.ignore_index = t.options.ignore_index;
  if (t.options.class_weights.empty()) return out;
  if (t.options.class_weights.size() == static_cast<std::size_t>(out.classes)) return out;
  return invalid(t.options.class_weights.size(), " class weights were given, but axis ", axis, " of \"", name_of(t),
                 "\" ", shape_of(t).text(), " has ", out.classes, " classes.");
}

Result<ValueId> class_weights(TermBuilder& t) {
  const std::vector<double>& given = t.options.class_weights;
  return t.constant("class_weights", Shape::of({static_cast<std::int64_t>(given.size())}),
                    std::vector<float>(given.begin(), given.end()));
}

/// The weight of each row's class; labels that are ignored, whose loss is 0, count as class 0.
Result<ValueId> weight_of_rows(TermBuilder& t, ValueId labels) {
  GRAFT_TRY_ASSIGN(const ValueId weights, class_weights(t));
  const ValueId real = t.b.node(Op::maximum, {labels, t.b.full({}, 0, DType::i32)});
  return t.b.node(Op::gather, {weights, real}, {{"axis", std::int64_t{0}}});
}

/// 1 where a row counts, 0 where its label is ignored.
ValueId counting(TermBuilder& t, ValueId labels) {
  return t.b.affine(equals(t.b, labels, t.options.ignore_index, DType::i32), -1, 1);
}

ValueId entropy_rows(TermBuilder& t, const Labelled& l, double smoothing) {
  return t.b.node(Op::cross_entropy, {l.logits, l.labels},
                  {{"ignore_index", std::int64_t{t.options.ignore_index}}, {"label_smoothing", smoothing}});
}

Result<ValueId> soft_cross_entropy(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(const std::size_t axis,
                   normalize_axis(t.options.class_axis.value_or(1), shape_of(t).rank(), "class axis"));
  GRAFT_TRY_ASSIGN(ValueId target, t.target(DType::f32, shape_of(t)));
  const auto classes = static_cast<double>(shape_of(t)[axis].value());
  t.loss.counts[t.number].per_sample = per_sample(t, shape_of(t)) / classes;
  const double smoothing = t.options.label_smoothing;
  if (smoothing > 0) target = b.affine(target, 1 - smoothing, smoothing / classes);
  const ValueId log = b.node(Op::log_softmax, {axis_last(b, t.of[0], axis)}, {{"axis", std::int64_t{-1}}});
  ValueId terms = b.mul(axis_last(b, target, axis), log);
  if (!t.options.class_weights.empty()) {
    GRAFT_TRY_ASSIGN(const ValueId weights, class_weights(t));
    terms = b.mul(terms, weights);
  }
  return b.neg(b.reduce_sum(terms, {-1}, false));
}

Result<ValueId> cross_entropy(TermBuilder& t) {
  Builder& b = t.b;
  if (t.options.target_dtype == DType::f32 && is_dense(t.options, shape_of(t))) {
    if constexpr (!kHasLosses) return left_out("losses other than the cross entropy of labels", "losses");
    return soft_cross_entropy(t);
  }
  GRAFT_TRY_ASSIGN(const Labelled l, with_labels(t, 1));
  if (!kHasLosses || t.options.class_weights.empty()) return entropy_rows(t, l, t.options.label_smoothing);
  t.loss.counts[t.number].class_weights = t.options.class_weights;
  GRAFT_TRY_ASSIGN(const ValueId weight, weight_of_rows(t, l.labels));
  const ValueId rows = b.mul(entropy_rows(t, l, 0), weight);
  const double smoothing = t.options.label_smoothing;
  if (smoothing == 0) return rows;
  // (1 - e) w_y l_y + e / C sum_c w_c l_c, over the sum of w_y.
  GRAFT_TRY_ASSIGN(const ValueId weights, class_weights(t));
  const ValueId log = b.node(Op::log_softmax, {l.logits}, {{"axis", std::int64_t{-1}}});
  const ValueId others = b.mul(b.reduce_sum(b.mul(log, weights), {-1}, false), counting(t, l.labels));
  return b.add(b.scale(rows, 1 - smoothing), b.scale(others, -smoothing / static_cast<double>(l.classes)));
}

/// (1 - a) ce + a T^2 KL(softmax(teacher / T) | softmax(x / T)), rows of labels that count.
Result<ValueId> distill(TermBuilder& t) {
  Builder& b = t.b;
  if (shape_of(t) != shape_of(t, 1)) {
    return invalid("The loss distill needs outputs of one shape; \"", name_of(t), "\" has ", shape_of(t).text(),
                   " and the teacher's ", shape_of(t, 1).text(), ".");
  }
  GRAFT_TRY_ASSIGN(const Labelled l, with_labels(t, 1));
  const double weight = t.options.distill_weight, temperature = temperature_of(t.options);
  const ValueId hard = entropy_rows(t, l, t.options.label_smoothing);
  if (weight == 0) return hard;
  const auto log_softmax = [&](ValueId logits) {
    return b.node(Op::log_softmax, {b.scale(logits, 1 / temperature)}, {{"axis", std::int64_t{-1}}});
  };
  const ValueId own = log_softmax(l.logits), theirs = log_softmax(axis_last(b, t.of[1], t.loss.class_axes[t.number]));
  const ValueId apart = b.reduce_sum(b.mul(b.node(Op::exp, {theirs}), b.sub(theirs, own)), {-1}, false);
  const ValueId soft = b.scale(b.mul(apart, counting(t, l.labels)), weight * temperature * temperature);
  return weight == 1 ? soft : b.add(soft, b.scale(hard, 1 - weight));
}

/// Targets of the output's shape.
Result<ValueId> dense_target(TermBuilder& t) {
  t.loss.counts[t.number].per_sample = per_sample(t, shape_of(t));
  return t.target(DType::f32, shape_of(t));
}

/// -z log(s(x)) - (1 - z) log(1 - s(x)) = softplus(x) - x z, without overflow for any x.
ValueId bce(Builder& b, ValueId x, ValueId z) { return b.sub(b.node(Op::softplus, {x}), b.mul(x, z)); }

Result<ValueId> bce_term(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(const ValueId z, dense_target(t));
  const std::vector<double>& given = t.options.pos_weight;
  if (given.empty()) return bce(b, t.of[0], z);
  if (given.size() != 1 &&
      (shape_of(t).rank() < 2 || shape_of(t).back() != Dim(static_cast<std::int64_t>(given.size())))) {
    return invalid(given.size(), " pos weights were given, but the last axis of \"", name_of(t), "\" ",
                   shape_of(t).text(), " has another size; one for all is possible, too.");
  }
  GRAFT_TRY_ASSIGN(const ValueId weight, t.constant("pos_weight", Shape::of({static_cast<std::int64_t>(given.size())}),
                                                    std::vector<float>(given.begin(), given.end())));
  // (1 - z) x + (1 + (w - 1) z) softplus(-x)
  const ValueId factor = b.affine(b.mul(z, b.affine(weight, 1, -1)), 1, 1);
  const ValueId positive = b.mul(factor, b.node(Op::softplus, {b.neg(t.of[0])}));
  return b.add(b.mul(b.affine(z, -1, 1), t.of[0]), positive);
}

/// base^gamma for a base of 0 to 1.
ValueId power(Builder& b, ValueId base, double gamma) {
  if (gamma == 1) return base;
  if (gamma == 2) return b.node(Op::square, {base});
  // Gradients of powers below 1 have no bound at 0.
  return b.node(Op::pow, {b.node(Op::maximum, {base, b.full({}, 1e-7)}), b.full({}, gamma)});
}

Result<ValueId> focal(TermBuilder& t) {
  Builder& b = t.b;
  const double gamma = t.options.focal_gamma;
  if (is_dense(t.options, shape_of(t))) {
    GRAFT_TRY_ASSIGN(const ValueId z, dense_target(t));
    const ValueId p = b.node(Op::sigmoid, {t.of[0]});
    // 1 - p_t = p + z - 2 p z
    const ValueId missed = b.sub(b.add(p, z), b.scale(b.mul(p, z), 2));
    ValueId loss = bce(b, t.of[0], z);
    if (gamma > 0) loss = b.mul(loss, power(b, missed, gamma));
    const double alpha = t.options.focal_alpha;
    return alpha < 0 ? loss : b.mul(loss, b.affine(z, 2 * alpha - 1, 1 - alpha));
  }
  GRAFT_TRY_ASSIGN(const Labelled l, with_labels(t, 1));
  ValueId rows = entropy_rows(t, l, 0);
  if (gamma > 0) rows = b.mul(rows, power(b, b.neg(b.node(Op::expm1, {b.neg(rows)})), gamma));
  if (t.options.class_weights.empty()) return rows;
  GRAFT_TRY_ASSIGN(const ValueId weight, weight_of_rows(t, l.labels));
  return b.mul(rows, weight);
}

constexpr double kDiceSmooth = 1e-5;

/// 1 - (2 sum(p z) + s) / (sum(p) + sum(z) + s) over `axes`.
ValueId overlap_loss(TermBuilder& t, ValueId p, ValueId z, const Ints& axes) {
  Builder& b = t.b;
  const ValueId both = b.affine(b.reduce_sum(b.mul(p, z), axes, false), 2, kDiceSmooth);
  const ValueId all = b.affine(b.reduce_sum(b.add(p, z), axes, false), 1, kDiceSmooth);
  const ValueId rows = b.affine(b.div(both, all), -1, 1);
  t.loss.counts[t.number].per_sample = t.b.status().ok() ? per_sample(t, b.shape(rows)) : 0;
  t.loss.counts[t.number].by_label = false;
  return rows;
}

Result<ValueId> dice(TermBuilder& t) {
  Builder& b = t.b;
  if (is_dense(t.options, shape_of(t))) {
    GRAFT_TRY_ASSIGN(const ValueId z, dense_target(t));
    const auto rank = static_cast<std::int64_t>(shape_of(t).rank());
    GRAFT_TRY_ASSIGN(const std::size_t classes,
                     normalize_axis(rank > 2 ? t.options.class_axis.value_or(1) : 0, shape_of(t).rank(), "class axis"));
    Ints axes;
    for (std::int64_t i = 1; i < rank; ++i) {
      if (i != static_cast<std::int64_t>(classes)) axes.push_back(i);
    }
    if (axes.empty()) {
      return invalid("The dice loss needs an output of more than a batch axis; \"", name_of(t), "\" has the shape ",
                     shape_of(t).text(), ".");
    }
    return overlap_loss(t, b.node(Op::sigmoid, {t.of[0]}), z, axes);
  }
  GRAFT_TRY_ASSIGN(const Labelled l, with_labels(t, 1));
  if (b.shape(l.labels).rank() < 2) {
    return invalid("The dice loss is of labels all over a sample, but \"", name_of(t), "\" ", shape_of(t).text(),
                   " gives one for each.");
  }
  std::vector<float> numbers(static_cast<std::size_t>(l.classes));
  std::iota(numbers.begin(), numbers.end(), 0.0F);
  GRAFT_TRY_ASSIGN(const ValueId classes, t.constant("classes", Shape::of({l.classes}), std::move(numbers)));
  std::vector<Dim> dims(b.shape(l.labels).begin(), b.shape(l.labels).end());
  dims.emplace_back(1);
  const Shape column(std::move(dims));
  const ValueId labels = b.reshape(to_float(b, l.labels), column);
  const ValueId real = b.reshape(counting(t, l.labels), column);
  // A label that is ignored is none of the classes, unless one of them is ignored.
  const ValueId z = b.mul(to_float(b, b.node(Op::equal, {labels, classes})), real);
  const ValueId p = b.mul(b.node(Op::softmax, {l.logits}, {{"axis", std::int64_t{-1}}}), real);
  Ints axes;
  for (std::size_t i = 1; i < b.shape(l.labels).rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return overlap_loss(t, p, z, axes);
}

/// m (|d| - m / 2) with m = min(|d|, delta).
ValueId huber(Builder& b, ValueId distance, double delta) {
  const ValueId size = b.node(Op::abs, {distance});
  const ValueId least = b.node(Op::minimum, {size, b.full({}, delta)});
  return b.mul(least, b.sub(size, b.scale(least, 0.5)));
}

Result<ValueId> difference_term(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(const ValueId z, dense_target(t));
  const ValueId d = b.sub(t.of[0], z);
  switch (t.options.kind) {
    case Loss::mse: return b.node(Op::square, {d});
    case Loss::huber: return huber(b, d, t.options.delta);
    case Loss::smooth_l1:
      if (t.options.beta > 0) return b.scale(huber(b, d, t.options.beta), 1 / t.options.beta);
      return b.node(Op::abs, {d});
    default: return b.node(Op::abs, {d});
  }
}

Result<ValueId> kl(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(const ValueId z, dense_target(t));
  GRAFT_TRY_ASSIGN(const std::size_t axis,
                   normalize_axis(t.options.class_axis.value_or(1), shape_of(t).rank(), "class axis"));
  const ValueId log = b.node(Op::log_softmax, {t.of[0]}, {{"axis", static_cast<std::int64_t>(axis)}});
  // z log z is 0 at 0.
  const ValueId own = b.node(Op::log, {b.node(Op::maximum, {z, b.full({}, 1e-37)})});
  t.loss.counts[t.number].per_sample = per_sample(t, Shape{shape_of(t)[0]});  // "batchmean": over the first axis
  return b.mul(z, b.sub(own, log));
}

/// [samples, everything else].
ValueId as_rows(TermBuilder& t, std::size_t i) {
  const Shape shape = shape_of(t, i);
  return t.b.reshape(t.of[i], Shape::of({t.samples, static_cast<std::int64_t>(per_sample(t, shape))}));
}

Status expect_alike(const TermBuilder& t) {
  for (std::size_t i = 0; i < t.of.size(); ++i) {
    const Shape& shape = shape_of(t, i);
    if (shape.rank() > 0 && shape == shape_of(t) && shape[0] == Dim(t.samples)) continue;
    return invalid("The loss ", loss_name(t.options.kind), " needs outputs of one shape, the batch axis first; \"",
                   name_of(t), "\" has ", shape_of(t).text(), " and \"", t.b.graph().value(t.of[i]).name, "\" ",
                   shape.text(), ".");
  }
  return ok_status();
}

ValueId dot(Builder& b, ValueId x, ValueId y) { return b.reduce_sum(b.mul(x, y), {1}, false); }

Result<ValueId> cosine(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY(expect_alike(t));
  GRAFT_TRY_ASSIGN(const ValueId z, t.target(DType::f32, Shape::of({t.samples})));
  const ValueId x = as_rows(t, 0), y = as_rows(t, 1);
  constexpr double kEpsilon = 1e-12;  // as torch.nn.CosineEmbeddingLoss has it
  const ValueId sizes = b.mul(b.affine(dot(b, x, x), 1, kEpsilon), b.affine(dot(b, y, y), 1, kEpsilon));
  const ValueId cosines = b.mul(dot(b, x, y), b.node(Op::rsqrt, {sizes}));
  const ValueId apart = b.node(Op::relu, {b.affine(cosines, 1, -t.options.margin.value_or(0))});
  return b.add(b.mul(b.affine(cosines, -1, 1), equals(b, z, 1, DType::f32)),
               b.mul(apart, equals(b, z, -1, DType::f32)));
}

Result<ValueId> triplet(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY(expect_alike(t));
  const ValueId anchor = as_rows(t, 0);
  const auto distance = [&](std::size_t i) {
    const ValueId d = b.affine(b.sub(anchor, as_rows(t, i)), 1, 1e-6);  // as torch.nn.functional.pairwise_distance
    return b.node(Op::sqrt, {dot(b, d, d)});
  };
  return b.node(Op::relu, {b.affine(b.sub(distance(1), distance(2)), 1, t.options.margin.value_or(1))});
}

/// Keys of a row: 1 where both outputs have one shape, else those that the second has on an axis of its own.
Result<std::int64_t> keys_of_row(const TermBuilder& t) {
  const Shape query = shape_of(t), keys = shape_of(t, 1);
  if (keys.rank() != query.rank() + 1) {
    GRAFT_TRY(expect_alike(t));
    return 1;
  }
  bool fits = query.rank() > 0 && query[0] == Dim(t.samples) && keys[0] == query[0];
  for (std::size_t i = 1; i < query.rank(); ++i) fits = fits && keys[i + 1] == query[i];
  if (fits) return keys[1].value();
  return invalid("The loss info_nce needs outputs [batch, ...] and [batch, ...] or [batch, keys, ...]; \"", name_of(t),
                 "\" has ", query.text(), " and \"", t.b.graph().value(t.of[1]).name, "\" ", keys.text(), ".");
}

/// Cross entropy of scaled cosines: each row's first key against all keys of the batch. A key of zeros is none.
Result<ValueId> info_nce(TermBuilder& t) {
  Builder& b = t.b;
  GRAFT_TRY_ASSIGN(const std::int64_t keys, keys_of_row(t));
  const auto width = static_cast<std::int64_t>(per_sample(t, shape_of(t)));
  const ValueId queries = b.reshape(t.of[0], Shape::of({t.samples, width}));
  const ValueId others = b.reshape(t.of[1], Shape::of({t.samples * keys, width}));
  const auto square = [&](ValueId x) { return b.reduce_sum(b.node(Op::square, {x}), {1}, true); };
  const auto unit = [&](ValueId x, ValueId size) {
    return b.mul(x, b.node(Op::rsqrt, {b.node(Op::maximum, {size, b.full({}, 1e-24)})}));
  };
  const ValueId sizes = square(others);
  const ValueId query = b.scale(unit(queries, square(queries)), 1 / temperature_of(t.options));
  ValueId logits = b.node(Op::matmul, {query, unit(others, sizes)}, {{"trans_b", std::int64_t{1}}});
  if (keys > 1) {
    constexpr double kNone = 1e9;
    const ValueId there = to_float(b, b.node(Op::greater, {sizes, b.full({}, 0)}));
    logits = b.add(logits, b.reshape(b.affine(there, kNone, -kNone), Shape::of({1, t.samples * keys})));
  }
  const ValueId rows = b.node(Op::positions, {}, {{"shape", Shape::of({t.samples})}});
  const ValueId own = keys == 1 ? rows : b.mul(rows, b.full({}, static_cast<double>(keys), DType::i32));
  const Attrs none_ignored = {{"ignore_index", std::int64_t{-1}}};
  if (t.number == 0) {
    Attrs first = none_ignored;
    first.set("k", std::int64_t{1});
    t.loss.correct = b.node(Op::topk_correct, {logits, own}, std::move(first));
  }
  Attrs attrs = none_ignored;
  attrs.set("label_smoothing", 0.0);
  return b.node(Op::cross_entropy, {logits, own}, std::move(attrs));
}

Result<ValueId> ctc(TermBuilder& t) {
  Builder& b = t.b;
  if (shape_of(t).rank() != 3) {
    return invalid("The loss ctc needs an output [batch, time, classes]; \"", name_of(t), "\" has the shape ",
                   shape_of(t).text(), ".");
  }
  GRAFT_TRY_ASSIGN(const std::size_t axis, normalize_axis(t.options.class_axis.value_or(-1), 3, "class axis"));
  ValueId logits = axis_last(b, t.of[0], axis);
  GRAFT_TRY(b.status());
  const Dim batch(t.samples);
  if (b.shape(logits)[0] != batch && b.shape(logits)[1] == batch) logits = b.transpose(logits, {1, 0, 2});
  GRAFT_TRY(b.status());
  const Shape shape = b.shape(logits);
  if (t.options.blank >= shape[2].value()) {
    return invalid("The blank of ctc is class ", t.options.blank, ", but \"", name_of(t), "\" ", shape_of(t).text(),
                   " has ", shape[2].value(), " classes.");
  }
  const std::int64_t length = t.options.target_shape ? static_cast<std::int64_t>(t.options.target_shape->elements())
                                                     : std::max<std::int64_t>(shape[1].value() / 2, 1);
  GRAFT_TRY_ASSIGN(const ValueId labels, t.target(DType::i32, Shape::of({t.samples, length})));
  const ValueId log = b.node(Op::log_softmax, {logits}, {{"axis", std::int64_t{-1}}});
  return b.node(Op::ctc_loss, {log, labels},
                {{"blank", std::int64_t{t.options.blank}}, {"zero_infinity", std::int64_t{t.options.zero_infinity}}});
}

/// A loss that the graph computes: a mean over the samples, or one number for each or more.
Result<ValueId> given(TermBuilder& t) {
  const Shape& shape = shape_of(t);
  const bool one = shape.elements() == 1;
  if (!one && (shape.rank() == 0 || shape[0] != Dim(t.samples))) {
    return invalid("The output \"", name_of(t), "\" ", shape.text(),
                   " is no loss: a scalar is needed, or an axis of the batch.");
  }
  t.loss.counts[t.number].per_sample = one ? 1 : per_sample(t, shape);
  return one ? t.b.scale(t.of[0], static_cast<double>(t.samples)) : t.of[0];
}

}  // namespace

Result<ValueId> TermBuilder::constant(std::string_view name, Shape shape, std::vector<float> contents) {
  const std::string full = cat("loss/", number, "/", name);
  if (const ValueId found = b.graph().find_value(full); found.valid()) return found;
  GRAFT_TRY_ASSIGN(const ValueId value, b.graph().add_value(full, DType::f32, std::move(shape), ValueKind::constant));
  loss.constants.push_back({full, std::move(contents)});
  return value;
}

Result<ValueId> TermBuilder::target(DType dtype, Shape shape) {
  // Terms that take the same field in the same form share the input.
  for (std::size_t i = 0; i < number; ++i) {
    if (options.target.empty() || loss.fields[i] != options.target || !loss.targets[i].valid()) continue;
    const Value& other = b.graph().value(loss.targets[i]);
    if (other.dtype == dtype && other.shape == shape) return loss.targets[number] = loss.targets[i];
  }
  const std::string base = options.target.empty() ? "label" : options.target;
  std::string name = base;
  for (int suffix = 1; b.graph().find_value(name).valid(); ++suffix) name = cat(base, '_', suffix);
  GRAFT_TRY_ASSIGN(loss.targets[number], b.graph().add_value(name, dtype, std::move(shape), ValueKind::input));
  return loss.targets[number];
}

Result<ValueId> add_term(TermBuilder& t) {
  if constexpr (!kHasLosses) return cross_entropy(t);
  switch (t.options.kind) {
    case Loss::cross_entropy: return cross_entropy(t);
    case Loss::bce: return bce_term(t);
    case Loss::focal: return focal(t);
    case Loss::dice: return dice(t);
    case Loss::mse:
    case Loss::l1:
    case Loss::huber:
    case Loss::smooth_l1: return difference_term(t);
    case Loss::kl: return kl(t);
    case Loss::cosine: return cosine(t);
    case Loss::triplet: return triplet(t);
    case Loss::info_nce: return info_nce(t);
    case Loss::ctc: return ctc(t);
    case Loss::output: return given(t);
    case Loss::distill: return distill(t);
    case Loss::dpo:
    case Loss::ipo:
    case Loss::orpo:
    case Loss::kto: return add_preference(t);
  }
  return internal_error("A loss of an unknown kind.");
}

}  // namespace graft::train
