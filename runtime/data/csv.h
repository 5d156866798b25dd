// A CSV file as a data set: columns of numbers, classes or text, put together to inputs and targets.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/data/data_file.h"
#include "runtime/data/source.h"

namespace graft::data {

/// One input or target.
struct CsvColumns {
  std::string name;
  std::vector<std::string> columns;  ///< names, numbers from 0, or "first..last" of them
};

struct CsvOptions {
  std::vector<CsvColumns> inputs;    ///< empty: "features", all columns that are nothing else
  std::vector<CsvColumns> targets;   ///< empty: "label", the last column
  bool named_targets = false;        ///< targets are for those of their names: Field::exact
  std::string weight;                ///< a column; empty: none
  std::uint64_t text_length = 0;     ///< an input of one column of text: so many of its bytes, zeros behind; 0: no text
  std::string lengths;               ///< an input that gets the number of bytes of that text; empty: none
  std::vector<std::string> classes;  ///< of a label of text: their numbers; empty: in the order of their sorted names
  char delimiter = 0;                ///< between columns; 0: find_delimiter()
  enum class Header { detect, yes, no } header = Header::detect;  ///< detect: a header is a first row without numbers
};

/// Inputs: f32 [columns], i32 where all are whole and float does not hold one of them, or text: i32 [text_length].
/// Targets: of one column i32 [] where every one is a whole number or every one is text (classes), else f32 [1]; of
/// several columns i32 or f32 [columns].
/// The file is read once, to check every row and to note where every sixteenth begins; it is not kept in memory.
Result<std::unique_ptr<Source>> open_csv(const std::string& path, const CsvOptions& options, const FileOptions& files);

}  // namespace graft::data
