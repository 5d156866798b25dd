#include "runtime/checkpoint/chunk_reader.h"

#include <array>

namespace graft::checkpoint {

namespace {
constexpr std::size_t kMaxOpenSegments = 64;  // systems allow a process 256 files or more
}

Result<const os::File*> ChunkReader::segment(std::uint64_t number) {
  if (const auto found = open_.find(number); found != open_.end()) return found->second.get();
  const std::string path = path_ + "/" + file_name(FileKind::segment, number);
  GRAFT_TRY_ASSIGN(auto file, files_.open(path, os::OpenMode::read));
  std::array<std::byte, kHeaderBytes> start;
  GRAFT_TRY(os::read_exactly(*file, 0, start, path));
  const auto header = read_header(FileKind::segment, start);
  if (!header.ok()) return Status(header.status()).with_context(cat("While reading \"", path, "\""));
  if (header->store != sealer_.store() || header->number != number) {
    return corrupt("\"", path, "\" is segment ", header->number, " of store ", header->store, ", not of this store.");
  }
  if (header->sealed != sealer_.on()) {
    return corrupt("\"", path, "\" is ", header->sealed ? "" : "not ", "encrypted, unlike its store.");
  }
  if (open_.size() >= kMaxOpenSegments) open_.erase(open_.begin());
  return open_.emplace(number, std::move(file)).first->second.get();
}

Result<std::uint64_t> ChunkReader::segment_bytes(std::uint64_t number) {
  GRAFT_TRY_ASSIGN(const os::File* file, segment(number));
  return file->size();
}

Result<std::span<const std::byte>> ChunkReader::read_stored(const Chunk& chunk) {
  GRAFT_TRY_ASSIGN(const os::File* file, segment(chunk.segment));
  stored_.resize(chunk.stored_bytes);  // at most kMaxChunkBytes: check() saw to it
  GRAFT_TRY(os::read_exactly(*file, chunk.offset, stored_, file_name(FileKind::segment, chunk.segment)));
  if (checksum64(stored_) != chunk.stored_checksum) {
    return corrupt("The ", chunk.stored_bytes, " bytes at byte ", chunk.offset, " of segment ", chunk.segment,
                   " do not have their checksum.");
  }
  return std::span<const std::byte>(stored_);
}

Status ChunkReader::decode_one(const Chunk& chunk, std::span<const std::byte> parent, std::vector<std::byte>& out) {
  GRAFT_TRY_ASSIGN(auto stored, read_stored(chunk));
  std::vector<std::byte> opened;
  if (sealer_.on()) {
    GRAFT_TRY_ASSIGN(opened, sealer_.open(sealer_.bound_to(chunk), stored,
                                          cat("chunk at byte ", chunk.offset, " of segment ", chunk.segment)));
    stored = opened;
  }
  out.resize(chunk.decoded_bytes);
  GRAFT_TRY(decoder_.decode(chunk.codec, chunk.compression, chunk.element_bytes, stored, parent, out));
  if (hash128(out) != chunk.hash) {
    return corrupt("The chunk at byte ", chunk.offset, " of segment ", chunk.segment, " decodes to wrong bytes.");
  }
  return ok_status();
}

Result<std::span<const std::byte>> ChunkReader::read_chain(std::span<const Chunk> chain) {
  for (const Chunk& chunk : chain) {
    GRAFT_TRY(decode_one(
        chunk, needs_parent(chunk.codec) ? std::span<const std::byte>(current_) : std::span<const std::byte>(), next_));
    current_.swap(next_);
  }
  return std::span<const std::byte>(current_);
}

Result<std::span<const std::byte>> ChunkReader::read(const Manifest& manifest, std::uint32_t index) {
  return read_chain(chain_of(manifest, index));
}

}  // namespace graft::checkpoint
