#include "tools/common/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdarg>
#include <cstdlib>
#include <numeric>
#include <utility>

#include "tools/common/progress.h"

namespace graft::cli {
namespace {

constexpr std::size_t kLeastName = 8;  ///< columns that a name keeps
constexpr std::string_view kCut = "…";

bool begins_character(char c) { return (c & 0xc0) != 0x80; }

/// How many bytes the first `columns` characters take.
std::size_t bytes_of(std::string_view text, std::size_t columns) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (begins_character(text[at]) && columns-- == 0) break;
  }
  return at;
}

}  // namespace

std::size_t terminal_width(std::FILE* file) {
  constexpr std::size_t kUsual = 80;
  if (::isatty(::fileno(file)) != 1) return 0;
  if (const char* const given = std::getenv("COLUMNS"); given != nullptr) {
    const std::string_view text = given;
    std::size_t columns = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), columns);
    if (failed == std::errc() && end == text.data() + text.size() && columns > 0) return columns;
  }
  winsize size{};
  return ::ioctl(::fileno(file), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : kUsual;
}

bool can_redraw(std::FILE* file) {
  const char* const term = std::getenv("TERM");
  return ::isatty(::fileno(file)) == 1 && term != nullptr && *term != '\0' && std::string_view(term) != "dumb";
}

void to_stdout(const char* format, ...) {
  const auto lock = Progress::end_shown();
  std::va_list parts;
  va_start(parts, format);
  std::vfprintf(results_to_stderr ? stderr : stdout, format, parts);
  va_end(parts);
}

void to_stderr(const char* format, ...) {
  const auto lock = Progress::end_shown();
  std::va_list parts;
  va_start(parts, format);
  std::vfprintf(stderr, format, parts);
  va_end(parts);
}

bool write_stdout(std::string_view bytes) {
  const auto lock = Progress::end_shown();
  return std::fwrite(bytes.data(), 1, bytes.size(), results_to_stderr ? stderr : stdout) == bytes.size();
}

std::string number_text(const char* format, double number) {
  char text[64];
  std::snprintf(text, sizeof text, format, number);
  return text;
}

std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), begins_character));
}

std::string shortened(const std::string& text, std::size_t columns) {
  const std::size_t all = columns_of(text);
  if (all <= columns) return text;
  if (columns == 0) return {};
  const std::size_t last = (columns - 1) / 2, first = columns - 1 - last;
  return text.substr(0, bytes_of(text, first)).append(kCut).append(text.substr(bytes_of(text, all - last)));
}

std::vector<std::size_t> Table::widths(std::size_t width, bool titles) const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    std::size_t most =
        std::max(titles ? columns_of(columns_[i].title) : 0, width == 0 || declared_ ? columns_[i].width : 0);
    for (const auto& row : rows_) most = std::max(most, columns_of(row[i]));
    out.push_back(most);
  }
  if (width == 0) return out;
  const auto total = [&] {
    const auto shown = std::count_if(out.begin(), out.end(), [](std::size_t one) { return one > 0; });
    return std::accumulate(out.begin(), out.end(), indent_) +
           static_cast<std::size_t>(std::max<std::ptrdiff_t>(shown - 1, 0));
  };
  // The longest name first, a column at a time; then what can be done without.
  while (total() > width) {
    std::size_t longest = out.size();
    for (std::size_t i = 0; i < out.size(); ++i) {
      if (columns_[i].kind != Kind::name || out[i] <= kLeastName) continue;
      if (longest == out.size() || out[i] > out[longest]) longest = i;
    }
    if (longest < out.size()) {
      --out[longest];
      continue;
    }
    std::size_t last = out.size();
    while (last > 0 && (columns_[last - 1].kind != Kind::optional || out[last - 1] == 0)) --last;
    if (last == 0) break;
    out[last - 1] = 0;
  }
  return out;
}

std::string Table::text(std::size_t width, bool titles) const {
  const std::vector<std::size_t> columns = widths(width, titles);
  std::string out;
  const auto add = [&](const auto& cell_at) {
    std::string line(indent_, ' ');
    bool first = true;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (columns[i] == 0) continue;
      const std::string cell = width == 0 ? cell_at(i) : shortened(cell_at(i), columns[i]);
      const std::string space(columns[i] - std::min(columns[i], columns_of(cell)), ' ');
      const bool right = columns_[i].kind == Kind::number || columns_[i].kind == Kind::optional;
      if (!std::exchange(first, false)) line += ' ';
      line.append(right ? space : cell).append(right ? cell : space);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.append(line).append("\n");
  };
  if (titles) add([&](std::size_t i) { return columns_[i].title; });
  for (const auto& row : rows_) add([&](std::size_t i) { return row[i]; });
  return out;
}

void Table::print(bool titles) const { static_cast<void>(write_stdout(text(terminal_width(stdout), titles))); }

std::string wrapped_help(const std::string& help, std::size_t width) {
  constexpr std::size_t kLeast = 24;  // narrower terminals get lines that are too long
  if (width < kLeast) return help;
  std::string out;
  for (std::size_t at = 0; at < help.size();) {
    const std::size_t end = std::min(help.find('\n', at), help.size());
    std::string line = help.substr(at, end - at);
    at = end + 1;
    // A line of a flag has its description behind two spaces; one that goes on begins with spaces.
    std::size_t indent = line.find_first_not_of(' ');
    if (indent == std::string::npos) indent = 0;
    if (const std::size_t gap = line.find("  ", indent); gap != std::string::npos) {
      indent = std::min(line.find_first_not_of(' ', gap), line.size());
    }
    if (indent + kLeast / 2 > width) indent = kLeast / 4;
    while (columns_of(line) > width) {
      const std::size_t most = bytes_of(line, width), first = line.find_first_not_of(' ');
      std::size_t cut = line.rfind(' ', most);
      if (cut == std::string::npos || cut <= std::max(first, indent)) cut = line.rfind(',', most - 1);  // of a list
      if (cut == std::string::npos || cut <= first) break;
      out.append(line, 0, line.find_last_not_of(' ', cut) + 1).append("\n");
      line = std::string(indent, ' ').append(line, cut + 1);
    }
    out.append(line).append("\n");
  }
  return out;
}

}  // namespace graft::cli
