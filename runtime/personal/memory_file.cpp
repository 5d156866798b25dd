#include "runtime/personal/memory_file.h"

#include <algorithm>
#include <cstring>

#include "platform/os/access.h"
#include "platform/os/entropy.h"

namespace graft::personal {
namespace {

std::string of_file(const std::string& path) { return cat("The memory \"", path, "\""); }

struct Frame {
  FrameHeader header;
  std::vector<std::byte> bytes;  // header and body
};

/// The frame at `offset`, or nullopt where there is no whole and right one.
Result<std::optional<Frame>> read_whole_frame(const os::File& file, const std::string& path, std::uint64_t offset,
                                              std::uint64_t size) {
  Frame frame;
  if (size - offset < kFrameBytes) return std::optional<Frame>();
  frame.bytes.resize(kFrameBytes);
  GRAFT_TRY(os::read_exactly(file, offset, frame.bytes, path));
  const auto header = read_frame_header(frame.bytes);
  if (!header || header->bytes > kMaxBodyBytes || frame_size(header->bytes) > size - offset) {
    return std::optional<Frame>();
  }
  frame.header = *header;
  frame.bytes.resize(kFrameBytes + header->bytes);
  GRAFT_TRY(os::read_exactly(file, offset + kFrameBytes, std::span(frame.bytes).subspan(kFrameBytes), path));
  if (!is_whole(*header, frame.bytes)) return std::optional<Frame>();
  return std::optional(std::move(frame));
}

}  // namespace

Result<Record> MemoryReader::read(std::uint64_t offset, std::span<std::byte> sample) const {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, file_->size());
  GRAFT_TRY_ASSIGN(const auto frame, read_whole_frame(*file_, path_, offset, size));
  if (!frame || frame->header.kind != FrameKind::put) return corrupt(of_file(path_), " lost a record to damage.");
  const auto body = open_frame(sealer_, frame->header, frame->bytes);
  if (!body.ok()) return body.status();
  std::span<const std::byte> stored;
  GRAFT_TRY_ASSIGN(Record record, read_put(*body, sample_bytes_, &stored));
  std::ranges::copy(stored, sample.begin());
  return record;
}

Status MemoryFile::create(os::FileSystem& files, const std::string& path, checkpoint::Cipher* cipher,
                          const Settings& settings) {
  std::uint64_t identity = 0;
  GRAFT_TRY(os::fill_with_entropy(std::as_writable_bytes(std::span(&identity, 1))));
  GRAFT_TRY_ASSIGN(const auto start, write_start(checkpoint::Sealer(cipher, identity), 0, settings));
  const std::array parts = {std::span<const std::byte>(start)};
  return os::atomic_write_private(files, path, parts);
}

Result<MemoryFile> MemoryFile::open(os::FileSystem& files, const std::string& path,
                                    std::shared_ptr<checkpoint::Cipher> cipher, bool writable) {
  MemoryFile memory;
  memory.files_ = &files;
  memory.path_ = path;
  memory.cipher_ = std::move(cipher);
  memory.writable_ = writable;
  GRAFT_TRY_ASSIGN(auto file, files.open(path, writable ? os::OpenMode::read_write : os::OpenMode::read));
  const auto refused = [&](Status status) { return std::move(status).with_context(of_file(path) + " does not open"); };
  GRAFT_TRY_ASSIGN(const std::uint64_t size, file->size());
  std::vector<std::byte> start(static_cast<std::size_t>(std::min<std::uint64_t>(size, kMemoryHeaderBytes)));
  GRAFT_TRY(os::read_exactly(*file, 0, start, path));
  auto header = read_memory_header(start);
  if (!header.ok()) return refused(std::move(header).status());
  if (header->settings_bytes > size - kMemoryHeaderBytes) {
    return refused(corrupt("It ends within its settings, after ", size, " bytes."));
  }
  start.resize(static_cast<std::size_t>(kMemoryHeaderBytes + header->settings_bytes));
  GRAFT_TRY(os::read_exactly(*file, kMemoryHeaderBytes, std::span(start).subspan(kMemoryHeaderBytes), path));
  auto settings = read_settings(checkpoint::Sealer(memory.cipher_.get(), header->identity), *header, start);
  if (!settings.ok()) return refused(std::move(settings).status());
  memory.identity_ = header->identity;
  memory.settings_ = std::move(*settings);
  memory.next_commit_ = header->first_commit;
  memory.start_bytes_ = (start.size() + 7) / 8 * 8;
  if (memory.start_bytes_ > size) return refused(corrupt("It ends within its settings, after ", size, " bytes."));
  std::uint64_t sample_bytes = 0;
  for (const data::Field& field : memory.settings_.fields) sample_bytes += field.bytes();
  memory.reader_ = std::make_shared<MemoryReader>(path, std::shared_ptr<os::File>(std::move(file)), memory.cipher_,
                                                  memory.identity_, sample_bytes);
  return memory;
}

