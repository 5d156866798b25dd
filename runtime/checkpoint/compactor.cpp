#include "runtime/checkpoint/compactor.h"

#include <algorithm>

namespace graft::checkpoint {
namespace {

/// Places that a stream of some snapshot refers to; all others only serve as parents.
std::set<Place> used_places(const std::map<std::uint64_t, Manifest>& snapshots) {
  std::set<Place> used;
  for (const auto& [number, manifest] : snapshots) {
    for (const std::uint32_t index : manifest.indices) used.insert(place_of(manifest.chunks[index]));
  }
  return used;
}

bool worth_rebasing(std::span<const Chunk> chain, const std::set<Place>& used, const std::set<Place>& rebased,
                    const StoreOptions& options) {
  const Chunk& last = chain.back();
  std::uint64_t length = 0, cost = 0, private_bytes = last.stored_bytes;
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    ++length;
    cost += std::uint64_t{it->stored_bytes} + it->decoded_bytes;
    if (used.count(place_of(*it)) == 0) private_bytes += it->stored_bytes;
    if (rebased.count(place_of(*it)) != 0) break;
  }
  return length > options.max_chain || private_bytes > last.decoded_bytes ||
         static_cast<double>(cost) > options.max_restore_cost * 2 * last.decoded_bytes;
}

}  // namespace

CompactionPlan plan_compaction(const std::map<std::uint64_t, Manifest>& snapshots,
                               const std::map<std::uint64_t, std::uint64_t>& segments, const StoreOptions& options) {
  CompactionPlan plan;
  const std::set<Place> used = used_places(snapshots);
  std::set<Place> rebased;
  std::map<Place, Chunk> live;
  const auto is_rebased = [&](const Place& place) { return rebased.count(place) != 0; };
  for (const auto& [number, manifest] : snapshots) {  // oldest first: what follows a rebased chunk has a short chain
    for (const std::uint32_t index : manifest.indices) {
      const Place place = place_of(manifest.chunks[index]);
      if (manifest.chunks[index].parent == kNoParent || is_rebased(place)) continue;
      std::vector<Chunk> chain = chain_of(manifest, index);
      if (!worth_rebasing(chain, used, rebased, options)) continue;
      rebased.insert(place);
      plan.rebased.push_back(std::move(chain));
      plan.written_bytes += manifest.chunks[index].decoded_bytes;
    }
  }
  for (const auto& [number, manifest] : snapshots) {
    for (std::uint32_t i : manifest.indices) {
      for (; i != kNoParent && !is_rebased(place_of(manifest.chunks[i])); i = manifest.chunks[i].parent) {
        live.emplace(place_of(manifest.chunks[i]), manifest.chunks[i]);
      }
    }
  }
  std::map<std::uint64_t, std::uint64_t> live_bytes;
  for (const auto& [place, chunk] : live) live_bytes[place.first] += chunk.stored_bytes;
  for (const auto& [segment, size] : segments) {
    const std::uint64_t kept = live_bytes[segment];
    if (static_cast<double>(kept) >= options.compaction.min_live * static_cast<double>(size)) continue;
    for (auto it = live.lower_bound({segment, 0}); it != live.end() && it->first.first == segment; ++it) {
      plan.moved.push_back(it->second);
    }
    ++plan.segments;
    plan.freed_bytes += size;
    plan.written_bytes += kept;
  }
  return plan;
}

Compactor::Compactor(os::FileSystem& files, const std::string& path, const Sealer& sealer, const StoreOptions& options,
                     std::uint64_t number, CompactionPlan plan)
    : options_(options), plan_(std::move(plan)), reader_(files, path, sealer), segment_(files, path, sealer, number) {}

Status Compactor::run() {
  const auto tolerate = [](const Status& status) {
    const bool gone = status.code() == Code::corrupt || status.code() == Code::not_found;
    return gone ? ok_status() : status;
  };
  for (const Chunk& chunk : plan_.moved) GRAFT_TRY(tolerate(move(chunk)));
  for (const auto& chain : plan_.rebased) GRAFT_TRY(tolerate(rebase(chain)));
  GRAFT_TRY(segment_.sync());
  report_.rewritten_segments = plan_.segments;
  report_.written_bytes = segment_.bytes();
  finished_ = true;
  return ok_status();
}

Status Compactor::move(const Chunk& chunk) {
  GRAFT_TRY_ASSIGN(const auto stored, reader_.read_stored(chunk));
  Chunk now = chunk;
  now.segment = segment_.number();
  GRAFT_TRY_ASSIGN(now.offset, segment_.append_stored(stored));
  now_.emplace(place_of(chunk), now);
  ++report_.moved_chunks;
  return ok_status();
}

Status Compactor::rebase(const std::vector<Chunk>& chain) {
  GRAFT_TRY_ASSIGN(const auto bytes, reader_.read_chain(chain));
  const Chunk& old = chain.back();
  GRAFT_TRY_ASSIGN(const EncodedChunk encoded,
                   encoder_.encode(bytes, {}, old.element_bytes, false, options_.zstd_level));
  GRAFT_TRY_ASSIGN(Chunk now, segment_.append(encoded, old.hash, bytes.size(), old.element_bytes));
  now_.emplace(place_of(old), now);
  ++report_.rebased_chunks;
  return ok_status();
}

bool Compactor::changes(const Manifest& manifest) const {
  return std::any_of(manifest.chunks.begin(), manifest.chunks.end(),
                     [&](const Chunk& chunk) { return now_.count(place_of(chunk)) != 0; });
}

Manifest Compactor::remapped(const Manifest& manifest) const {
  Rows<Chunk> chunks = manifest.chunks;
  for (Chunk& chunk : chunks) {
    const auto found = now_.find(place_of(chunk));
    if (found == now_.end()) continue;
    const std::uint32_t parent = chunk.parent;
    chunk = found->second;
    chunk.parent = needs_parent(chunk.codec) ? parent : kNoParent;
  }
  std::vector<bool> needed(chunks.size());
  for (std::uint32_t i : manifest.indices) {
    for (; i != kNoParent && !needed[i]; i = chunks[i].parent) needed[i] = true;
  }
  Manifest out = manifest;
  out.chunks.clear();
  std::vector<std::uint32_t> index(chunks.size(), kNoParent);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (!needed[i]) continue;
    index[i] = static_cast<std::uint32_t>(out.chunks.size());
    if (chunks[i].parent != kNoParent) chunks[i].parent = index[chunks[i].parent];
    out.chunks.push_back(chunks[i]);
  }
  for (std::uint32_t& i : out.indices) i = index[i];
  return out;
}

}  // namespace graft::checkpoint
