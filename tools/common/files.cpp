#include "tools/common/files.h"

#include "platform/os/file.h"
#include "platform/os/process.h"

namespace graft::cli {

Result<std::string> text_of_file(const std::string& path) {
  return os::read_text_file(os::system_files(), path, std::uint64_t{64} << 20);
}

Status write_text(const std::string& path, const std::string& text) {
  return os::atomic_write_file(os::system_files(), path, text);
}

Status check_writable(const std::string& path) { return os::check_writable(os::system_files(), path); }

Status check_appendable(const std::string& path) {
  return detail::status_of(os::system_files().open(path, os::OpenMode::append));
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

std::uint64_t process_id() { return os::process_id(); }

}  // namespace graft::cli
