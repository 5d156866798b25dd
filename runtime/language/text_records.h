// The records of a JSON file that may be larger than memory: where each begins and ends is kept, and no more.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_file.h"

namespace graft {

/// What a tokenizer takes at once.
inline constexpr std::uint64_t kLargestText = (std::uint64_t{1} << 30) - 1;

/// An object a line, or the items of one array, with or without a byte order mark. Takes 12 bytes of memory for each record. A gzip file is unpacked to a
/// temporary one.
class RecordFile {
 public:
  /// Looks through the whole file once. Errors name the file, or the record that is larger than kLargestText.
  static Result<RecordFile> open(const std::string& path, const data::FileOptions& options);

  std::uint64_t count() const { return begins_.size(); }
  /// The record's text; it may be no JSON.
  Result<std::string> read(std::uint64_t index) const;
  /// "line 17", counted from 1, or "record 3", counted from 0. Reads the file up to there.
  std::string name_of(std::uint64_t index) const;
  /// Records [first, first + count) alone; requires that there are so many.
  void keep(std::uint64_t first, std::uint64_t count);

 private:
  explicit RecordFile(data::DataFile file) : file_(std::move(file)) {}
  template <typename Visit>
  Status for_each_block(std::uint64_t end, Visit visit) const;
  Status find_lines();
  Status find_items();
  Status add(std::uint64_t begin, std::uint64_t end);

  data::DataFile file_;
  std::uint64_t start_ = 0;  ///< behind a byte order mark
  bool is_array_ = false;
  std::uint64_t skipped_ = 0;  ///< records in front of the first one that is kept
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint32_t> sizes_;
};

/// The whole file as text. unsupported: more than kLargestText bytes.
Result<std::string> read_text(const std::string& path, const data::FileOptions& options);

}  // namespace graft
