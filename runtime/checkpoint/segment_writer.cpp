#include "runtime/checkpoint/segment_writer.h"

#include "runtime/checkpoint/format.h"

namespace graft::checkpoint {

SegmentWriter::SegmentWriter(os::FileSystem& files, const std::string& path, const Sealer& sealer, std::uint64_t number)
    : files_(files), path_(path + "/" + file_name(FileKind::segment, number)), sealer_(sealer), number_(number) {}

SegmentWriter::~SegmentWriter() {
  if (file_ == nullptr || released_) return;
  file_.reset();
  (void)files_.remove(path_);  // failing harms nothing: no table names it, so pruning deletes it
}

Result<Chunk> SegmentWriter::append(const EncodedChunk& encoded, const Hash128& hash, std::size_t bytes,
                                    std::size_t width) {
  Chunk chunk;
  chunk.hash = hash;
  chunk.segment = number_;
  chunk.decoded_bytes = static_cast<std::uint32_t>(bytes);
  chunk.codec = encoded.codec;
  chunk.compression = encoded.compression;
  chunk.element_bytes = static_cast<std::uint8_t>(width);
  std::vector<std::byte> sealed;
  auto stored = encoded.bytes;
  if (sealer_.on()) {
    GRAFT_TRY_ASSIGN(sealed, sealer_.seal(sealer_.bound_to(chunk), encoded.bytes));
    stored = sealed;
  }
  chunk.stored_checksum = checksum64(stored);
  chunk.stored_bytes = static_cast<std::uint32_t>(stored.size());
  GRAFT_TRY_ASSIGN(chunk.offset, append_stored(stored));
  return chunk;
}

Result<std::uint64_t> SegmentWriter::append_stored(std::span<const std::byte> bytes) {
  if (file_ == nullptr) {
    GRAFT_TRY_ASSIGN(file_, files_.open(path_, os::OpenMode::create_new));
    GRAFT_TRY(file_->write_at(0, write_header({FileKind::segment, sealer_.store(), number_, 0, 0, 0, sealer_.on()})));
    bytes_ = kHeaderBytes;
  }
  const std::uint64_t offset = bytes_;
  GRAFT_TRY(file_->write_at(offset, bytes));
  bytes_ += bytes.size();
  return offset;
}

Status SegmentWriter::sync() { return file_ == nullptr ? ok_status() : file_->sync(); }

}  // namespace graft::checkpoint
