#include "runtime/checkpoint/journal.h"

#include <algorithm>
#include <cstring>

namespace graft::checkpoint {

Result<JournalContents> read_journal(os::FileSystem& files, const std::string& path, std::uint64_t number,
                                     Cipher* cipher, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const auto file, os::read_file(files, path, kMaxJournalBytes));
  const std::span<const std::byte> bytes = file.bytes();
  JournalContents contents;
  GRAFT_TRY_ASSIGN(contents.header, read_header(FileKind::journal, bytes));
  if (contents.header.number != number) return corrupt("It is journal ", contents.header.number, ", not ", number, ".");
  const Sealer sealer(cipher, contents.header.store);
  contents.good_bytes = kHeaderBytes + sealer.overhead();
  GRAFT_TRY(sealer.check_key(contents.header, bytes.first(std::min<std::size_t>(contents.good_bytes, bytes.size()))));
  contents.chain = header_checksum(bytes);
  while (true) {
    const auto rest = bytes.subspan(contents.good_bytes);
    const auto frame = read_frame(rest, contents.chain);
    if (!frame || contents.good_bytes + kFrameHeaderBytes + frame->bytes > limit) break;
    auto payload = sealer.open(frame_binding(rest.first(16), contents.chain),
                               rest.subspan(kFrameHeaderBytes, frame->bytes), cat("record of step ", frame->step));
    if (!payload.ok()) {
      contents.problem = payload.status().message();
      break;
    }
    contents.records.push_back({frame->kind, frame->step, std::move(payload).value()});
    contents.good_bytes += kFrameHeaderBytes + frame->bytes;
    contents.chain = frame->checksum;
  }
  contents.tail_bytes = bytes.size() - contents.good_bytes;
  return contents;
}

Status add_frame(const JournalRecord& record, const Sealer& sealer, Hash128& chain, std::vector<std::byte>& out) {
  const std::size_t size = record.payload.size() + sealer.overhead();
  const auto start = frame_start(size, record.kind, record.step);
  GRAFT_TRY_ASSIGN(const auto payload, sealer.seal(frame_binding(start, chain), record.payload));
  const auto frame = write_frame(start, payload, chain);
  out.insert(out.end(), frame.begin(), frame.end());
  out.insert(out.end(), payload.begin(), payload.end());
  std::memcpy(&chain.low, frame.data() + 16, 8);
  std::memcpy(&chain.high, frame.data() + 24, 8);
  return ok_status();
}

}  // namespace graft::checkpoint
