// The history of a store: tags, sizes, differences. From the tables alone.
#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "platform/os/threads.h"
#include "runtime/checkpoint/store.h"
#include "runtime/checkpoint/tags.h"

namespace graft::checkpoint {
namespace {

std::set<Place> places(const Manifest& manifest) {
  std::set<Place> all;
  for (const Chunk& chunk : manifest.chunks) all.insert(place_of(chunk));
  return all;
}

/// How stream `b` differs from `a`, of which either may be null.
StreamDiff diff_streams(const Manifest& in_a, const Stream* a, const Manifest& in_b, const Stream* b) {
  const Stream& one = b != nullptr ? *b : *a;
  StreamDiff diff{one.name, one.worker};
  diff.bytes_a = a != nullptr ? a->bytes : 0;
  diff.bytes_b = b != nullptr ? b->bytes : 0;
  using Indices = std::span<const std::uint32_t>;
  const Indices chunks_a = a != nullptr ? in_a.chunks_of(*a) : Indices{};
  const Indices chunks_b = b != nullptr ? in_b.chunks_of(*b) : Indices{};
  for (std::size_t i = 0; i < std::max(chunks_a.size(), chunks_b.size()); ++i) {
    const Chunk* left = i < chunks_a.size() ? &in_a.chunks[chunks_a[i]] : nullptr;
    const Chunk* right = i < chunks_b.size() ? &in_b.chunks[chunks_b[i]] : nullptr;
    if (left != nullptr && right != nullptr && left->hash == right->hash &&
        left->decoded_bytes == right->decoded_bytes) {
      ++diff.shared_chunks;
      continue;
    }
    ++diff.changed_chunks;
    diff.changed_bytes +=
        std::max(left != nullptr ? left->decoded_bytes : 0, right != nullptr ? right->decoded_bytes : 0);
  }
  const bool both = a != nullptr && b != nullptr;
  const bool same =
      both && diff.changed_chunks == 0 && a->bytes == b->bytes && a->frozen == b->frozen && a->element == b->element;
  diff.difference = !both  ? (b != nullptr ? Difference::only_in_b : Difference::only_in_a)
                    : same ? Difference::same
                           : Difference::changed;
  return diff;
}

/// Who uses the chunks of a segment. Snapshots mostly name them in the same order: the next one is looked at first.
class SegmentUses {
 public:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0}, kSeveral = kNobody - 1;
  struct Use {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;  ///< that its only user names
    std::uint32_t user = kNobody;
  };

  Use& at(std::uint64_t offset) {
    if (next_ < uses_.size() && uses_[next_].offset == offset) return uses_[next_++];
    const std::size_t found = find(offset);
    next_ = found + 1;
    return uses_[found];
  }

 private:
  std::size_t find(std::uint64_t offset) {
    constexpr std::size_t kFew = 64;  // are compared one by one
    if (uses_.size() <= kFew) {
      for (std::size_t i = 0; i < uses_.size(); ++i)
        if (uses_[i].offset == offset) return i;
    } else if (const auto found = places_.find(offset); found != places_.end()) {
      return found->second;
    }
    uses_.push_back({.offset = offset});
    if (uses_.size() == kFew + 1) {
      for (std::size_t i = 0; i < uses_.size(); ++i) places_.emplace(uses_[i].offset, i);
    } else if (uses_.size() > kFew) {
      places_.emplace(offset, uses_.size() - 1);
    }
    return uses_.size() - 1;
  }

  std::vector<Use> uses_;                                  ///< in the order in which they were first named
  std::unordered_map<std::uint64_t, std::size_t> places_;  ///< by offset; empty while there are few
  std::size_t next_ = 0;
};

/// Stored and own bytes of each, in the segments whose numbers end in `bits` under `mask`.
std::vector<SnapshotSize> sizes_in(std::span<const Manifest* const> manifests, std::uint64_t bits, std::uint64_t mask) {
  std::vector<SnapshotSize> sizes(manifests.size());
  BySegment<SegmentUses> segments;
  for (std::uint32_t i = 0; i < manifests.size(); ++i) {
    SnapshotSize& size = sizes[i];
    for (const Chunk& chunk : manifests[i]->chunks) {
      if ((chunk.segment & mask) != bits) continue;
      size.stored_bytes += chunk.stored_bytes;
      SegmentUses::Use& use = segments[chunk.segment].at(chunk.offset);
      if (use.user == SegmentUses::kNobody) use.user = i;
      if (use.user == i) {
        use.bytes += chunk.stored_bytes;
        size.own_bytes += chunk.stored_bytes;
      } else if (use.user != SegmentUses::kSeveral) {
        sizes[use.user].own_bytes -= use.bytes;
        use.user = SegmentUses::kSeveral;
      }
    }
  }
  return sizes;
}

}  // namespace

