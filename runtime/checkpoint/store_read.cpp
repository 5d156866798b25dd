// Restoring and verifying.
#include <cstring>
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
  for (const auto& [number, reason] : damaged_) report.problems.push_back(cat("Snapshot ", number, ": ", reason));
  // A chunk that several snapshots share is decoded once. Tables may lie about what stands where, so that the place
  // alone does not say which chunk it is. The last chunks of chains come first: they settle their parents as well.
  using Key = std::tuple<Place, std::uint64_t, std::uint64_t, Codec, std::uint32_t>;
  const auto key = [](const Chunk& c) { return Key(place_of(c), c.hash.low, c.hash.high, c.codec, c.stored_bytes); };
  std::set<Key> seen;
  ChunkReader reader(*files_, path_, sealer_);
  for (auto it = snapshots_.rbegin(); it != snapshots_.rend(); ++it) {
    const auto& [number, manifest] = *it;
    ++report.snapshots;
    for (auto i = static_cast<std::uint32_t>(manifest.chunks.size()); i-- > 0;) {
      if (seen.count(key(manifest.chunks[i])) != 0) continue;
      const auto bytes = reader.read(manifest, i);
      if (bytes.ok()) {
        for (const Chunk& chunk : chain_of(manifest, i)) report.chunks += seen.insert(key(chunk)).second ? 1 : 0;
      } else if (bytes.status().code() == Code::corrupt || bytes.status().code() == Code::not_found) {
        report.problems.push_back(cat("Snapshot ", number, ": ", bytes.status().message()));
      } else {
        return bytes.status();
      }
    }
  }
  return report;
}

}  // namespace graft::checkpoint
