#include "runtime/data/csv_table.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace graft::data {
namespace {

constexpr std::size_t kMaxClasses = 1u << 16, kMaxClassBytes = 1024;
constexpr double kMaxExact = 1 << 24;  // whole numbers up to here are floats

bool is_whole(double value) {
  return value == std::floor(value) && value >= std::numeric_limits<std::int32_t>::min() &&
         value <= std::numeric_limits<std::int32_t>::max();
}

/// What the rows so far say of a field.
struct Seen {
  bool numbers = true;
  bool whole = true;
  bool large = false;         // a whole number that float may not hold
  std::uint64_t odd_row = 0;  // the first one that is no number, for the error
  std::size_t odd_column = 0;
  std::size_t long_label = 0;  // bytes of the longest label
  std::string odd;
};

class CsvScan {
 public:
  CsvScan(const DataFile& file, const CsvOptions& options) : file_(file), options_(options), reader_(file, ',') {}

  Result<CsvTable> run() {
    GRAFT_TRY_ASSIGN(table_.delimiter, find_delimiter(file_));
    if (options_.delimiter != 0) table_.delimiter = options_.delimiter;
    reader_ = CsvReader(file_, table_.delimiter);
    GRAFT_TRY_ASSIGN(bool more, reader_.next(row_));
    if (!more) return invalid("\"", file_.path(), "\" holds no row.");
    table_.columns = row_.size();
    if (table_.columns < 2 && options_.inputs.empty()) {
      return invalid("\"", file_.path(), "\" has 1 column by its delimiter ", delimiter_name(),
                     "; features and a label need at least 2. Give delimiter= where another character separates them.");
    }
    const bool header =
        options_.header == CsvOptions::Header::yes || (options_.header == CsvOptions::Header::detect && !any_number());
    if (header) names_ = row_;
    GRAFT_TRY(find_fields());
    if (header) {
      GRAFT_TRY_ASSIGN(more, reader_.next(row_));
    }
    for (; more; ++table_.rows) {
      if (table_.rows % CsvTable::kRowsPerMark == 0) table_.marks.push_back(reader_.row_offset());
      GRAFT_TRY(check_row());
      GRAFT_TRY_ASSIGN(more, reader_.next(row_));
    }
    if (table_.rows == 0) return invalid("\"", file_.path(), "\" holds a header but no sample.");
    for (std::size_t f = 0; f < table_.fields.size(); ++f) GRAFT_TRY(decide(table_.fields[f], seen_[f]));
    return std::move(table_);
  }

 private:
  bool any_number() const {
    double value = 0;
    return std::any_of(row_.begin(), row_.end(), [&](const std::string& f) { return parse_number(f, value); });
  }

  Result<std::size_t> find_column(const std::string& name) const {
    const auto named = std::find(names_.begin(), names_.end(), name);
    if (named != names_.end()) return static_cast<std::size_t>(named - names_.begin());
    double number = 0;
    if (parse_number(name, number) && number >= 0 && number == std::floor(number) &&
        number < static_cast<double>(table_.columns)) {
      return static_cast<std::size_t>(number);
    }
    std::string names;
    for (std::size_t c = 0; c < names_.size() && c < 20; ++c) names += (c > 0 ? ", " : "") + names_[c];
    return invalid("\"", file_.path(), "\" has no column \"", name, "\"; it has ", table_.columns, " columns",
                   names.empty() ? "" : ": ", names, ".");
  }

  /// "a" or "a..c".
  Status add_columns(const std::string& text, CsvField& field) const {
    const std::size_t dots = text.find("..");
    if (dots == std::string::npos || std::find(names_.begin(), names_.end(), text) != names_.end()) {
      GRAFT_TRY_ASSIGN(const std::size_t column, find_column(text));
      field.columns.push_back(column);
      return {};
    }
    GRAFT_TRY_ASSIGN(const std::size_t first, find_column(text.substr(0, dots)));
    GRAFT_TRY_ASSIGN(const std::size_t last, find_column(text.substr(dots + 2)));
    if (last < first) return invalid("The columns \"", text, "\" of \"", file_.path(), "\" end before they begin.");
    for (std::size_t c = first; c <= last; ++c) field.columns.push_back(c);
    return {};
  }

  Status add_field(const CsvColumns& given, Role role, bool exact) {
    CsvField field{given.name, role, exact, {}, CsvField::Kind::real, {}};
    for (const std::string& text : given.columns) GRAFT_TRY(add_columns(text, field));
    table_.fields.push_back(std::move(field));
    return {};
  }

  Status find_fields() {
    for (const CsvColumns& given : options_.inputs) GRAFT_TRY(add_field(given, Role::feature, true));
    const bool rest = options_.inputs.empty();
    if (rest) table_.fields.push_back({"features", Role::feature, false, {}, CsvField::Kind::real, {}});
    for (const CsvColumns& given : options_.targets) GRAFT_TRY(add_field(given, Role::label, options_.named_targets));
    if (options_.targets.empty()) GRAFT_TRY(add_field({"label", {cat(table_.columns - 1)}}, Role::label, false));
    if (!options_.weight.empty()) GRAFT_TRY(add_field({"weight", {options_.weight}}, Role::weight, false));
    std::vector<std::size_t> uses(table_.columns);
    for (const CsvField& field : table_.fields) {
      for (const std::size_t c : field.columns) {
        if (field.role != Role::feature) ++uses[c];
      }
    }
    for (std::size_t c = 0; rest && c < table_.columns; ++c) {
      if (uses[c] == 0) table_.fields.front().columns.push_back(c);
    }
    if (table_.fields.front().columns.empty())
      return invalid("\"", file_.path(), "\" has no column left for features.");
    seen_.resize(table_.fields.size());
    return {};
  }

