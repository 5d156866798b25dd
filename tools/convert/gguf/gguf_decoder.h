// A GGUF file's metadata and tensors as a description of a decoder.
#pragma once

#include "platform/base/status.h"
#include "tools/convert/common/source_tensors.h"
#include "tools/convert/decoder/decoder_spec.h"
#include "tools/convert/gguf/gguf.h"
#include "tools/convert/gguf/gguf_write.h"

namespace graft::convert {

struct GgufModel {
  DecoderSpec spec;
  const TensorNames* own_names = nullptr;  ///< what Hugging Face calls them
  SourceTensors tensors;                   ///< bytes of the GGUF file; named as in it
  std::vector<std::string> skipped;        ///< tensors of types that graft does not read
};

/// The architectures of families.h.
/// unsupported: another one, or an option that graft does not have; corrupt: keys missing or numbers that cannot be.
Result<GgufModel> read_gguf_decoder(const GgufFile& file);
/// The same with the tensors of another place, named as in GGUF files. `tensors` of the result are these.
Result<GgufModel> read_gguf_decoder(const GgufFile& metadata, SourceTensors tensors);

/// The architecture's name for a family; empty where GGUF files have none that graft reads.
std::string_view gguf_architecture(std::string_view family);

/// Writers of these architectures order rows of queries and keys so that neighbours turn together.
bool gguf_pairs_neighbours(std::string_view architecture);

/// The keys "general.architecture" and those that begin with the architecture's name. unsupported: what they cannot
/// say.
Status write_gguf_decoder(const DecoderSpec& spec, GgufWriter& out);

/// Tensors that are not weights: factors of the rotary embedding's frequencies, one list or LongRoPE's two.
inline constexpr const char* kRopeFactors = "rope_freqs.weight";
inline constexpr const char* kLongRopeFactors = "rope_factors_long.weight";
inline constexpr const char* kShortRopeFactors = "rope_factors_short.weight";
struct RopeFactors {
  const char* name;
  std::vector<float> numbers;
};
/// The factors that a file of this decoder has to hold.
std::vector<RopeFactors> gguf_rope_factors(const DecoderSpec& spec);

}  // namespace graft::convert
