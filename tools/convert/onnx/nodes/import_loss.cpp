// Losses over class scores [N, C, d1, ...] and labels [N, d1, ...].
#include <algorithm>
#include <limits>

#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

/// No class has this number, and graft's default, -100, would ignore labels that the file does not.
constexpr std::int64_t kNothingIgnored = std::numeric_limits<std::int32_t>::min();

struct Rows {
  ValueId labels;
  ValueId dropped;  // whether the label is ignored, per row; kNoValue: none is
  ValueId kept;     // 1 where the label counts, per row; kNoValue: everywhere
  ValueId weights;  // per row, zero where ignored; kNoValue: all one
  std::int64_t ignored = kNothingIgnored;
};

/// Rows of weights[label], by gather; an ignored label is looked up as class 0 and then dropped.
Result<Rows> read_rows(NodeContext& c) {
  Rows rows;
  rows.labels = c.in(1);
  const bool ignores = c.has_attr("ignore_index");
  rows.ignored = c.attr("ignore_index", kNothingIgnored);
  if (rows.ignored < -(std::int64_t{1} << 31) || rows.ignored >= std::int64_t{1} << 31) {
    return unsupported("its ignore_index ", rows.ignored, " is beyond the range of int32");
  }
  ValueId labels = rows.labels;
  if (ignores) {
    HostTensor index = HostTensor::of_ints({rows.ignored});
    index.dims = {};
    rows.dropped = c.emit(Op::equal, {labels, c.constant(index)});
    rows.kept = c.cast(c.emit(Op::logical_not, {rows.dropped}), DType::f32);
    if (c.has(2)) {
      HostTensor zero = HostTensor::of_ints({0});
      zero.dims = {};
      labels = c.emit(Op::where, {rows.dropped, c.constant(zero), labels});
    }
  }
  if (c.has(2)) {
    if (c.rank(2) != 1 || c.shape(2)[0] != c.shape(0)[1]) return corrupt("its weights are not one per class");
    rows.weights = c.emit(Op::gather, {c.in(2), labels}, {{"axis", std::int64_t{0}}});
    if (ignores) rows.weights = c.emit(Op::mul, {rows.weights, rows.kept});
  }
  return rows;
}

/// Per row losses to what `reduction` asks for.
Status finish(NodeContext& c, ValueId loss, const Rows& rows) {
  const std::string reduction = c.attr_text("reduction", "mean");
  if (reduction != "none" && reduction != "mean" && reduction != "sum") {
    return corrupt("its reduction is \"", reduction, "\"");
  }
  if (rows.weights.valid()) loss = c.emit(Op::mul, {loss, rows.weights});
  if (!rows.weights.valid() && rows.kept.valid()) loss = c.emit(Op::mul, {loss, rows.kept});
  const Attrs all = {{"axes", Ints{}}, {"keepdims", std::int64_t{0}}};
  if (reduction == "none") {
    c.out(0, loss);
    return {};
  }
  const ValueId divisor = rows.weights.valid() ? rows.weights : rows.kept;
  if (reduction == "mean" && !divisor.valid()) {
    c.out(0, c.emit(Op::reduce_mean, {loss}, all));
    return {};
  }
  const ValueId sum = c.emit(Op::reduce_sum, {loss}, all);
  c.out(0, reduction == "sum" ? sum : c.emit(Op::div, {sum, c.emit(Op::reduce_sum, {divisor}, all)}));
  return {};
}

Status check_shapes(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its scores are ", elem_name(c.type(0)));
  if (c.type(1) != ElemType::i32 && c.type(1) != ElemType::i64) return corrupt("its labels are ", elem_name(c.type(1)));
  const Shape& scores = c.shape(0);
  std::vector<Dim> rows;
  for (std::size_t i = 0; i < scores.rank(); ++i) {
    if (i != 1) rows.push_back(scores[i]);
  }
  if (scores.rank() < 2 || Shape(rows) != c.shape(1)) {
    return corrupt("its labels ", c.shape(1).text(), " do not fit its scores ", scores.text());
  }
  return {};
}

Status cross_entropy(NodeContext& c) {
  GRAFT_TRY(check_shapes(c));
  const Perm perm = channels_last(c.rank(0));
  const ValueId scores = c.in(0, perm);
  GRAFT_TRY_ASSIGN(const Rows rows, read_rows(c));
  const ValueId loss =
      c.emit(Op::cross_entropy, {scores, rows.labels}, {{"ignore_index", rows.ignored}, {"label_smoothing", 0.0}});
  if (c.wants(1)) {
    const auto last = static_cast<std::int64_t>(c.rank(0)) - 1;
    c.out(1, c.emit(Op::log_softmax, {scores}, {{"axis", last}}), perm);
  }
  return finish(c, loss, rows);
}

/// Per row 1, or NaN if the label is no class and is not ignored: as the op cross_entropy does it.
ValueId known_label(NodeContext& c, const Rows& rows, const Dim& classes) {
  const ValueId zero = c.full(Shape{}, 0, DType::i32);
  const ValueId most = c.full(Shape{}, static_cast<double>(classes.value()), DType::i32);
  ValueId known =
      c.emit(Op::logical_and, {c.emit(Op::greater_equal, {rows.labels, zero}), c.emit(Op::less, {rows.labels, most})});
  if (rows.dropped.valid()) known = c.emit(Op::logical_or, {known, rows.dropped});
  return c.emit(Op::where, {known, c.full(Shape{}, 1), c.full(Shape{}, std::numeric_limits<double>::quiet_NaN())});
}

/// -input[label]: the scores masked by the one-hot labels, summed over the classes.
Status negative_log_likelihood(NodeContext& c) {
  GRAFT_TRY(check_shapes(c));
  const Shape scores = c.shape(0);
  if (!scores[1].is_constant()) return unsupported("its number of classes is symbolic");
  const Perm perm = channels_last(scores.rank());
  const ValueId x = c.in(0, perm);
  GRAFT_TRY_ASSIGN(const Rows rows, read_rows(c));
  std::vector<Dim> apart(c.shape(1).begin(), c.shape(1).end());
  apart.push_back(1);
  const ValueId hot = c.emit(Op::equal, {c.reshape(rows.labels, Shape(apart)), c.counting(scores[1])});
  const ValueId picked = c.emit(Op::where, {hot, x, c.constant(HostTensor::scalar(0))});
  const auto last = static_cast<std::int64_t>(scores.rank()) - 1;
  const ValueId sum = c.emit(Op::reduce_sum, {picked}, {{"axes", Ints{last}}, {"keepdims", std::int64_t{0}}});
  const ValueId loss = c.emit(Op::mul, {c.emit(Op::neg, {sum}), known_label(c, rows, scores[1])});
  return finish(c, loss, rows);
}

}  // namespace

const RuleEntry kLossRules[] = {
    {"SoftmaxCrossEntropyLoss", 2, 3, cross_entropy},
    {"NegativeLogLikelihoodLoss", 2, 3, negative_log_likelihood},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
