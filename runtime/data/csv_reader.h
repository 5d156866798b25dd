// Splitting CSV (RFC 4180): fields may be quoted, a quote inside is doubled, a quoted field may hold commas and line
// ends.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/data_file.h"

namespace graft::data {

/// Reads rows one after another from any row's start. Line ends are LF, CRLF or CR; a byte order mark is skipped;
/// lines without a character are skipped.
class CsvReader {
 public:
  CsvReader(const DataFile& file, char delimiter) : file_(&file), delimiter_(delimiter) {}

  /// Goes to a byte that begins a row.
  void seek(std::uint64_t offset);
  /// The byte at which the row of the last next() began, and its number in this file counted from 1 (after seek(0)).
  std::uint64_t row_offset() const { return row_offset_; }

  /// The next row's fields, unquoted; false at the end. Reuses the strings' memory. corrupt: an open quote at the end,
  /// text after a closing quote or not in UTF-8, or a row longer than kMaxRowBytes.
  Result<bool> next(std::vector<std::string>& fields);

  static constexpr std::uint64_t kMaxRowBytes = 16u << 20;
  static constexpr std::size_t kMaxColumns = 1u << 16;

 private:
  Result<int> get();
  Result<bool> skip_to_row();
  Status read_quoted(std::string& field);
  Status fail(std::string_view what) const;

  const DataFile* file_;
  char delimiter_;
  std::uint64_t offset_ = 0;  // of the next byte
  std::uint64_t row_offset_ = 0;
  std::vector<char> chunk_;
  std::uint64_t chunk_offset_ = 0;
};

/// What separates the columns: a semicolon or a tab where the first row has some and no comma, else a comma. Quoted
/// text does not count. corrupt, unsupported: a file of no text, or of UTF-16.
Result<char> find_delimiter(const DataFile& file);
/// An error where a file begins with the mark of UTF-16 or UTF-32: text is read as UTF-8.
Status expect_utf8(const DataFile& file);

/// A finite number with nothing around it but spaces; false otherwise.
bool parse_number(std::string_view text, double& value);

}  // namespace graft::data
