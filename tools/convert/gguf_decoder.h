// A GGUF file's metadata and tensors as a description of a decoder.
#pragma once

#include "platform/base/status.h"
#include "tools/convert/decoder_spec.h"
#include "tools/convert/gguf.h"
#include "tools/convert/source_tensors.h"

namespace graft::convert {

struct GgufModel {
  DecoderSpec spec;
  const TensorNames* own_names = nullptr;  ///< what Hugging Face calls them
  SourceTensors tensors;                   ///< bytes of the GGUF file; named as in it
  std::vector<std::string> skipped;        ///< tensors of types that graft does not read
};

/// Architectures llama, qwen2, qwen3, gemma3, phi3 and gpt2.
/// unsupported: another one, or an option that graft does not have; corrupt: keys missing or numbers that cannot be.
Result<GgufModel> read_gguf_decoder(const GgufFile& file);

}  // namespace graft::convert
