// A name whose file is open cannot be given to another file but by a rename with POSIX semantics (Windows 10 from 1607
// on, NTFS), for which all that have it open must share deletion, as all opens below do.
#include <io.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "platform/os/access.h"
#include "platform/os/descriptor.h"
#include "platform/os/windows/wide.h"

namespace graft::os {
namespace {

constexpr std::size_t kMaxTransfer = std::size_t{1} << 30;

Status system_error(const std::string& path, const std::string& what) {
  const DWORD number = GetLastError();
  Code code = Code::io_error;
  if (number == ERROR_FILE_NOT_FOUND || number == ERROR_PATH_NOT_FOUND) code = Code::not_found;
  if (number == ERROR_NOT_ENOUGH_MEMORY || number == ERROR_OUTOFMEMORY) code = Code::out_of_memory;
  return error(code, "\"", path, "\" could not be ", what, ": ", system_reason(number), ".");
}

class Handle {
 public:
  explicit Handle(HANDLE handle) : handle_(handle) {}
  ~Handle() {
    if (handle_ != INVALID_HANDLE_VALUE && handle_ != nullptr) CloseHandle(handle_);
  }
  Handle(Handle&& other) noexcept : handle_(std::exchange(other.handle_, INVALID_HANDLE_VALUE)) {}
  Handle& operator=(Handle&&) = delete;
  HANDLE get() const { return handle_; }

 private:
  HANDLE handle_;
};

constexpr DWORD kShareAll = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

Result<std::wstring> wide_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) return invalid("A path of ", path.size(), " bytes holds a zero byte.");
  std::wstring out = wide(path);
  if (out.empty() && !path.empty()) return invalid("A path of ", path.size(), " bytes is not UTF-8.");
  return out;
}

Result<Handle> open_path(const std::string& path, DWORD access, DWORD create, const char* what, DWORD flags = 0) {
  GRAFT_TRY_ASSIGN(const std::wstring name, wide_path(path));
  Handle handle(CreateFileW(name.c_str(), access, kShareAll, nullptr, create, FILE_ATTRIBUTE_NORMAL | flags, nullptr));
  if (handle.get() == INVALID_HANDLE_VALUE) return system_error(path, what);
  return handle;
}

Result<std::uint64_t> handle_size(HANDLE handle, const std::string& path) {
  LARGE_INTEGER size{};
  if (!GetFileSizeEx(handle, &size)) return system_error(path, "examined");
  return static_cast<std::uint64_t>(size.QuadPart);
}

Status check_offset(std::uint64_t offset, std::uint64_t bytes, const std::string& path) {
  constexpr auto kLimit = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (offset <= kLimit && bytes <= kLimit - offset) return ok_status();
  return invalid("A transfer of ", bytes, " bytes at byte ", offset, " of \"", path,
                 "\" passes the largest file offset, ", kLimit, ".");
}

OVERLAPPED at(std::uint64_t offset) {
  OVERLAPPED place{};
  place.Offset = static_cast<DWORD>(offset);
  place.OffsetHigh = static_cast<DWORD>(offset >> 32);
  return place;
}

class WindowsFile final : public File {
 public:
  WindowsFile(Handle handle, std::string path) : handle_(std::move(handle)), path_(std::move(path)) {}

