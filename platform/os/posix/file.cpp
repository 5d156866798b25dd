#include "platform/os/descriptor.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <system_error>

#include "platform/base/stable_sort.h"
#include "platform/os/access.h"

namespace graft::os {
namespace {

/// "The file "x" could not be opened: No such file or directory (errno 2)."
Status system_error(const std::string& path, const char* what) {
  const int number = errno;
  const Code code = number == ENOENT ? Code::not_found : number == ENOMEM ? Code::out_of_memory : Code::io_error;
  return error(code, "\"", path, "\" could not be ", what, ": ", std::generic_category().message(number), " (errno ",
               number, ").");
}

/// Retries what a signal interrupted.
template <typename Call>
auto retry(Call call) {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

/// Whether what was written through `descriptor` is on storage.
bool synced(int descriptor) {
#if defined(F_FULLFSYNC)
  // Darwin's fsync leaves the bytes in the drive's cache. File systems that cannot empty it refuse, as those of
  // networks do: fsync is the most that they have. An I/O error is none of that and must not be lost in a second call.
  if (retry([&] { return ::fcntl(descriptor, F_FULLFSYNC); }) == 0) return true;
  if (errno != ENOTSUP && errno != EINVAL && errno != ENOTTY && errno != ENODEV) return false;
#endif
  return retry([&] { return ::fsync(descriptor); }) == 0;
}

/// Largest single read or write: Linux moves at most 2^31 - 4096 bytes per call anyway.
constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

/// Owns a descriptor.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

constexpr mode_t kShared = 0666, kPrivate = 0600;

Result<Descriptor> open_path(const std::string& path, int flags, const char* what, mode_t mode = kShared) {
  if (path.find('\0') != std::string::npos) return invalid("A path of ", path.size(), " bytes holds a zero byte.");
  // Without O_NONBLOCK, opening a named pipe waits for its other end.
  const int fd = retry([&] { return ::open(path.c_str(), flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, mode); });
  if (fd < 0) return system_error(path, what);
  return Descriptor(fd);
}

/// A link that another user planted where everyone may make files is not followed: the kernel's protected_symlinks.
Status check_link(const std::string& path) {
  struct stat link {
  }, folder{};
  if (::lstat(path.c_str(), &link) != 0 || !S_ISLNK(link.st_mode)) return ok_status();
  constexpr mode_t kOpen = S_ISVTX | S_IWOTH;
  if (::stat(parent_directory(path).c_str(), &folder) != 0 || (folder.st_mode & kOpen) != kOpen) return ok_status();
  if (link.st_uid == ::geteuid() || link.st_uid == folder.st_uid) return ok_status();
  return error(Code::io_error, "\"", path, "\" is a link that another user (", link.st_uid,
               ") put into a folder that everyone may write to; it is not followed.");
}

Status check_links(const std::string& path) {
  for (std::size_t at = path.find('/', 1); at != path.npos; at = path.find('/', at + 1)) {
    GRAFT_TRY(check_link(path.substr(0, at)));
  }
  return check_link(path);
}

EntryType entry_type(const struct stat& info) {
  return S_ISREG(info.st_mode) ? EntryType::file : S_ISDIR(info.st_mode) ? EntryType::directory : EntryType::other;
}

/// What the folder itself tells spares a call for each entry; links are followed, and some file systems do not tell.
EntryType type_of(int folder, const dirent& entry) {
  if (entry.d_type == DT_REG) return EntryType::file;
  if (entry.d_type == DT_DIR) return EntryType::directory;
  struct stat info {};
  return ::fstatat(folder, entry.d_name, &info, 0) == 0 ? entry_type(info) : EntryType::other;
}

/// The size of a regular file; of a character device 0, where `devices` may be used as well.
Result<std::uint64_t> descriptor_size(int fd, const std::string& path, bool devices = false) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return system_error(path, "examined");
  if (S_ISREG(info.st_mode) || (devices && S_ISCHR(info.st_mode))) return static_cast<std::uint64_t>(info.st_size);
  const char* const type = S_ISDIR(info.st_mode)    ? "a directory"
                           : S_ISFIFO(info.st_mode) ? "a pipe"
                           : S_ISSOCK(info.st_mode) ? "a socket"
                                                    : "a device";
  return error(Code::io_error, "\"", path, "\" is ", type, ", not a regular file.");
}

Status check_offset(std::uint64_t offset, std::uint64_t bytes, const std::string& path) {
  const auto limit = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  if (offset > limit || bytes > limit - offset) {
    return invalid("A transfer of ", bytes, " bytes at byte ", offset, " of \"", path,
                   "\" passes the largest file offset, ", limit, ".");
  }
  return ok_status();
}

class PosixFile final : public File {
 public:
  PosixFile(Descriptor descriptor, std::string path) : descriptor_(std::move(descriptor)), path_(std::move(path)) {}

