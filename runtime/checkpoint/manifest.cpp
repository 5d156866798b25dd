#include "runtime/checkpoint/manifest.h"

#include <flatbuffers/flatbuffers.h>

#include <algorithm>

#include "platform/base/checked.h"
#include "platform/base/stable_sort.h"
#include "schema/checkpoint_generated.h"

namespace graft::checkpoint {
namespace {

Status check_name(std::string_view name, std::string_view what) {
  if (name.empty() || name.size() > kMaxNameBytes) {
    return invalid(what, " has ", name.size(), " bytes; 1 to ", kMaxNameBytes, " are allowed.");
  }
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(name.begin(), name.end(), control)) return invalid(what, " holds a control character.");
  return ok_status();
}

Status check_count(std::uint64_t count, std::string_view what) {
  if (count > kMaxListed)
    return invalid("A snapshot has ", count, " ", what, "; at most ", kMaxListed, " are allowed.");
  return ok_status();
}

Status check_chunk(const Manifest& manifest, std::size_t index, std::vector<std::uint32_t>& chains) {
  const Chunk& chunk = manifest.chunks[index];
  const auto bad = [&](const auto&... parts) { return corrupt("Chunk ", index, " ", parts...); };
  if (chunk.codec > Codec::sparse || chunk.compression > Compression::zstd) return bad("has an unknown codec.");
  if (chunk.decoded_bytes == 0 || chunk.decoded_bytes > manifest.chunk_bytes) {
    return bad("declares ", chunk.decoded_bytes, " bytes; 1 to ", manifest.chunk_bytes, " are allowed.");
  }
  if (chunk.stored_bytes == 0 || chunk.stored_bytes > chunk.decoded_bytes + kMaxSealBytes) {
    return bad("is stored in ", chunk.stored_bytes, " bytes, more than its ", chunk.decoded_bytes, ".");
  }
  const std::size_t width = chunk.element_bytes;
  if (!suits(chunk.codec, width)) return bad("has elements of ", width, " bytes, which its codec does not suit.");
  if (chunk.offset < kHeaderBytes || !checked_add<std::uint64_t>(chunk.offset, chunk.stored_bytes)) {
    return bad("starts at byte ", chunk.offset, " of its segment.");
  }
  if (needs_parent(chunk.codec) != (chunk.parent != kNoParent))
    return bad("has a codec that does not suit its parent.");
  if (chunk.parent == kNoParent) return ok_status();
  if (chunk.parent >= index) return bad("has parent ", chunk.parent, "; parents stand before their children.");
  if (manifest.chunks[chunk.parent].decoded_bytes != chunk.decoded_bytes) return bad("and its parent differ in size.");
  chains[index] = chains[chunk.parent] + 1;
  if (chains[index] > kMaxChain)
    return bad("ends a chain of ", chains[index], " chunks; at most ", kMaxChain, " are allowed.");
  return ok_status();
}

Status check_stream(const Stream& stream) {
  GRAFT_TRY(check_name(stream.name, "A stream's name"));
  const auto bad = [&](const auto&... parts) { return corrupt("The stream \"", stream.name, "\" ", parts...); };
  if (stream.kind > StreamKind::other || stream.element > Element::bf16) return bad("has an unknown kind or element.");
  return ok_status();
}

Status check_chunks_of(const Manifest& manifest, const Stream& stream) {
  const auto bad = [&](const auto&... parts) { return corrupt("The stream \"", stream.name, "\" ", parts...); };
  const std::uint64_t size = manifest.chunk_bytes;
  const std::uint64_t chunks = stream.frozen ? 0 : stream.bytes / size + (stream.bytes % size != 0 ? 1 : 0);
  if (stream.count != chunks) {
    return bad("of ", stream.bytes, " bytes has ", stream.count, " chunks instead of ", chunks, ".");
  }
  std::uint64_t left = stream.bytes;
  for (const std::uint32_t index : manifest.chunks_of(stream)) {
    if (index >= manifest.chunks.size()) return bad("names chunk ", index, ", which is not there.");
    if (manifest.chunks[index].decoded_bytes != std::min(size, left)) return bad("has a chunk of a wrong size.");
    left -= manifest.chunks[index].decoded_bytes;
  }
  return ok_status();
}

Status check_streams(const std::vector<Stream>& streams) {
  std::vector<std::pair<std::uint32_t, std::string_view>> names;
  names.reserve(streams.size());
  for (const Stream& stream : streams) {
    GRAFT_TRY(check_stream(stream));
    names.emplace_back(stream.worker, stream.name);
  }
  graft::stable_sort(names);
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end()) {
    return invalid("Two streams of worker ", twice->first, " are called \"", twice->second, "\".");
  }
  return ok_status();
}

