#include "platform/os/file.h"

#include <array>
#include <atomic>

#include "platform/os/atomic_write.h"

namespace graft::os {
namespace {

/// Unique within the process; create_new catches what another process left or makes.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> next{0};
  return cat(path, ".tmp", next.fetch_add(1));
}

/// A name that is free: leftovers of a killed process are skipped, not trusted.
Result<std::unique_ptr<File>> create_temporary(FileSystem& files, const std::string& path, std::string& name) {
  constexpr int kAttempts = 100;
  for (int attempt = 0;; ++attempt) {
    name = temporary_name(path);
    auto file = files.open(name, OpenMode::create_new);
    if (file.ok() || attempt + 1 == kAttempts || !exists(files, name)) return file;
  }
}

Status write_and_rename(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write) {
  std::string temporary;
  GRAFT_TRY_ASSIGN(auto file, create_temporary(files, path, temporary));
  Status status = write(*file);
  if (status.ok()) status = file->sync();
  file.reset();  // closed before the rename, which some systems require
  if (status.ok()) status = files.rename(temporary, path);
  if (!status.ok()) (void)files.remove(temporary);  // the first error is the one to report
  return status;
}

}  // namespace

std::string parent_directory(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const auto slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

bool exists(FileSystem& files, const std::string& path) { return files.info(path).ok(); }

Status read_exactly(const File& file, std::uint64_t offset, std::span<std::byte> bytes, const std::string& path) {
  GRAFT_TRY_ASSIGN(const std::size_t count, file.read_at(offset, bytes));
  if (count != bytes.size()) {
    return corrupt("The file \"", path, "\" ends at byte ", offset + count, ", but ", bytes.size(), " bytes from byte ",
                   offset, " on were expected.");
  }
  return ok_status();
}

Result<HostBuffer> read_file(FileSystem& files, const std::string& path, std::uint64_t limit,
                             const HostAllocator& allocator) {
  GRAFT_TRY_ASSIGN(auto file, files.open(path, OpenMode::read));
  GRAFT_TRY_ASSIGN(const std::uint64_t size, file->size());
  if (size > limit) {
    return invalid("The file \"", path, "\" has ", bytes_text(size), ", more than the limit of ", bytes_text(limit),
                   ".");
  }
  GRAFT_TRY_ASSIGN(auto buffer, HostBuffer::create(size, cat("the file \"", path, "\""), allocator));
  GRAFT_TRY(read_exactly(*file, 0, buffer.bytes(), path));
  return buffer;
}

Result<std::string> read_text_file(FileSystem& files, const std::string& path, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const auto buffer, read_file(files, path, limit));
  return std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size());
}

Status atomic_write_file(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write) {
  // A rename would put a file in the place of a device or a folder.
  const auto info = files.info(path);
  if (!info.ok() && info.status().code() != Code::not_found) return info.status();
  if (info.ok() && info->type != EntryType::file) {
    return error(Code::io_error, "\"", path, "\" is not a regular file, and is not replaced by one.");
  }
  if (Status status = write_and_rename(files, path, write); !status.ok()) {
    return std::move(status).with_context(cat("While writing \"", path, "\", which was left as it was"));
  }
  if (Status status = files.sync_directory(parent_directory(path)); !status.ok()) {
    return std::move(status).with_context(
        cat("The new \"", path, "\" is in place, but would perhaps not survive a power cut"));
  }
  return ok_status();
}

Status atomic_write_file(FileSystem& files, const std::string& path,
                         std::span<const std::span<const std::byte>> parts) {
  return atomic_write_file(files, path, [&](File& file) -> Status {
    for (const auto part : parts) {
      if (!part.empty()) GRAFT_TRY(file.append(part));
    }
    return ok_status();
  });
}

Status atomic_write_file(FileSystem& files, const std::string& path, std::string_view text) {
  const std::array parts = {std::as_bytes(std::span(text.data(), text.size()))};
  return atomic_write_file(files, path, parts);
}

Status make_directories(FileSystem& files, const std::string& path) {
  if (const auto info = files.info(path); info.ok()) {
    if (info->type == EntryType::directory) return ok_status();
    return error(Code::io_error, "\"", path, "\" exists and is not a directory.");
  }
  const std::string parent = parent_directory(path);
  if (parent != path) GRAFT_TRY(make_directories(files, parent));
  GRAFT_TRY(files.make_directory(path));
  return files.sync_directory(parent);
}

}  // namespace graft::os
