#include "runtime/data/csv_reader.h"

#include <algorithm>
#include <cmath>

#include "platform/base/json.h"
#include "platform/base/numbers.h"

namespace graft::data {
namespace {

constexpr std::uint64_t kChunkBytes = 16u << 10;
constexpr int kEnd = -1;

Result<std::string> beginning(const DataFile& file) {
  std::string text(std::min(kChunkBytes, file.size()), '\0');
  GRAFT_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  return text;
}

}  // namespace

Status expect_utf8(const DataFile& file) {
  GRAFT_TRY_ASSIGN(const std::string text, beginning(file));
  if (!text.starts_with("\xff\xfe") && !text.starts_with("\xfe\xff")) return ok_status();
  return unsupported("\"", file.path(), "\" is text in UTF-16 (or UTF-32); save it as UTF-8.");
}

Result<char> find_delimiter(const DataFile& file) {
  GRAFT_TRY(expect_utf8(file));
  GRAFT_TRY_ASSIGN(const std::string text, beginning(file));
  const std::size_t zero = text.find('\0');
  if (zero != std::string::npos) {
    return corrupt("\"", file.path(), "\" is not text in UTF-8: its byte ", zero, " is 0.");
  }
  const std::size_t begin = text.find_first_not_of("\r\n");
  std::size_t commas = 0, semicolons = 0, tabs = 0;
  bool quoted = false;
  for (std::size_t i = begin; i < text.size() && (quoted || (text[i] != '\n' && text[i] != '\r')); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (quoted) continue;
    commas += text[i] == ',' ? 1 : 0;
    semicolons += text[i] == ';' ? 1 : 0;
    tabs += text[i] == '\t' ? 1 : 0;
  }
  if (commas == 0 && semicolons > 0 && tabs == 0) return ';';
  return commas == 0 && tabs > 0 && semicolons == 0 ? '\t' : ',';
}

void CsvReader::seek(std::uint64_t offset) { offset_ = row_offset_ = offset; }

Status CsvReader::fail(std::string_view what) const {
  return corrupt("In \"", file_->path(), "\", the row that begins at byte ", row_offset_, " ", what, ".");
}

/// The next byte, or kEnd.
Result<int> CsvReader::get() {
  if (offset_ >= file_->size()) return kEnd;
  if (offset_ < chunk_offset_ || offset_ >= chunk_offset_ + chunk_.size()) {
    chunk_.resize(std::min(kChunkBytes, file_->size() - offset_));
    chunk_offset_ = offset_;
    GRAFT_TRY(file_->read(offset_, std::as_writable_bytes(std::span(chunk_))));
  }
  return static_cast<unsigned char>(chunk_[offset_++ - chunk_offset_]);
}

/// Past the byte order mark and empty lines; false at the end of the file.
Result<bool> CsvReader::skip_to_row() {
  if (offset_ == 0 && file_->size() >= 3) {
    GRAFT_TRY_ASSIGN(const int first, get());
    GRAFT_TRY_ASSIGN(const int second, get());
    GRAFT_TRY_ASSIGN(const int third, get());
    if (first != 0xEF || second != 0xBB || third != 0xBF) offset_ = 0;
  }
  for (;;) {
    row_offset_ = offset_;
    GRAFT_TRY_ASSIGN(const int c, get());
    if (c == kEnd) return false;
    if (c == '\n' || c == '\r') continue;
    offset_ = row_offset_;
    return true;
  }
}

/// After the opening quote, up to and with the closing one.
Status CsvReader::read_quoted(std::string& field) {
  for (;;) {
    GRAFT_TRY_ASSIGN(const int c, get());
    if (c == kEnd) return fail("has a quoted field that does not end");
    if (c == '"') {
      GRAFT_TRY_ASSIGN(const int after, get());
      if (after != '"') {
        if (after != kEnd) --offset_;
        return {};
      }
    }
    field.push_back(static_cast<char>(c));
    if (offset_ - row_offset_ > kMaxRowBytes) return fail(cat("is longer than ", kMaxRowBytes, " bytes"));
  }
}

Result<bool> CsvReader::next(std::vector<std::string>& fields) {
  GRAFT_TRY_ASSIGN(const bool more, skip_to_row());
  if (!more) return false;
  std::size_t count = 0;
  const auto open_field = [&] {
    if (count == fields.size()) fields.emplace_back();
    fields[count++].clear();
  };
  open_field();
  bool closed = false;  // the field was quoted and its quote is closed
  for (;;) {
    GRAFT_TRY_ASSIGN(const int c, get());
    if (offset_ - row_offset_ > kMaxRowBytes) return fail(cat("is longer than ", kMaxRowBytes, " bytes"));
    std::string& field = fields[count - 1];
    if (c == kEnd || c == '\n') break;
    if (c == '\r') {  // a line may end in it alone
      GRAFT_TRY_ASSIGN(const int after, get());
      if (after != '\n' && after != kEnd) --offset_;
      break;
    }
    if (c == delimiter_) {
      if (count == kMaxColumns) return fail(cat("has more than ", kMaxColumns, " columns"));
      open_field();
      closed = false;
    } else if (closed) {
      return fail("has text after a closing quote");
    } else if (c == '"' && field.empty()) {
      GRAFT_TRY(read_quoted(field));
      closed = true;
    } else {
      field.push_back(static_cast<char>(c));
    }
  }
  fields.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (!json::is_utf8(fields[i])) return fail(cat("is not text in UTF-8: its column ", i));
  }
  return true;
}

bool parse_number(std::string_view text, double& value) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  if (!text.empty() && text.front() == '+') text.remove_prefix(1);
  return whole_number(text, value) && std::isfinite(value);
}

}  // namespace graft::data
