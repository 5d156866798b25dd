// The history of a store: tags, sizes, differences. From the tables alone.
#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

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
    std::uint64_t snapshot = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, std::size_t> ends;  // of each segment's uses: sorting them all at once takes longer
  std::pair<std::uint64_t, std::size_t*> last = {0, nullptr};  // neighbours mostly lie in one segment
  const auto end_of = [&](std::uint64_t segment) -> std::size_t& {
    if (last.second == nullptr || last.first != segment) last = {segment, &ends[segment]};
    return *last.second;
  };
  for (const auto& [number, manifest] : snapshots_) {
    for (const Chunk& chunk : manifest.chunks) ++end_of(chunk.segment);
  }
  std::size_t all = 0;
  for (auto& [segment, end] : ends) all += std::exchange(end, all);
  std::vector<Use> uses(all);
  std::map<std::uint64_t, SnapshotSize> out;
  for (const auto& [number, manifest] : snapshots_) {
    SnapshotSize& size = out.emplace_hint(out.end(), number, SnapshotSize{})->second;
    for (const Stream& stream : *manifest.streams) size.raw_bytes += stream.frozen ? 0 : stream.bytes;
    for (const Chunk& chunk : manifest.chunks) {
      size.stored_bytes += chunk.stored_bytes;
      uses[end_of(chunk.segment)++] = {chunk.offset, number, chunk.stored_bytes};
    }
  }
  std::size_t at = 0;
  std::vector<std::size_t> order;
  order.reserve(ends.size());
  for (const auto& [segment, end] : ends) order.push_back(end);
  std::sort(order.begin(), order.end());
  for (const std::size_t end : order) {
    std::sort(&uses[at], &uses[0] + end, [](const Use& a, const Use& b) {
      return std::tie(a.offset, a.snapshot) < std::tie(b.offset, b.snapshot);
    });
    while (at != end) {
      const std::size_t first = at;
      while (at != end && uses[at].offset == uses[first].offset) ++at;
      const std::uint64_t owner = uses[first].snapshot;
      if (owner != uses[at - 1].snapshot) continue;
      for (std::size_t i = first; i != at; ++i) out.at(owner).own_bytes += uses[i].bytes;
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
