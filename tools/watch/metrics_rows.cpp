#include "tools/watch/metrics_rows.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

namespace graft::cli {
namespace {

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;  // of a file; each row takes about 150

bool is_row(const nlohmann::json& row) {
  const auto kind = row.is_object() ? row.find("kind") : row.end();
  return row.is_object() && kind != row.end() && kind->is_string();
}

}  // namespace

// The line before read_ is compared: a resumed run may cut the file and then write more than was there.
bool MetricsRows::is_as_read(std::istream& file) const {
  std::string now(last_line_.size(), '\0');
  file.seekg(static_cast<std::streamoff>(read_ - last_line_.size()));
  file.read(now.data(), static_cast<std::streamsize>(now.size()));
  return file.good() && now == last_line_;
}

void MetricsRows::restart() {
  rows_.clear();
  last_line_.clear();
  read_ = lines_ = 0;
  is_cut_ = false;
  ++generation_;
}

Status MetricsRows::read() {
  std::error_code failed;
  if (!std::filesystem::is_regular_file(path_, failed)) {
    if (!failed && std::filesystem::exists(path_, failed)) return invalid("\"", path_, "\" is not a regular file.");
    return error(Code::not_found, "There is no file \"", path_, "\".");
  }
  std::ifstream file(path_, std::ios::binary);
  const std::uint64_t size = std::filesystem::file_size(path_, failed);
  if (!file || failed) return error(Code::io_error, "Cannot read \"", path_, "\".");
  if (size > kMostBytes) return invalid("\"", path_, "\" has ", size, " bytes; the limit is ", kMostBytes, ".");
  if (read_ > 0 && (size < read_ || !is_as_read(file))) restart();
  if (size == read_) return ok_status();
  file.clear();
  file.seekg(static_cast<std::streamoff>(read_));
  std::string text(static_cast<std::size_t>(size - read_), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return add_lines(text);
}

Status MetricsRows::add_lines(const std::string& text) {
  is_cut_ = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t found = text.find('\n', at);
    const bool ends = found != std::string::npos;
    const std::size_t end = ends ? found : text.size();
    const std::string line = text.substr(at, end - at);
    if (line.find_first_not_of(" \t\r") != std::string::npos) {
      // No JSON object is the beginning of another one: a line without its end that is an object is whole.
      const auto row = nlohmann::json::parse(line, nullptr, false);
      if (!is_row(row)) {
        is_cut_ = !ends && line.front() == '{';
        if (is_cut_) return ok_status();
        return invalid("\"", path_, "\" is not a file of graft train --metrics: line ", lines_ + 1,
                       " is not a JSON object with a \"kind\".");
      }
      rows_.push_back(line);
    }
    if (ends) ++lines_;
    last_line_ = text.substr(at, end + (ends ? 1 : 0) - at);
    read_ += last_line_.size();
    at = end + (ends ? 1 : 0);
  }
  return ok_status();
}

}  // namespace graft::cli