  Result<std::uint64_t> size() const override { return descriptor_size(descriptor_.get(), path_, true); }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    GRAFT_TRY(check_offset(offset, bytes.size(), path_));
    std::size_t done = 0;
    while (done < bytes.size()) {
      const ssize_t count = retry([&] {
        return ::pread(descriptor_.get(), bytes.data() + done, std::min(bytes.size() - done, kMaxTransfer),
                       static_cast<off_t>(offset + done));
      });
      if (count < 0) return system_error(path_, "read");
      if (count == 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    GRAFT_TRY(check_offset(offset, bytes.size(), path_));
    while (!bytes.empty()) {
      const ssize_t count = retry([&] {
        return ::pwrite(descriptor_.get(), bytes.data(), std::min(bytes.size(), kMaxTransfer),
                        static_cast<off_t>(offset));
      });
      if (count < 0) return system_error(path_, "written");
      if (count == 0) return error(Code::io_error, "\"", path_, "\" takes no more bytes at byte ", offset, ".");
      bytes = bytes.subspan(static_cast<std::size_t>(count));
      offset += static_cast<std::uint64_t>(count);
    }
    return ok_status();
  }

  Status append(std::span<const std::byte> bytes) override {
    GRAFT_TRY_ASSIGN(const std::uint64_t end, size());
    return write_at(end, bytes);
  }

  Status truncate(std::uint64_t bytes) override {
    GRAFT_TRY(check_offset(bytes, 0, path_));
    if (retry([&] { return ::ftruncate(descriptor_.get(), static_cast<off_t>(bytes)); }) != 0) {
      return system_error(path_, "resized");
    }
    return ok_status();
  }

  Status sync() override {
    if (!synced(descriptor_.get())) return system_error(path_, "synced to storage");
    return ok_status();
  }

 private:
  Descriptor descriptor_;
  std::string path_;
};

class PosixMapping final : public MappedFile {
 public:
  /// `skipped`: bytes at the start that are mapped only because a page begins there.
  PosixMapping(void* address, std::size_t size, std::size_t skipped)
      : address_(address), size_(size), skipped_(skipped) {}
  ~PosixMapping() override {
    if (size_ != 0) ::munmap(address_, size_);
  }
  std::span<const std::byte> bytes() const override {
    return std::span(static_cast<const std::byte*>(address_), size_).subspan(skipped_);
  }

 private:
  void* address_;
  std::size_t size_;
  std::size_t skipped_;
};

Result<std::unique_ptr<MappedFile>> map_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                              const std::string& path) {
  if (bytes == 0) return std::unique_ptr<MappedFile>(std::make_unique<PosixMapping>(nullptr, 0, 0));
  const std::uint64_t skipped = offset % static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (bytes > std::numeric_limits<std::size_t>::max() - skipped) {
    return unsupported("\"", path, "\" has ", bytes_text(bytes), ", more than this process can map.");
  }
  const auto size = static_cast<std::size_t>(skipped + bytes);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, static_cast<off_t>(offset - skipped));
  if (address == MAP_FAILED) return system_error(path, "mapped");
  return std::unique_ptr<MappedFile>(std::make_unique<PosixMapping>(address, size, static_cast<std::size_t>(skipped)));
}

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  Descriptor descriptor_;  // closing it drops the lock
};

class PosixFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    int flags = O_RDWR;
    const char* what = "opened";
    switch (mode) {
      case OpenMode::read: flags = O_RDONLY; break;
      case OpenMode::read_write: break;
      case OpenMode::create: flags |= O_CREAT | O_TRUNC, what = "created"; break;
      case OpenMode::create_new: flags |= O_CREAT | O_EXCL, what = "created"; break;
      case OpenMode::append: flags |= O_CREAT, what = "opened for appending"; break;
    }
    const bool writes = mode != OpenMode::read;
    if (writes) GRAFT_TRY(check_links(path));
    GRAFT_TRY_ASSIGN(auto descriptor, open_path(path, flags, what, mode == OpenMode::create_new ? kPrivate : kShared));
    GRAFT_TRY(descriptor_size(descriptor.get(), path, writes).status());
    // A sign of life for remove_leftovers() of other processes. Where a file system has no locks, ids of processes do.
    if (mode == OpenMode::create_new || mode == OpenMode::create) (void)::flock(descriptor.get(), LOCK_EX | LOCK_NB);
    return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(descriptor), path));
  }

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const auto descriptor, open_path(path, O_RDONLY, "opened"));
    GRAFT_TRY_ASSIGN(const std::uint64_t size, descriptor_size(descriptor.get(), path));
    return map_bytes(descriptor.get(), 0, size, path);
  }

  Result<FileInfo> info(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) return system_error(path, "examined");
    return FileInfo{static_cast<std::uint64_t>(info.st_size), entry_type(info)};
  }

  Result<std::string> follow(const std::string& path) override {
    constexpr int kMostLinks = 40;  // as Linux itself
    std::string at = path;
    for (int i = 0; i < kMostLinks; ++i) {
      GRAFT_TRY(check_links(at));
      char target[4096];
      const ssize_t size = ::readlink(at.c_str(), target, sizeof target);
      if (size < 0 || static_cast<std::size_t>(size) >= sizeof target) return at;  // no link: EINVAL, or not there
      const std::string to(target, static_cast<std::size_t>(size));
      at = to.starts_with('/') ? to : cat(parent_directory(at), "/", to);
    }
    return error(Code::io_error, "\"", path, "\" is a link that leads through more than ", kMostLinks, " links.");
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    std::vector<DirectoryEntry> entries;
    GRAFT_TRY(visit(path, [&](std::string_view name, EntryType type) {
      entries.push_back({std::string(name), type});
    }));
    graft::stable_sort(entries, [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  Status visit(const std::string& path, const std::function<void(std::string_view, EntryType)>& entry) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
    if (directory == nullptr) return system_error(path, "listed");
    errno = 0;
    while (const dirent* found = ::readdir(directory.get())) {
      const std::string_view name = found->d_name;
      if (name != "." && name != "..") entry(name, type_of(::dirfd(directory.get()), *found));
      errno = 0;
    }
    return errno == 0 ? ok_status() : system_error(path, "listed");
  }

  Status make_directory(const std::string& path) override {
    GRAFT_TRY(check_links(path));
    if (::mkdir(path.c_str(), 0777) == 0) return ok_status();
    if (errno == EEXIST) {
      struct stat info {};
      if (::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode)) return ok_status();
      errno = EEXIST;
    }
    return system_error(path, "made a directory");
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return system_error(from, cat("renamed to \"", to, "\"").c_str());
    return ok_status();
  }

  Status remove(const std::string& path) override {
    if (std::remove(path.c_str()) != 0) return system_error(path, "removed");
    return ok_status();
  }

  Status sync_directory(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const auto descriptor, open_path(path, O_RDONLY | O_DIRECTORY, "opened as a directory"));
    if (!synced(descriptor.get())) return system_error(path, "synced to storage");
    return ok_status();
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    GRAFT_TRY(check_links(path));
    GRAFT_TRY_ASSIGN(auto descriptor, open_path(path, O_RDWR | O_CREAT, "opened for locking", kPrivate));
    if (retry([&] { return ::flock(descriptor.get(), LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == EWOULDBLOCK)
        return error(Code::io_error, "\"", path, "\" is locked: another process or session uses it.");
      return system_error(path, "locked");
    }
    return std::unique_ptr<FileLock>(std::make_unique<PosixLock>(std::move(descriptor)));
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    struct statvfs info {};
    if (::statvfs(path.c_str(), &info) != 0) return system_error(path, "examined for free space");
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }
};

}  // namespace

Status copy_access(const std::string& from, const std::string& to) {
  struct stat info {};
  if (::stat(from.c_str(), &info) != 0) return system_error(from, "examined");
  mode_t mode = info.st_mode & 0777;
  // Only root may give a file away. Without its group, the group's rights would be those of other people.
  if (::geteuid() == 0 && ::chown(to.c_str(), info.st_uid, info.st_gid) != 0) return system_error(to, "given away");
  if (::geteuid() != 0 && ::chown(to.c_str(), static_cast<uid_t>(-1), info.st_gid) != 0) mode &= ~mode_t{070};
  return ::chmod(to.c_str(), mode) == 0 ? ok_status() : system_error(to, "given its mode");
}

Status make_private(const std::string& folder) {
  return ::chmod(folder.c_str(), 0700) == 0 ? ok_status() : system_error(folder, "given its mode");
}

FileSystem& system_files() {
  static PosixFileSystem files;
  return files;
}

Result<std::unique_ptr<File>> open_descriptor(int descriptor, const std::string& name) {
  Descriptor copy(retry([&] { return ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0); }));
  if (copy.get() < 0) return system_error(name, "opened again");
  GRAFT_TRY(descriptor_size(copy.get(), name).status());
  return std::unique_ptr<File>(std::make_unique<PosixFile>(std::move(copy), name));
}

Result<std::uint64_t> descriptor_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                       const std::string& name) {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, descriptor_size(descriptor, name));
  if (offset > size || bytes > size - offset) {
    return corrupt("\"", name, "\" ends at byte ", size, "; ", bytes, " bytes from byte ", offset,
                   " on were promised.");
  }
  return bytes != 0 ? bytes : size - offset;
}

Result<std::unique_ptr<MappedFile>> map_descriptor(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                                   const std::string& name) {
  GRAFT_TRY_ASSIGN(const std::uint64_t there, descriptor_bytes(descriptor, offset, bytes, name));
  return map_bytes(descriptor, offset, there, name);
}

}  // namespace graft::os
