#include "runtime/checkpoint/journal.h"

#include <cstring>

namespace graft::checkpoint {

Result<JournalContents> read_journal(os::FileSystem& files, const std::string& path, std::uint64_t number,
                                     std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const auto file, os::read_file(files, path, kMaxJournalBytes));
  const std::span<const std::byte> bytes = file.bytes();
  JournalContents contents;
  GRAFT_TRY_ASSIGN(contents.header, read_header(FileKind::journal, bytes));
  if (contents.header.number != number) return corrupt("It is journal ", contents.header.number, ", not ", number, ".");
  contents.chain = header_checksum(bytes);
  contents.good_bytes = kHeaderBytes;
  while (true) {
    const auto rest = bytes.subspan(contents.good_bytes);
    const auto frame = read_frame(rest, contents.chain);
    if (!frame || contents.good_bytes + kFrameHeaderBytes + frame->bytes > limit) break;
    const auto payload = rest.subspan(kFrameHeaderBytes, frame->bytes);
    contents.records.push_back({frame->kind, frame->step, {payload.begin(), payload.end()}});
    contents.good_bytes += kFrameHeaderBytes + frame->bytes;
    contents.chain = frame->checksum;
  }
  contents.tail_bytes = bytes.size() - contents.good_bytes;
  return contents;
}

void add_frame(const JournalRecord& record, Hash128& chain, std::vector<std::byte>& out) {
  const auto frame = write_frame(record.kind, record.step, record.payload, chain);
  out.insert(out.end(), frame.begin(), frame.end());
  out.insert(out.end(), record.payload.begin(), record.payload.end());
  std::memcpy(&chain.low, frame.data() + 16, 8);
  std::memcpy(&chain.high, frame.data() + 24, 8);
}

}  // namespace graft::checkpoint
