// Matrices that become blocks: by what their errors weigh, and how far they are then from what they were.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/status.h"
#include "runtime/core/dtype.h"
#include "tools/convert/common/json_access.h"

namespace graft::convert {

/// By the matrix's name in GGUF files ("blk.0.attn_q.weight"): a number for each column, none negative.
using Importance = std::map<std::string, std::vector<float>, std::less<>>;

/// A matrix's numbers among those; empty: it has none. invalid_argument: they are of other columns.
Result<std::span<const float>> importance_of(const Importance& importance, const std::string& name,
                                             std::size_t columns);

/// What became of a matrix that was made blocks.
struct BlockError {
  std::string name;  ///< in the file
  DType dtype = DType::f32;
  double error = 0;                     ///< root of sum(error^2) / sum(number^2)
  std::optional<double> weighted = {};  ///< the same with the importance before each square, where there is one
};

/// How blocks' scales are found.
struct BlockScales {
  bool searched = false;                   ///< for the least error; otherwise the extremes'
  std::span<const float> importance = {};  ///< of each column: what its errors weigh; empty: all the same
};

/// Numbers as blocks of `dtype`. Rows are whole blocks. invalid_argument: a number that is not finite.
Result<HostBuffer> to_blocks(DType dtype, std::span<const float> numbers, const std::string& name,
                             const BlockScales& scales, BlockError& error);

/// A sentence with mean and worst; empty where there are no blocks.
std::string errors_note(std::span<const BlockError> blocks);
/// A line for each matrix, and one of heads.
std::string errors_table(std::span<const BlockError> blocks);
/// [{"name", "dtype", "error", "weighted_error" (where there is one)}]
OrderedJson errors_json(std::span<const BlockError> blocks);
/// How many of them were weighed, as a sentence.
std::string importance_note(std::size_t matrices);

}  // namespace graft::convert
