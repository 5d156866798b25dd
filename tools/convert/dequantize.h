// From the numbers of a file to f32. The block formats are those of GGUF: a block is a few bytes of scales, then small
// integers.
#pragma once

#include <cstddef>
#include <span>

#include "tools/convert/source_tensors.h"

namespace graft::convert {

/// Requires bytes for out.size() elements, a whole number of blocks.
void dequantize(Encoding encoding, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace graft::convert
