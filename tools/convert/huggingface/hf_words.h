// Families that are described by a table: their words for fields that others have, and fields of their own.
#pragma once

#include "tools/convert/common/json_access.h"
#include "tools/convert/decoder/decoder_spec.h"

namespace graft::convert {

/// `config` with the words that most families use next to the family's own.
Json in_common_words(const Json& config, std::string_view family);
/// `config` in the family's own words, without fields that it does not have.
OrderedJson in_own_words(const OrderedJson& config, const DecoderSpec& spec);

/// What only this family's fields say; sizes and biases are there. corrupt, unsupported.
Status read_own_fields(const Json& config, DecoderSpec& spec);
/// After the windows: layers that do not turn, or turn in another way.
void settle_layers(DecoderSpec& spec);

}  // namespace graft::convert
