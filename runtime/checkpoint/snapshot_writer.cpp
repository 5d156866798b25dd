#include "runtime/checkpoint/snapshot_writer.h"

#include <algorithm>

namespace graft::checkpoint {

SnapshotWriter::SnapshotWriter(os::FileSystem& files, const std::string& path, std::uint64_t store,
                               const StoreOptions& options, const Manifest* base, std::uint64_t number)
    : files_(files),
      segment_path_(path + "/" + file_name(FileKind::segment, number)),
      store_(store),
      options_(options),
      base_(base),
      reader_(files, path, store) {
  manifest_.number = number;
  manifest_.chunk_bytes = options.chunk_bytes;
  report_.number = number;
  if (base_ == nullptr) return;
  manifest_.parent = base_->number;
  base_chains_ = chain_lengths(base_->chunks);
  for (const Stream& stream : base_->streams) {
    for (const std::uint32_t index : stream.chunks) base_by_hash_.emplace(base_->chunks[index].hash.low, index);
  }
}

Status SnapshotWriter::add(const StreamInput& input) {
  Stream stream{std::string(input.name), input.kind, input.element, input.bytes.size()};
  // Another chunk size cuts elsewhere: then only equal chunks are found, by hash.
  const Stream* before =
      base_ != nullptr && base_->chunk_bytes == options_.chunk_bytes ? base_->find(input.name) : nullptr;
  for (std::size_t at = 0; at < input.bytes.size(); at += options_.chunk_bytes) {
    const auto bytes = input.bytes.subspan(at, std::min<std::size_t>(options_.chunk_bytes, input.bytes.size() - at));
    const std::size_t position = stream.chunks.size();
    const bool has_base = before != nullptr && position < before->chunks.size();
    GRAFT_TRY_ASSIGN(const std::uint32_t index,
                     add_chunk(bytes, input.element, has_base ? before->chunks[position] : kNoParent));
    stream.chunks.push_back(index);
  }
  report_.raw_bytes += input.bytes.size();
  manifest_.streams.push_back(std::move(stream));
  return ok_status();
}

Result<std::uint32_t> SnapshotWriter::add_chunk(std::span<const std::byte> bytes, Element element,
                                                std::uint32_t base_index) {
  const Hash128 hash = hash128(bytes);
  const auto same = [&](const Chunk& chunk) { return chunk.hash == hash && chunk.decoded_bytes == bytes.size(); };
  if (const auto own = own_by_hash_.find(hash.low); own != own_by_hash_.end() && same(manifest_.chunks[own->second])) {
    ++report_.reused_chunks;
    return own->second;
  }
  std::uint32_t equal = kNoParent;
  if (base_index != kNoParent && same(base_->chunks[base_index])) equal = base_index;
  if (const auto found = base_by_hash_.find(hash.low);
      equal == kNoParent && found != base_by_hash_.end() && same(base_->chunks[found->second])) {
    equal = found->second;
  }
  std::uint32_t index = 0;
  if (equal != kNoParent) {
    ++report_.reused_chunks;
    index = import(equal);
  } else {
    GRAFT_TRY_ASSIGN(index, write_chunk(bytes, hash, element, base_index));
  }
  own_by_hash_.emplace(hash.low, index);
  return index;
}

bool SnapshotWriter::may_follow(std::uint32_t base_index, std::size_t bytes) const {
  return base_index != kNoParent && base_->chunks[base_index].decoded_bytes == bytes &&
         base_chains_[base_index] < options_.max_chain;
}

Result<std::uint32_t> SnapshotWriter::write_chunk(std::span<const std::byte> bytes, const Hash128& hash,
                                                  Element element, std::uint32_t base_index) {
  std::span<const std::byte> parent;
  if (may_follow(base_index, bytes.size())) {
    // A base chunk that cannot be read is no reason to fail: this one is then written whole.
    if (auto decoded = reader_.read(*base_, base_index); decoded.ok()) parent = *decoded;
  }
  GRAFT_TRY_ASSIGN(const EncodedChunk encoded,
                   encoder_.encode(bytes, parent, element_size(element), element == Element::f32));
  Chunk chunk;
  chunk.hash = hash;
  chunk.segment = manifest_.number;
  chunk.stored_checksum = checksum64(encoded.bytes);
  chunk.stored_bytes = static_cast<std::uint32_t>(encoded.bytes.size());
  chunk.decoded_bytes = static_cast<std::uint32_t>(bytes.size());
  chunk.codec = encoded.codec;
  chunk.compression = encoded.compression;
  chunk.element_bytes = static_cast<std::uint8_t>(element_size(element));
  GRAFT_TRY(append(encoded.bytes, chunk.offset));
  if (needs_parent(encoded.codec)) chunk.parent = import(base_index);
  ++report_.new_chunks;
  manifest_.chunks.push_back(chunk);
  return static_cast<std::uint32_t>(manifest_.chunks.size() - 1);
}

/// Takes a chunk of the base and what it needs over into this snapshot's table, parents first.
std::uint32_t SnapshotWriter::import(std::uint32_t base_index) {
  std::vector<std::uint32_t> chain;
  for (std::uint32_t i = base_index; i != kNoParent && imported_.count(i) == 0; i = base_->chunks[i].parent) {
    chain.push_back(i);
  }
  for (auto it = chain.rbegin(); it != chain.rend(); ++it) {
    Chunk chunk = base_->chunks[*it];
    if (chunk.parent != kNoParent) chunk.parent = imported_.at(chunk.parent);
    imported_[*it] = static_cast<std::uint32_t>(manifest_.chunks.size());
    manifest_.chunks.push_back(chunk);
  }
  return imported_.at(base_index);
}

Status SnapshotWriter::append(std::span<const std::byte> bytes, std::uint64_t& offset) {
  if (segment_ == nullptr) {
    GRAFT_TRY_ASSIGN(segment_, files_.open(segment_path_, os::OpenMode::create_new));
    GRAFT_TRY(segment_->write_at(0, write_header({FileKind::segment, store_, manifest_.number})));
    segment_bytes_ = kHeaderBytes;
  }
  GRAFT_TRY(segment_->write_at(segment_bytes_, bytes));
  offset = segment_bytes_;
  segment_bytes_ += bytes.size();
  return ok_status();
}

Status SnapshotWriter::finish() {
  report_.stored_bytes = segment_bytes_;
  return segment_ == nullptr ? ok_status() : segment_->sync();
}

}  // namespace graft::checkpoint
