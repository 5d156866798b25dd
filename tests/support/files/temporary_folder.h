// A folder for one test's files, removed with all it holds when the test ends.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "platform/base/check.h"

namespace graft::test {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> counter{0};
    const std::string name = "graft-test-" + std::to_string(getpid()) + "-" + std::to_string(counter++);
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::filesystem::remove_all(path_);  // of a process of this number that crashed
    GRAFT_CHECK(std::filesystem::create_directory(path_));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  /// The path of a file in the folder, which need not exist.
  std::string file(std::string_view name) const { return path_ + "/" + std::string(name); }
  /// Writes a file and gives its path.
  std::string write(std::string_view name, std::string_view text) const {
    std::ofstream(file(name), std::ios::binary).write(text.data(), static_cast<std::streamsize>(text.size()));
    return file(name);
  }

 private:
  std::string path_;
};

}  // namespace graft::test
