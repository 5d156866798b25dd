// Where all output goes: stdout and stderr, past a progress bar, as wide as the terminal is.
#pragma once

#include <cstddef>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace graft::cli {

/// Columns of the terminal that `file` is; 0: it is none. COLUMNS goes before what the terminal says.
std::size_t terminal_width(std::FILE* file);
/// Whether it is a terminal that can move its cursor: TERM is set, and not "dumb".
bool can_redraw(std::FILE* file);

/// What goes to stdout goes to stderr: of a command that another one runs on its way.
inline bool results_to_stderr = false;

/// As printf. A progress bar on the terminal is ended before.
void to_stdout(const char* format, ...) __attribute__((format(printf, 1, 2)));
void to_stderr(const char* format, ...) __attribute__((format(printf, 1, 2)));
/// These bytes, as they are. False: they did not arrive.
bool write_stdout(std::string_view bytes);

/// A number as printf writes it.
std::string number_text(const char* format, double number);

/// Columns that a text takes: one for each character of UTF-8.
std::size_t columns_of(std::string_view text);
/// A text of at most so many columns: a longer one loses its middle, where "…" stands.
std::string shortened(const std::string& text, std::size_t columns);

/// A table on stdout. Where stdout is no terminal, each column is at least as wide as it was declared, and nothing is
/// cut. On a terminal columns are as wide as their texts. Where that is too wide, names lose their middle, and then
/// optional columns are left out, the last first.
class Table {
 public:
  enum class Kind {
    number,    ///< to the right
    word,      ///< to the left
    name,      ///< to the left; may lose its middle
    optional,  ///< a number that may be left out
  };
  struct Column {
    std::string title;
    std::size_t width;
    Kind kind;
  };

  /// `indent`: spaces before each row. `declared`: columns are as wide as declared on terminals too, since rows are
  /// printed one after another.
  explicit Table(std::vector<Column> columns, std::size_t indent = 0, bool declared = false)
      : columns_(std::move(columns)), indent_(indent), declared_(declared) {}
  /// As many cells as there are columns.
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  /// With or without the line of titles.
  void print(bool titles = true) const;
  /// The same as text for so many columns; 0: as wide as it is.
  std::string text(std::size_t width, bool titles = true) const;

 private:
  std::vector<std::size_t> widths(std::size_t width, bool titles) const;

  std::vector<Column> columns_;
  std::size_t indent_;
  bool declared_;
  std::vector<std::vector<std::string>> rows_;
};

/// Lines of a help text, of at most so many columns each; 0: as they are. What follows a flag's name stays below
/// itself.
std::string wrapped_help(const std::string& help, std::size_t width);

}  // namespace graft::cli