  Result<std::uint64_t> size() const override { return handle_size(handle_.get(), path_); }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) const override {
    GRAFT_TRY(check_offset(offset, bytes.size(), path_));
    std::size_t done = 0;
    while (done < bytes.size()) {
      OVERLAPPED place = at(offset + done);
      DWORD count = 0;
      const auto wanted = static_cast<DWORD>(std::min(bytes.size() - done, kMaxTransfer));
      if (!ReadFile(handle_.get(), bytes.data() + done, wanted, &count, &place)) {
        if (GetLastError() == ERROR_HANDLE_EOF) break;
        return system_error(path_, "read");
      }
      if (count == 0) break;
      done += count;
    }
    return done;
  }

  Status write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    GRAFT_TRY(check_offset(offset, bytes.size(), path_));
    while (!bytes.empty()) {
      OVERLAPPED place = at(offset);
      DWORD count = 0;
      const auto wanted = static_cast<DWORD>(std::min(bytes.size(), kMaxTransfer));
      if (!WriteFile(handle_.get(), bytes.data(), wanted, &count, &place)) return system_error(path_, "written");
      if (count == 0) return error(Code::io_error, "\"", path_, "\" takes no more bytes at byte ", offset, ".");
      bytes = bytes.subspan(count);
      offset += count;
    }
    return ok_status();
  }

  Status append(std::span<const std::byte> bytes) override {
    GRAFT_TRY_ASSIGN(const std::uint64_t end, size());
    return write_at(end, bytes);
  }

  Status truncate(std::uint64_t bytes) override {
    GRAFT_TRY(check_offset(bytes, 0, path_));
    FILE_END_OF_FILE_INFO end{};
    end.EndOfFile.QuadPart = static_cast<std::int64_t>(bytes);
    if (!SetFileInformationByHandle(handle_.get(), FileEndOfFileInfo, &end, sizeof end)) {
      return system_error(path_, "resized");
    }
    return ok_status();
  }

  Status sync() override {
    if (!FlushFileBuffers(handle_.get())) return system_error(path_, "synced to storage");
    return ok_status();
  }

 private:
  Handle handle_;
  std::string path_;
};

class WindowsMapping final : public MappedFile {
 public:
  /// `skipped`: bytes at the start that are mapped only because a view begins there.
  WindowsMapping(const void* address, std::size_t size, std::size_t skipped)
      : address_(address), size_(size), skipped_(skipped) {}
  ~WindowsMapping() override {
    if (address_ != nullptr) UnmapViewOfFile(address_);
  }
  std::span<const std::byte> bytes() const override {
    return std::span(static_cast<const std::byte*>(address_), size_).subspan(skipped_);
  }

 private:
  const void* address_;
  std::size_t size_;
  std::size_t skipped_;
};

Result<std::unique_ptr<MappedFile>> map_bytes(HANDLE file, std::uint64_t offset, std::uint64_t bytes,
                                              const std::string& path) {
  if (bytes == 0) return std::unique_ptr<MappedFile>(std::make_unique<WindowsMapping>(nullptr, 0, 0));
  SYSTEM_INFO system{};
  GetSystemInfo(&system);
  const std::uint64_t skipped = offset % system.dwAllocationGranularity;
  if (bytes > std::numeric_limits<std::size_t>::max() - skipped) {
    return unsupported("\"", path, "\" has ", bytes_text(bytes), ", more than this process can map.");
  }
  const Handle mapping(CreateFileMappingW(file, nullptr, PAGE_READONLY, 0, 0, nullptr));  // the view keeps it
  if (mapping.get() == nullptr) return system_error(path, "mapped");
  const std::uint64_t start = offset - skipped;
  const auto size = static_cast<std::size_t>(skipped + bytes);
  const void* const address =
      MapViewOfFile(mapping.get(), FILE_MAP_READ, static_cast<DWORD>(start >> 32), static_cast<DWORD>(start), size);
  if (address == nullptr) return system_error(path, "mapped");
  return std::unique_ptr<MappedFile>(
      std::make_unique<WindowsMapping>(address, size, static_cast<std::size_t>(skipped)));
}

class WindowsLock final : public FileLock {
 public:
  explicit WindowsLock(Handle handle) : handle_(std::move(handle)) {}

 private:
  Handle handle_;  // closing it drops the lock
};

bool lock_handle(HANDLE handle) {
  // A byte far beyond any file's end: locks here forbid others to read and write what they cover.
  OVERLAPPED place = at(std::uint64_t{1} << 62);
  return LockFileEx(handle, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &place) != 0;
}

