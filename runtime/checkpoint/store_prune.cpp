// Retention. Snapshots go first, durably; only then what they alone needed: a crash in between leaves waste, not holes.
#include <algorithm>

#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {
namespace {

std::set<std::uint64_t> kept_snapshots(const std::map<std::uint64_t, Manifest>& snapshots, std::uint64_t head,
                                       const Retention& retention) {
  std::set<std::uint64_t> kept = retention.keep_numbers;
  kept.insert(head);
  std::size_t left = retention.keep_last;
  for (auto it = snapshots.rbegin(); it != snapshots.rend(); ++it) {
    const auto& tags = it->second.meta.tags;
    const bool tagged = std::any_of(tags.begin(), tags.end(),
                                    [&](const std::string& tag) { return retention.keep_tags.count(tag) != 0; });
    if (tagged || left > 0 || (retention.keep_tagged && !tags.empty())) kept.insert(it->first);
    if (left > 0) --left;
  }
  return kept;
}

}  // namespace

Result<PruneReport> Store::prune(const Retention& retention) {
  const std::string context = cat("While pruning the checkpoint store \"", path_, "\"");
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  const std::set<std::uint64_t> kept = kept_snapshots(snapshots_, root_.head, retention);
  // A run that keeps thousands of snapshots prunes after each: looking at all of them again would find nothing.
  const auto goes = [&](const auto& snapshot) { return kept.count(snapshot.first) == 0; };
  const bool damaged = retention.drop_damaged && !damaged_.empty();
  if (pruned_ && !damaged && std::none_of(snapshots_.begin(), snapshots_.end(), goes)) return PruneReport{};
  auto report = remove_unneeded(kept, retention.drop_damaged);
  if (!report.ok() || !options_.compaction.automatic) return std::move(report).with_context(context);
  auto compacted = compact(true);
  if (compacted.ok()) {
    report->compacted = *compacted;
    report->freed_bytes += compacted->freed_bytes;
  } else {
    report->compaction = std::move(compacted).status();
  }
  return report;
}

Result<PruneReport> Store::remove_unneeded(const std::set<std::uint64_t>& kept, bool drop_damaged) {
  pruned_ = looked_over_ = false;
  PruneReport report;
  const auto remove = [&](FileKind kind, std::uint64_t number) -> Status {
    const std::string path = file_path(kind, number);
    const auto info = files_->info(path);
    GRAFT_TRY(files_->remove(path));
    if (info.ok()) report.freed_bytes += info->size;
    return ok_status();
  };
  for (auto it = snapshots_.begin(); it != snapshots_.end();) {
    if (kept.count(it->first) != 0) {
      ++it;
      continue;
    }
    GRAFT_TRY(remove(FileKind::snapshot, it->first));
    report.removed.push_back(it->first);
    it = snapshots_.erase(it);
  }
  while (drop_damaged && !damaged_.empty()) {
    const std::uint64_t number = damaged_.begin()->first;
    Status status = remove(FileKind::snapshot, number);
    if (!status.ok() && status.code() != Code::not_found) return status;
    report.removed.push_back(number);
    damaged_.erase(damaged_.begin());
  }
  GRAFT_TRY(files_->sync_directory(path_));

  std::set<std::uint64_t> needed;
  for (const auto& [number, manifest] : snapshots_) {
    for (const Chunk& chunk : manifest.chunks) needed.insert(chunk.segment);
  }
  const std::uint64_t oldest = snapshots_.empty() ? 0 : snapshots_.begin()->first;
  GRAFT_TRY_ASSIGN(const Listing listing, list_files());
  for (const std::uint64_t number : listing.segments) {
    if (!is_held(number) && needed.count(number) == 0) GRAFT_TRY(remove(FileKind::segment, number));
  }
  // Journals since the oldest snapshot lead from it to the newest state, should those between be damaged.
  for (const std::uint64_t number : listing.journals) {
    if (number < oldest && number != root_.journal) GRAFT_TRY(remove(FileKind::journal, number));
  }
  GRAFT_TRY(files_->sync_directory(path_));
  pruned_ = true;
  return report;
}

}  // namespace graft::checkpoint
