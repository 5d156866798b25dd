#include "runtime/data/csv.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "runtime/data/csv_reader.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kRowsPerMark = 16;
constexpr std::size_t kMaxClasses = 1u << 16;

enum class Labels { whole, real, text };

bool is_label(double value) {
  return value == std::floor(value) && value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

struct CsvTable {
  std::size_t columns = 0;
  std::size_t label = 0;
  std::uint64_t rows = 0;
  std::vector<std::uint64_t> marks;  // where row 0, 16, 32, ... begins
  Labels labels = Labels::whole;
  std::map<std::string, std::int32_t, std::less<>> classes;
};

class CsvSource final : public Source {
 public:
  CsvSource(DataFile file, CsvTable table) : file_(std::move(file)), table_(std::move(table)), reader_(file_) {
    fields_.push_back({"features", DType::f32, Shape{static_cast<std::int64_t>(table_.columns - 1)}, Role::feature});
    const bool real = table_.labels == Labels::real;
    fields_.push_back({"label", real ? DType::f32 : DType::i32, real ? Shape{1} : Shape{}, Role::label});
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return table_.rows; }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= table_.rows) return false;
    if (position != next_row_ || next_row_ == 0) {
      reader_.seek(table_.marks[position / kRowsPerMark]);
      for (std::uint64_t skip = position % kRowsPerMark; skip > 0; --skip) GRAFT_TRY(reader_.next(row_));
    }
    GRAFT_TRY_ASSIGN(const bool more, reader_.next(row_));
    if (!more || row_.size() != table_.columns) {
      return corrupt("\"", file_.path(), "\" has changed since it was opened: sample ", position, " is gone.");
    }
    next_row_ = ++position;
    GRAFT_TRY(store(out));
    return true;
  }

 private:
  Status store(SampleOut out) {
    std::size_t feature = 0;
    for (std::size_t c = 0; c < row_.size(); ++c) {
      if (c == table_.label && table_.labels == Labels::text) {
        const auto found = table_.classes.find(row_[c]);
        const std::int32_t label = found == table_.classes.end() ? -1 : found->second;
        std::memcpy(out[1], &label, 4);
        continue;
      }
      double value = 0;
      if (!parse_number(row_[c], value)) {
        return corrupt("\"", file_.path(), "\" has changed since it was opened: \"", shown(row_[c]),
                       "\" is not a number.");
      }
      if (c != table_.label) {
        const auto number = static_cast<float>(value);
        std::memcpy(out[0] + 4 * feature++, &number, 4);
      } else if (table_.labels == Labels::whole) {
        const auto label = static_cast<std::int32_t>(value);
        std::memcpy(out[1], &label, 4);
      } else {
        const auto label = static_cast<float>(value);
        std::memcpy(out[1], &label, 4);
      }
    }
    return {};
  }

  DataFile file_;
  CsvTable table_;
  CsvReader reader_;
  std::vector<Field> fields_;
  std::vector<std::string> row_;
  std::uint64_t next_row_ = 0;  // the row that reader_ stands before; 0: unknown
};

/// Reads the whole file once.
class CsvScan {
 public:
  CsvScan(const DataFile& file, const CsvOptions& options) : file_(file), options_(options), reader_(file) {}

  Result<CsvTable> run() {
    GRAFT_TRY_ASSIGN(bool more, reader_.next(row_));
    if (!more) return invalid("\"", file_.path(), "\" holds no row.");
    table_.columns = row_.size();
    if (table_.columns < 2)
      return invalid("\"", file_.path(), "\" has 1 column; features and a label need at least 2.");
    const bool header =
        options_.header == CsvOptions::Header::yes || (options_.header == CsvOptions::Header::detect && !any_number());
    GRAFT_TRY(find_label(header));
    if (header) {
      GRAFT_TRY_ASSIGN(more, reader_.next(row_));
    }
    for (; more; ++table_.rows) {
      if (table_.rows % kRowsPerMark == 0) table_.marks.push_back(reader_.row_offset());
      GRAFT_TRY(check_row());
      GRAFT_TRY_ASSIGN(more, reader_.next(row_));
    }
    if (table_.rows == 0) return invalid("\"", file_.path(), "\" holds a header but no sample.");
    GRAFT_TRY(decide_labels());
    return std::move(table_);
  }

 private:
  bool any_number() const {
    double value = 0;
    return std::any_of(row_.begin(), row_.end(), [&](const std::string& f) { return parse_number(f, value); });
  }

  Status find_label(bool header) {
    table_.label = table_.columns - 1;
    if (options_.label.empty()) return {};
    const auto named = std::find(row_.begin(), row_.end(), options_.label);
    double number = 0;
    if (header && named != row_.end()) {
      table_.label = static_cast<std::size_t>(named - row_.begin());
    } else if (parse_number(options_.label, number) && number >= 0 && number == std::floor(number) &&
               number < static_cast<double>(table_.columns)) {
      table_.label = static_cast<std::size_t>(number);
    } else {
      std::string names;
      for (std::size_t c = 0; header && c < row_.size() && c < 20; ++c) names += (c > 0 ? ", " : "") + row_[c];
      return invalid("\"", file_.path(), "\" has no column \"", options_.label, "\"; it has ", table_.columns,
                     " columns", names.empty() ? "" : ": ", names, ".");
    }
    return {};
  }

  Status check_row() {
    if (row_.size() != table_.columns) {
      return corrupt("Sample ", table_.rows, " of \"", file_.path(), "\" has ", row_.size(), " columns, but the first ",
                     "row has ", table_.columns, ".");
    }
    for (std::size_t c = 0; c < row_.size(); ++c) {
      double value = 0;
      const bool number = parse_number(row_[c], value);
      if (c == table_.label) {
        all_numbers_ = all_numbers_ && number;
        all_whole_ = all_whole_ && number && is_label(value);
        if (table_.classes.size() < kMaxClasses) table_.classes.try_emplace(row_[c], 0);
      } else if (!number || std::abs(value) > std::numeric_limits<float>::max()) {
        return corrupt("Column ", c, " of sample ", table_.rows, " of \"", file_.path(), "\" is \"",
                       row_[c].substr(0, 40), "\", which is not a number that float can hold.");
      }
    }
    return {};
  }

  Status decide_labels() {
    table_.labels = all_whole_ ? Labels::whole : all_numbers_ ? Labels::real : Labels::text;
    if (table_.labels != Labels::text) {
      table_.classes.clear();
      return {};
    }
    if (table_.classes.size() == kMaxClasses) {
      return invalid("The label column of \"", file_.path(), "\" holds ", kMaxClasses,
                     " different texts or more, too many to be classes.");
    }
    std::int32_t next = 0;
    for (auto& [name, number] : table_.classes) number = next++;
    return {};
  }

  const DataFile& file_;
  const CsvOptions& options_;
  CsvReader reader_;
  CsvTable table_;
  std::vector<std::string> row_;
  bool all_numbers_ = true;
  bool all_whole_ = true;
};

}  // namespace

Result<std::unique_ptr<Source>> open_csv(const std::string& path, const CsvOptions& options, const FileOptions& files) {
  GRAFT_TRY_ASSIGN(DataFile file, DataFile::open(path, files));
  GRAFT_TRY_ASSIGN(CsvTable table, CsvScan(file, options).run());
  return std::unique_ptr<Source>(new CsvSource(std::move(file), std::move(table)));
}

}  // namespace graft::data