/// A rename that replaces a file which others have open; false where the system or the file system knows none.
bool rename_over_open(const std::wstring& from, const std::wstring& to) {
  constexpr auto kRenameInfoEx = static_cast<FILE_INFO_BY_HANDLE_CLASS>(22);  // FileRenameInfoEx
  constexpr DWORD kReplace = 1, kPosixSemantics = 2;
  struct RenameInfo {
    DWORD flags;
    HANDLE root;
    DWORD name_bytes;
    wchar_t name[1];
  };
  const Handle file(CreateFileW(from.c_str(), DELETE | SYNCHRONIZE, kShareAll, nullptr, OPEN_EXISTING,
                                FILE_FLAG_BACKUP_SEMANTICS, nullptr));
  std::wstring whole(32768, L'\0');  // the longest path
  const DWORD length = GetFullPathNameW(to.c_str(), static_cast<DWORD>(whole.size()), whole.data(), nullptr);
  if (file.get() == INVALID_HANDLE_VALUE || length == 0 || length >= whole.size()) return false;
  const std::size_t bytes = sizeof(RenameInfo) + length * sizeof(wchar_t);
  std::vector<std::uint64_t> memory((bytes + 7) / 8);
  auto* const info = reinterpret_cast<RenameInfo*>(memory.data());
  info->flags = kReplace | kPosixSemantics;
  info->name_bytes = static_cast<DWORD>(length * sizeof(wchar_t));
  std::copy_n(whole.data(), length, info->name);
  return SetFileInformationByHandle(file.get(), kRenameInfoEx, info, static_cast<DWORD>(bytes)) != 0;
}

EntryType type_of(DWORD attributes) {
  if ((attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) return EntryType::directory;
  return (attributes & FILE_ATTRIBUTE_DEVICE) != 0 ? EntryType::other : EntryType::file;
}

class WindowsFileSystem final : public FileSystem {
 public:
  Result<std::unique_ptr<File>> open(const std::string& path, OpenMode mode) override {
    DWORD access = GENERIC_READ | GENERIC_WRITE, create = OPEN_EXISTING;
    const char* what = "opened";
    switch (mode) {
      case OpenMode::read: access = GENERIC_READ; break;
      case OpenMode::read_write: break;
      case OpenMode::create: create = CREATE_ALWAYS, what = "created"; break;
      case OpenMode::create_new: create = CREATE_NEW, what = "created"; break;
      case OpenMode::append: create = OPEN_ALWAYS, what = "opened for appending"; break;
    }
    GRAFT_TRY_ASSIGN(Handle handle, open_path(path, access, create, what));
    // A sign of life for remove_leftovers() of other processes.
    if (mode == OpenMode::create_new || mode == OpenMode::create) (void)lock_handle(handle.get());
    return std::unique_ptr<File>(std::make_unique<WindowsFile>(std::move(handle), path));
  }

  Result<std::unique_ptr<MappedFile>> map(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const Handle handle, open_path(path, GENERIC_READ, OPEN_EXISTING, "opened"));
    GRAFT_TRY_ASSIGN(const std::uint64_t size, handle_size(handle.get(), path));
    return map_bytes(handle.get(), 0, size, path);
  }

  Result<FileInfo> info(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const std::wstring name, wide_path(path));
    WIN32_FILE_ATTRIBUTE_DATA data{};
    if (!GetFileAttributesExW(name.c_str(), GetFileExInfoStandard, &data)) return system_error(path, "examined");
    return FileInfo{static_cast<std::uint64_t>(data.nFileSizeHigh) << 32 | data.nFileSizeLow,
                    type_of(data.dwFileAttributes)};
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const std::wstring name, wide_path(path + "/*"));
    WIN32_FIND_DATAW found{};
    const HANDLE search = FindFirstFileW(name.c_str(), &found);
    if (search == INVALID_HANDLE_VALUE) return system_error(path, "listed");
    std::vector<DirectoryEntry> entries;
    do {
      std::string entry = narrow(found.cFileName);
      if (entry != "." && entry != "..") entries.push_back({std::move(entry), type_of(found.dwFileAttributes)});
    } while (FindNextFileW(search, &found));
    const Status status = GetLastError() == ERROR_NO_MORE_FILES ? ok_status() : system_error(path, "listed");
    FindClose(search);
    GRAFT_TRY(status);
    std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
    return entries;
  }

  Status make_directory(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const std::wstring name, wide_path(path));
    if (CreateDirectoryW(name.c_str(), nullptr)) return ok_status();
    const DWORD number = GetLastError();
    const DWORD attributes = GetFileAttributesW(name.c_str());
    if (attributes != INVALID_FILE_ATTRIBUTES && type_of(attributes) == EntryType::directory) return ok_status();
    SetLastError(number);
    return system_error(path, "made a directory");
  }

  Status rename(const std::string& from, const std::string& to) override {
    GRAFT_TRY_ASSIGN(const std::wstring old_name, wide_path(from));
    GRAFT_TRY_ASSIGN(const std::wstring new_name, wide_path(to));
    if (MoveFileExW(old_name.c_str(), new_name.c_str(), MOVEFILE_REPLACE_EXISTING | MOVEFILE_WRITE_THROUGH)) {
      return ok_status();
    }
    const DWORD number = GetLastError();
    if (number == ERROR_ACCESS_DENIED && rename_over_open(old_name, new_name)) return ok_status();
    SetLastError(number);
    return system_error(from, cat("renamed to \"", to, "\""));
  }

  Status remove(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const std::wstring name, wide_path(path));
    const DWORD attributes = GetFileAttributesW(name.c_str());
    const bool folder = attributes != INVALID_FILE_ATTRIBUTES && type_of(attributes) == EntryType::directory;
    if (folder ? RemoveDirectoryW(name.c_str()) : DeleteFileW(name.c_str())) return ok_status();
    return system_error(path, "removed");
  }

  /// NTFS journals its names itself, and a folder cannot be flushed without an administrator's rights: a rename is
  /// written through instead. What is checked is that the folder is there.
  Status sync_directory(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const FileInfo found, info(path));
    if (found.type == EntryType::directory) return ok_status();
    return error(Code::io_error, "\"", path, "\" could not be opened as a directory: it is none.");
  }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    GRAFT_TRY_ASSIGN(Handle handle, open_path(path, GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS, "opened for locking"));
    if (!lock_handle(handle.get())) {
      if (GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING) {
        return error(Code::io_error, "\"", path, "\" is locked: another process or session uses it.");
      }
      return system_error(path, "locked");
    }
    return std::unique_ptr<FileLock>(std::make_unique<WindowsLock>(std::move(handle)));
  }

  Result<std::uint64_t> free_bytes(const std::string& path) override {
    GRAFT_TRY_ASSIGN(const FileInfo found, info(path));
    GRAFT_TRY_ASSIGN(const std::wstring name,
                     wide_path(found.type == EntryType::directory ? path : parent_directory(path)));
    ULARGE_INTEGER free{};
    if (!GetDiskFreeSpaceExW(name.c_str(), &free, nullptr, nullptr)) {
      return system_error(path, "examined for free space");
    }
    return free.QuadPart;
  }
};

