// A CSV file as a data set: one label column, all others numeric features.
#pragma once

#include <memory>
#include <string>

#include "runtime/data/data_file.h"
#include "runtime/data/source.h"

namespace graft::data {

struct CsvOptions {
  std::string label;  ///< a column's name, or its number from 0; empty: the last column
  enum class Header { detect, yes, no } header = Header::detect;  ///< detect: a header is a first row without numbers
};

/// Fields: features f32 [columns - 1], and label: i32 [] where every label is a whole number or every label is text
/// (classes are then numbered in the order of their sorted names), else f32 [1].
/// The file is read once, to check every row and to note where every sixteenth begins; it is not kept in memory.
Result<std::unique_ptr<Source>> open_csv(const std::string& path, const CsvOptions& options, const FileOptions& files);

}  // namespace graft::data
