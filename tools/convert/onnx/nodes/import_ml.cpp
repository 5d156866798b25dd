// Operators of ai.onnx.ml that are arithmetic on tensors: linear models and what prepares their inputs.
#include <cmath>

#include "platform/base/text.h"
#include "runtime/core/op_id.gen.h"
#include "tools/convert/onnx/import/import.h"

namespace graft::convert {
namespace {

std::vector<double> numbers_of(const NodeContext& c, std::string_view name) {
  const auto found = c.node.attrs.find(name);
  if (found == c.node.attrs.end()) return {};
  return {found->second.numbers.begin(), found->second.numbers.end()};
}

/// 1 above the threshold, 0 elsewhere.
Status binarizer(NodeContext& c) {
  if (!is_float(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const ValueId above = c.emit(Op::greater, {c.in(0), c.full(Shape{}, c.attr_number("threshold", 0))});
  c.out(0, c.cast(above, DType::f32));
  return {};
}

/// Columns by number.
Status array_feature_extractor(NodeContext& c) {
  if (!is_integer(c.type(1))) return corrupt("its indices are ", elem_name(c.type(1)));
  if (c.rank(0) == 0) return corrupt("its input has no axis");
  GRAFT_TRY_ASSIGN(const Dim count, c.shape(1).element_count());
  const auto last = static_cast<std::int64_t>(c.rank(0)) - 1;
  ValueId y = c.emit(Op::gather, {c.in(0), c.reshape(c.in(1), Shape{count})}, {{"axis", last}});
  if (c.rank(0) == 1) y = c.reshape(y, Shape{1, count});
  c.out(0, y);
  return {};
}

/// (x - offset) * scale, by column or by one number.
Status scaler(NodeContext& c) {
  const ElemType type = c.type(0);
  if (!is_float(type) && !is_integer(type)) return unsupported("its input is ", elem_name(type));
  const auto table = [&](std::string_view name, double fallback) -> ValueId {
    std::vector<double> values = numbers_of(c, name);
    if (values.empty()) values = {fallback};
    return c.constant(HostTensor::of_floats({std::ssize(values)}, {values.begin(), values.end()}));
  };
  const ValueId x = c.cast(c.in(0), DType::f32);
  c.out_typed(0, c.emit(Op::mul, {c.emit(Op::sub, {x, table("offset", 0)}), table("scale", 1)}), ElemType::f32);
  return {};
}

/// x as floats [N, F]; a single sample may lack its axis.
Result<ValueId> ml_rows(NodeContext& c) {
  if (!is_float(c.type(0)) && !is_integer(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const ValueId x = c.cast(c.in(0), DType::f32);
  if (c.rank(0) == 1) return c.reshape(x, Shape{1, c.shape(0)[0]});
  if (c.rank(0) != 2) return unsupported("its input has ", c.rank(0), " axes instead of 2");
  return x;
}

/// x * coefficients^T + intercepts: both are parameters, named after the node.
Result<ValueId> linear_scores(NodeContext& c, std::int64_t outputs) {
  GRAFT_TRY_ASSIGN(const ValueId x, ml_rows(c));
  const Dim& width = c.shape_of(x)[1];
  const std::vector<double> w = numbers_of(c, "coefficients"), b = numbers_of(c, "intercepts");
  if (outputs < 1 || w.empty() || w.size() % static_cast<std::size_t>(outputs) != 0) {
    return corrupt("its ", w.size(), " coefficients are not those of ", outputs, " outputs");
  }
  const std::int64_t features = std::ssize(w) / outputs;
  if (width.is_constant() && width.value() != features) {
    return corrupt("its coefficients are for ", features, " features, and its input has ", width.value());
  }
  if (!b.empty() && std::ssize(b) != outputs)
    return corrupt("it has ", b.size(), " intercepts for ", outputs, " outputs");
  std::vector<ValueId> from = {
      x, c.parameter("coefficients", HostTensor::of_floats({outputs, features}, {w.begin(), w.end()}))};
  if (!b.empty()) from.push_back(c.parameter("intercepts", HostTensor::of_floats({outputs}, {b.begin(), b.end()})));
  return c.emit(Op::matmul, from, {{"trans_a", std::int64_t{0}}, {"trans_b", std::int64_t{1}}});
}

Result<ValueId> after_transform(NodeContext& c, ValueId scores) {
  const std::string how = c.attr_text("post_transform", "NONE");
  if (how == "NONE") return scores;
  c.note(cat("the scores before ", how, " of ", c.node.label(), " are the value \"", c.name_of(scores),
             "\": losses of logits (ce, bce) take them with --output"));
  if (how == "LOGISTIC") return c.emit(Op::sigmoid, {scores});
  if (how == "SOFTMAX") return c.emit(Op::softmax, {scores}, {{"axis", std::int64_t{1}}});
  return unsupported("its post_transform is ", shown(how));
}

Status linear_regressor(NodeContext& c) {
  GRAFT_TRY_ASSIGN(const ValueId y, linear_scores(c, c.attr("targets", 1)));
  GRAFT_TRY_ASSIGN(const ValueId out, after_transform(c, y));
  c.out_typed(0, out, ElemType::f32);
  return {};
}

std::vector<std::string> texts_of(const NodeContext& c, std::string_view name) {
  const auto found = c.node.attrs.find(name);
  return found == c.node.attrs.end() ? std::vector<std::string>() : found->second.texts;
}

std::string class_list(const std::vector<std::string>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < 20; ++i) text += cat(i == 0 ? "" : ", ", shown(names[i]));
  return names.size() > 20 ? cat(text, ", ..") : text;
}

/// Labels are the class of the largest score; texts become their numbers.
Status linear_classifier(NodeContext& c) {
  const std::vector<std::string> names = texts_of(c, "classlabels_strings");
  const Ints numbers = c.attr_ints("classlabels_ints");
  const std::size_t classes = names.empty() ? numbers.size() : names.size(),
                    scores = numbers_of(c, "intercepts").size();
  if (classes < 2) return corrupt("it has ", classes, " classes");
  if (scores != 0 && scores != classes) return unsupported("it has ", scores, " scores for ", classes, " classes");
  GRAFT_TRY_ASSIGN(const ValueId y, linear_scores(c, static_cast<std::int64_t>(classes)));
  ValueId best = c.emit(Op::arg_max, {y},
                        {{"axis", std::int64_t{1}}, {"keepdims", std::int64_t{0}}, {"select_last", std::int64_t{0}}});
  Ints counted(classes);
  for (std::size_t i = 0; i < classes; ++i) counted[i] = static_cast<std::int64_t>(i);
  if (names.empty() && numbers != counted) {
    best = c.emit(Op::gather, {c.constant(HostTensor::of_ints(numbers)), best}, {{"axis", std::int64_t{0}}});
  }
  if (!names.empty() && c.wants(0)) {
    c.note(
        cat("the output \"", c.node.outputs[0], "\" is the number of a class here, in the order ", class_list(names)));
  }
  if (c.wants(0)) c.out_typed(0, best, ElemType::i64);
  if (!c.wants(1)) return {};
  GRAFT_TRY_ASSIGN(const ValueId out, after_transform(c, y));
  c.out_typed(1, out, ElemType::f32);
  return {};
}

/// Each row over its norm; zeros stay.
Status normalizer(NodeContext& c) {
  const std::string norm = c.attr_text("norm", "MAX");
  GRAFT_TRY_ASSIGN(const ValueId x, ml_rows(c));
  const Attrs over = {{"axes", Ints{1}}, {"keepdims", std::int64_t{1}}};
  ValueId size;
  if (norm == "MAX") {
    size = c.emit(Op::reduce_max, {x}, over);  // with its sign, as ONNX says and ONNX Runtime computes
  } else if (norm == "L1") {
    size = c.emit(Op::reduce_l1, {x}, over);
  } else if (norm == "L2") {
    size = c.emit(Op::reduce_l2, {x}, over);
  } else {
    return unsupported("its norm is ", shown(norm));
  }
  const ValueId none = c.emit(Op::equal, {size, c.full(Shape{}, 0)});
  c.out_typed(0, c.emit(Op::div, {x, c.emit(Op::where, {none, c.full(Shape{}, 1), size})}), ElemType::f32);
  return {};
}

/// One number, or not-a-number, becomes another, by column.
Status imputer(NodeContext& c) {
  if (!is_float(c.type(0)) || c.has_attr("imputed_value_int64s")) return unsupported("its input is not floats");
  const std::vector<double> values = numbers_of(c, "imputed_value_floats");
  if (values.empty()) return corrupt("it has no values to impute");
  const double replaced = c.attr_number("replaced_value_float", 0);
  const ValueId x = c.in(0);
  const ValueId missing =
      std::isnan(replaced) ? c.emit(Op::is_nan, {x}) : c.emit(Op::equal, {x, c.full(Shape{}, replaced)});
  const ValueId given = c.constant(HostTensor::of_floats({std::ssize(values)}, {values.begin(), values.end()}));
  c.out(0, c.emit(Op::where, {missing, given, x}));
  return {};
}

/// A column for each category behind the input's axes; what is none of them is all zeros.
Status one_hot_encoder(NodeContext& c) {
  if (c.has_attr("cats_strings")) return unsupported("its categories are texts");
  if (c.attr("zeros", 1) == 0) return unsupported("it fails at unknown categories (zeros=0)");
  if (!is_float(c.type(0)) && !is_integer(c.type(0))) return unsupported("its input is ", elem_name(c.type(0)));
  const Ints categories = c.attr_ints("cats_int64s");
  if (categories.empty()) return corrupt("it has no categories");
  // As ints: a float is cut before it is compared.
  const ValueId x = c.cast(c.in(0), DType::i32);
  std::vector<Dim> dims = c.shape_of(x).dims();
  dims.emplace_back(1);
  const ValueId hit = c.emit(Op::equal, {c.reshape(x, Shape(dims)), c.constant(HostTensor::of_ints(categories))});
  c.out_typed(0, c.cast(hit, DType::f32), ElemType::f32);
  return {};
}

/// Inputs side by side.
Status feature_vectorizer(NodeContext& c) {
  const Ints widths = c.attr_ints("inputdimensions");
  std::vector<ValueId> parts;
  for (std::size_t i = 0; i < c.inputs(); ++i) {
    if (c.rank(i) != 2) return unsupported("its input ", i, " has ", c.rank(i), " axes instead of 2");
    const Dim& width = c.shape(i)[1];
    if (i < widths.size() && width.is_constant() && width.value() != widths[i]) {
      return unsupported("it takes ", widths[i], " of the ", width.value(), " columns of input ", i);
    }
    parts.push_back(c.cast(c.in(i), DType::f32));
  }
  c.out_typed(0, parts.size() == 1 ? parts[0] : c.emit(Op::concat, parts, {{"axis", std::int64_t{1}}}), ElemType::f32);
  return {};
}

/// Probabilities with their classes' names for each sample: the tensor of probabilities is the output here.
Status zip_map(NodeContext& c) {
  std::vector<std::string> names = texts_of(c, "classlabels_strings");
  for (const std::int64_t number : c.attr_ints("classlabels_int64s")) names.push_back(std::to_string(number));
  c.note(cat("the output \"", c.node.outputs[0], "\" is a tensor here, not maps: its columns are ", class_list(names)));
  c.alias(0, 0);
  return {};
}

}  // namespace

const RuleEntry kMlRules[] = {
    {"ai.onnx.ml.Binarizer", 1, 1, binarizer},
    {"ai.onnx.ml.ArrayFeatureExtractor", 2, 2, array_feature_extractor},
    {"ai.onnx.ml.Scaler", 1, 1, scaler},
    {"ai.onnx.ml.LinearRegressor", 1, 1, linear_regressor},
    {"ai.onnx.ml.LinearClassifier", 1, 1, linear_classifier},
    {"ai.onnx.ml.Normalizer", 1, 1, normalizer},
    {"ai.onnx.ml.Imputer", 1, 1, imputer},
    {"ai.onnx.ml.OneHotEncoder", 1, 1, one_hot_encoder},
    {"ai.onnx.ml.FeatureVectorizer", 1, 1024, feature_vectorizer},
    {"ai.onnx.ml.ZipMap", 1, 1, zip_map},
    {nullptr, 0, 0, nullptr},
};

}  // namespace graft::convert
