#include "runtime/checkpoint/snapshot_writer.h"

#include <algorithm>

namespace graft::checkpoint {

SnapshotWriter::SnapshotWriter(os::FileSystem& files, const std::string& path, const Sealer& sealer,
                               const StoreOptions& options, const Manifest* base, std::uint64_t number,
                               const SnapshotMeta& meta)
    : options_(options), reader_(files, path, sealer), segment_(files, path, sealer, number) {
  if (base != nullptr) base_ = *base;
  manifest_.meta = meta;
  manifest_.number = number;
  manifest_.chunk_bytes = options.chunk_bytes;
  report_.number = number;
  if (!base_) return;
  manifest_.parent = base_->number;
  base_chains_ = chain_costs(base_->chunks);
  for (const std::uint32_t index : base_->indices) base_by_hash_.emplace(base_->chunks[index].hash.low, index);
}

Status SnapshotWriter::add(const StreamInput& input) {
  if (finished_) return invalid("The snapshot is finished; the stream \"", input.name, "\" comes too late.");
  if (input.zstd_level < 0 || input.zstd_level > kMaxZstdLevel) {
    return invalid("The stream \"", input.name, "\" asks for zstd level ", input.zstd_level, "; 1 to ", kMaxZstdLevel,
                   " are allowed.");
  }
  Stream stream{std::string(input.name), input.kind, input.element, input.bytes.size(), input.worker};
  stream.first = static_cast<std::uint32_t>(manifest_.indices.size());
  if (input.frozen) {
    if (!input.bytes.empty()) return invalid("The stream \"", input.name, "\" is frozen and has bytes.");
    stream.bytes = input.frozen->bytes;
    stream.frozen = input.frozen->hash;
  }
  // Another chunk size cuts elsewhere: then only equal chunks are found, by hash.
  const Stream* before =
      base_ && base_->chunk_bytes == options_.chunk_bytes ? base_->find(input.name, input.worker) : nullptr;
  for (std::size_t at = 0; at < input.bytes.size(); at += options_.chunk_bytes) {
    const auto bytes = input.bytes.subspan(at, std::min<std::size_t>(options_.chunk_bytes, input.bytes.size() - at));
    const bool has_base = before != nullptr && stream.count < before->count;
    GRAFT_TRY_ASSIGN(const std::uint32_t index,
                     add_chunk(bytes, input, has_base ? base_->chunks_of(*before)[stream.count] : kNoParent));
    manifest_.indices.push_back(index);
    ++stream.count;
  }
  report_.raw_bytes += input.bytes.size();
  manifest_.streams.edit().push_back(std::move(stream));
  return ok_status();
}

Result<std::uint32_t> SnapshotWriter::add_chunk(std::span<const std::byte> bytes, const StreamInput& input,
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
    GRAFT_TRY_ASSIGN(index, write_chunk(bytes, hash, input, base_index));
  }
  own_by_hash_.emplace(hash.low, index);
  return index;
}

bool SnapshotWriter::may_follow(std::uint32_t base_index, std::size_t bytes) const {
  if (base_index == kNoParent || base_->chunks[base_index].decoded_bytes != bytes) return false;
  const double whole = 2 * static_cast<double>(bytes);  // read and decoded
  const ChainCost& chain = base_chains_[base_index];
  return chain.length < options_.max_chain &&
         static_cast<double>(chain.bytes) + whole <= options_.max_restore_cost * whole;
}

Result<std::uint32_t> SnapshotWriter::write_chunk(std::span<const std::byte> bytes, const Hash128& hash,
                                                  const StreamInput& input, std::uint32_t base_index) {
  std::span<const std::byte> parent;
  if (may_follow(base_index, bytes.size())) {
    // A base chunk that cannot be read is no reason to fail: the new chunk is then written whole.
    if (auto decoded = reader_.read(*base_, base_index); decoded.ok()) parent = *decoded;
  }
  const std::size_t width = element_size(input.element);
  const int level = input.zstd_level != 0 ? input.zstd_level : options_.zstd_level;
  GRAFT_TRY_ASSIGN(const EncodedChunk encoded, encoder_.encode(bytes, parent, width, is_float(input.element), level));
  GRAFT_TRY_ASSIGN(Chunk chunk, segment_.append(encoded, hash, bytes.size(), width));
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

Status SnapshotWriter::finish() {
  GRAFT_TRY(check(manifest_));
  if (base_ && *manifest_.streams == *base_->streams) manifest_.streams = base_->streams;
  report_.stored_bytes = segment_.bytes();
  GRAFT_TRY(segment_.sync());
  finished_ = true;
  return ok_status();
}

}  // namespace graft::checkpoint
