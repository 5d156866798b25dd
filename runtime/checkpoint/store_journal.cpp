// The store's journal: making one, appending to it, making it durable.
#include <algorithm>
#include <array>

#include "platform/os/clock.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {

Status Store::write_journal(std::uint64_t number, std::uint64_t follows, std::uint64_t previous,
                            std::uint64_t previous_bytes, std::span<const JournalRecord> records, JournalFile& out) {
  const auto header =
      write_header({FileKind::journal, sealer_.store(), number, follows, previous, previous_bytes, sealer_.on()});
  std::vector<std::byte> bytes(header.begin(), header.end());
  GRAFT_TRY_ASSIGN(const auto key_check, sealer_.seal(std::span(header).first(kHeaderFieldBytes), {}));
  bytes.insert(bytes.end(), key_check.begin(), key_check.end());
  out.chain = header_checksum(bytes);
  for (const JournalRecord& record : records) GRAFT_TRY(add_frame(record, sealer_, out.chain, bytes));
  out.bytes = bytes.size();
  const std::array parts = {std::span<const std::byte>(bytes)};
  GRAFT_TRY_ASSIGN(out.file, write_new(FileKind::journal, number, parts));
  return ok_status();
}

/// A journal that this Store did not write from its beginning, or in which a write failed, is never written again: what
/// storage holds of it is unknown. Its good records begin a new one.
Status Store::start_journal() {
  const std::uint64_t number = root_.next++;
  JournalFile journal;
  Status status = write_journal(number, root_.head, previous_journal_, previous_bytes_, records_, journal);
  if (status.ok()) status = commit({root_.next, root_.head, number, root_.compacted});
  if (root_.journal == number && journal.file != nullptr) {
    journal_ = std::move(journal);
  } else {
    abandon(number);
  }
  return status;
}

Store::JournalFile::~JournalFile() {
  if (file != nullptr && unsynced != 0) (void)file->sync();
}

bool Store::journal_is_due(std::int64_t now_ns) const {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  const auto delay = static_cast<std::int64_t>(std::min<std::uint64_t>(options_.journal.max_delay_ms, 1u << 30));
  return delay != 0 && journal_.unsynced != 0 && now_ns - journal_.since_ns >= delay * kNsPerMs;
}

Status Store::append(const JournalRecord& record) {
  const std::uint64_t every = options_.journal.every;
  return append(record, (every != 0 && journal_.unsynced + 1 >= every) || journal_is_due(os::monotonic_ns()));
}

Status Store::append(const JournalRecord& record, bool sync) {
  const std::string context =
      cat("While writing the record of step ", record.step, " to the checkpoint store \"", path_, "\"");
  if (record.payload.size() > kMaxRecordBytes) {
    return invalid("A journal record has ", record.payload.size(), " bytes; at most ", kMaxRecordBytes,
                   " are allowed.");
  }
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  std::vector<std::byte> frame;
  Hash128 chain = journal_.chain;
  if (Status status = add_frame(record, sealer_, chain, frame); !status.ok()) {
    return std::move(status).with_context(context);
  }
  if (journal_.bytes + frame.size() > kMaxJournalBytes) {
    return invalid("The journal has ", bytes_text(journal_.bytes), " and may not pass ", bytes_text(kMaxJournalBytes),
                   "; a snapshot begins a new one.");
  }
  Status status = journal_.file->write_at(journal_.bytes, frame);
  if (status.ok() && sync) status = journal_.file->sync();
  if (!status.ok()) {
    journal_.file.reset();
    return std::move(status).with_context(context);
  }
  journal_.bytes += frame.size();
  journal_.chain = chain;
  records_.push_back(record);
  if (!sync && journal_.unsynced == 0) journal_.since_ns = os::monotonic_ns();
  journal_.unsynced = sync ? 0 : journal_.unsynced + 1;
  return status;
}

Status Store::sync_journal() {
  if (journal_.unsynced == 0) return ok_status();
  if (journal_.file == nullptr) return ensure_ready();
  Status status = journal_.file->sync();
  if (!status.ok()) {
    journal_.file.reset();
    return std::move(status).with_context(cat("While syncing the journal of the checkpoint store \"", path_, "\""));
  }
  journal_.unsynced = 0;
  return status;
}

Status Store::flush_due() { return journal_is_due(os::monotonic_ns()) ? sync_journal() : ok_status(); }

}  // namespace graft::checkpoint
