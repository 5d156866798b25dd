#include "runtime/data/column.h"

namespace graft::data {
namespace {

class ZipSource final : public Source {
 public:
  ZipSource(std::vector<std::unique_ptr<Column>> columns, bool exact) : columns_(std::move(columns)) {
    for (const auto& column : columns_) {
      fields_.push_back(column->field());
      fields_.back().exact = exact;
    }
  }
  const std::vector<Field>& fields() const override { return fields_; }
  std::optional<std::uint64_t> size() const override { return columns_.front()->size(); }

  Result<bool> read(std::uint64_t& position, SampleOut out) override {
    if (position >= columns_.front()->size()) return false;
    for (std::size_t f = 0; f < columns_.size(); ++f) {
      GRAFT_TRY(columns_[f]->read(position, {out[f], static_cast<std::size_t>(fields_[f].bytes())}));
    }
    ++position;
    return true;
  }

 private:
  std::vector<std::unique_ptr<Column>> columns_;
  std::vector<Field> fields_;
};

}  // namespace

Result<std::unique_ptr<Source>> zip(std::vector<std::unique_ptr<Column>> columns, bool exact) {
  std::vector<Field> fields;
  fields.reserve(columns.size());
  for (const auto& column : columns) fields.push_back(column->field());
  GRAFT_TRY(check_fields(fields));
  for (const auto& column : columns) {
    if (column->size() != columns.front()->size()) {
      return invalid("A data set has ", columns.front()->size(), " samples of \"", fields.front().name, "\" but ",
                     column->size(), " of \"", column->field().name, "\".");
    }
  }
  return std::unique_ptr<Source>(new ZipSource(std::move(columns), exact));
}

}  // namespace graft::data
