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

  ValueId embedding_;
};

ValueId DecoderBuilder::embed(ValueId tokens) {
  embedding_ = weight(&Names::embedding, kNoLayer, ".weight", {spec_.vocabulary, spec_.hidden});
  const std::string name = weights_.name(&Names::embedding);
  ValueId x = b_.node(Op::gather, {embedding_, tokens}, {{"axis", std::int64_t{0}}}, name);
  x = scaled(x, spec_.embedding_scale, name + ".scaled");
  return spec_.learned_positions ? add_positions(x, spec_.hidden) : x;
}

Status DecoderBuilder::build() {
  GRAFT_TRY_ASSIGN(const ValueId tokens,
                   graph_.add_value(std::string(kTokensInput), DType::i32, Shape{batch_, seq_}, ValueKind::input));
  GRAFT_TRY(add_frequencies());
  ValueId x = embed(tokens);
  for (std::size_t i = 0; i < spec_.layers.size() && b_.status().ok(); ++i) {
    GRAFT_TRY(cancel_point(i, spec_.layers.size()));
    x = whole_layer(x, static_cast<std::int64_t>(i));
  }
  x = norm(x, &Names::final_norm, kNoLayer, spec_.hidden);
  // What the head reads rather than what it gives: a loss takes the head's product with it, but no scale behind it.
  x = scaled(x, 1 / spec_.logit_divisor, "lm_head.scaled");
  if (spec_.tied) {
    std::vector<ValueId> inputs = {x, embedding_};
    if (spec_.head_bias) inputs.push_back(weight(&Names::head, kNoLayer, ".bias", {spec_.vocabulary}));
    x = b_.node(Op::matmul, std::move(inputs), {{"trans_b", std::int64_t{1}}}, weights_.name(&Names::head));
  } else {
    x = linear(x, &Names::head, kNoLayer, spec_.hidden, spec_.vocabulary, spec_.head_bias);
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
