#include "tools/common/program.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

#include "platform/os/process.h"
#include "tools/common/help.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"

namespace graft::cli {
namespace {

int fail(const std::string& sentence) {
  to_stderr("graft: %s\n", sentence.c_str());
  return 1;
}

int fail_usage(const std::string& sentence) {
  fail(sentence);
  return 2;
}

/// Runs the program of a command that has its own. Returns if it cannot be run.
int run_beside(const Command& command, char** argv) {
  const std::string own = os::program_path();
  const std::string path = own.substr(0, own.find_last_of("/\\") + 1) + "graft-" + command.name;
  os::become_program(path, argv);
  return fail(cat("The program of \"graft ", command.name, "\", ", path, ", cannot be run. Install it next to graft."));
}

/// The subcommand of subcommands that the arguments name last.
CLI::App& innermost(CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : innermost(*parsed.back());
}

int run_command(CLI::App& app, const Command& command, std::vector<std::string> arguments, Complete complete) {
  CLI::App* const sub = app.get_subcommand(command.name);
  const Action action = command.add(*sub);
  arrange_help(*sub, command.help, arguments);
  // Where --help lists all options.
  if (command.help.common.empty()) std::ranges::replace(arguments, std::string("--help-all"), std::string("--help"));
  try {
    if (complete != nullptr) {
      auto completed = complete(*sub, arguments);
      if (!completed.ok()) return fail_usage(completed.status().message());
      arguments = std::move(*completed);
    }
    std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());  // the order that CLI11 parses
    reversed.emplace_back(command.name);
    app.parse(std::move(reversed));
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail_usage(usage_error(error, innermost(app)));
  }
  if (const Status status = action(); !status.ok()) return fail(status.message());
  // Results that were not written are an error: a full disk behind a redirection, for example.
  const bool written = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
  return written ? exit_status : fail("Cannot write the results to the standard output.");
}

int run(int argc, char** argv, std::span<const Command> commands, Complete complete) {
  CLI::App app("graft trains where the data is: neural networks as Vulkan compute shaders.", "graft");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("graft ") + GRAFT_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  const std::string_view first = argc > 1 ? argv[1] : "";
  const Command* chosen = nullptr;
  std::vector<std::string> names;
  for (const Command& command : commands) {
    app.add_subcommand(command.name, command.summary);
    names.emplace_back(command.name);
    if (first == command.name) chosen = &command;
  }
  if (chosen != nullptr) {
    // Other commands' options would only take time and memory.
    return chosen->add == nullptr ? run_beside(*chosen, argv)
                                  : run_command(app, *chosen, {argv + 2, argv + argc}, complete);
  }
  if (!first.empty() && !first.starts_with('-')) {
    return fail_usage(cat("There is no command \"", first, "\"", did_you_mean(std::string(first), names),
                          " graft --help lists all commands."));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    return fail_usage(usage_error(error, app));
  }
  return 2;
}

int run_to_the_end(int argc, char** argv, std::span<const Command> commands, Complete complete) {
  try {
    return run(argc, argv, commands, complete);
  } catch (const std::bad_alloc&) {
    // Without a copy of anything: there may still be no memory for that.
    to_stderr("graft: The host ran out of memory in \"graft %s\".\n", argc > 1 ? argv[1] : "");
    return 1;
  } catch (const std::system_error& error) {  // of a thread that could not be started
    return fail("The system has no room for what this command needs: " + std::string(error.what()) + ".");
  } catch (const std::exception& error) {
    return fail(std::string("Unexpected failure: ") + error.what() + ".");
  }
}

}  // namespace

int run_program(int argc, char** argv, std::span<const Command> commands, Complete complete) {
  // At a limit on the size of files (ulimit -f) a write then fails with a reason, and the process lives to say it.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_to_the_end(argc, argv, commands, complete);
  if (code == 0) return 0;
  // Nothing is torn down that may be half made: of a Vulkan loader without memory the unloading has been seen to hang.
  std::fflush(nullptr);
  std::_Exit(code);
}

}  // namespace graft::cli
