// A FileSystem over another one that makes call k fail.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "platform/os/file.h"
#include "tests/support/files/temporary_folder.h"

namespace graft::test {

/// Counts every fallible call on itself and on the files it opened, and fails the one it is told to.
class FaultFiles final : public os::FileSystem {
 public:
  explicit FaultFiles(os::FileSystem& base = os::system_files()) : base_(base) {}

  struct State {
    std::uint64_t calls = 0;      ///< so far
    std::uint64_t fail_call = 0;  ///< from 1; 0: none
    bool keep_failing = false;    ///< every later call fails as well, as on a disk that stays full
    bool short_write = false;     ///< a failing write first writes half of its bytes
    bool skip_sync = false;       ///< syncing is counted and done for nothing: thousands of files are written fast
    std::string failed;           ///< what was made to fail first, as in "sync"
  };
  State state;

  Result<std::unique_ptr<os::File>> open(const std::string& path, os::OpenMode mode) override;
  Result<std::unique_ptr<os::MappedFile>> map(const std::string& path) override;
  Result<os::FileInfo> info(const std::string& path) override;
  Result<std::string> follow(const std::string& path) override { return base_.follow(path); }
  Result<std::vector<os::DirectoryEntry>> list(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::unique_ptr<os::FileLock>> lock(const std::string& path) override;
  Result<std::uint64_t> free_bytes(const std::string& path) override;

 private:
  os::FileSystem& base_;
};

}  // namespace graft::test
