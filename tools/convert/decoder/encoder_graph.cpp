// Encoders: layers that see texts both ways, and heads of their own.
#include "tools/convert/decoder/decoder_graph.h"
#include "tools/convert/decoder/layer_builder.h"

#include "platform/base/cancel.h"
#include "runtime/core/op_id.gen.h"

namespace graft::convert {
namespace {

class EncoderBuilder : LayerBuilder {
 public:
  using LayerBuilder::LayerBuilder;
  Status build();

 private:
  ValueId embed(ValueId tokens);
  ValueId add_token_types(ValueId x, std::int64_t width);
  ValueId mean_of_tokens(ValueId x);
  ValueId first_token(ValueId x);
  ValueId pool(ValueId x);
  ValueId before_classes(ValueId x);
  ValueId classify(ValueId x, ValueId pooled);
  ValueId classify_tokens(ValueId x);
  ValueId masked(ValueId x);
  Status add_outputs(ValueId x);

  const EncoderSpec& encoder_ = *spec_.encoder;
  ValueId embedding_;
};

ValueId EncoderBuilder::add_token_types(ValueId x, std::int64_t width) {
  if (encoder_.token_types == 0) return x;
  const std::string name = weights_.name(&Names::token_types);
  ValueId added = weight(&Names::token_types, kNoLayer, ".weight", {encoder_.token_types, width});
  if (encoder_.token_types > 1) {
    auto types = graph_.add_value(std::string(kTokenTypesInput), DType::i32, Shape{batch_, seq_}, ValueKind::input);
    if (!types.ok()) return b_.fail(std::move(types).status()), kNoValue;
    added = b_.node(Op::gather, {added, *types}, {{"axis", std::int64_t{0}}}, name);
  }
  return b_.node(Op::add, {x, added}, {}, name + ".added");
}

ValueId EncoderBuilder::embed(ValueId tokens) {
  const std::int64_t width = encoder_.embedding_width != 0 ? encoder_.embedding_width : spec_.hidden;
  embedding_ = weight(&Names::embedding, kNoLayer, ".weight", {spec_.vocabulary, width});
  ValueId x = b_.node(Op::gather, {embedding_, tokens}, {{"axis", std::int64_t{0}}}, weights_.name(&Names::embedding));
  x = scaled(x, spec_.embedding_scale, weights_.name(&Names::embedding) + ".scaled");
  x = add_token_types(x, width);
  if (spec_.learned_positions) x = add_positions(x, width);
  if (encoder_.embedding_norm) x = norm(x, &Names::embedding_norm, kNoLayer, width);
  if (width == spec_.hidden) return x;
  return linear(x, &Names::embedding_projection, kNoLayer, width, spec_.hidden, true);
}

/// [batch, hidden]
ValueId EncoderBuilder::first_token(ValueId x) {
  constexpr std::int64_t kToEnd = INT32_MAX;
  const ValueId first =
      b_.node(Op::slice, {x}, {{"starts", Ints{0, 0, 0}}, {"ends", Ints{kToEnd, 1, kToEnd}}, {"steps", Ints{1, 1, 1}}},
              "first_token.slice");
  return b_.node(Op::reshape, {first}, {{"shape", Shape{batch_, Dim(spec_.hidden)}}}, "first_token");
}

ValueId EncoderBuilder::pool(ValueId x) {
  const ValueId dense = linear(first_token(x), &Names::pooler, kNoLayer, spec_.hidden, spec_.hidden, true);
  return b_.node(Op::tanh, {dense}, {}, weights_.name(&Names::pooler) + ".activation");
}

/// [batch, hidden], of tokens that are no padding.
ValueId EncoderBuilder::mean_of_tokens(ValueId x) {
  const Shape row = {batch_, Dim(1), seq_};
  const ValueId real = b_.node(Op::cast, {mask_}, {{"to", static_cast<std::int64_t>(DType::f32)}}, "mean.mask");
  const ValueId weights = b_.node(Op::reshape, {real}, {{"shape", row}}, "mean.weights");
  const ValueId sum = b_.node(Op::matmul, {weights, x}, {}, "mean.sum");
  const ValueId count = b_.reduce_sum(weights, {2}, /*keepdims=*/true);
  const ValueId mean = b_.node(Op::div, {sum, count}, {}, "mean.tokens");
  return b_.node(Op::reshape, {mean}, {{"shape", Shape{batch_, Dim(spec_.hidden)}}}, "mean");
}

ValueId EncoderBuilder::before_classes(ValueId x) {
  const std::string name = weights_.name(&Names::class_dense);
  if (name.empty()) return x;
  x = linear(x, &Names::class_dense, kNoLayer, spec_.hidden, spec_.hidden, encoder_.dense_bias);
  x = activate(x, encoder_.class_activation, name + ".activation");
  return weights_.name(&Names::class_norm).empty() ? x : norm(x, &Names::class_norm, kNoLayer, spec_.hidden);
}

ValueId EncoderBuilder::classify(ValueId x, ValueId pooled) {
  const ValueId read = encoder_.pooled_classes ? pooled : encoder_.mean_classes ? mean_of_tokens(x) : first_token(x);
  return linear(before_classes(read), &Names::class_head, kNoLayer, spec_.hidden, encoder_.classes, true);
}

ValueId EncoderBuilder::classify_tokens(ValueId x) {
  if (!weights_.name(&Names::class_norm).empty()) x = before_classes(x);
  return linear(x, &Names::token_class_head, kNoLayer, spec_.hidden, encoder_.classes, true);
}

ValueId EncoderBuilder::masked(ValueId x) {
  const std::string name = weights_.name(&Names::masked_dense);
  x = linear(x, &Names::masked_dense, kNoLayer, spec_.hidden, spec_.hidden, encoder_.dense_bias);
  x = activate(x, encoder_.masked_activation, name + ".activation");
  x = norm(x, &Names::masked_norm, kNoLayer, spec_.hidden);
  const ValueId matrix =
      spec_.tied ? embedding_ : weight(&Names::head, kNoLayer, ".weight", {spec_.vocabulary, spec_.hidden});
  std::vector<ValueId> inputs = {x, matrix};
  if (encoder_.masked_bias) inputs.push_back(weight(&Names::masked_bias, kNoLayer, ".bias", {spec_.vocabulary}));
  return b_.node(Op::matmul, std::move(inputs), {{"trans_b", std::int64_t{1}}}, weights_.name(&Names::head));
}

Status EncoderBuilder::add_outputs(ValueId x) {
  const bool may_pool = !weights_.name(&Names::pooler).empty() && encoder_.head != EncoderHead::masked;
  const bool pools = encoder_.pooled_classes || (may_pool && weights_.has(&Names::pooler, kNoLayer, ".weight"));
  const ValueId pooled = pools ? pool(x) : kNoValue;
  ValueId logits = kNoValue;
  switch (encoder_.head) {
    case EncoderHead::none: break;
    case EncoderHead::classes: logits = classify(x, pooled); break;
    case EncoderHead::token_classes: logits = classify_tokens(x); break;
    case EncoderHead::masked: logits = masked(x); break;
  }
  GRAFT_TRY(b_.status());
  if (logits.valid()) graph_.add_output(std::string(kLogitsOutput), logits);
  graph_.add_output(std::string(kHiddenOutput), x);
  if (pooled.valid()) graph_.add_output(std::string(kPoolerOutput), pooled);
  return {};
}

Status EncoderBuilder::build() {
  GRAFT_TRY_ASSIGN(const ValueId tokens,
                   graph_.add_value(std::string(kTokensInput), DType::i32, Shape{batch_, seq_}, ValueKind::input));
  GRAFT_TRY_ASSIGN(mask_, graph_.add_value(std::string(kMaskInput), DType::i32, Shape{batch_, seq_}, ValueKind::input));
  GRAFT_TRY(add_frequencies());
  ValueId x = embed(tokens);
  for (std::size_t i = 0; i < spec_.layers.size() && b_.status().ok(); ++i) {
    GRAFT_TRY(cancel_point(i, spec_.layers.size()));
    x = whole_layer(x, static_cast<std::int64_t>(i));
  }
  if (encoder_.final_norm) x = norm(x, &Names::final_norm, kNoLayer, spec_.hidden);
  GRAFT_TRY(b_.status());
  return add_outputs(x);
}

}  // namespace

Status build_encoder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph) {
  return EncoderBuilder(spec, weights, graph).build();
}

}  // namespace graft::convert
