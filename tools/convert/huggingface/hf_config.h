// The config.json of a Hugging Face folder as a description of a decoder.
#pragma once

#include "platform/base/status.h"
#include "tools/convert/common/json_access.h"
#include "tools/convert/decoder/decoder_spec.h"

namespace graft::convert {

struct HfModel {
  DecoderSpec spec;
  const TensorNames* names = nullptr;
};

/// The model types of families.h, and the text part of gemma3.
/// unsupported: another type, or an option that graft does not have, by name; corrupt: numbers that cannot be.
Result<HfModel> read_hf_config(const Json& config);

/// A config.json that reads back as the same decoder. unsupported: what that file cannot say.
Result<OrderedJson> write_hf_config(const DecoderSpec& spec);

}  // namespace graft::convert
