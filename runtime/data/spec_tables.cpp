// The data sets that are tables of numbers: idx, npy, csv and the built-in digits.
#include <algorithm>
#include <utility>

#include "platform/base/checked.h"
#include "platform/base/names.h"
#include "runtime/data/column.h"
#include "runtime/data/csv.h"
#include "runtime/data/digits.h"
#include "runtime/data/spec_reader.h"

namespace graft::data {
namespace {

using Columns = std::vector<std::unique_ptr<Column>>;

constexpr std::string_view kNpyUsage = "npy:X.npy,Y.npy or npy:INPUT=X.npy,..;TARGET=Y.npy,..";

/// "image=A.npy,table=B.npy": columns of that role, each for the input or target of its name.
Status add_named_npy(std::string_view section, Role role, const FileOptions& files, Columns& columns) {
  if (section.empty()) return {};
  for (const std::string& part : split(section, ',')) {
    auto [name, path] = named_value(part);
    if (name.empty() || path.empty()) {
      return invalid("\"", part, "\" of a data set is not written NAME=FILE.npy; the whole is ", kNpyUsage, ".");
    }
    GRAFT_TRY_ASSIGN(auto column, open_npy(path, std::move(name), role, files));
    columns.push_back(std::move(column));
  }
  return {};
}

/// What delimiter= says: a character, or its name.
Result<char> delimiter_of(const std::string& text) {
  constexpr std::pair<std::string_view, char> kNames[] = {
      {"comma", ','}, {"semicolon", ';'}, {"tab", '\t'}, {"pipe", '|'}, {"space", ' '}};
  for (const auto& [name, character] : kNames) {
    if (text == name) return character;
  }
  constexpr std::string_view kNone = "\"\r\n.+-0123456789";
  if (text.size() == 1 && kNone.find(text[0]) == std::string_view::npos) return text[0];
  return invalid("Option delimiter=", text,
                 " must be one character between columns, or comma, semicolon, tab, pipe or ", "space.");
}

/// "COLUMNS" or "NAME:COLUMNS".
CsvColumns csv_columns(std::string_view text) {
  auto [name, columns] = named_value(text, ':');
  if (name.empty()) name = columns;
  std::vector<std::string> all;
  for (const std::string& column : split(columns, ',')) all.push_back(plain_name(column));
  return {std::move(name), std::move(all)};
}

}  // namespace

OpenResult open_idx_spec(const Opening& o) {
  GRAFT_TRY(expect_arguments(o.spec, 2, "idx:IMAGES,LABELS"));
  GRAFT_TRY_ASSIGN(const std::vector<double> scale, o.options.numbers("scale"));
  if (scale.size() > 1) return invalid("Option scale takes one number, but ", scale.size(), " were given.");
  IdxOptions image{"image", Role::feature, std::nullopt};
  if (!scale.empty()) image.scale = scale[0];
  Columns columns(2);
  GRAFT_TRY_ASSIGN(columns[0], open_idx(o.spec.arguments[0], image, o.files));
  GRAFT_TRY_ASSIGN(columns[1], open_idx(o.spec.arguments[1], {"label", Role::label, std::nullopt}, o.files));
  return zip(std::move(columns));
}

OpenResult open_npy_spec(const Opening& o) {
  GRAFT_TRY(o.options.flag("integers").status());  // what said before that whole numbers stay so; now they always do
  Columns columns;
  const auto& given = o.spec.arguments;
  const auto has_name = [](const std::string& a) { return find_separator(a, "=") < a.find('/'); };
  const bool named = o.spec.sections.size() > 1 || (!given.empty() && std::ranges::all_of(given, has_name));
  if (named) {
    if (o.spec.sections.size() > 2) return invalid("A data set of this kind is written ", kNpyUsage, ".");
    GRAFT_TRY(add_named_npy(o.spec.sections[0], Role::feature, o.files, columns));
    if (o.spec.sections.size() > 1) GRAFT_TRY(add_named_npy(o.spec.sections[1], Role::label, o.files, columns));
    if (columns.empty()) return invalid("A data set of this kind is written ", kNpyUsage, ".");
  } else {
    GRAFT_TRY(expect_arguments(o.spec, 2, kNpyUsage));
    columns.resize(2);
    GRAFT_TRY_ASSIGN(columns[0], open_npy(given[0], "features", Role::feature, o.files));
    GRAFT_TRY_ASSIGN(columns[1], open_npy(given[1], "label", Role::label, o.files));
  }
  if (const auto weight = o.options.text("weight")) {
    GRAFT_TRY_ASSIGN(auto column, open_npy(*weight, "weight", Role::weight, o.files));
    columns.push_back(std::move(column));
  }
  return zip(std::move(columns), named);
}

OpenResult open_csv_spec(const Opening& o) {
  GRAFT_TRY(expect_arguments(o.spec, 1, "csv:FILE"));
  CsvOptions csv;
  csv.classes = o.hints.classes;
  const auto label = o.options.text("label"), inputs = o.options.text("inputs"), targets = o.options.text("targets");
  if (label && targets) return invalid("Give a csv data set label= or targets=, not both.");
  if (label) csv.targets = {{"label", {*label}}};
  if (inputs) {
    for (const std::string& part : split(*inputs, ';')) csv.inputs.push_back(csv_columns(part));
  }
  if (targets) {
    csv.named_targets = true;
    for (const std::string& part : split(*targets, ';')) csv.targets.push_back(csv_columns(part));
  }
  csv.weight = o.options.text("weight").value_or("");
  GRAFT_TRY_ASSIGN(csv.text_length, o.options.whole("length", 0, 1, 1u << 20));
  csv.lengths = o.options.text("lengths").value_or("");
  if (const auto delimiter = o.options.text("delimiter")) {
    GRAFT_TRY_ASSIGN(csv.delimiter, delimiter_of(*delimiter));
  }
  GRAFT_TRY_ASSIGN(const auto header, o.options.flag("header"));
  if (header) csv.header = *header ? CsvOptions::Header::yes : CsvOptions::Header::no;
  return open_csv(o.spec.arguments[0], csv, o.files);
}

OpenResult open_digits_spec(const Opening& o) {
  GRAFT_TRY(expect_arguments(o.spec, 0, "digits:"));
  const std::string part = o.options.text("split").value_or("train");
  if (part != "train" && part != "test") return invalid("Option split=", part, " of digits must be train or test.");
  DigitsOptions digits;
  digits.test = part == "test";
  GRAFT_TRY_ASSIGN(const auto seed, o.options.whole("seed"));
  GRAFT_TRY_ASSIGN(const auto count, o.options.whole("count"));
  GRAFT_TRY_ASSIGN(const auto skip, o.options.whole("skip"));
  GRAFT_TRY_ASSIGN(const auto classes, o.options.whole("classes", 10, 1, 10));
  digits.classes = static_cast<int>(classes);
  digits.seed = seed.value_or(0);
  digits.count = count.value_or(digits.test ? 2000 : 10000);
  if (count == 0u) return invalid("0 digits were asked for; a data set holds at least one sample.");
  // There are as many digits as are asked for: `count` of them behind the first `skip`.
  if (count) digits.count = checked_add(*count, skip.value_or(0)).value_or(~0ull);
  return open_digits(digits);
}

}  // namespace graft::data
