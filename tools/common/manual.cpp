#include "tools/common/manual.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace graft::cli {
namespace {

struct Flag {
  std::string name;   ///< "--lr"
  std::string brief;  ///< "-o", or empty
  std::string text;
  bool takes_value = false;
};

/// A command, or a command of a command as in "checkpoint list".
struct Entry {
  std::vector<std::string> path;
  std::string summary;
  std::vector<Flag> flags;
  std::vector<std::string> commands;  ///< those below it

  std::string joined(const char* separator) const {
    std::string out;
    for (const std::string& word : path) out += (out.empty() ? "" : separator) + word;
    return out;
  }
};

void add_flags(const CLI::App& app, Entry& entry) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_lnames().empty() || option->get_group().empty()) continue;
    const std::string brief = option->get_snames().empty() ? std::string() : "-" + option->get_snames()[0];
    for (const std::string& name : option->get_lnames()) {
      entry.flags.push_back({"--" + name, brief, option->get_description(), option->get_expected_max() > 0});
    }
  }
  // Groups of options that exclude each other are apps without a name.
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); })) {
    add_flags(*group, entry);
  }
}

void add_entries(const CLI::App& app, std::vector<std::string> path, std::vector<Entry>& out) {
  Entry entry{std::move(path), app.get_description(), {}, {}};
  add_flags(app, entry);
  std::vector<const CLI::App*> inner;
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name().empty()) continue;
    entry.commands.push_back(sub->get_name());
    inner.push_back(sub);
  }
  const std::vector<std::string> here = entry.path;
  out.push_back(std::move(entry));
  for (const CLI::App* sub : inner) {
    std::vector<std::string> below = here;
    below.push_back(sub->get_name());
    add_entries(*sub, std::move(below), out);
  }
}

std::vector<Entry> entries_of(std::span<const Command> commands) {
  std::vector<Entry> out;
  for (const Command& command : commands) {
    CLI::App app(command.summary, command.name);
    const Action action = command.add == nullptr ? Action() : command.add(app);
    add_entries(app, {command.name}, out);
  }
  return out;
}

std::string replaced(std::string text, const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto found = std::ranges::find_if(
        pairs, [&](const auto& pair) { return text.compare(at, pair.first.size(), pair.first) == 0; });
    out += found == pairs.end() ? std::string(1, text[at]) : found->second;
    at += found == pairs.end() ? 1 : found->first.size();
  }
  return out;
}

/// In single quotes, in which nothing is special but the quote itself.
std::string in_quotes(const std::string& text) { return "'" + replaced(text, {{"'", "'\\''"}}) + "'"; }

/// A description of one line that no completion script has to cut.
std::string first_words(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  return line.size() <= 90 ? line : line.substr(0, line.rfind(' ', 87)) + " ...";
}

/// "'checkpoint list'|'checkpoint verify'": what a shell's case compares two words with.
std::string commands_of_commands(const std::vector<Entry>& entries) {
  std::string out;
  for (const Entry& entry : entries) {
    if (entry.path.size() == 2) out += (out.empty() ? "" : "|") + in_quotes(entry.joined(" "));
  }
  return out;
}

std::string bash_script(const std::vector<Entry>& entries) {
  std::string names, cases;
  for (const Entry& entry : entries) {
    if (entry.path.size() == 1) names += entry.path[0] + " ";
    std::string words;
    for (const std::string& command : entry.commands) words += command + " ";
    for (const Flag& flag : entry.flags) words += flag.name + " ";
    cases += "    " + in_quotes(entry.joined(" ")) + ") words=" + in_quotes(words) +
             (entry.commands.empty() ? " ;;\n" : " files=no ;;\n");
  }
  return replaced(R"(# Completion of graft for bash, by "graft completion bash".
_graft() {
  local current="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}" words= files=
  case "$command ${COMP_WORDS[2]}" in
    @NESTED@) [ "$COMP_CWORD" -gt 2 ] && command="$command ${COMP_WORDS[2]}" ;;
  esac
  [ "$COMP_CWORD" -eq 1 ] && command=
  case "$command" in
    '') words='@NAMES@--help --version' files=no ;;
@CASES@  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  case "$files$current" in no*|-*) ;; *) COMPREPLY+=($(compgen -f -- "$current")) ;; esac
}
complete -o filenames -F _graft graft
)",
                  {{"@NESTED@", commands_of_commands(entries)}, {"@NAMES@", names}, {"@CASES@", cases}});
}

std::string zsh_script(const std::vector<Entry>& entries) {
  const auto plain = [](const std::string& text) {
    return replaced(first_words(text), {{"\\", "\\\\"}, {"[", "\\["}, {"]", "\\]"}, {":", "\\:"}});
  };
  std::string commands, cases;
  for (const Entry& entry : entries) {
    if (entry.path.size() == 1) commands += "    " + in_quotes(entry.path[0] + ":" + plain(entry.summary)) + "\n";
    std::string inner;
    for (const std::string& command : entry.commands) inner += " " + command;
    cases += "    " + in_quotes(entry.joined(" ")) + ")\n";
    if (!inner.empty()) cases += "      (( CURRENT == 3 )) && compadd --" + inner + "\n";
    cases += "      _arguments '*:file:_files'";
    for (const Flag& flag : entry.flags) {
      cases += " \\\n        " +
               in_quotes("*" + flag.name + "[" + plain(flag.text) + "]" + (flag.takes_value ? ":value:_files" : ""));
    }
    cases += " ;;\n";
  }
  return replaced(R"(#compdef graft
# Completion of graft for zsh, by "graft completion zsh".
_graft() {
  local -a commands
  commands=(
@COMMANDS@  )
  if (( CURRENT == 2 )); then
    _describe command commands
    return
  fi
  local command="$words[2]"
  case "$command $words[3]" in
    @NESTED@) (( CURRENT > 3 )) && command="$command $words[3]" ;;
  esac
  case "$command" in
@CASES@  esac
}
_graft "$@"
)",
                  {{"@NESTED@", commands_of_commands(entries)}, {"@COMMANDS@", commands}, {"@CASES@", cases}});
}

