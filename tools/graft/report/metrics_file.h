// The file that graft train --metrics names.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/common/files.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"

namespace graft::cli {

/// One JSON object a line, on disk as soon as it is known.
class MetricsFile {
 public:
  MetricsFile() = default;
  MetricsFile(MetricsFile&& other) noexcept { swap(other); }
  MetricsFile& operator=(MetricsFile&& other) noexcept {
    swap(other);
    return *this;
  }
  ~MetricsFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  /// Begins anew; or, where a run goes on after `resumed` steps, keeps the rows of those steps: later ones come again.
  Status open(const std::string& path, std::uint64_t resumed) {
    path_ = path;
    last_step_ = 0;
    std::error_code ignored;
    const bool keeps = resumed > 0 && std::filesystem::is_regular_file(path, ignored);
    if (keeps) {
      TRY(check_appendable(path));
      std::error_code failed;
      std::filesystem::resize_file(path, kept_bytes(path, resumed), failed);
      if (failed) return error(Code::io_error, "Cannot write \"", path, "\": ", failed.message(), ".");
    }
    TRY_ASSIGN(file_, open_stream(path, keeps));
    return ok_status();
  }
  /// A failure does not end training: it is reported at once, and again by outcome().
  void write(const nlohmann::ordered_json& row) {
    if (file_ == nullptr || !outcome_.ok()) return;
    if (std::fprintf(file_, "%s\n", row.dump().c_str()) > 0 && std::fflush(file_) == 0) return;
    outcome_ = failure();
    to_stderr("%s No more metrics are written.\n", outcome_.message().c_str());
  }
  const Status& outcome() const { return outcome_; }
  /// The last one that had a row when the file was opened; 0: none.
  std::uint64_t last_step() const { return last_step_; }

 private:
  /// How much of the file are whole rows of the first `steps` steps.
  std::uint64_t kept_bytes(const std::string& path, std::uint64_t steps) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t kept = 0;
    for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      const auto step = row.is_object() ? row.find("step") : row.end();
      if (!row.is_object() || (step != row.end() && !step->is_number_unsigned())) break;
      // Held-out losses and samples of the step that the run goes on from come again, too.
      if (step != row.end() && (*step > steps || (*step == steps && row.value("kind", "") != "step"))) break;
      if (step != row.end()) last_step_ = *step;
    }
    return kept;
  }

  void swap(MetricsFile& other) {
    std::swap(file_, other.file_);
    path_.swap(other.path_);
    std::swap(outcome_, other.outcome_);
    std::swap(last_step_, other.last_step_);
  }

  Status failure() const { return error(Code::io_error, "Cannot write \"", path_, "\": ", std::strerror(errno), "."); }

  std::FILE* file_ = nullptr;
  std::string path_;
  Status outcome_;
  std::uint64_t last_step_ = 0;
};

}  // namespace graft::cli
