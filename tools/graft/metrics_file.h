// The file that graft train --metrics names.
#pragma once

#include <cerrno>
#include <cstdio>
#include <cstring>
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
  Status open(const std::string& path) {
    path_ = path;
    file_ = std::fopen(path.c_str(), "w");
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
  Status failure() const { return error(Code::io_error, "Cannot write \"", path_, "\": ", std::strerror(errno), "."); }

  std::FILE* file_ = nullptr;
  std::string path_;
  Status outcome_;
};

}  // namespace graft::cli