std::string fish_script(const std::vector<Entry>& entries) {
  const auto quoted_text = [](const std::string& text) {
    return "'" + replaced(first_words(text), {{"\\", "\\\\"}, {"'", "\\'"}}) + "'";
  };
  std::string out = "# Completion of graft for fish, by \"graft completion fish\".\n";
  for (const Entry& entry : entries) {
    if (entry.path.size() == 1) {
      out += "complete -c graft -n __fish_use_subcommand -f -a " + entry.path[0] + " -d " + quoted_text(entry.summary) +
             "\n";
    }
    const std::string seen = "-n '__fish_seen_subcommand_from " + entry.path.back() + "'";
    for (const std::string& command : entry.commands) out += "complete -c graft " + seen + " -a " + command + "\n";
    for (const Flag& flag : entry.flags) {
      out += "complete -c graft " + seen + " -l " + flag.name.substr(2) +
             (flag.brief.empty() ? "" : " -s " + flag.brief.substr(1)) + (flag.takes_value ? " -r" : "") + " -d " +
             quoted_text(flag.text) + "\n";
    }
  }
  return out;
}

/// Text that groff prints as it is.
std::string in_man(const std::string& text) {
  std::string out = replaced(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n.", "\n\\&."}, {"\n'", "\n\\&'"}});
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string options_in_man(const CLI::App& app) {
  std::string out;
  for (const std::string& group : app.get_groups()) {
    std::string items;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_group() != group || group.empty()) continue;
      items += ".TP\n.B " + in_man(option->get_positional() ? option->get_name(true) : option->get_name(false, true)) +
               "\n" + in_man(option->get_description()) + "\n";
    }
    if (!items.empty()) out += ".SS " + in_man(group) + "\n" + items;
  }
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* one) { return one->get_name().empty(); }))
    out += options_in_man(*sub);
  for (const CLI::App* sub : app.get_subcommands({})) {
    if (sub->get_name().empty()) continue;
    out += ".SH \"" + in_man(sub->get_name()) + "\"\n" + in_man(sub->get_description()) + ".\n" + options_in_man(*sub);
  }
  return out;
}

std::string head_in_man(const std::string& name, const std::string& summary) {
  return ".TH " + name + " 1 \"\" \"graft " GRAFT_VERSION "\" \"graft\"\n.ad l\n.SH NAME\n" + in_man(name) + " \\- " +
         in_man(summary) + "\n";
}

}  // namespace

Result<std::string> completion_script(const std::string& shell, std::span<const Command> commands) {
  if (shell != "bash" && shell != "zsh" && shell != "fish") {
    return invalid("There is no completion for \"", shell, "\"; there is one for bash, zsh and fish.");
  }
  const std::vector<Entry> entries = entries_of(commands);
  return shell == "bash" ? bash_script(entries) : shell == "zsh" ? zsh_script(entries) : fish_script(entries);
}

Result<std::string> manual_page(const std::string& name, std::span<const Command> commands) {
  if (name.empty()) {
    std::string out = head_in_man("graft", "runs and fine-tunes neural networks as Vulkan compute shaders");
    out += ".SH SYNOPSIS\n.B graft\n.I COMMAND\n[\\fIOPTIONS\\fR]\n.SH COMMANDS\n";
    for (const Command& command : commands) {
      out += cat(".TP\n.B ", command.name, "\n", in_man(command.summary), ". See graft\\-", command.name, "(1).\n");
    }
    return out +
           ".SH EXIT STATUS\n0: done. 1: failed, with one sentence on the standard error. 2: wrong arguments. 128 + N: "
           "signal N\nended a run early, and its state is saved.\n";
  }
  const auto found = std::ranges::find(commands, name, &Command::name);
  if (found == commands.end()) return error(Code::not_found, "There is no command \"", name, "\".");
  CLI::App app(found->summary, found->name);
  const Action action = found->add == nullptr ? Action() : found->add(app);
  std::string out = head_in_man("graft-" + name, found->summary);
  out += ".SH SYNOPSIS\n.B graft " + name + "\n[\\fIOPTIONS\\fR]";
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_positional()) out += " \\fI" + in_man(option->get_name(true)) + "\\fR";
  }
  out += "\n.SH OPTIONS\n" + options_in_man(app);
  if (!found->help.examples.empty()) out += ".SH EXAMPLES\n";
  for (const std::string& example : found->help.examples) out += ".nf\n" + in_man(example) + "\n.fi\n";
  return out + ".SH SEE ALSO\ngraft(1)\n";
}

}  // namespace graft::cli
