#include "platform/os/file.h"

#include <array>
#include <atomic>
#include <charconv>
#include <optional>

#include "platform/os/atomic_write.h"
#include "platform/os/process.h"

namespace graft::os {
namespace {

constexpr std::string_view kTemporary = ".tmp";

/// Of this process; create_new catches what another one left or makes.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> next{0};
  return cat(path, kTemporary, process_id(), "-", next.fetch_add(1));
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

/// Where contents go: a link stays, and what it leads to is replaced. A rename would put a file in the place of a
/// device or a folder.
Result<std::string> target_of(FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(std::string target, files.follow(path));
  const auto info = files.info(target);
  if (!info.ok() && info.status().code() != Code::not_found) return info.status();
  if (info.ok() && info->type != EntryType::file) {
    return error(Code::io_error, "\"", path, "\" is not a regular file, and is not replaced by one.");
  }
  return target;
}

/// The process that a temporary file of `name` is of; nullopt for any other file.
std::optional<std::uint64_t> owner_of(std::string_view entry, std::string_view name) {
  if (!entry.starts_with(name) || !entry.substr(name.size()).starts_with(kTemporary)) return std::nullopt;
  const std::string_view rest = entry.substr(name.size() + kTemporary.size());
  std::uint64_t id = 0;
  unsigned number = 0;
  const auto [dash, no_id] = std::from_chars(rest.data(), rest.data() + rest.size(), id);
  if (no_id != std::errc() || dash == rest.data() + rest.size() || *dash != '-') return std::nullopt;
  const auto [end, no_number] = std::from_chars(dash + 1, rest.data() + rest.size(), number);
  return no_number == std::errc() && end == rest.data() + rest.size() ? std::optional(id) : std::nullopt;
}

/// Neither its process is there, nor does another container's or machine's hold it open.
void remove_leftovers(FileSystem& files, const std::string& path) {
  const std::string folder = parent_directory(path);
  const auto entries = files.list(folder);
  if (!entries.ok()) return;
  const std::string_view name = std::string_view(path).substr(path.rfind('/') + 1);
  for (const DirectoryEntry& entry : *entries) {
    const auto owner = owner_of(entry.name, name);
    if (!owner || entry.type != EntryType::file || process_is_alive(*owner)) continue;
    const std::string leftover = folder + "/" + entry.name;
    if (const auto held = files.lock(leftover); held.ok()) (void)files.remove(leftover);
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

Result<std::uint64_t> size_within(const File& file, const std::string& path, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, file.size());
  if (size <= limit) return size;
  return invalid("The file \"", path, "\" has ", bytes_text(size), ", more than the limit of ", bytes_text(limit), ".");
}

}  // namespace

std::string parent_directory(std::string_view path) {
#if defined(_WIN32)
  constexpr std::string_view kSlashes = "/\\";
#else
  constexpr std::string_view kSlashes = "/";
#endif
  while (path.size() > 1 && kSlashes.find(path.back()) != kSlashes.npos) path.remove_suffix(1);
  const auto slash = path.find_last_of(kSlashes);
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

Status FileSystem::visit(const std::string& path, const std::function<void(std::string_view, EntryType)>& entry) {
  GRAFT_TRY_ASSIGN(const std::vector<DirectoryEntry> entries, list(path));
  for (const DirectoryEntry& one : entries) entry(one.name, one.type);
  return ok_status();
}

Result<HostBuffer> read_file(FileSystem& files, const std::string& path, std::uint64_t limit,
                             const HostAllocator& allocator) {
  GRAFT_TRY_ASSIGN(auto file, files.open(path, OpenMode::read));
  GRAFT_TRY_ASSIGN(const std::uint64_t size, size_within(*file, path, limit));
  GRAFT_TRY_ASSIGN(auto buffer, HostBuffer::create(size, cat("the file \"", path, "\""), allocator));
  GRAFT_TRY(read_exactly(*file, 0, buffer.bytes(), path));
  return buffer;
}

Status read_file(FileSystem& files, const std::string& path, std::uint64_t limit, std::vector<std::byte>& bytes) {
  GRAFT_TRY_ASSIGN(auto file, files.open(path, OpenMode::read));
  GRAFT_TRY_ASSIGN(const std::uint64_t size, size_within(*file, path, limit));
  bytes.resize(size);
  return read_exactly(*file, 0, bytes, path);
}

Result<std::string> read_text_file(FileSystem& files, const std::string& path, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const auto buffer, read_file(files, path, limit));
  return std::string(reinterpret_cast<const char*>(buffer.data()), buffer.size());
}

Status atomic_write_file(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write) {
  GRAFT_TRY_ASSIGN(const std::string target, target_of(files, path));
  if (Status status = write_and_rename(files, target, write); !status.ok()) {
    return std::move(status).with_context(cat("While writing \"", path, "\", which was left as it was"));
  }
  if (Status status = files.sync_directory(parent_directory(target)); !status.ok()) {
    return std::move(status).with_context(
        cat("The new \"", path, "\" is in place, but would perhaps not survive a power cut"));
  }
  return ok_status();
}

Status check_writable(FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const std::string target, target_of(files, path));
  remove_leftovers(files, target);
  std::string temporary;
  GRAFT_TRY_ASSIGN(auto file, create_temporary(files, target, temporary));
  file.reset();
  return files.remove(temporary);
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
