// Everything that changes a store, but for pruning. Order of each change: new files, synced; their names, synced; then
// ROOT, replaced atomically. Before ROOT names it, nothing new counts; nothing old is touched.
#include <array>

#include "platform/os/access.h"
#include "runtime/checkpoint/snapshot_writer.h"
#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tags.h"

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
  const Header fields{FileKind::root, sealer_.store(), root.next,   root.head,
                      root.journal,   root.compacted,  sealer_.on()};
  const auto unsealed = write_header(fields);  // the checksum comes last: it covers what is sealed with the fields
  GRAFT_TRY_ASSIGN(const auto key_check, sealer_.seal(std::span(unsealed).first(kHeaderFieldBytes), {}));
  const auto header = write_header(fields, key_check);
  const std::array parts = {std::span<const std::byte>(header), std::span<const std::byte>(key_check)};
  Status status = os::atomic_write_private(*files_, file_path(FileKind::root, 0), parts);
  root_unsure_ = !status.ok();
  if (status.ok()) {
    root_ = root;
    for (const std::uint64_t number : doubtful_) discard(number);
    doubtful_.clear();
    return status;
  }
  Header found;
  std::vector<std::byte> bytes;
  const auto actual = parse_root(found, bytes);
  if (actual.ok() && found.store == sealer_.store() && *actual == root) root_ = root;
  return status;
}

Status Store::ensure_ready() {
  GRAFT_TRY(check_writable());
  if (journal_.file == nullptr) return start_journal();
  return root_unsure_ ? commit(root_) : ok_status();
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

/// The tables of a snapshot, under a new name or in place of those under its own.
Status Store::write_snapshot(const Manifest& manifest, bool replace) {
  const auto tables = encode_tables(manifest);
  if (tables.size() > kMaxSnapshotFileBytes - kHeaderBytes - kMaxSealBytes) {
    return invalid("The tables of a snapshot have ", bytes_text(tables.size()), "; at most ",
                   bytes_text(kMaxSnapshotFileBytes), " are allowed.");
  }
  const Header fields{
      FileKind::snapshot, sealer_.store(), manifest.number, tables.size() + sealer_.overhead(), manifest.parent, 0,
      sealer_.on()};
  const auto unsealed = write_header(fields);
  GRAFT_TRY_ASSIGN(const auto body, sealer_.seal(std::span(unsealed).first(kHeaderFieldBytes), tables));
  const auto header = write_header(fields, body);
  const std::array parts = {std::span<const std::byte>(header), std::span<const std::byte>(body)};
  if (replace) return os::atomic_write_private(*files_, file_path(FileKind::snapshot, manifest.number), parts);
  return detail::to_status(write_new(FileKind::snapshot, manifest.number, parts));
}

Result<PutReport> Store::put_snapshot(std::span<const StreamInput> streams, const SnapshotMeta& meta) {
  GRAFT_TRY_ASSIGN(auto writer, begin_snapshot(meta));
  const auto write = [&]() -> Status {
    for (const StreamInput& stream : streams) GRAFT_TRY(writer->add(stream));
    return writer->finish();
  };
  if (Status status = write(); !status.ok()) {
    pending_.reset();
    return std::move(status).with_context(cat("While writing a snapshot to the checkpoint store \"", path_, "\""));
  }
  return commit_snapshot(std::move(writer));
}

Result<std::unique_ptr<SnapshotWriter>> Store::begin_snapshot(const SnapshotMeta& meta) {
  GRAFT_TRY(check_tags(meta.tags));
  if (Status status = ensure_ready(); !status.ok()) {
    return std::move(status).with_context(cat("While beginning a snapshot in the checkpoint store \"", path_, "\""));
  }
  const auto base = snapshots_.find(root_.head);
  const Manifest* tables = base == snapshots_.end() ? nullptr : &base->second;
  pending_ = Pending{root_.next++, records_.size(), {}};
  if (tables != nullptr) {
    for (const Chunk& chunk : tables->chunks) pending_->segments.insert(chunk.segment);
  }
  return std::make_unique<SnapshotWriter>(*files_, path_, sealer_, options_, tables, pending_->number, meta);
}

Result<PutReport> Store::commit_snapshot(std::unique_ptr<SnapshotWriter> writer) {
  const std::string context = cat("While writing a snapshot to the checkpoint store \"", path_, "\"");
  const std::uint64_t number = writer->manifest().number;
  if (!pending_ || pending_->number != number) {
    return error(Code::cancelled, context, ": Another snapshot was begun since, or another made the head.");
  }
  if (!writer->finished()) return invalid(context, ": Its writer is not finished.");
  const std::size_t before = pending_->records;
  pending_.reset();
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  if (Status status = sync_journal(); !status.ok()) return std::move(status).with_context(context);
  writer->release();
  std::uint64_t before_bytes = kHeaderBytes + sealer_.overhead();
  for (std::size_t i = 0; i < before; ++i) before_bytes += frame_bytes(records_[i], sealer_);
  // Journals are named in the order in which they follow each other, which is not always that of the snapshots.
  const std::uint64_t name = root_.next == number + 1 ? number : root_.next++;
  JournalFile journal;
  const std::uint64_t old = root_.journal;
  Status status;
  // Where ROOT counts past this number already, a crash leaves the snapshot in sight: its segment must be there, too.
  if (name != number) status = files_->sync_directory(path_);
  if (status.ok()) status = write_snapshot(writer->manifest(), false);
  if (status.ok()) {
    status = write_journal(name, number, old, before_bytes, std::span(records_).subspan(before), journal);
  }
  if (status.ok()) status = commit({root_.next, number, name, root_.compacted});
  if (root_.journal == name) {  // committed, though perhaps with an error
    snapshots_.insert_or_assign(number, writer->manifest());
    records_.erase(records_.begin(), records_.begin() + static_cast<std::ptrdiff_t>(before));
    journal_ = std::move(journal);
    previous_journal_ = old;
    previous_bytes_ = before_bytes;
  } else {
    abandon(number);
    if (name != number) abandon(name);
  }
  if (status.ok()) status = take_tags_from_others(*this, number);
  if (!status.ok()) return std::move(status).with_context(context);
  PutReport report = writer->report();
  if (const auto info = files_->info(file_path(FileKind::snapshot, number)); info.ok())
    report.stored_bytes += info->size;
  return report;
}

Status Store::set_head(std::uint64_t number) {
  GRAFT_TRY(check_writable());
  if (number != 0 && snapshots_.count(number) == 0) {
    return error(Code::not_found, "The checkpoint store \"", path_, "\" has no good snapshot ", number, ".");
  }
  const std::uint64_t name = root_.next++;
  JournalFile journal;
  Status status = write_journal(name, number, kNoJournal, 0, {}, journal);
  if (status.ok()) status = commit({root_.next, number, name, root_.compacted});
  if (root_.journal == name) {
    records_.clear();
    pending_.reset();
    journal_ = std::move(journal);
    previous_journal_ = kNoJournal;
    previous_bytes_ = 0;
  } else {
    abandon(name);
  }
  return std::move(status).with_context(cat("While making snapshot ", number, " the head"));
}

}  // namespace graft::checkpoint
