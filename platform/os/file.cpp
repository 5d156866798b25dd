#include "platform/os/file.h"

#include <array>
#include <charconv>
#include <optional>

#include "platform/base/hash.h"
#include "platform/os/access.h"
#include "platform/os/atomic_write.h"
#include "platform/os/entropy.h"
#include "platform/os/process.h"

namespace graft::os {
namespace {

constexpr std::string_view kPrefix = ".graft-", kSuffix = ".tmp";
constexpr std::size_t kNameDigits = 8;

#if defined(_WIN32)
constexpr std::string_view kSlashes = "/\\";
#else
constexpr std::string_view kSlashes = "/";
#endif

std::string_view last_part(std::string_view path) { return path.substr(path.find_last_of(kSlashes) + 1); }

/// What the names of all temporary files of `path` begin with: as long for a name of 255 bytes as for one of 1.
std::string temporary_prefix(std::string_view path) {
  const std::string_view name = last_part(path);
  return cat(kPrefix, hash_text(hash128(std::as_bytes(std::span(name)))).substr(0, kNameDigits), "-");
}

/// ".graft-<hash of the name>-<process>-<random>.tmp", which another user can neither foretell nor plant.
Result<std::unique_ptr<File>> create_temporary(FileSystem& files, const std::string& path, OpenMode mode,
                                               std::string& name) {
  GRAFT_TRY_ASSIGN(const std::string random, random_name());
  name = cat(std::string_view(path).substr(0, path.size() - last_part(path).size()), temporary_prefix(path),
             process_id(), "-", random, kSuffix);
  return files.open(name, mode);
}

struct Target {
  std::string path;
  bool exists = false;
};

/// Where contents go: a link stays, and what it leads to is replaced. A rename would put a file in the place of a
/// device or a folder.
Result<Target> target_of(FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(std::string target, files.follow(path));
  const auto info = files.info(target);
  if (!info.ok() && info.status().code() != Code::not_found) return info.status();
  if (info.ok() && info->type != EntryType::file) {
    return error(Code::io_error, "\"", path, "\" is not a regular file, and is not replaced by one.");
  }
  return Target{std::move(target), info.ok()};
}

/// The process that a temporary file with this prefix is of; nullopt for any other file.
std::optional<std::uint64_t> owner_of(std::string_view entry, std::string_view prefix) {
  if (!entry.starts_with(prefix) || !entry.ends_with(kSuffix)) return std::nullopt;
  const std::string_view rest = entry.substr(prefix.size());
  std::uint64_t id = 0;
  const auto [dash, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), id);
  return failed == std::errc() && *dash == '-' ? std::optional(id) : std::nullopt;
}

/// Neither its process is there, nor does another container's or machine's hold it open.
void remove_leftovers(FileSystem& files, const std::string& path) {
  const std::string folder = parent_directory(path);
  const auto entries = files.list(folder);
  if (!entries.ok()) return;
  const std::string prefix = temporary_prefix(path);
  for (const DirectoryEntry& entry : *entries) {
    const auto owner = owner_of(entry.name, prefix);
    if (!owner || entry.type != EntryType::file || process_is_alive(*owner)) continue;
    const std::string leftover = folder + "/" + entry.name;
    if (const auto held = files.lock(leftover); held.ok()) (void)files.remove(leftover);
  }
}

Status write_and_rename(FileSystem& files, const Target& target, bool is_private,
                        const std::function<Status(File&)>& write) {
  const bool keeps_access = target.exists && !is_private;
  std::string temporary;
  // Until it has the access of what it replaces, nobody else may read it.
  const OpenMode mode = is_private || keeps_access ? OpenMode::create_new : OpenMode::create;
  GRAFT_TRY_ASSIGN(auto file, create_temporary(files, target.path, mode, temporary));
  Status status = write(*file);
  if (status.ok() && keeps_access && &files == &system_files()) status = copy_access(target.path, temporary);
  if (status.ok()) status = file->sync();
  file.reset();  // closed before the rename, which some systems require
  if (status.ok()) status = files.rename(temporary, target.path);
  if (!status.ok()) (void)files.remove(temporary);  // the first error is the one to report
  return status;
}

Status replace_file(FileSystem& files, const std::string& path, bool is_private,
                    const std::function<Status(File&)>& write) {
  GRAFT_TRY_ASSIGN(const Target target, target_of(files, path));
  if (Status status = write_and_rename(files, target, is_private, write); !status.ok()) {
    return std::move(status).with_context(cat("While writing \"", path, "\", which was left as it was"));
  }
  if (Status status = files.sync_directory(parent_directory(target.path)); !status.ok()) {
    return std::move(status).with_context(
        cat("The new \"", path, "\" is in place, but would perhaps not survive a power cut"));
  }
  return ok_status();
}

/// One after another.
std::function<Status(File&)> writer_of(std::span<const std::span<const std::byte>> parts) {
  return [parts](File& file) -> Status {
    for (const auto part : parts) {
      if (!part.empty()) GRAFT_TRY(file.append(part));
    }
    return ok_status();
  };
}

Result<std::uint64_t> size_within(const File& file, const std::string& path, std::uint64_t limit) {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, file.size());
  if (size <= limit) return size;
  return invalid("The file \"", path, "\" has ", bytes_text(size), ", more than the limit of ", bytes_text(limit), ".");
}

}  // namespace

std::string parent_directory(std::string_view path) {
  while (path.size() > 1 && kSlashes.find(path.back()) != kSlashes.npos) path.remove_suffix(1);
  const auto slash = path.find_last_of(kSlashes);
  if (slash == std::string_view::npos) return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

Result<std::string> random_name() {
  std::array<std::uint64_t, 2> words{};
  GRAFT_TRY(fill_with_entropy(std::as_writable_bytes(std::span(words))));
  return hash_text({words[0], words[1]}).substr(0, 16);
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

Status check_writable(FileSystem& files, const std::string& path) {
  GRAFT_TRY_ASSIGN(const Target target, target_of(files, path));
  remove_leftovers(files, target.path);
  std::string temporary;
  GRAFT_TRY_ASSIGN(auto file, create_temporary(files, target.path, OpenMode::create_new, temporary));
  file.reset();
  return files.remove(temporary);
}

bool is_temporary(std::string_view name) { return name.starts_with(kPrefix) && name.ends_with(kSuffix); }

Status atomic_write_file(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write) {
  return replace_file(files, path, false, write);
}

Status atomic_write_file(FileSystem& files, const std::string& path,
                         std::span<const std::span<const std::byte>> parts) {
  return replace_file(files, path, false, writer_of(parts));
}

Status atomic_write_private(FileSystem& files, const std::string& path,
                            std::span<const std::span<const std::byte>> parts) {
  return replace_file(files, path, true, writer_of(parts));
}

Status atomic_write_private(FileSystem& files, const std::string& path, const std::function<Status(File&)>& write) {
  return replace_file(files, path, true, write);
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

Status make_private_directories(FileSystem& files, const std::string& path) {
  const bool is_new = !exists(files, path);
  GRAFT_TRY(make_directories(files, path));
  return is_new && &files == &system_files() ? make_private(path) : ok_status();
}

}  // namespace graft::os
