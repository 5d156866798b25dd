// Files. Everything goes through FileSystem, so that tests can fail call k or simulate a power cut.
//
// Errors: every message names the path and the system's reason. not_found: no such file; io_error: the system refused
// (a full disk says so in the text); cancelled never.
// Threads: a FileSystem may be used from any thread; a File belongs to one at a time, except read_at.
// Durability: written bytes survive a power cut after File::sync(); a created, renamed or removed *name* does so only
// after FileSystem::sync_directory() of the folder that holds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "platform/base/allocator.h"
#include "platform/base/status.h"

namespace graft::os {

enum class OpenMode {
  read,        ///< must exist
  read_write,  ///< must exist; contents kept
  create,      ///< made, or emptied where it exists
  create_new,  ///< made; an error where it exists
  append,      ///< made where it does not exist; contents kept
};

/// An open file. Destroying it closes it and reports nothing: sync() first where the bytes matter.
class File {
 public:
  virtual ~File() = default;
  virtual Result<std::uint64_t> size() const = 0;
  /// Reads up to bytes.size() from `offset`; returns how many, fewer only at the end of the file.
  virtual Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) const = 0;
  /// Writes all of `bytes` at `offset`. After an error any prefix may have been written.
  virtual Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) = 0;
  /// Writes all of `bytes` at the end. After an error any prefix may have been written.
  virtual Status append(std::span<const std::byte> bytes) = 0;
  /// Cuts or extends (with zeros) to `bytes`.
  virtual Status truncate(std::uint64_t bytes) = 0;
  /// Returns once the bytes and the size are on stable storage. After an error the file's contents are unknown:
  /// do not retry, write another file.
  virtual Status sync() = 0;
};

/// A read-only view of a whole file. The file must not be shortened while it is mapped.
class MappedFile {
 public:
  virtual ~MappedFile() = default;
  virtual std::span<const std::byte> bytes() const = 0;
};

/// Held until destroyed, and dropped by the system when the process dies.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

enum class EntryType { file, directory, other };

struct DirectoryEntry {
  std::string name;  ///< without the folder
  EntryType type = EntryType::other;
};

struct FileInfo {
  std::uint64_t size = 0;
  EntryType type = EntryType::other;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) = 0;
  virtual Result<std::unique_ptr<MappedFile>> map(const std::string& path) = 0;
  /// Follows links. not_found where there is nothing.
  virtual Result<FileInfo> info(const std::string& path) = 0;
  /// Where a link leads, whether or not there is anything; what is no link, itself.
  virtual Result<std::string> follow(const std::string& path) { return path; }
  /// Sorted by name, without "." and "..".
  virtual Result<std::vector<DirectoryEntry>> list(const std::string& path) = 0;
  /// The same in no order, one after another, for folders of tens of thousands. The name is borrowed for the call.
  virtual Status visit(const std::string& path, const std::function<void(std::string_view, EntryType)>& entry);
  /// One level; an existing directory is success.
  virtual Status make_directory(const std::string& path) = 0;
  /// Atomically replaces `to` where it exists. Both must be on one file system.
  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// A file or an empty directory.
  virtual Status remove(const std::string& path) = 0;
  virtual Status sync_directory(const std::string& path) = 0;
  /// Takes an exclusive lock on `path` (made where missing); io_error at once where another holder has it.
  virtual Result<std::unique_ptr<FileLock>> lock(const std::string& path) = 0;
  /// Bytes that this process may still write on the file system that holds `path`.
  virtual Result<std::uint64_t> free_bytes(const std::string& path) = 0;
};

/// The operating system's files.
FileSystem& system_files();

/// The folder that holds `path`: "a/b" -> "a", "b" -> ".".
std::string parent_directory(std::string_view path);

bool exists(FileSystem& files, const std::string& path);

/// Reads exactly bytes.size() bytes, or fails with corrupt where the file ends before.
Status read_exactly(const File& file, std::uint64_t offset, std::span<std::byte> bytes, const std::string& path);

/// A whole file of at most `limit` bytes; a larger one is an error that names both sizes.
Result<HostBuffer> read_file(FileSystem& files, const std::string& path, std::uint64_t limit,
                             const HostAllocator& allocator = default_host_allocator());

/// The same, into `bytes`, which keeps its memory from file to file.
Status read_file(FileSystem& files, const std::string& path, std::uint64_t limit, std::vector<std::byte>& bytes);

/// As read_file, as text.
Result<std::string> read_text_file(FileSystem& files, const std::string& path, std::uint64_t limit);

/// Fails where atomic_write_file() of `path` would fail before its first byte (a folder or a device in its place, no
/// permission, no folder, a name that is too long), and removes what killed processes left of earlier writes.
Status check_writable(FileSystem& files, const std::string& path);

/// Makes `path`, or where it leads as a link, hold the parts one after another, or leaves it as it was: writes a
/// temporary file in the same folder, syncs it, renames it over `path`, syncs the folder. On failure the temporary file
/// is removed as far as possible. Where only the last step (syncing the folder) failed, the new contents are in place
/// but may not survive a power cut, and the message says so.
Status atomic_write_file(FileSystem& files, const std::string& path, std::span<const std::span<const std::byte>> parts);
Status atomic_write_file(FileSystem& files, const std::string& path, std::string_view text);

/// make_directory for every missing level of `path`, synced into its parent.
Status make_directories(FileSystem& files, const std::string& path);

}  // namespace graft::os
