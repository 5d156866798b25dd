// From a description and tensors to a graph of ordinary ops.
#pragma once

#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/decoder/decoder_weights.h"

namespace graft::convert {

inline constexpr std::string_view kTokensInput = "tokens";   ///< i32 [batch, seq]
inline constexpr std::string_view kLogitsOutput = "logits";  ///< f32 [batch, seq, vocabulary]
// Of encoders, beside these.
inline constexpr std::string_view kMaskInput = "attention_mask";        ///< i32 [batch, seq]: 1 of tokens, 0 of padding
inline constexpr std::string_view kTokenTypesInput = "token_type_ids";  ///< i32 [batch, seq]
inline constexpr std::string_view kHiddenOutput = "last_hidden_state";  ///< f32 [batch, seq, hidden]
inline constexpr std::string_view kPoolerOutput = "pooler_output";      ///< f32 [batch, hidden]

/// The graph of a decoder, or of an encoder where the description is of one. invalid_argument where it contradicts
/// itself; otherwise as DecoderWeights::add.
Status build_decoder(const DecoderSpec& spec, DecoderWeights& weights, Graph& graph);

}  // namespace graft::convert
