#include "tools/common/help.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

/// "graft train" of the command train.
std::string path_of(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return parent == nullptr ? command.get_name() : path_of(*parent) + " " + command.get_name();
}

std::vector<std::string> flags_of(const CLI::App& command) {
  std::vector<std::string> flags;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) flags.push_back("--" + name);
  }
  for (const CLI::App* group : command.get_subcommands([](const CLI::App* app) { return app->get_name().empty(); })) {
    for (const std::string& flag : flags_of(*group)) flags.push_back(flag);
  }
  return flags;
}

std::vector<std::string> names_of_subcommands(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* sub : command.get_subcommands({})) {
    if (!sub->get_name().empty()) names.push_back(sub->get_name());
  }
  return names;
}

/// On the first word that is no flag, no value and no name of a subcommand.
std::string unexpected(const std::string& word, const CLI::App& command) {
  const std::string flag = word.substr(0, word.find('='));
  if (word.size() > 1 && word[0] == '-') {
    return cat(path_of(command), " has no flag ", flag, did_you_mean(flag, flags_of(command)));
  }
  const auto names = names_of_subcommands(command);
  if (!names.empty()) return cat(path_of(command), " has no command ", word, did_you_mean(word, names));
  return cat("\"", word, "\" is one argument more than ", path_of(command), " takes.");
}

}  // namespace

std::string did_you_mean(const std::string& given, const std::vector<std::string>& words) {
  const std::string* best = nullptr;
  std::size_t least = 0;
  for (const std::string& word : words) {
    const std::size_t changed = distance(given, word);
    if (changed * 3 <= word.size() && (best == nullptr || changed < least)) {
      best = &word;
      least = changed;
    }
  }
  return best == nullptr ? "." : cat("; did you mean ", *best, "?");
}

std::string usage_error(const CLI::ParseError& error, const CLI::App& command) {
  const std::string help = cat(" ", path_of(command), " --help explains the arguments.");
  const auto rest = command.remaining();
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  if (!rest.empty() && (required || dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)) {
    return unexpected(rest.front(), command) + help;
  }
  std::string said = error.what();
  if (required && !names_of_subcommands(command).empty()) {
    said = cat(path_of(command), " needs one of: ");
    for (const std::string& name : names_of_subcommands(command)) said += (said.ends_with(": ") ? "" : ", ") + name;
  }
  while (!said.empty() && said.back() == '\n') said.pop_back();
  return said + (said.ends_with('.') ? "" : ".") + help;
}

HelpGroup::~HelpGroup() noexcept(false) {
  if (std::uncaught_exceptions() > exceptions_) return;  // a second one would end the process
  const auto options = app_.get_options();
  for (std::size_t i = first_; i < options.size(); ++i) {
    if (options[i]->get_group() == "Options" && !options[i]->get_positional()) options[i]->group(title_);
  }
}

void arrange_help(CLI::App& command, const Help& help, const std::vector<std::string>& arguments) {
  std::string footer;
  if (!help.common.empty()) {
    command.set_help_all_flag("--help-all", "List all options");
    // Options are hidden for the help only: an error of a hidden one would not name it.
    const auto asked = [&](const char* flag) { return std::ranges::find(arguments, flag) != arguments.end(); };
    const bool all = asked("--help-all") || !(asked("--help") || asked("-h"));
    const auto is_common = [&](const CLI::Option& option) {
      return option.get_positional() ||
             std::ranges::any_of(help.common, [&](const std::string& flag) { return option.check_name(flag); });
    };
    std::size_t hidden = 0;
    for (CLI::Option* option : command.get_options()) {
      if (all || is_common(*option) || option == command.get_help_ptr() || option == command.get_help_all_ptr())
        continue;
      option->group("");
      ++hidden;
    }
    if (hidden > 0)
      footer = cat("These are the options used most. ", path_of(command), " --help-all lists ", hidden, " more.");
  }
  if (!help.examples.empty())
    footer += cat(footer.empty() ? "" : "\n\n", help.examples.size() == 1 ? "Example:" : "Examples:");
  for (const std::string& line : help.examples) footer += "\n  " + line;
  if (!footer.empty()) command.footer(footer);
}

std::string HelpFormatter::make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const {
  // Options of a subcommand would follow in full with AppFormatMode::All; arrange_help() has already shown all.
  if (mode == CLI::AppFormatMode::All) mode = CLI::AppFormatMode::Normal;
  std::string text = Formatter::make_help(app, std::move(name), mode);
  for (std::size_t at; (at = text.find("\n\n\n")) != std::string::npos;) text.erase(at, 1);
  return wrapped_help(text, terminal_width(stdout));
}

}  // namespace graft::cli
