// Help of a command, and the sentences that say what is wrong with its arguments.
#pragma once

#include <exception>
#include <initializer_list>
#include <string>
#include <vector>

#include "tools/common/command.h"

namespace graft::cli {

/// What `graft COMMAND --help` shows.
struct Help {
  /// The flags that --help lists; --help-all lists all. Empty: --help lists all.
  std::vector<std::string> common = {};
  /// Commands that run as they stand, one a line.
  std::vector<std::string> examples = {};
};

/// Puts the options that are added in its lifetime into a group of the help, unless they have one.
class HelpGroup {
 public:
  HelpGroup(CLI::App& app, const char* title) : app_(app), first_(app.get_options().size()), title_(title) {}
  HelpGroup(const HelpGroup&) = delete;
  HelpGroup& operator=(const HelpGroup&) = delete;
  ~HelpGroup() noexcept(false);  ///< bad_alloc, unless another exception is on its way

 private:
  CLI::App& app_;
  std::size_t first_;
  const char* title_;
  int exceptions_ = std::uncaught_exceptions();
};

/// Makes `command` show `help`. `arguments` say whether all options are asked for.
void arrange_help(CLI::App& command, const Help& help, const std::vector<std::string>& arguments);

/// Help as wide as the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override;
};

/// One sentence on what is wrong with the arguments of `command`, and where its flags are listed.
std::string usage_error(const CLI::ParseError& error, const CLI::App& command);

/// "; did you mean \"train\"?", or "." if no word is close to what was given. A word is close if at most a third of its
/// letters differ: Levenshtein's distance, where two letters in the wrong order count once.
std::string did_you_mean(const std::string& given, const std::vector<std::string>& words);

}  // namespace graft::cli
