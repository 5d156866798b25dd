#include "tools/convert/decoder/decoder_graph.h"

#include "platform/base/cancel.h"
#include "runtime/core/op_id.gen.h"
#include "tools/convert/decoder/layer_builder.h"

namespace graft::convert {
namespace {

class DecoderBuilder : LayerBuilder {
 public:
  using LayerBuilder::LayerBuilder;
  Status build();

 private:
  ValueId embed(ValueId tokens);
  ValueId decode_layer(ValueId x, std::int64_t layer);

  ValueId embedding_;
};

ValueId DecoderBuilder::embed(ValueId tokens) {
  embedding_ = weight(&Names::embedding, kNoLayer, ".weight", {spec_.vocabulary, spec_.hidden});
  const std::string name = weights_.name(&Names::embedding);
  ValueId x = b_.node(Op::gather, {embedding_, tokens}, {{"axis", std::int64_t{0}}}, name);
  x = scaled(x, spec_.embedding_scale, name + ".scaled");
  if (!spec_.learned_positions) return x;
  const ValueId table = weight(&Names::positions, kNoLayer, ".weight", {spec_.context, spec_.hidden});
  const ValueId places = b_.node(Op::positions, {}, {{"shape", Shape{seq_}}}, "positions");
  const std::string positions = weights_.name(&Names::positions);
  return b_.node(Op::add, {x, b_.node(Op::gather, {table, places}, {{"axis", std::int64_t{0}}}, positions)}, {},
                 positions + ".added");
}

ValueId DecoderBuilder::decode_layer(ValueId x, std::int64_t layer) {
  const ValueId read = spec_.before_norms ? norm(x, &Names::attention_norm, layer, spec_.hidden) : x;
  ValueId mixed = attention(read, layer);
  if (spec_.after_norms) mixed = norm(mixed, &Names::after_attention_norm, layer, spec_.hidden);
  mixed = scaled(mixed, spec_.residual_scale, cat("layers.", layer, ".attention.scaled"));
  x = b_.node(Op::add, {x, mixed}, {}, cat("layers.", layer, ".attention.residual"));
  const ValueId then = spec_.parallel ? read : spec_.before_norms ? norm(x, &Names::ffn_norm, layer, spec_.hidden) : x;
  ValueId fed = feed_forward(then, layer);
  if (spec_.after_norms) fed = norm(fed, &Names::after_ffn_norm, layer, spec_.hidden);
  fed = scaled(fed, spec_.residual_scale, cat("layers.", layer, ".mlp.scaled"));
  return b_.node(Op::add, {x, fed}, {}, cat("layers.", layer, ".mlp.residual"));
}

Status DecoderBuilder::build() {
  GRAFT_TRY_ASSIGN(const ValueId tokens,
                   graph_.add_value(std::string(kTokensInput), DType::i32, Shape{batch_, seq_}, ValueKind::input));
  GRAFT_TRY(add_frequencies());
  ValueId x = embed(tokens);
  for (std::size_t i = 0; i < spec_.layers.size() && b_.status().ok(); ++i) {
    GRAFT_TRY(cancel_point(i, spec_.layers.size()));
    x = decode_layer(x, static_cast<std::int64_t>(i));
  }
  x = norm(x, &Names::final_norm, kNoLayer, spec_.hidden);
  // What the head reads rather than what it gives: a loss takes the head's product with it, but no scale behind it.
  x = scaled(x, 1 / spec_.logit_divisor, "lm_head.scaled");
  if (spec_.tied) {
    x = b_.node(Op::matmul, {x, embedding_}, {{"trans_b", std::int64_t{1}}}, weights_.name(&Names::head));
  } else {
    x = linear(x, &Names::head, kNoLayer, spec_.hidden, spec_.vocabulary, false);
  }
  x = softcap(x, spec_.logit_softcap, "lm_head.softcap");
  GRAFT_TRY(b_.status());
  graph_.add_output(std::string(kLogitsOutput), x);
  return {};
}

}  // namespace

Status build_decoder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph) {
  GRAFT_TRY(check_spec(spec));
  if (spec.encoder) return build_encoder(spec, weights, graph);
  return DecoderBuilder(spec, weights, graph).build();
}

}  // namespace graft::convert
