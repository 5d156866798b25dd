#include "runtime/data/data_file.h"

#include <array>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "platform/base/checked.h"
#include "platform/os/entropy.h"
#include "runtime/data/gzip.h"

namespace graft::data {

DataFile::DataFile(DataFile&&) noexcept = default;

DataFile& DataFile::operator=(DataFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(size_, other.size_);
  std::swap(file_, other.file_);
  std::swap(memory_, other.memory_);
  std::swap(files_, other.files_);
  std::swap(temporary_, other.temporary_);
  return *this;
}

DataFile::~DataFile() {
  file_.reset();
  // There is no way to report a temporary file that cannot be removed.
  if (!temporary_.empty()) static_cast<void>(files_->remove(temporary_));
}

Result<DataFile> DataFile::open(const std::string& path, const FileOptions& options) {
  DataFile data;
  data.path_ = path;
  data.files_ = options.files;
  GRAFT_TRY_ASSIGN(data.file_, options.files->open(path, os::OpenMode::read));
  GRAFT_TRY_ASSIGN(data.size_, data.file_->size());
  std::array<std::byte, 2> start{};
  GRAFT_TRY_ASSIGN(const std::size_t got, data.file_->read_at(0, start));
  if (is_gzip(std::span<const std::byte>(start).first(got))) GRAFT_TRY(data.unpack(options));
  return data;
}

Status DataFile::create_temporary(const FileOptions& options) {
  std::string folder = options.temporary_directory;
  if (folder.empty()) {
    std::error_code failed;
    folder = std::filesystem::temp_directory_path(failed).string();
    if (failed) {
      return error(Code::io_error, "There is no folder for temporary files (", failed.message(), "), and \"", path_,
                   "\" must be unpacked.");
    }
  }
  GRAFT_TRY_ASSIGN(const std::string random, os::random_name());
  const std::string name = cat(folder, "/graft-unpacked-", random, ".tmp");
  GRAFT_TRY_ASSIGN(file_, options.files->open(name, os::OpenMode::create_new));
  // On POSIX the name can go while the file is open; elsewhere the destructor removes it.
  if (!options.files->remove(name).ok()) temporary_ = name;
  return {};
}

Status DataFile::unpack(const FileOptions& options) {
  file_.reset();
  GRAFT_TRY_ASSIGN(StreamReader reader, StreamReader::open(*options.files, path_, options.unpack_limit));
  const std::uint64_t kept = options.unpack_in_memory;
  GRAFT_TRY_ASSIGN(HostBuffer buffer, HostBuffer::create(kept + 1, "unpacking a data file", options.allocator));
  GRAFT_TRY_ASSIGN(std::size_t got, reader.read(buffer.bytes()));
  if (got <= kept) {
    GRAFT_TRY_ASSIGN(memory_, HostBuffer::create(got, "a data file", options.allocator));
    if (got > 0) std::memcpy(memory_.data(), buffer.data(), got);
    size_ = got;
    return {};
  }
  GRAFT_TRY(create_temporary(options).with_context(cat("While unpacking \"", path_, "\"")));
  for (size_ = 0; got > 0;) {
    GRAFT_TRY(file_->append(std::span<const std::byte>(buffer.bytes()).first(got))
                  .with_context(cat("While unpacking \"", path_, "\" to a temporary file")));
    size_ += got;
    GRAFT_TRY_ASSIGN(got, reader.read(buffer.bytes()));
  }
  return {};
}

Status DataFile::read(std::uint64_t offset, std::span<std::byte> out) const {
  if (!in_bounds(offset, out.size(), size_)) {
    return corrupt("\"", path_, "\" ends at byte ", size_, "; ", out.size(), " bytes at ", offset, " were expected.");
  }
  if (out.empty()) return {};
  if (file_) return os::read_exactly(*file_, offset, out, path_);
  std::memcpy(out.data(), memory_.data() + offset, out.size());
  return {};
}

}  // namespace graft::data