  Status check_row() {
    if (row_.size() != table_.columns) {
      return corrupt("Sample ", table_.rows, " of \"", file_.path(), "\" has ", row_.size(), " columns, but the first ",
                     "row has ", table_.columns, ".");
    }
    for (std::size_t f = 0; f < table_.fields.size(); ++f) {
      CsvField& field = table_.fields[f];
      for (const std::size_t c : field.columns) look_at(c, field, seen_[f]);
      const bool texts = field.columns.size() == 1 &&
                         (field.role == Role::label || (field.role == Role::feature && options_.text_length > 0));
      if (!seen_[f].numbers && (!texts || (field.role == Role::label && cut_in_two(seen_[f].odd)))) {
        return no_number(seen_[f]);
      }
    }
    return {};
  }

  void look_at(std::size_t column, CsvField& field, Seen& seen) const {
    double value = 0;
    const bool fits = parse_number(row_[column], value) && std::abs(value) <= std::numeric_limits<float>::max() &&
                      (field.role != Role::weight || value >= 0);
    if (!fits && seen.numbers) {
      seen.odd_row = table_.rows;
      seen.odd_column = column;
      seen.odd = row_[column].substr(0, 40);
    }
    seen.numbers = seen.numbers && fits;
    seen.whole = seen.whole && fits && is_whole(value);
    seen.large = seen.large || std::abs(value) > kMaxExact;
    const bool one_label = field.role == Role::label && field.columns.size() == 1;
    if (!one_label) return;
    seen.long_label = std::max(seen.long_label, row_[column].size());
    if (field.classes.size() < kMaxClasses && row_[column].size() <= kMaxClassBytes) {
      field.classes.try_emplace(row_[column], 0);
    }
  }

  std::string delimiter_name() const { return table_.delimiter == '\t' ? "tab" : cat('"', table_.delimiter, '"'); }

  /// A label such as "5;0" comes from numbers with decimal commas; one with a given delimiter= is what it says.
  bool cut_in_two(const std::string& label) const {
    const std::size_t at = label.find_first_of(";\t|");
    double number = 0;
    return options_.delimiter == 0 && at != std::string::npos && parse_number(label.substr(0, at), number);
  }

  /// Says so where another delimiter, or a comma for a decimal point, may be what is meant.
  Status no_number(const Seen& seen) const {
    const bool separated = seen.odd.find_first_of(";\t|") != std::string::npos;
    const bool comma = seen.odd.find_first_not_of("0123456789,-+") == std::string::npos && table_.delimiter != ',';
    return corrupt("Column ", seen.odd_column, " of sample ", seen.odd_row, " of \"", file_.path(), "\" is \"",
                   seen.odd, "\", which is not a number that float can hold",
                   separated
                       ? cat("; columns are separated by ", delimiter_name(), ", delimiter= names another character")
                   : comma ? "; numbers are written with a decimal point"
                           : "",
                   ".");
  }

  Status decide(CsvField& field, const Seen& seen) const {
    const bool feature = field.role == Role::feature;
    if (seen.numbers) {
      const bool whole = field.role == Role::label ? seen.whole : feature && seen.whole && seen.large;
      field.kind = whole ? CsvField::Kind::whole : CsvField::Kind::real;
      field.classes.clear();
      return {};
    }
    field.kind = feature ? CsvField::Kind::text : CsvField::Kind::classes;
    if (!feature && seen.long_label > kMaxClassBytes) {
      return invalid("The label column of \"", file_.path(), "\" holds a text of ", seen.long_label,
                     " bytes; the name of a class has at most ", kMaxClassBytes, ".");
    }
    return feature ? ok_status() : number_classes(field);
  }

  Status number_classes(CsvField& field) const {
    if (field.classes.size() == kMaxClasses) {
      return invalid("The label column of \"", file_.path(), "\" holds ", kMaxClasses,
                     " different texts or more, too many to be classes.");
    }
    std::int32_t next = 0;
    for (auto& [name, number] : field.classes) number = next++;
    if (options_.classes.empty()) return {};
    std::map<std::string, std::int32_t, std::less<>> known;
    for (const std::string& name : options_.classes) known.try_emplace(name, static_cast<std::int32_t>(known.size()));
    for (const auto& [name, number] : field.classes) {
      if (!known.contains(name)) {
        return invalid("\"", file_.path(), "\" holds the class \"", shown(name), "\", which is none of the ",
                       known.size(), " that the model was trained on.");
      }
    }
    field.classes = std::move(known);
    return {};
  }

  const DataFile& file_;
  const CsvOptions& options_;
  CsvReader reader_;
  CsvTable table_;
  std::vector<std::string> names_;  // of the columns, where there is a header
  std::vector<std::string> row_;
  std::vector<Seen> seen_;  // by field
};

}  // namespace

Field CsvField::field(std::uint64_t text_length) const {
  Field out{name, DType::f32, Shape{static_cast<std::int64_t>(columns.size())}, role, exact, {}};
  if (kind != Kind::real) out.dtype = DType::i32;
  if (kind == Kind::text) out.shape = Shape{static_cast<std::int64_t>(text_length)};
  const bool one_label = role == Role::label && columns.size() == 1 && kind != Kind::real;
  if (one_label || role == Role::weight) out.shape = Shape{};
  out.classes.resize(classes.size());
  for (const auto& [class_name, number] : classes) out.classes[static_cast<std::size_t>(number)] = class_name;
  return out;
}

Result<CsvTable> scan_csv(const DataFile& file, const CsvOptions& options) { return CsvScan(file, options).run(); }

}  // namespace graft::data
