#include "tools/common/files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/base/hash.h"
#include "platform/os/entropy.h"
#include "platform/os/file.h"

namespace graft::cli {

Result<std::string> text_of_file(const std::string& path, std::uint64_t limit) {
  return os::read_text_file(os::system_files(), path, limit);
}

bool begins_with(const std::string& path, std::string_view bytes) {
  const auto file = os::system_files().open(path, os::OpenMode::read);
  std::string begin(bytes.size(), '\0');
  if (!file.ok()) return false;
  const auto count = (*file)->read_at(0, std::as_writable_bytes(std::span(begin)));
  return count.ok() && *count == bytes.size() && begin == bytes;
}

Status write_text(const std::string& path, const std::string& text) {
  return os::atomic_write_file(os::system_files(), path, text);
}

Status check_writable(const std::string& path) { return os::check_writable(os::system_files(), path); }

Status check_appendable(const std::string& path) {
  return detail::status_of(os::system_files().open(path, os::OpenMode::append));
}

Result<std::FILE*> open_stream(const std::string& path, bool keeps) {
  TRY_ASSIGN(const std::string target, os::system_files().follow(path));
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (keeps ? O_APPEND : O_TRUNC);
  const int descriptor = ::open(target.c_str(), flags, 0666);
  std::FILE* const file = descriptor >= 0 ? ::fdopen(descriptor, keeps ? "a" : "w") : nullptr;
  if (file != nullptr) return file;
  const Status failed = error(Code::io_error, "Cannot write \"", path, "\": ", std::strerror(errno), ".");
  if (descriptor >= 0) ::close(descriptor);
  return failed;
}

Status make_folders(const std::string& path) { return os::make_directories(os::system_files(), path); }

Status check_folder(const std::string& path) {
  os::FileSystem& files = os::system_files();
  if (os::exists(files, path)) return ok_status();
  std::string missing = path;
  while (!os::exists(files, os::parent_directory(missing))) missing = os::parent_directory(missing);
  TRY(files.make_directory(missing));
  return files.remove(missing);
}

std::string fitting_name(const std::string& name, std::string_view suffix) {
  constexpr std::size_t kMostBytes = 255, kHashDigits = 16;
  if (name.size() + suffix.size() <= kMostBytes) return cat(name, suffix);
  std::size_t cut = kMostBytes - suffix.size() - kHashDigits - 1;
  while ((name[cut] & 0xc0) == 0x80) --cut;  // not within a character of UTF-8
  const std::string hash = hash_text(hash128(std::as_bytes(std::span(name.data(), name.size()))));
  return cat(name.substr(0, cut), "-", hash.substr(0, kHashDigits), suffix);
}

Result<std::string> random_name() { return os::random_name(); }

}  // namespace graft::cli