Result<SnapshotDiff> Store::diff(std::uint64_t a, std::uint64_t b) const {
  GRAFT_TRY_ASSIGN(const Manifest* left, find_snapshot(a));
  GRAFT_TRY_ASSIGN(const Manifest* right, find_snapshot(b));
  SnapshotDiff diff;
  const auto index = [](const Manifest& manifest) {
    std::map<std::pair<std::uint32_t, std::string_view>, const Stream*> streams;
    for (const Stream& stream : *manifest.streams) streams[{stream.worker, stream.name}] = &stream;
    return streams;
  };
  const auto in_a = index(*left), in_b = index(*right);
  for (const Stream& stream : *right->streams) {
    const auto found = in_a.find({stream.worker, stream.name});
    diff.streams.push_back(diff_streams(*left, found == in_a.end() ? nullptr : found->second, *right, &stream));
  }
  for (const Stream& stream : *left->streams) {
    if (in_b.count({stream.worker, stream.name}) == 0) {
      diff.streams.push_back(diff_streams(*left, &stream, *right, nullptr));
    }
  }
  std::set<std::string, std::less<>> keys;
  for (const auto* manifest : {left, right}) {
    const auto& other = *(manifest == left ? right : left)->meta.metadata;
    for (const auto& [key, value] : *manifest->meta.metadata) {
      const auto found = other.find(key);
      if (found == other.end() || found->second != value) keys.insert(key);
    }
  }
  diff.metadata.assign(keys.begin(), keys.end());
  const std::set<Place> known = places(*left);
  for (const Chunk& chunk : right->chunks) {
    if (known.count(place_of(chunk)) == 0) diff.stored_bytes += chunk.stored_bytes;
  }
  return diff;
}

std::map<std::uint64_t, SnapshotSize> Store::sizes() const {
  std::vector<const Manifest*> manifests;
  manifests.reserve(snapshots_.size());
  for (const auto& [number, manifest] : snapshots_) manifests.push_back(&manifest);
  // Each thread counts what lies in segments of its own.
  const std::size_t threads = std::bit_floor(threads_for(manifests.size()));
  std::vector<std::vector<SnapshotSize>> parts(threads);
  os::run_in_threads(threads, [&](std::size_t thread) { parts[thread] = sizes_in(manifests, thread, threads - 1); });
  std::map<std::uint64_t, SnapshotSize> out;
  for (std::size_t i = 0; i < manifests.size(); ++i) {
    SnapshotSize& size = out.emplace_hint(out.end(), manifests[i]->number, SnapshotSize{})->second;
    for (const Stream& stream : *manifests[i]->streams) size.raw_bytes += stream.frozen ? 0 : stream.bytes;
    for (const auto& part : parts) {
      size.stored_bytes += part[i].stored_bytes;
      size.own_bytes += part[i].own_bytes;
    }
  }
  return out;
}

/// A snapshot with other tables: the file is replaced as a whole, so a crash leaves the one or the other.
Status Store::replace_snapshot(const Manifest& manifest) {
  GRAFT_TRY(check(manifest));
  GRAFT_TRY(write_snapshot(manifest, true));
  snapshots_.insert_or_assign(manifest.number, manifest);
  return ok_status();
}

Status Store::tag(std::uint64_t number, const std::string& tag) {
  const std::string context = cat("While tagging snapshot ", number, " as \"", tag, "\"");
  if (Status status = check_writable(); !status.ok()) return std::move(status).with_context(context);
  const auto found = find_snapshot(number);
  if (!found.ok()) return Status(found.status()).with_context(context);
  Manifest changed = **found;
  auto& tags = changed.meta.tags;
  if (std::find(tags.begin(), tags.end(), tag) == tags.end()) {
    tags.push_back(tag);
    if (Status status = check_tags(tags); !status.ok()) return std::move(status).with_context(context);
    if (Status status = replace_snapshot(changed); !status.ok()) return std::move(status).with_context(context);
  }
  return take_tags_from_others(*this, number).with_context(context);
}

Status Store::untag(std::uint64_t number, std::string_view tag) {
  const std::string context = cat("While taking the tag \"", tag, "\" from snapshot ", number);
  if (Status status = check_writable(); !status.ok()) return std::move(status).with_context(context);
  const auto found = find_snapshot(number);
  if (!found.ok()) return Status(found.status()).with_context(context);
  Manifest changed = **found;
  if (std::erase(changed.meta.tags, tag) == 0) {
    return error(Code::not_found, context, ": It has no such tag.");
  }
  return replace_snapshot(changed).with_context(context);
}

std::uint64_t Store::find_tag(std::string_view tag) const {
  for (auto it = snapshots_.rbegin(); it != snapshots_.rend(); ++it) {
    const auto& tags = it->second.meta.tags;
    if (std::find(tags.begin(), tags.end(), tag) != tags.end()) return it->first;
  }
  return 0;
}

bool is_number(std::string_view name) { return !name.empty() && name.find_first_not_of("0123456789") == name.npos; }

Status check_tags(const std::vector<std::string>& tags) {
  const auto number = std::find_if(tags.begin(), tags.end(), is_number);
  if (number == tags.end()) return ok_status();
  return invalid("The tag \"", *number,
                 "\" has digits only, and would hide the snapshot of that number; give it a letter.");
}

Status take_tags_from_others(Store& store, std::uint64_t number) {
  for (const std::string& tag : store.snapshots().at(number).meta.tags) {
    std::vector<std::uint64_t> others;
    for (const auto& [other, manifest] : store.snapshots()) {
      const auto& theirs = manifest.meta.tags;
      if (other != number && std::find(theirs.begin(), theirs.end(), tag) != theirs.end()) others.push_back(other);
    }
    for (const std::uint64_t other : others) GRAFT_TRY(store.untag(other, tag));
  }
  return ok_status();
}

}  // namespace graft::checkpoint
