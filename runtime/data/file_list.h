// The files of a data set that keeps a sample in each, with their labels.
#pragma once

#include <string>
#include <vector>

#include "runtime/data/random.h"
#include "runtime/data/spec_reader.h"

namespace graft::data {

struct FileList {
  struct Item {
    std::string path;
    std::int32_t label = 0;
    float number = 0;  ///< the label, where labels are no classes
  };
  std::vector<Item> items;
  std::vector<std::string> classes;  ///< empty: labels are numbers, or there are none
  bool real = false;                 ///< a label is any number: Item::number
  bool labelled = true;
};

/// The files of `folder` that end in one of `endings` (lower case, with the dot).
///   a folder of folders   each is a class, by sorted name, or by the place of its name in hints.classes
///   list=FILE             rows "path,label" of CSV, paths from the folder on, with or without a header; labels are
///   whole
///                         numbers, others, or classes by name
///   `flat`                the files in the folder itself, without labels
/// Sorted by path; at least one.
Result<FileList> list_files(const Opening& opening, const std::string& folder, const std::vector<std::string>& endings,
                            bool flat);

/// The field of a list's label.
Field label_field(const FileList& list);
void store_label(const FileList& list, const FileList::Item& item, std::byte* out);

/// A source of a list's files, read by any number of threads, with random changes keyed by what start_epoch() said.
class FileSource : public Source {
 public:
  const std::vector<Field>& fields() const final { return fields_; }
  std::optional<std::uint64_t> size() const final { return list_.items.size(); }
  void start_epoch(std::uint64_t seed, std::uint64_t epoch) final { key_ = mix(seed, epoch); }
  bool parallel() const final { return true; }

 protected:
  explicit FileSource(FileList list) : list_(std::move(list)) {}

  FileList list_;
  std::vector<Field> fields_;
  std::uint64_t key_ = mix(0, 0);
};

}  // namespace graft::data
