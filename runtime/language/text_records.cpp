#include "runtime/language/text_records.h"

#include <algorithm>

namespace graft {
namespace {

constexpr std::uint64_t kLooked = std::uint64_t{1} << 20;  // bytes that are looked through at once
constexpr std::uint64_t kMostRecords = UINT32_MAX;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// Goes through an array byte by byte, and knows where its items begin and end.
class ItemFinder {
 public:
  enum class Found : std::uint8_t { nothing, begin, end, broken };

  Found take(char c) {
    if (is_done_) return is_blank(c) ? Found::nothing : Found::broken;
    if (in_string_) {
      if (escaped_) {
        escaped_ = false;
      } else if (c == '\\') {
        escaped_ = true;
      } else if (c == '"') {
        in_string_ = false;
      }
      return Found::nothing;
    }
    if (is_blank(c)) return Found::nothing;
    if (depth_ == 0) {
      depth_ = 1;  // the caller has seen that it is the array's '['
      return Found::nothing;
    }
    if (depth_ == 1 && (c == ',' || c == ']')) return separator(c == ']');
    if (c == '"') in_string_ = true;
    if (c == '{' || c == '[') ++depth_;
    if (c == '}' || c == ']') --depth_;
    if (depth_ < 1) return Found::broken;
    const bool begins = !in_item_;
    in_item_ = true;
    return begins ? Found::begin : Found::nothing;
  }

  bool is_done() const { return is_done_; }

 private:
  Found separator(bool last) {
    const bool ended = in_item_;
    is_done_ = last;
    in_item_ = false;
    if (!ended && !(last && items_ == 0)) return Found::broken;
    ++items_;
    return ended ? Found::end : Found::nothing;
  }

  std::uint64_t depth_ = 0, items_ = 0;
  bool in_string_ = false, escaped_ = false, in_item_ = false, is_done_ = false;
};

}  // namespace

/// visit(offset, text) of the file's bytes up to `end`, block by block.
template <typename Visit>
Status RecordFile::for_each_block(std::uint64_t end, Visit visit) const {
  std::string block;
  for (std::uint64_t at = start_; at < end; at += block.size()) {
    block.resize(static_cast<std::size_t>(std::min(kLooked, end - at)));
    GRAFT_TRY(file_.read(at, std::as_writable_bytes(std::span(block))));
    GRAFT_TRY(visit(at, std::string_view(block)));
  }
  return {};
}

Status RecordFile::add(std::uint64_t begin, std::uint64_t end) {
  if (end - begin > kLargestText) {
    return unsupported("Record ", begins_.size(), " of \"", file_.path(), "\" has ", end - begin, " bytes; ",
                       kLargestText, " can be read as text.");
  }
  if (begins_.size() == kMostRecords) {
    return unsupported("The file \"", file_.path(), "\" has more than ", kMostRecords, " records.");
  }
  begins_.push_back(begin);
  sizes_.push_back(static_cast<std::uint32_t>(end - begin));
  return {};
}

Status RecordFile::find_lines() {
  std::uint64_t begin = start_;
  bool blank = true;
  const auto end_line = [&](std::uint64_t end) -> Status {
    const Status added = blank ? ok_status() : add(begin, end);
    begin = end + 1;
    blank = true;
    return added;
  };
  const auto visit = [&](std::uint64_t at, std::string_view text) -> Status {
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') {
        GRAFT_TRY(end_line(at + i));
      } else if (!is_blank(text[i])) {
        blank = false;
      }
    }
    return {};
  };
  GRAFT_TRY(for_each_block(file_.size(), visit));
  return end_line(file_.size());
}

Status RecordFile::find_items() {
  is_array_ = true;
  ItemFinder finder;
  std::uint64_t begin = 0;
  const auto visit = [&](std::uint64_t at, std::string_view text) -> Status {
    for (std::size_t i = 0; i < text.size(); ++i) {
      switch (finder.take(text[i])) {
        case ItemFinder::Found::nothing: break;
        case ItemFinder::Found::begin: begin = at + i; break;
        case ItemFinder::Found::end: GRAFT_TRY(add(begin, at + i)); break;
        case ItemFinder::Found::broken:
          return invalid("The file is neither an array of JSON objects nor one object a line: it breaks at byte ",
                         at + i, ".");
      }
    }
    return {};
  };
  GRAFT_TRY(for_each_block(file_.size(), visit));
  if (finder.is_done()) return {};
  return invalid("The file is neither an array of JSON objects nor one object a line: the array has no end.");
}

Result<RecordFile> RecordFile::open(const std::string& path, const data::FileOptions& options) {
  GRAFT_TRY_ASSIGN(auto file, data::DataFile::open(path, options));
  RecordFile records(std::move(file));
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string begin(std::min<std::uint64_t>(kByteOrderMark.size(), records.file_.size()), '\0');
  GRAFT_TRY(records.file_.read(0, std::as_writable_bytes(std::span(begin))));
  if (begin == kByteOrderMark) records.start_ = begin.size();
  char first = 0;
  const Status looked =
      records.for_each_block(records.file_.size(), [&](std::uint64_t, std::string_view text) -> Status {
        const auto at = std::ranges::find_if_not(text, is_blank);
        if (at == text.end()) return {};
        first = *at;
        return error(Code::cancelled, "It is found.");
      });
  if (looked.code() != Code::cancelled) GRAFT_TRY(Status(looked));
  GRAFT_TRY(first == '[' ? records.find_items() : records.find_lines());
  return records;
}

Result<std::string> RecordFile::read(std::uint64_t index) const {
  std::string text(sizes_[index], '\0');
  GRAFT_TRY(file_.read(begins_[index], std::as_writable_bytes(std::span(text))));
  return text;
}

std::string RecordFile::name_of(std::uint64_t index) const {
  if (is_array_) return cat("record ", skipped_ + index);
  std::uint64_t lines = 1;
  const Status counted = for_each_block(begins_[index], [&](std::uint64_t, std::string_view text) -> Status {
    lines += static_cast<std::uint64_t>(std::ranges::count(text, '\n'));
    return {};
  });
  return counted.ok() ? cat("line ", lines) : cat("record ", skipped_ + index);
}

void RecordFile::keep(std::uint64_t first, std::uint64_t count) {
  const auto cut = [&](auto& all) {
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(first + count), all.end());
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(first));
  };
  cut(begins_);
  cut(sizes_);
  skipped_ += first;
}

Result<std::string> read_text(const std::string& path, const data::FileOptions& options) {
  GRAFT_TRY_ASSIGN(const auto file, data::DataFile::open(path, options));
  if (file.size() > kLargestText) {
    return unsupported("The file \"", path, "\" has ", file.size(), " bytes; ", kLargestText,
                       " can be read as text. As an object a line (jsonl:) it may be of any size.");
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  GRAFT_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace graft