Status check_metadata(const std::map<std::string, std::string, std::less<>>& metadata) {
  GRAFT_TRY(check_count(metadata.size(), "metadata entries"));
  std::size_t text = 0;
  for (const auto& [key, value] : metadata) {
    GRAFT_TRY(check_name(key, "A metadata key"));
    text += value.size();
    if (text > kMaxTextBytes) return invalid("The metadata has more than ", kMaxTextBytes, " bytes.");
  }
  return ok_status();
}

/// Whether a file's pairs, in the order in which they are written, are those of a map that was checked.
bool says(const flatbuffers::Vector<flatbuffers::Offset<fbckpt::Pair>>& pairs,
          const std::map<std::string, std::string, std::less<>>& map) {
  return std::equal(pairs.begin(), pairs.end(), map.begin(), map.end(),
                    [](const fbckpt::Pair* pair, const auto& entry) {
                      return pair->key()->string_view() == entry.first && pair->value()->string_view() == entry.second;
                    });
}

std::uint32_t chunk_count(const fbckpt::Stream& stream) {
  return stream.chunks() != nullptr ? stream.chunks()->size() : 0;
}

std::optional<Hash128> frozen_hash(const fbckpt::Stream& stream) {
  const fbckpt::Hash* hash = stream.frozen();
  return hash != nullptr ? std::optional(Hash128{hash->low(), hash->high()}) : std::nullopt;
}

/// Whether a file's streams, but for which chunks they have, are those of a manifest that was checked.
bool says(const flatbuffers::Vector<flatbuffers::Offset<fbckpt::Stream>>& streams, const std::vector<Stream>& known) {
  return std::equal(
      streams.begin(), streams.end(), known.begin(), known.end(), [](const fbckpt::Stream* s, const Stream& stream) {
        return s->bytes() == stream.bytes && s->worker() == stream.worker && chunk_count(*s) == stream.count &&
               s->name()->string_view() == stream.name && static_cast<StreamKind>(s->kind()) == stream.kind &&
               static_cast<Element>(s->element()) == stream.element && frozen_hash(*s) == stream.frozen;
      });
}

Result<std::vector<Stream>> read_streams(const flatbuffers::Vector<flatbuffers::Offset<fbckpt::Stream>>& streams) {
  std::vector<Stream> out;
  out.reserve(streams.size());
  std::uint32_t first = 0;
  for (const auto* s : streams) {
    GRAFT_TRY(check_name(s->name()->string_view(), "A stream's name"));
    out.push_back({s->name()->str(), static_cast<StreamKind>(s->kind()), static_cast<Element>(s->element()), s->bytes(),
                   s->worker(), frozen_hash(*s), first, chunk_count(*s)});
    first += chunk_count(*s);
  }
  return out;
}

