#include "runtime/data/csv.h"

#include <algorithm>
#include <cstring>

#include "runtime/data/csv_table.h"

namespace graft::data {
namespace {

class CsvSource final : public Source {
 public:
  CsvSource(DataFile file, CsvTable table, const CsvOptions& options)
      : file_(std::move(file)),
        table_(std::move(table)),
        reader_(file_, table_.delimiter),
        text_length_(options.text_length) {
    for (const CsvField& field : table_.fields) {
      places_.push_back(fields_.size());
      fields_.push_back(field.field(text_length_));
      if (field.kind != CsvField::Kind::text || options.lengths.empty() || lengths_) continue;
      lengths_ = fields_.size();
      fields_.push_back({options.lengths, DType::i32, Shape{}, Role::feature, true, {}});
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return table_.rows; }
  bool has_lengths() const { return lengths_.has_value(); }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= table_.rows) return false;
    if (position != next_row_ || next_row_ == 0) {
      reader_.seek(table_.marks[position / CsvTable::kRowsPerMark]);
      for (std::uint64_t skip = position % CsvTable::kRowsPerMark; skip > 0; --skip) GRAFT_TRY(reader_.next(row_));
    }
    GRAFT_TRY_ASSIGN(const bool more, reader_.next(row_));
    if (!more || row_.size() != table_.columns) {
      return corrupt("\"", file_.path(), "\" has changed since it was opened: sample ", position, " is gone.");
    }
    next_row_ = ++position;
    for (std::size_t f = 0; f < table_.fields.size(); ++f) {
      GRAFT_TRY(store(table_.fields[f], out[places_[f]]));
      if (lengths_ != places_[f] + 1) continue;
      const auto length =
          static_cast<std::int32_t>(std::min<std::uint64_t>(row_[table_.fields[f].columns[0]].size(), text_length_));
      std::memcpy(out[*lengths_], &length, 4);
    }
    return true;
  }

 private:
  Status store(const CsvField& field, std::byte* out) const {
    for (const std::size_t column : field.columns) {
      const std::string& text = row_[column];
      double value = 0;
      if (field.kind == CsvField::Kind::text) {
        for (std::uint64_t i = 0; i < text_length_; ++i, out += 4) {
          const std::int32_t byte = i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
          std::memcpy(out, &byte, 4);
        }
        return {};
      }
      if (field.kind == CsvField::Kind::classes) {
        const auto found = field.classes.find(text);
        value = found == field.classes.end() ? -1 : found->second;
      } else if (!parse_number(text, value)) {
        return corrupt("\"", file_.path(), "\" has changed since it was opened: \"", shown(text),
                       "\" is not a number.");
      }
      if (field.kind == CsvField::Kind::real) {
        const auto number = static_cast<float>(value);
        std::memcpy(out, &number, 4);
      } else {
        const auto number = static_cast<std::int32_t>(value);
        std::memcpy(out, &number, 4);
      }
      out += 4;
    }
    return {};
  }

  DataFile file_;
  CsvTable table_;
  CsvReader reader_;
  std::uint64_t text_length_;
  std::vector<std::size_t> places_;  // of table_.fields in fields_
  std::optional<std::size_t> lengths_;
  std::vector<Field> fields_;
  std::vector<std::string> row_;
  std::uint64_t next_row_ = 0;  // the row that reader_ stands before; 0: unknown
};

}  // namespace

Result<std::unique_ptr<Source>> open_csv(const std::string& path, const CsvOptions& options, const FileOptions& files) {
  GRAFT_TRY_ASSIGN(DataFile file, DataFile::open(path, files));
  GRAFT_TRY_ASSIGN(CsvTable table, scan_csv(file, options));
  auto source = std::make_unique<CsvSource>(std::move(file), std::move(table), options);
  if (!options.lengths.empty() && !source->has_lengths()) {
    return invalid("Option lengths=", options.lengths, " of \"", path, "\" needs an input of text, with length=N.");
  }
  GRAFT_TRY(check_fields(source->fields()).with_context(cat("In \"", path, "\"")));
  return std::unique_ptr<Source>(std::move(source));
}

}  // namespace graft::data
