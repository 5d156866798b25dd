#include "runtime/checkpoint/segment_writer.h"

#include "runtime/checkpoint/format.h"

namespace graft::checkpoint {

SegmentWriter::SegmentWriter(os::FileSystem& files, const std::string& path, std::uint64_t store, std::uint64_t number)
    : files_(files), path_(path + "/" + file_name(FileKind::segment, number)), store_(store), number_(number) {}

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
  chunk.stored_checksum = checksum64(encoded.bytes);
  chunk.stored_bytes = static_cast<std::uint32_t>(encoded.bytes.size());
  chunk.decoded_bytes = static_cast<std::uint32_t>(bytes);
  chunk.codec = encoded.codec;
  chunk.compression = encoded.compression;
  chunk.element_bytes = static_cast<std::uint8_t>(width);
  GRAFT_TRY_ASSIGN(chunk.offset, append_stored(encoded.bytes));
  return chunk;
}

Result<std::uint64_t> SegmentWriter::append_stored(std::span<const std::byte> bytes) {
  if (file_ == nullptr) {
    GRAFT_TRY_ASSIGN(file_, files_.open(path_, os::OpenMode::create_new));
    GRAFT_TRY(file_->write_at(0, write_header({FileKind::segment, store_, number_})));
    bytes_ = kHeaderBytes;
  }
  const std::uint64_t offset = bytes_;
  GRAFT_TRY(file_->write_at(offset, bytes));
  bytes_ += bytes.size();
  return offset;
}

Status SegmentWriter::sync() { return file_ == nullptr ? ok_status() : file_->sync(); }

}  // namespace graft::checkpoint