/// Whether a commit that was made after this one follows.
Result<bool> MemoryFile::is_damaged(std::uint64_t offset) const {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, reader_->file().size());
  constexpr std::size_t kBlock = 1u << 16;
  std::vector<std::byte> block(kBlock + kFrameBytes);
  for (std::uint64_t at = offset; at < size; at += kBlock) {
    const auto bytes = std::min<std::uint64_t>(block.size(), size - at);
    const auto part = std::span(block).first(static_cast<std::size_t>(bytes));
    GRAFT_TRY(os::read_exactly(reader_->file(), at, part, path_));
    for (std::size_t i = 0; i < kBlock && i + kFrameBytes <= part.size(); i += 8) {
      const auto header = read_frame_header(part.subspan(i));
      if (header && header->commit > next_commit_) return true;
    }
  }
  return false;
}

Status MemoryFile::scan(const Found& found) {
  struct Held {
    Frame frame;
    std::uint64_t offset;
  };
  std::vector<Held> commit;
  GRAFT_TRY_ASSIGN(const std::uint64_t size, reader_->file().size());
  size_ = start_bytes_;
  const auto refused = [&](Status status) { return std::move(status).with_context(of_file(path_) + " does not open"); };
  for (std::uint64_t at = size_; at < size;) {
    GRAFT_TRY_ASSIGN(auto frame, read_whole_frame(reader_->file(), path_, at, size));
    if (!frame || frame->header.commit != next_commit_ || frame->header.index != commit.size()) {
      GRAFT_TRY_ASSIGN(const bool damaged, is_damaged(at));
      if (damaged) {
        return refused(corrupt("The record at byte ", at, " is damaged, and others follow it."));
      }
      break;
    }
    const bool last = frame->header.last;
    commit.push_back({std::move(*frame), at});
    at += frame_size(commit.back().frame.header.bytes);
    if (!last) continue;
    for (const Held& held : commit) {
      const FrameHeader& header = held.frame.header;
      const auto body = open_frame(reader_->sealer(), header, held.frame.bytes);
      if (!body.ok()) return refused(body.status());
      if (Status taken = found(header.kind, *body, held.offset, frame_size(header.bytes)); !taken.ok()) {
        return refused(std::move(taken));
      }
    }
    commit.clear();
    size_ = at;
    ++next_commit_;
  }
  torn_ = size - size_;
  if (torn_ == 0 || !writable_) return ok_status();
  GRAFT_TRY(reader_->file().truncate(size_));
  return reader_->file().sync();
}

std::uint64_t MemoryFile::bytes_of(std::span<const Change> changes) const {
  std::uint64_t bytes = 0;
  for (const Change& change : changes) bytes += frame_size(change.body.size() + reader_->sealer().overhead());
  return bytes;
}

Status MemoryFile::append(std::span<const Change> changes, std::vector<std::uint64_t>& offsets) {
  std::vector<std::byte> bytes;
  std::vector<std::uint64_t> begins;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    begins.push_back(size_ + bytes.size());
    FrameHeader header;
    header.kind = changes[i].kind;
    header.last = i + 1 == changes.size();
    header.commit = next_commit_;
    header.index = static_cast<std::uint32_t>(i);
    GRAFT_TRY(append_frame(reader_->sealer(), header, changes[i].body, bytes));
  }
  broken_ = true;  // until it is known that all is there
  GRAFT_TRY(reader_->file().write_at(size_, bytes));
  GRAFT_TRY(reader_->file().sync());
  broken_ = false;
  size_ += bytes.size();
  ++next_commit_;
  offsets = std::move(begins);
  return ok_status();
}

Status MemoryFile::replace(const std::function<Result<std::vector<std::byte>>(std::size_t index)>& body,
                           std::size_t count, std::vector<std::uint64_t>& offsets) {
  const checkpoint::Sealer& sealer = reader_->sealer();
  std::vector<std::uint64_t> begins;
  std::uint64_t written = 0;
  const auto write = [&](os::File& out) -> Status {
    begins.clear();
    GRAFT_TRY_ASSIGN(const auto start, write_start(sealer, next_commit_, settings_));
    GRAFT_TRY(out.append(start));
    written = start.size();
    std::vector<std::byte> frame;
    for (std::size_t i = 0; i < count; ++i) {
      GRAFT_TRY_ASSIGN(const auto plain, body(i));
      frame.clear();
      FrameHeader header;
      header.last = true;
      header.commit = next_commit_ + i;
      GRAFT_TRY(append_frame(sealer, header, plain, frame));
      GRAFT_TRY(out.append(frame));
      begins.push_back(written);
      written += frame.size();
    }
    return ok_status();
  };
  broken_ = true;  // an error may come when the new file is in place already, and this object still has the old one
  GRAFT_TRY(os::atomic_write_private(*files_, path_, write));
  GRAFT_TRY_ASSIGN(auto file, files_->open(path_, os::OpenMode::read_write));
  reader_ = std::make_shared<MemoryReader>(path_, std::shared_ptr<os::File>(std::move(file)), cipher_, identity_,
                                           reader_->sample_bytes());
  size_ = written;
  next_commit_ += count;
  broken_ = false;
  offsets = std::move(begins);
  return ok_status();
}

}  // namespace graft::personal
