// llama.cpp's importance matrix: for each matrix, the mean square of each number that it is multiplied with over a
// text. Read to quantize by, and written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "tools/convert/common/blocks.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

/// A GGUF file of general.type "imatrix": tensors NAME.in_sum2 with the sums of squares and NAME.counts with the
/// numbers of summands. corrupt: another file; sums that are negative or not finite; unsupported: matrices of several
/// experts.
Result<Importance> read_imatrix(const GgufFile& file);
Result<Importance> read_imatrix(os::FileSystem& files, const std::string& path);

/// What is written of one matrix.
struct ImatrixEntry {
  std::string name;              ///< as in Importance
  std::span<const double> sums;  ///< of squares, for each column
  std::uint64_t tokens = 0;      ///< how many there were
};
struct ImatrixFacts {
  std::vector<std::string> datasets;  ///< where the texts are from
  std::uint32_t chunks = 0;           ///< that were computed
  std::uint32_t chunk_size = 0;       ///< tokens of each
};
/// Replaces `path` atomically. Sums become f32. invalid_argument: a sum that f32 does not hold, or a matrix twice.
Status write_imatrix(os::FileSystem& files, const std::string& path, std::vector<ImatrixEntry> entries,
                     const ImatrixFacts& facts);

}  // namespace graft::convert