Result<Manifest> from_tables(const fbckpt::Snapshot& file, const Alike& like) {
  Manifest manifest;
  manifest.indices = Rows<std::uint32_t>(SlabAllocator<std::uint32_t>(like.slab));
  manifest.chunks = Rows<Chunk>(SlabAllocator<Chunk>(like.slab));
  manifest.chunk_bytes = file.chunk_bytes();
  manifest.meta.step = file.step();
  manifest.meta.loss = file.loss();
  manifest.meta.wall_clock_ms = file.wall_clock_ms();
  if (const auto* tags = file.tags()) {
    GRAFT_TRY(check_count(tags->size(), "tags"));
    for (const auto* tag : *tags) {
      GRAFT_TRY(check_name(tag->string_view(), "A tag"));  // before the copy: tables may share one large text
      manifest.meta.tags.push_back(tag->str());
    }
  }
  if (const auto* pairs = file.metadata(); pairs != nullptr && says(*pairs, *like.metadata)) {
    manifest.meta.metadata = like.metadata;
  } else if (pairs != nullptr) {
    GRAFT_TRY(check_count(pairs->size(), "metadata entries"));
    std::size_t total = 0;
    auto& metadata = manifest.meta.metadata.edit();
    for (const auto* pair : *pairs) {
      GRAFT_TRY(check_name(pair->key()->string_view(), "A metadata key"));
      total += pair->value()->size();
      if (total > kMaxTextBytes) return corrupt("Its metadata has more than ", kMaxTextBytes, " bytes.");
      if (!metadata.emplace(pair->key()->str(), pair->value()->str()).second) {
        return corrupt("It has the metadata key \"", pair->key()->str(), "\" twice.");
      }
    }
  }
  if (const auto* chunks = file.chunks()) {
    manifest.chunks.reserve(chunks->size());
    for (const auto* c : *chunks) {
      manifest.chunks.push_back({{c->hash_low(), c->hash_high()},
                                 c->segment(),
                                 c->offset(),
                                 c->stored_checksum(),
                                 c->stored_bytes(),
                                 c->decoded_bytes(),
                                 c->parent(),
                                 static_cast<Codec>(c->codec()),
                                 static_cast<Compression>(c->compression()),
                                 c->element_bytes()});
    }
  }
  if (const auto* streams = file.streams()) {
    GRAFT_TRY(check_count(streams->size(), "streams"));
    std::uint64_t total = 0;  // tables may share their vectors: what will be copied is counted
    for (const auto* s : *streams) total += chunk_count(*s);
    if (total > kMaxSnapshotFileBytes / 4) return corrupt("Its streams have too many chunks.");
    if (says(*streams, *like.streams)) {
      manifest.streams = like.streams;
    } else {
      GRAFT_TRY_ASSIGN(manifest.streams.edit(), read_streams(*streams));
    }
    manifest.indices.reserve(total);
    for (const auto* s : *streams) {
      if (const auto* indices = s->chunks()) {
        manifest.indices.insert(manifest.indices.end(), indices->begin(), indices->end());
      }
    }
  }
  return manifest;
}

}  // namespace

const Stream* Manifest::find(std::string_view name, std::uint32_t worker) const {
  for (const Stream& stream : *streams)
    if (stream.worker == worker && stream.name == name) return &stream;
  return nullptr;
}

std::vector<Chunk> chain_of(const Manifest& manifest, std::uint32_t index) {
  std::vector<Chunk> chain;
  for (std::uint32_t i = index; i != kNoParent; i = manifest.chunks[i].parent) chain.push_back(manifest.chunks[i]);
  std::reverse(chain.begin(), chain.end());
  return chain;
}

std::vector<ChainCost> chain_costs(std::span<const Chunk> chunks) {
  std::vector<ChainCost> costs(chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    costs[i].bytes = std::uint64_t{chunks[i].stored_bytes} + chunks[i].decoded_bytes;
    if (chunks[i].parent == kNoParent) continue;
    costs[i].bytes += costs[chunks[i].parent].bytes;
    costs[i].length += costs[chunks[i].parent].length;
  }
  return costs;
}

