// Restoring and verifying.
#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>

#include "runtime/checkpoint/chunk_reader.h"
#include "runtime/checkpoint/store.h"

namespace graft::checkpoint {
namespace {

/// A stream whose bytes are here.
Result<const Stream*> find_stream(const Manifest& manifest, std::string_view name, std::uint32_t worker) {
  const Stream* stream = manifest.find(name, worker);
  if (stream == nullptr) {
    return error(Code::not_found, "Snapshot ", manifest.number, " has no stream \"", name, "\" of worker ", worker,
                 ".");
  }
  if (stream->frozen) {
    return invalid("The stream \"", name, "\" of snapshot ", manifest.number,
                   " is frozen: the store has its hash, and its bytes are in the model.");
  }
  return stream;
}

/// "Snapshot 7: ...", or the damage and who needs what is damaged.
std::string problem_text(const std::string& what, const std::set<std::uint64_t>& snapshots) {
  if (snapshots.size() == 1) return cat("Snapshot ", *snapshots.begin(), ": ", what);
  constexpr std::size_t kShown = 8;
  std::string text = cat(what, " ", snapshots.size(), " snapshots depend on it: ");
  std::size_t shown = 0;
  for (const std::uint64_t number : snapshots) {
    if (shown == kShown) return cat(text, " and ", snapshots.size() - kShown, " more.");
    text += cat(shown++ == 0 ? "" : ", ", number);
  }
  return text + ".";
}

}  // namespace

Result<const Manifest*> Store::find_snapshot(std::uint64_t number) const {
  if (const auto found = snapshots_.find(number); found != snapshots_.end()) return &found->second;
  if (const auto bad = damaged_.find(number); bad != damaged_.end()) {
    return corrupt("Snapshot ", number, " is damaged: ", bad->second);
  }
  return error(Code::not_found, "The checkpoint store \"", path_, "\" has no snapshot ", number, ".");
}

Status Store::restore(std::uint64_t number, std::string_view name, std::span<std::byte> out,
                      std::uint32_t worker) const {
  GRAFT_TRY_ASSIGN(const Manifest* manifest, find_snapshot(number));
  GRAFT_TRY_ASSIGN(const Stream* stream, find_stream(*manifest, name, worker));
  if (stream->bytes != out.size()) {
    return invalid("The stream \"", name, "\" of snapshot ", number, " has ", stream->bytes, " bytes, but ", out.size(),
                   " were asked for.");
  }
  ChunkReader reader(*files_, path_, sealer_);
  std::size_t done = 0;
  for (const std::uint32_t index : manifest->chunks_of(*stream)) {
    auto bytes = reader.read(*manifest, index);
    if (!bytes.ok()) {
      return std::move(bytes).status().with_context(
          cat("While restoring the stream \"", name, "\" of snapshot ", number));
    }
    std::memcpy(out.data() + done, bytes->data(), bytes->size());
    done += bytes->size();
  }
  return ok_status();
}

Result<HostBuffer> Store::restore(std::uint64_t number, std::string_view name, std::uint64_t limit,
                                  std::uint32_t worker) const {
  GRAFT_TRY_ASSIGN(const Manifest* manifest, find_snapshot(number));
  GRAFT_TRY_ASSIGN(const Stream* stream, find_stream(*manifest, name, worker));
  if (stream->bytes > limit) {
    return invalid("The stream \"", name, "\" of snapshot ", number, " has ", bytes_text(stream->bytes),
                   ", more than the limit of ", bytes_text(limit), ".");
  }
  GRAFT_TRY_ASSIGN(auto buffer, HostBuffer::create(stream->bytes, cat("the stream \"", name, "\"")));
  GRAFT_TRY(restore(number, name, buffer.bytes(), worker));
  return buffer;
}

Status Store::verify(std::uint64_t number) const {
  GRAFT_TRY_ASSIGN(const Manifest* manifest, find_snapshot(number));
  // Decoding a chunk decodes its parents: those that are nobody's parent stand for all.
  std::vector<bool> parent(manifest->chunks.size());
  for (const Chunk& chunk : manifest->chunks) {
    if (chunk.parent != kNoParent) parent[chunk.parent] = true;
  }
  ChunkReader reader(*files_, path_, sealer_);
  for (std::uint32_t i = 0; i < manifest->chunks.size(); ++i) {
    if (!parent[i]) GRAFT_TRY(reader.read(*manifest, i));
  }
  return ok_status();
}

Result<VerifyReport> Store::verify() const {
  VerifyReport report;
  // One damage is one problem, however many snapshots need what is damaged.
  std::vector<std::pair<std::string, std::set<std::uint64_t>>> problems;
  const auto add = [&](const std::string& what, std::uint64_t snapshot) {
    const auto found =
        std::find_if(problems.begin(), problems.end(), [&](const auto& one) { return one.first == what; });
    (found != problems.end() ? *found : problems.emplace_back(what, std::set<std::uint64_t>{})).second.insert(snapshot);
  };
  for (const auto& [number, reason] : damaged_) add(reason, number);
  // A chunk that several snapshots share is decoded once. Tables may lie about what stands where, so that the place
  // alone does not say which chunk it is. The last chunks of chains come first: they settle their parents as well.
  using Key = std::tuple<Place, std::uint64_t, std::uint64_t, Codec, std::uint32_t>;
  const auto key = [](const Chunk& c) { return Key(place_of(c), c.hash.low, c.hash.high, c.codec, c.stored_bytes); };
  std::set<Key> seen;
  std::map<Key, std::string> bad;
  ChunkReader reader(*files_, path_, sealer_);
  for (auto it = snapshots_.rbegin(); it != snapshots_.rend(); ++it) {
    const auto& [number, manifest] = *it;
    ++report.snapshots;
    for (auto i = static_cast<std::uint32_t>(manifest.chunks.size()); i-- > 0;) {
      const Key at = key(manifest.chunks[i]);
      if (seen.count(at) != 0) continue;
      if (const auto found = bad.find(at); found != bad.end()) {
        add(found->second, number);
        continue;
      }
      const auto bytes = reader.read(manifest, i);
      if (bytes.ok()) {
        for (const Chunk& chunk : chain_of(manifest, i)) report.chunks += seen.insert(key(chunk)).second ? 1 : 0;
      } else if (bytes.status().code() == Code::corrupt || bytes.status().code() == Code::not_found) {
        add(bad[at] = bytes.status().message(), number);
      } else {
        return bytes.status();
      }
    }
  }
  for (const auto& [what, snapshots] : problems) report.problems.push_back(problem_text(what, snapshots));
  return report;
}

}  // namespace graft::checkpoint
