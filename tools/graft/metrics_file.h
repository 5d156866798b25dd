// The file that graft train --metrics names.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "platform/base/status.h"

namespace graft::cli {

/// One JSON object a line, on disk as soon as it is known.
class MetricsFile {
 public:
  ~MetricsFile() {
    if (file_ != nullptr) std::fclose(file_);
  }
  /// Begins anew; or, where a run goes on after `resumed` steps, keeps the rows of those steps: later ones come again.
  Status open(const std::string& path, std::uint64_t resumed) {
    path_ = path;
    std::error_code ignored;
    const bool keeps = resumed > 0 && std::filesystem::is_regular_file(path, ignored);
    if (keeps) {
      std::error_code failed;
      std::filesystem::resize_file(path, kept_bytes(path, resumed), failed);
      if (failed) return error(Code::io_error, "Cannot write \"", path, "\": ", failed.message(), ".");
    }
    file_ = std::fopen(path.c_str(), keeps ? "a" : "w");
    return file_ != nullptr ? ok_status() : failure();
  }
  /// A failure does not end training: it is reported at once, and again by outcome().
  void write(const nlohmann::ordered_json& row) {
    if (file_ == nullptr || !outcome_.ok()) return;
    if (std::fprintf(file_, "%s\n", row.dump().c_str()) > 0 && std::fflush(file_) == 0) return;
    outcome_ = failure();
    std::fprintf(stderr, "%s No more metrics are written.\n", outcome_.message().c_str());
  }
  const Status& outcome() const { return outcome_; }

 private:
  /// How much of the file are whole rows of the first `steps` steps.
  static std::uint64_t kept_bytes(const std::string& path, std::uint64_t steps) {
    std::ifstream file(path, std::ios::binary);
    std::uint64_t kept = 0;
    for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
      const auto row = nlohmann::json::parse(line, nullptr, false);
      const auto step = row.is_object() ? row.find("step") : row.end();
      if (!row.is_object() || (step != row.end() && !step->is_number_unsigned())) break;
      // Held-out losses and samples of the step that the run goes on from come again, too.
      if (step != row.end() && (*step > steps || (*step == steps && row.value("kind", "") != "step"))) break;
    }
    return kept;
  }

  Status failure() const { return error(Code::io_error, "Cannot write \"", path_, "\": ", std::strerror(errno), "."); }

  std::FILE* file_ = nullptr;
  std::string path_;
  Status outcome_;
};

}  // namespace graft::cli