Status check(const Manifest& manifest, const Alike& like) {
  if (manifest.chunk_bytes < kMinChunkBytes || manifest.chunk_bytes > kMaxChunkBytes || manifest.chunk_bytes % 8 != 0) {
    return corrupt("Its chunks have ", manifest.chunk_bytes, " bytes; a multiple of 8 from ", kMinChunkBytes, " to ",
                   kMaxChunkBytes, " is allowed.");
  }
  if (manifest.parent >= manifest.number) {
    return corrupt("Snapshot ", manifest.number, " says that it follows snapshot ", manifest.parent, ".");
  }
  GRAFT_TRY(check_count(manifest.streams->size(), "streams"));
  GRAFT_TRY(check_count(manifest.meta.tags.size(), "tags"));
  for (const auto& tag : manifest.meta.tags) GRAFT_TRY(check_name(tag, "A tag"));
  if (!manifest.meta.metadata.is(like.metadata)) GRAFT_TRY(check_metadata(*manifest.meta.metadata));
  std::vector<std::uint32_t> chains(manifest.chunks.size(), 1);
  for (std::size_t i = 0; i < manifest.chunks.size(); ++i) GRAFT_TRY(check_chunk(manifest, i, chains));
  if (!manifest.streams.is(like.streams)) GRAFT_TRY(check_streams(*manifest.streams));
  for (const Stream& stream : *manifest.streams) GRAFT_TRY(check_chunks_of(manifest, stream));
  return ok_status();
}

std::vector<std::byte> encode_tables(const Manifest& manifest) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<flatbuffers::Offset<flatbuffers::String>> tags;
  for (const auto& tag : manifest.meta.tags) tags.push_back(builder.CreateString(tag));
  std::vector<flatbuffers::Offset<fbckpt::Pair>> pairs;
  for (const auto& [key, value] : *manifest.meta.metadata) {
    pairs.push_back(fbckpt::CreatePair(builder, builder.CreateString(key), builder.CreateString(value)));
  }
  std::vector<flatbuffers::Offset<fbckpt::Stream>> streams;
  for (const Stream& s : *manifest.streams) {
    const auto name = builder.CreateString(s.name);
    const auto indices = manifest.chunks_of(s);
    const auto chunks = builder.CreateVector(indices.data(), indices.size());
    const fbckpt::Hash hash = s.frozen ? fbckpt::Hash(s.frozen->low, s.frozen->high) : fbckpt::Hash();
    streams.push_back(fbckpt::CreateStream(builder, name, static_cast<fbckpt::StreamKind>(s.kind),
                                           static_cast<fbckpt::Element>(s.element), s.bytes, chunks, s.worker,
                                           s.frozen ? &hash : nullptr));
  }
  std::vector<fbckpt::Chunk> chunks;
  chunks.reserve(manifest.chunks.size());
  for (const Chunk& c : manifest.chunks) {
    chunks.emplace_back(c.hash.low, c.hash.high, c.segment, c.offset, c.stored_checksum, c.stored_bytes,
                        c.decoded_bytes, c.parent, static_cast<fbckpt::Codec>(c.codec),
                        static_cast<fbckpt::Compression>(c.compression), c.element_bytes, std::uint8_t{0});
  }
  const auto tags_at = builder.CreateVector(tags);
  const auto pairs_at = builder.CreateVector(pairs);
  const auto streams_at = builder.CreateVector(streams);
  const auto chunks_at = builder.CreateVectorOfStructs(chunks);
  builder.Finish(fbckpt::CreateSnapshot(builder, manifest.chunk_bytes, manifest.meta.step, manifest.meta.loss,
                                        manifest.meta.wall_clock_ms, tags_at, pairs_at, streams_at, chunks_at));
  const auto bytes = std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {bytes.begin(), bytes.end()};
}

Result<Manifest> decode_tables(std::span<const std::byte> tables, const Header& header, const Alike& like) {
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  options.max_tables = static_cast<std::uint32_t>(2 * kMaxListed + 1);
  flatbuffers::Verifier verifier(reinterpret_cast<const std::uint8_t*>(tables.data()), tables.size(), options);
  if (!verifier.VerifyBuffer<fbckpt::Snapshot>(nullptr)) {
    return corrupt("Its tables are malformed: the FlatBuffers verifier refuses them.");
  }
  GRAFT_TRY_ASSIGN(Manifest manifest, from_tables(*flatbuffers::GetRoot<fbckpt::Snapshot>(tables.data()), like));
  manifest.number = header.number;
  manifest.parent = header.b;
  GRAFT_TRY(check(manifest, like));
  return manifest;
}

}  // namespace graft::checkpoint
