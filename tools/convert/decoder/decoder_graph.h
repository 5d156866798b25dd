// From a description and tensors to a graph of ordinary ops.
#pragma once

#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/decoder/decoder_weights.h"

namespace graft::convert {

inline constexpr std::string_view kTokensInput = "tokens";   ///< i32 [batch, seq]
inline constexpr std::string_view kLogitsOutput = "logits";  ///< f32 [batch, seq, vocabulary]

/// invalid_argument where the description contradicts itself; otherwise as DecoderWeights::add.
Status build_decoder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph);

}  // namespace graft::convert
