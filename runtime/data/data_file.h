// Random access to a data file's contents, whether it is compressed or not.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "platform/base/allocator.h"
#include "platform/media/media.h"
#include "platform/os/file.h"

namespace graft::data {

struct FileOptions {
  os::FileSystem* files = &os::system_files();
  HostAllocator allocator = default_host_allocator();
  /// A gzip file that unpacks to no more than this is kept in memory; a larger one is unpacked to a temporary file.
  std::uint64_t unpack_in_memory = 4ull << 20;
  /// A gzip file that unpacks to more is an error.
  std::uint64_t unpack_limit = 64ull << 30;
  /// The folder of temporary files; empty: the system's.
  std::string temporary_directory;
  /// What reads pictures and sounds; null: nothing does.
  const media::Codecs* codecs = nullptr;
};

/// An open file, read at any offset. Movable. A temporary file goes with it, also when the process dies (where the
/// system allows an open file to be removed).
class DataFile {
 public:
  static Result<DataFile> open(const std::string& path, const FileOptions& options);
  DataFile(DataFile&&) noexcept;
  DataFile& operator=(DataFile&&) noexcept;
  ~DataFile();

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Exactly out.size() bytes; corrupt where the file ends before.
  Status read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  DataFile() = default;
  Status unpack(const FileOptions& options);
  Status create_temporary(const FileOptions& options);

  std::string path_;
  std::uint64_t size_ = 0;
  std::unique_ptr<os::File> file_;
  HostBuffer memory_;  // instead of file_
  os::FileSystem* files_ = nullptr;
  std::string temporary_;  // to be removed once closed
};

}  // namespace graft::data
