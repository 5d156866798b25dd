// Everything that changes a store, but for pruning. Order of each change: new files, synced; their names, synced; then
// ROOT, replaced atomically. Before ROOT names it, nothing new counts; nothing old is touched.
#include <array>

#include "runtime/checkpoint/snapshot_writer.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {

Result<std::unique_ptr<os::File>> Store::write_new(FileKind kind, std::uint64_t number,
                                                   std::span<const std::span<const std::byte>> parts) {
  GRAFT_TRY_ASSIGN(auto file, files_->open(file_path(kind, number), os::OpenMode::create_new));
  std::uint64_t at = 0;
  for (const auto part : parts) {
    if (!part.empty()) GRAFT_TRY(file->write_at(at, part));
    at += part.size();
  }
  GRAFT_TRY(file->sync());
  return file;
}

/// Makes `root` the store's root. Where that fails, root_ is what ROOT now reads as, if that can be told, and the next
/// change begins by writing it again.
Status Store::commit(const Root& root) {
  GRAFT_TRY(files_->sync_directory(path_));
  const auto bytes = write_header({FileKind::root, store_, root.next, root.head, root.journal, 0});
  const std::array parts = {std::span<const std::byte>(bytes)};
  Status status = os::atomic_write_file(*files_, file_path(FileKind::root, 0), parts);
  root_unsure_ = !status.ok();
  if (status.ok()) {
    root_ = root;
    for (const std::uint64_t number : doubtful_) discard(number);
    doubtful_.clear();
    return status;
  }
  std::uint64_t store = 0;
  const auto actual = parse_root(store);
  if (actual.ok() && store == store_ && actual->journal == root.journal) root_ = root;
  return status;
}

Status Store::ensure_ready() {
  GRAFT_TRY(check_writable());
  if (journal_.file == nullptr) return start_journal();
  return root_unsure_ ? commit(root_) : ok_status();
}

Status Store::write_journal(std::uint64_t number, std::uint64_t follows, std::uint64_t previous,
                            std::uint64_t previous_bytes, std::span<const JournalRecord> records, JournalFile& out) {
  const auto header = write_header({FileKind::journal, store_, number, follows, previous, previous_bytes});
  std::vector<std::byte> bytes(header.begin(), header.end());
  out.chain = header_checksum(bytes);
  for (const JournalRecord& record : records) add_frame(record, out.chain, bytes);
  out.bytes = bytes.size();
  const std::array parts = {std::span<const std::byte>(bytes)};
  GRAFT_TRY_ASSIGN(out.file, write_new(FileKind::journal, number, parts));
  return ok_status();
}

/// A journal that was not written by this Store from its beginning, or in which a write failed, is never written again:
/// nobody knows what of it storage holds. Its good records begin a new one.
Status Store::start_journal() {
  const std::uint64_t number = root_.next++;
  JournalFile journal;
  Status status = write_journal(number, root_.head, previous_journal_, previous_bytes_, records_, journal);
  if (status.ok()) status = commit({root_.next, root_.head, number});
  if (root_.journal == number && journal.file != nullptr) {
    journal_ = std::move(journal);
    unsynced_ = 0;
  } else {
    abandon(number);
  }
  return status;
}

/// Failing to delete harms nothing: the numbers are not used again before opening cleans up.
void Store::discard(std::uint64_t number) {
  for (const FileKind kind : {FileKind::snapshot, FileKind::journal, FileKind::segment}) {
    (void)files_->remove(file_path(kind, number));
  }
}

/// Deletes the files of a change that failed, but not while ROOT on storage may name them.
void Store::abandon(std::uint64_t number) {
  if (root_unsure_) {
    doubtful_.push_back(number);
  } else {
    discard(number);
  }
}

Status Store::write_snapshot_files(const Manifest& manifest, JournalFile& journal) {
  GRAFT_TRY(check(manifest));
  const auto tables = encode_tables(manifest);
  if (tables.size() > kMaxSnapshotFileBytes - kHeaderBytes) {
    return invalid("The tables of a snapshot have ", bytes_text(tables.size()), "; at most ",
                   bytes_text(kMaxSnapshotFileBytes), " are allowed.");
  }
  const auto header =
      write_header({FileKind::snapshot, store_, manifest.number, tables.size(), manifest.parent, 0}, tables);
  const std::array parts = {std::span<const std::byte>(header), std::span<const std::byte>(tables)};
  GRAFT_TRY(write_new(FileKind::snapshot, manifest.number, parts));
  return write_journal(manifest.number, manifest.number, root_.journal, journal_.bytes, {}, journal);
}

Result<PutReport> Store::put_snapshot(std::span<const StreamInput> streams, const SnapshotMeta& meta) {
  const std::string context = cat("While writing a snapshot to the checkpoint store \"", path_, "\"");
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  if (Status status = sync_journal(); !status.ok()) return std::move(status).with_context(context);
  const auto base = snapshots_.find(root_.head);
  const std::uint64_t number = root_.next++;
  SnapshotWriter writer(*files_, path_, store_, options_, base == snapshots_.end() ? nullptr : &base->second, number);
  writer.manifest().meta = meta;
  Status status;
  for (const StreamInput& stream : streams) {
    status = writer.add(stream);
    if (!status.ok()) break;
  }
  if (status.ok()) status = writer.finish();
  JournalFile journal;
  if (status.ok()) status = write_snapshot_files(writer.manifest(), journal);
  const std::uint64_t before = root_.journal, before_bytes = journal_.bytes;
  if (status.ok()) status = commit({root_.next, number, number});
  if (root_.journal == number) {  // committed, though perhaps with an error
    snapshots_.insert_or_assign(number, writer.manifest());
    records_.clear();
    journal_ = std::move(journal);
    previous_journal_ = before;
    previous_bytes_ = before_bytes;
  } else {
    abandon(number);
  }
  if (!status.ok()) return std::move(status).with_context(context);
  PutReport report = writer.report();
  if (const auto info = files_->info(file_path(FileKind::snapshot, number)); info.ok())
    report.stored_bytes += info->size;
  return report;
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
  add_frame(record, chain, frame);
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
  unsynced_ = sync ? 0 : unsynced_ + 1;
  return status;
}

Status Store::sync_journal() {
  if (unsynced_ == 0) return ok_status();
  if (journal_.file == nullptr) return ensure_ready();
  Status status = journal_.file->sync();
  if (!status.ok()) {
    journal_.file.reset();
    return std::move(status).with_context(cat("While syncing the journal of the checkpoint store \"", path_, "\""));
  }
  unsynced_ = 0;
  return status;
}

Status Store::set_head(std::uint64_t number) {
  GRAFT_TRY(check_writable());
  if (number != 0 && snapshots_.count(number) == 0) {
    return error(Code::not_found, "The checkpoint store \"", path_, "\" has no good snapshot ", number, ".");
  }
  const std::uint64_t name = root_.next++;
  JournalFile journal;
  Status status = write_journal(name, number, kNoJournal, 0, {}, journal);
  if (status.ok()) status = commit({root_.next, number, name});
  if (root_.journal == name) {
    records_.clear();
    unsynced_ = 0;
    journal_ = std::move(journal);
    previous_journal_ = kNoJournal;
    previous_bytes_ = 0;
  } else {
    abandon(name);
  }
  return std::move(status).with_context(cat("While making snapshot ", number, " the head"));
}

}  // namespace graft::checkpoint
