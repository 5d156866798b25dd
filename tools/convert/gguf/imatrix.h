// llama.cpp's importance matrix: for each matrix, the mean square of each number that it is multiplied with over a
// text.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "tools/convert/gguf/gguf.h"

namespace graft::convert {

/// By the matrix's name in GGUF files ("blk.0.attn_q.weight"): a number for each column, none negative.
using Importance = std::map<std::string, std::vector<float>, std::less<>>;

/// A GGUF file of general.type "imatrix": tensors NAME.in_sum2 with the sums of squares and NAME.counts with the
/// numbers of summands. corrupt: another file; sums that are negative or not finite; unsupported: matrices of several
/// experts.
Result<Importance> read_imatrix(const GgufFile& file);
Result<Importance> read_imatrix(os::FileSystem& files, const std::string& path);

}  // namespace graft::convert
