// What layers of decoders and encoders are made of. Internal to tools/convert/decoder.
#pragma once

#include <string>

#include "runtime/core/build.h"
#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/decoder/decoder_weights.h"

namespace graft::convert {

/// invalid_argument where sizes or numbers of the description cannot be.
Status check_spec(const DecoderSpec& spec);

/// Of a description that has an encoder.
Status build_encoder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph);

class LayerBuilder {
 public:
  LayerBuilder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph)
      : spec_(spec), weights_(weights), graph_(graph), b_(graph) {}

 protected:
  using Names = TensorNames;
  static constexpr std::int64_t kNoLayer = DecoderWeights::kNoLayer;

  /// Values of one head count: [batch, seq, heads, head_dim].
  struct Heads {
    ValueId query, key, value;
  };

  // After the first error all of these do nothing and give kNoValue; b_ remembers it.
  ValueId weight(DecoderWeights::Member member, std::int64_t layer, std::string_view suffix, const Shape& shape);
  ValueId linear(ValueId x, DecoderWeights::Member member, std::int64_t layer, std::int64_t in, std::int64_t out,
                 bool bias);
  ValueId norm(ValueId x, DecoderWeights::Member member, std::int64_t layer, std::int64_t size);
  ValueId columns(ValueId x, std::int64_t first, std::int64_t count, const std::string& name);
  ValueId heads_of(ValueId x, std::int64_t heads, const std::string& name);
  ValueId rotate(ValueId x, const LayerSpec& layer, const std::string& name);
  ValueId scaled(ValueId x, double factor, const std::string& name);
  ValueId softcap(ValueId x, double cap, const std::string& name);
  ValueId activate(ValueId x, Activation activation, const std::string& name);
  ValueId gated(ValueId gate, ValueId up, const std::string& name);
  Heads project(ValueId x, std::int64_t layer);
  Heads project_groups(ValueId x, std::int64_t layer);
  ValueId attention(ValueId x, std::int64_t layer);
  ValueId feed_forward(ValueId x, std::int64_t layer);
  ValueId add_positions(ValueId x, std::int64_t width);
  ValueId whole_layer(ValueId x, std::int64_t layer);
  Status add_frequencies();

  const DecoderSpec& spec_;
  DecoderWeights& weights_;
  Graph& graph_;
  Builder b_;
  Dim batch_ = Dim::symbol("batch");
  Dim seq_ = Dim::symbol("seq");
  ValueId frequencies_;
  ValueId local_frequencies_;
  ValueId mask_ = kNoValue;  ///< i32 [batch, seq]: tokens of one number see each other; without it, attention is causal
};

}  // namespace graft::convert
