// Where a loader stands: all that is needed to go on with exactly the batches that would have come.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "platform/base/status.h"

namespace graft::data {

struct Cursor {
  static constexpr std::uint64_t kUnknownSize = ~0ull;

  std::uint64_t seed = 0;
  bool shuffle = false;
  bool keyed = false;                    ///< by the order of keyed_order.h; shuffle is set then
  std::uint64_t samples = kUnknownSize;  ///< of an epoch; a cursor fits only a data set of the same size
  std::uint64_t epoch = 0;               ///< from 0
  std::uint64_t position = 0;            ///< samples given in this epoch
  // For streams: the first position not yet read, and the positions that wait in the shuffle buffer, in its order.
  std::uint64_t stream_position = 0;
  bool stream_ended = false;
  std::vector<std::uint64_t> buffered;

  friend bool operator==(const Cursor&, const Cursor&) = default;
};

/// Little-endian bytes, with a version in front.
std::vector<std::byte> serialize(const Cursor& cursor);
/// corrupt where the bytes are not a cursor; the bytes may come from a damaged file.
Result<Cursor> parse_cursor(std::span<const std::byte> bytes);

}  // namespace graft::data