HANDLE handle_of(int descriptor) { return reinterpret_cast<HANDLE>(_get_osfhandle(descriptor)); }

}  // namespace

Status copy_access(const std::string&, const std::string&) { return ok_status(); }
Status make_private(const std::string&) { return ok_status(); }

FileSystem& system_files() {
  static WindowsFileSystem files;
  return files;
}

/// Descriptors are those of the C runtime that the app and this library share (msvcrt or ucrt).
Result<std::unique_ptr<File>> open_descriptor(int descriptor, const std::string& name) {
  HANDLE copy = INVALID_HANDLE_VALUE;
  if (!DuplicateHandle(GetCurrentProcess(), handle_of(descriptor), GetCurrentProcess(), &copy, 0, FALSE,
                       DUPLICATE_SAME_ACCESS)) {
    return system_error(name, "opened again");
  }
  Handle handle(copy);
  GRAFT_TRY(handle_size(handle.get(), name).status());
  return std::unique_ptr<File>(std::make_unique<WindowsFile>(std::move(handle), name));
}

Result<std::uint64_t> descriptor_bytes(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                       const std::string& name) {
  GRAFT_TRY_ASSIGN(const std::uint64_t size, handle_size(handle_of(descriptor), name));
  if (offset > size || bytes > size - offset) {
    return corrupt("\"", name, "\" ends at byte ", size, "; ", bytes, " bytes from byte ", offset,
                   " on were promised.");
  }
  return bytes != 0 ? bytes : size - offset;
}

Result<std::unique_ptr<MappedFile>> map_descriptor(int descriptor, std::uint64_t offset, std::uint64_t bytes,
                                                   const std::string& name) {
  GRAFT_TRY_ASSIGN(const std::uint64_t there, descriptor_bytes(descriptor, offset, bytes, name));
  return map_bytes(handle_of(descriptor), offset, there, name);
}

}  // namespace graft::os
