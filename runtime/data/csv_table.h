// What a CSV file holds: which columns make which field, of what type, and where rows begin.
#pragma once

#include <map>

#include "runtime/data/csv.h"
#include "runtime/data/csv_reader.h"

namespace graft::data {

struct CsvField {
  std::string name;
  Role role = Role::feature;
  bool exact = false;
  std::vector<std::size_t> columns;
  enum class Kind { whole, real, classes, text } kind = Kind::real;
  std::map<std::string, std::int32_t, std::less<>> classes;

  Field field(std::uint64_t text_length) const;
};

struct CsvTable {
  static constexpr std::uint64_t kRowsPerMark = 16;
  char delimiter = ',';
  std::size_t columns = 0;
  std::uint64_t rows = 0;
  std::vector<std::uint64_t> marks;  ///< where row 0, 16, 32, ... begins
  std::vector<CsvField> fields;      ///< in the order of Source::fields(), but that of the lengths of text
};

/// Reads the whole file once.
Result<CsvTable> scan_csv(const DataFile& file, const CsvOptions& options);

}  // namespace graft::data
