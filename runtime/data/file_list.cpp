#include "runtime/data/file_list.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>

#include "runtime/data/csv_reader.h"

namespace graft::data {
namespace {

constexpr std::size_t kMaxFiles = 1u << 26;

bool ends_in(const std::string& name, const std::vector<std::string>& endings) {
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(endings, [&](const std::string& ending) { return lower.ends_with(ending); });
}

std::string joined(const std::vector<std::string>& endings) {
  std::string text;
  for (const std::string& ending : endings) text += (text.empty() ? "" : ", ") + ending;
  return text;
}

/// Numbers for classes by name: those of the model, or by the order of names.
Status number(const std::vector<std::string>& names, const Opening& o, const std::string& where, FileList& list) {
  list.classes = o.hints.classes.empty() ? names : o.hints.classes;
  for (const std::string& name : names) {
    if (std::ranges::find(list.classes, name) != list.classes.end()) continue;
    return invalid("\"", where, "\" holds the class \"", shown(name), "\", which is none of the ", list.classes.size(),
                   " that the model was trained on.");
  }
  return {};
}

Status add_folder(os::FileSystem& files, const std::string& folder, const std::vector<std::string>& endings,
                  std::int32_t label, FileList& list) {
  GRAFT_TRY_ASSIGN(const auto entries, files.list(folder));
  for (const os::DirectoryEntry& entry : entries) {
    if (entry.type == os::EntryType::directory || entry.name.starts_with('.') || !ends_in(entry.name, endings))
      continue;
    if (list.items.size() == kMaxFiles) return invalid("\"", folder, "\" holds more than ", kMaxFiles, " files.");
    list.items.push_back({folder + "/" + entry.name, label, 0});
  }
  return {};
}

Status add_classes(const Opening& o, const std::string& folder, const std::vector<std::string>& endings,
                   FileList& list) {
  os::FileSystem& files = *o.files.files;
  GRAFT_TRY_ASSIGN(const auto entries, files.list(folder));
  std::vector<std::string> names;
  bool loose = false;
  for (const os::DirectoryEntry& entry : entries) {
    if (entry.name.starts_with('.')) continue;
    auto type = entry.type;
    if (type == os::EntryType::other) {  // a link may lead to a folder
      const auto info = files.info(folder + "/" + entry.name);
      if (info.ok()) type = info->type;
    }
    if (type == os::EntryType::directory) names.push_back(entry.name);
    loose = loose || (type == os::EntryType::file && ends_in(entry.name, endings));
  }
  if (names.empty() && loose) {
    return invalid("\"", folder, "\" holds files but no folders, each of which would be a class; name the labels with ",
                   "list=FILE.");
  }
  GRAFT_TRY(number(names, o, folder, list));
  for (const std::string& name : names) {
    const auto label = std::ranges::find(list.classes, name) - list.classes.begin();
    GRAFT_TRY(add_folder(files, folder + "/" + name, endings, static_cast<std::int32_t>(label), list));
  }
  return {};
}

/// What rows of a list file say, before it is known of what kind its labels are.
struct Row {
  std::string path;
  std::string label;
};

Result<std::vector<Row>> read_rows(const std::string& path, const FileOptions& files,
                                   const std::vector<std::string>& endings) {
  GRAFT_TRY_ASSIGN(const DataFile file, DataFile::open(path, files));
  GRAFT_TRY_ASSIGN(const char delimiter, find_delimiter(file));
  CsvReader reader(file, delimiter);
  std::vector<Row> rows;
  std::vector<std::string> row;
  for (bool first = true;; first = false) {
    GRAFT_TRY_ASSIGN(const bool more, reader.next(row));
    if (!more) return rows;
    if (row.size() != 2 || row[0].empty()) {
      return corrupt("The row at byte ", reader.row_offset(), " of the list \"", path, "\" has ", row.size(),
                     " columns; a path and a label are wanted.");
    }
    if (first && !ends_in(row[0], endings)) continue;  // a header
    if (rows.size() == kMaxFiles) return invalid("The list \"", path, "\" names more than ", kMaxFiles, " files.");
    rows.push_back({std::move(row[0]), std::move(row[1])});
  }
}

Status add_listed(const Opening& o, const std::string& folder, const std::string& path,
                  const std::vector<std::string>& endings, FileList& list) {
  GRAFT_TRY_ASSIGN(const std::vector<Row> rows, read_rows(path, o.files, endings));
  bool numbers = true, whole = true;
  std::map<std::string, std::int32_t, std::less<>> names;
  for (const Row& row : rows) {
    double value = 0;
    numbers = numbers && parse_number(row.label, value) && std::abs(value) <= std::numeric_limits<float>::max();
    whole = whole && numbers && value == std::floor(value) && value >= std::numeric_limits<std::int32_t>::min() &&
            value <= std::numeric_limits<std::int32_t>::max();
    names.try_emplace(row.label, 0);
  }
  list.real = numbers && !whole;
  // Numbers may be names of a model's classes.
  const bool named =
      !rows.empty() && (!numbers || std::ranges::find(o.hints.classes, rows[0].label) != o.hints.classes.end());
  if (named) {
    list.real = false;
    std::vector<std::string> sorted;
    for (const auto& [name, place] : names) sorted.push_back(name);
    GRAFT_TRY(number(sorted, o, path, list));
    for (std::size_t i = 0; i < list.classes.size(); ++i) names[list.classes[i]] = static_cast<std::int32_t>(i);
  }
  for (const Row& row : rows) {
    FileList::Item item{row.path.starts_with('/') ? row.path : folder + "/" + row.path, 0, 0};
    double value = 0;
    if (named) {
      item.label = names[row.label];
    } else if (parse_number(row.label, value)) {
      if (whole) item.label = static_cast<std::int32_t>(value);
      item.number = static_cast<float>(value);
    }
    list.items.push_back(std::move(item));
  }
  return {};
}

}  // namespace

Result<FileList> list_files(const Opening& o, const std::string& folder, const std::vector<std::string>& endings,
                            bool flat) {
  FileList list;
  list.labelled = !flat;
  const auto named = o.options.text("list");
  if (flat && named) return invalid("Option list= does not go with masks, which are found by name.");
  if (flat) {
    GRAFT_TRY(add_folder(*o.files.files, folder, endings, 0, list));
  } else if (named) {
    GRAFT_TRY(add_listed(o, folder, *named, endings, list));
  } else {
    GRAFT_TRY(add_classes(o, folder, endings, list));
  }
  if (list.items.empty()) {
    return invalid(named ? cat("The list \"", *named, '"') : cat("The folder \"", folder, '"'),
                   " names no file that ends in ", joined(endings), ".");
  }
  return list;
}

Field label_field(const FileList& list) {
  return {"label",     list.real ? DType::f32 : DType::i32, list.real ? Shape{1} : Shape{}, Role::label, false,
          list.classes};
}

void store_label(const FileList& list, const FileList::Item& item, std::byte* out) {
  if (list.real) {
    std::memcpy(out, &item.number, 4);
  } else {
    std::memcpy(out, &item.label, 4);
  }
}

}  // namespace graft::data
