// One journal file: a header, then frames whose checksums form a chain.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "platform/os/file.h"
#include "runtime/checkpoint/format.h"
#include "runtime/checkpoint/sealer.h"

namespace graft::checkpoint {

/// One acknowledged step. The store does not look into the payload (at most kMaxRecordBytes).
struct JournalRecord {
  std::uint32_t kind = 0;
  std::uint64_t step = 0;
  std::vector<std::byte> payload;
  friend bool operator==(const JournalRecord&, const JournalRecord&) = default;
};

struct JournalContents {
  Header header;
  std::vector<JournalRecord> records;  ///< the whole and right frames from the start on
  std::uint64_t good_bytes = 0;        ///< header and those frames
  std::uint64_t tail_bytes = 0;        ///< after them: a frame cut off by a crash, or damage
  std::string problem;                 ///< why the frame after them, though whole, is refused; empty: it is not
  Hash128 chain;                       ///< with which the next frame's checksum begins
};

/// Reads at most the first `limit` bytes of a journal of any store. corrupt or not_found where it is no journal with
/// this number; invalid_argument where `cipher` does not open it.
Result<JournalContents> read_journal(os::FileSystem& files, const std::string& path, std::uint64_t number,
                                     Cipher* cipher, std::uint64_t limit = kMaxJournalBytes);

/// Bytes of the record's frame.
inline std::uint64_t frame_bytes(const JournalRecord& record, const Sealer& sealer) {
  return kFrameHeaderBytes + record.payload.size() + sealer.overhead();
}
/// Appends the record's frame to `out` and moves the chain on. Fails only where the cipher does.
Status add_frame(const JournalRecord& record, const Sealer& sealer, Hash128& chain, std::vector<std::byte>& out);

}  // namespace graft::checkpoint
