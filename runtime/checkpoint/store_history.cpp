// The history of a store: tags, sizes, differences. From the tables alone.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "platform/os/threads.h"
#include "runtime/checkpoint/store.h"

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
  std::set<std::string> keys;
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
  struct Use {
    std::uint64_t offset = 0;
    std::uint32_t snapshot = 0;  ///< the how manieth
    std::uint32_t bytes = 0;
  };
  // Sorted segment by segment: sorting all uses at once takes longer.
  BySegment<std::size_t> ends;
  for (const auto& [number, manifest] : snapshots_) {
    for (const Chunk& chunk : manifest.chunks) ++ends[chunk.segment];
  }
  std::vector<std::size_t> starts;
  std::size_t all = 0;
  for (auto& [segment, end] : ends.all()) {
    starts.push_back(all);
    all += std::exchange(end, all);
  }
  starts.push_back(all);
  std::vector<Use> uses(all);
  std::vector<SnapshotSize> sizes(snapshots_.size());
  std::uint32_t index = 0;
  for (const auto& [number, manifest] : snapshots_) {
    SnapshotSize& size = sizes[index];
    for (const Stream& stream : *manifest.streams) size.raw_bytes += stream.frozen ? 0 : stream.bytes;
    for (const Chunk& chunk : manifest.chunks) {
      size.stored_bytes += chunk.stored_bytes;
      uses[ends[chunk.segment]++] = {chunk.offset, index, chunk.stored_bytes};
    }
    ++index;
  }
  // What each thread finds: the bytes that one snapshot alone refers to.
  const std::size_t threads = threads_for(snapshots_.size());
  std::vector<std::vector<std::uint64_t>> own(threads, std::vector<std::uint64_t>(sizes.size()));
  os::run_in_threads(threads, [&](std::size_t thread) {
    const std::size_t segments = starts.size() - 1;
    for (std::size_t s = segments * thread / threads; s < segments * (thread + 1) / threads; ++s) {
      const auto begin = uses.begin() + static_cast<std::ptrdiff_t>(starts[s]);
      const auto end = uses.begin() + static_cast<std::ptrdiff_t>(starts[s + 1]);
      std::sort(begin, end, [](const Use& a, const Use& b) {
        return std::tie(a.offset, a.snapshot) < std::tie(b.offset, b.snapshot);
      });
      for (auto at = begin; at != end;) {
        const auto first = at;
        std::uint64_t bytes = 0;
        for (; at != end && at->offset == first->offset; ++at) bytes += at->bytes;
        if (first->snapshot == std::prev(at)->snapshot) own[thread][first->snapshot] += bytes;
      }
    }
  });
  std::map<std::uint64_t, SnapshotSize> out;
  index = 0;
  for (const auto& [number, manifest] : snapshots_) {
    for (const auto& found : own) sizes[index].own_bytes += found[index];
    out.emplace_hint(out.end(), number, sizes[index++]);
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
  if (std::find(tags.begin(), tags.end(), tag) != tags.end()) return ok_status();
  tags.push_back(tag);
  return replace_snapshot(changed).with_context(context);
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

}  // namespace graft::checkpoint
