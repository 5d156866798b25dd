// The rows of a --metrics file, read while a run may still write to it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/common/status.h"

namespace graft::cli {

/// Reads whole lines only, each time from where it stopped.
class MetricsRows {
 public:
  explicit MetricsRows(std::string path) : path_(std::move(path)) {}

  /// Reads what was added. If the file was cut or replaced, as by a resumed run, it reads all of it again.
  /// invalid_argument: a line that is not a row of metrics. not_found, io_error: the file cannot be read.
  Status read();

  /// One JSON object each, as text.
  const std::vector<std::string>& rows() const { return rows_; }
  /// Changes whenever rows were read again from the start.
  std::uint64_t generation() const { return generation_; }
  /// Whether the file ends within a line, which is not among the rows.
  bool is_cut() const { return is_cut_; }

 private:
  Status add_lines(const std::string& text);
  bool is_as_read(std::istream& file) const;
  void restart();

  std::string path_;
  std::vector<std::string> rows_;
  std::string last_line_;  ///< as in the file; it ends at read_
  std::uint64_t read_ = 0;
  std::uint64_t lines_ = 0;
  std::uint64_t generation_ = 1;
  bool is_cut_ = false;
};

}  // namespace graft::cli
