// A tensor on its way out of a model: where its numbers lie, and what has to become of them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/core/graph.h"
#include "tools/convert/common/blocks.h"
#include "tools/convert/common/source_tensors.h"

namespace graft::convert {

/// How rows of a head's matrix stand for the pairs that a rotary embedding turns.
enum class PairOrder : std::uint8_t {
  keep,
  neighbours,  ///< rows (i, i + half) of each head become neighbours, as GGUF files of Llama have them
  halves,      ///< the other way round
  blocks,  ///< rows of queries, keys and values, which each head has together, become all queries, all keys, all values
  groups,  ///< the other way round
};

struct ExportTensor {
  std::string name;
  SourceTensor source;       ///< in graft's layout; its bytes are borrowed
  DType dtype = DType::f32;  ///< to be written
  SourcePerm perm;           ///< Value::source_perm; {1, 0} transposes a matrix
  PairOrder pairs = PairOrder::keep;
  std::int64_t heads = 0;   ///< of the rows, where `pairs` says something
  float added = 0;          ///< to every number
  BlockScales scales = {};  ///< where it becomes blocks

  std::vector<std::int64_t> dims() const;  ///< as written
  std::uint64_t bytes() const;             ///< as written
};

/// The bytes to be written: the source's own, or made anew.
struct ExportBytes {
  std::span<const std::byte> bytes;
  HostBuffer owned;                      ///< empty where `bytes` are the source's
  std::optional<BlockError> error = {};  ///< of blocks that were made
};

/// Numbers that stay as they are keep their bits; f16 and bf16 are rounded to the nearest, ties to even.
/// invalid: a number that is not finite where blocks are asked for; unsupported: types that do not turn into each
/// other.
Result<ExportBytes> export_bytes(const ExportTensor& tensor);

/// The order of a matrix's rows (or a vector's numbers): out row i is row result[i].
std::vector<std::size_t> pair_rows(std::size_t rows, std::int64_t heads, PairOrder order);

/// A weight of a model with the name, the layout and the dtype that it has there.
ExportTensor export_tensor(const Value& value, std::span<const std::byte> bytes);

}  // namespace graft::convert
