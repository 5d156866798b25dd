// Compaction: a new segment, then ROOT, which counts past it; then each snapshot that it concerns is replaced; only
// then are segments deleted. A crash in between leaves each snapshot with the old places or the new ones, and all that
// either needs.
#include <algorithm>

#include "runtime/checkpoint/compactor.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {

Result<std::unique_ptr<Compactor>> Store::begin_compaction(bool only_if_due) {
  const std::string context = cat("While planning the compaction of the checkpoint store \"", path_, "\"");
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  if (only_if_due && looked_over_) return std::unique_ptr<Compactor>();
  const auto listing = list_files();
  if (!listing.ok()) return Status(listing.status()).with_context(context);
  std::map<std::uint64_t, std::uint64_t> segments;
  std::uint64_t total = 0;
  for (const std::uint64_t number : listing->segments) {
    const auto info = files_->info(file_path(FileKind::segment, number));
    if (!info.ok()) return Status(info.status()).with_context(context);
    total += info->size;
    if (!is_held(number)) segments[number] = info->size;
  }
  CompactionPlan plan = plan_compaction(snapshots_, segments, options_);
  const std::uint64_t gain = plan.freed_bytes - std::min(plan.freed_bytes, plan.written_bytes);
  const CompactionPolicy& policy = options_.compaction;
  const bool due =
      gain >= policy.min_gain_bytes && static_cast<double>(gain) >= policy.min_gain * static_cast<double>(total);
  // Waste comes of snapshots that go: those that come add none, and what one that is being written holds may be waste.
  looked_over_ = !due && !pending_;
  if (gain == 0 || (only_if_due && !due)) return std::unique_ptr<Compactor>();
  compacting_ = root_.next++;
  return std::make_unique<Compactor>(*files_, path_, sealer_, options_, *compacting_, std::move(plan));
}

Result<CompactReport> Store::commit_compaction(std::unique_ptr<Compactor> compactor) {
  const std::string context = cat("While compacting the checkpoint store \"", path_, "\"");
  const std::uint64_t number = compactor->number();
  if (compacting_ != number) return error(Code::cancelled, context, ": Another compaction was begun since.");
  if (!compactor->finished()) return invalid(context, ": Its writer is not finished.");
  if (Status status = ensure_ready(); !status.ok()) return std::move(status).with_context(context);
  compactor->release();
  Root root = root_;
  root.compacted = number;
  if (Status status = commit(root); !status.ok()) {
    compacting_.reset();
    abandon(number);
    return std::move(status).with_context(context);
  }
  std::vector<std::uint64_t> changed;
  for (const auto& [snapshot, manifest] : snapshots_) {
    if (compactor->changes(manifest)) changed.push_back(snapshot);
  }
  Status status;
  for (auto it = changed.begin(); status.ok() && it != changed.end(); ++it) {
    const Manifest now = compactor->remapped(snapshots_.at(*it));
    status = replace_snapshot(now);
    // Perhaps only the last sync failed, so that either table may be the one that storage has.
    if (!status.ok()) hold_segments(now);
  }
  compacting_.reset();
  if (!status.ok()) return std::move(status).with_context(context);
  CompactReport report = compactor->report();
  std::set<std::uint64_t> all;
  for (const auto& [snapshot, manifest] : snapshots_) all.insert(snapshot);
  auto removed = remove_unneeded(all, false);
  if (!removed.ok()) return std::move(removed).status().with_context(context);
  report.freed_bytes = removed->freed_bytes;
  return report;
}

Result<CompactReport> Store::compact(bool only_if_due) {
  GRAFT_TRY_ASSIGN(auto compactor, begin_compaction(only_if_due));
  if (compactor == nullptr) return CompactReport{};
  if (Status status = compactor->run(); !status.ok()) {
    compacting_.reset();
    return std::move(status).with_context(cat("While compacting the checkpoint store \"", path_, "\""));
  }
  return commit_compaction(std::move(compactor));
}

/// Whether the segment must stay, even if no snapshot that this store knows needs it.
bool Store::is_held(std::uint64_t segment) const {
  // A damaged snapshot may refer to segments up to its own number, and to those that compaction gave it.
  if (!damaged_.empty() && segment <= std::max(damaged_.rbegin()->first, root_.compacted)) return true;
  if (pending_ && (segment == pending_->number || pending_->segments.count(segment) != 0)) return true;
  return segment == compacting_ || held_.count(segment) != 0;
}

void Store::hold_segments(const Manifest& manifest) {
  for (const Chunk& chunk : manifest.chunks) held_.insert(chunk.segment);
}

}  // namespace graft::checkpoint
