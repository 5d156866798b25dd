// graft: converts, plans, runs, trains and inspects. Results go to stdout, progress and logs to stderr.
// Exit status: 0 done, 1 failed (one sentence on stderr), 2 bad usage, 128 + N where signal N ended a run early.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "tools/bench/bench.h"
#include "tools/common/status.h"
#include "tools/common/terminal.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/config_file.h"

namespace {

using graft::cli::Action;
using graft::cli::Command;

constexpr Command kCommands[] = {
    {"devices", "List Vulkan devices, their features and limits, and which kernels pass a self-test",
     graft::cli::add_devices},
    {"convert", "Convert an ONNX, TFLite or GGUF file or a Hugging Face folder into a .graft file",
     graft::cli::add_convert},
    {"info", "Summarise a model: layers, shapes, parameters, bytes, FLOPs", graft::cli::add_info},
    {"plan", "Show memory and cost before anything runs; needs no GPU", graft::cli::add_plan},
    {"run", "Run a model on .npy inputs and write its outputs", graft::cli::add_run},
    {"grad", "Compute gradients of outputs with respect to inputs, parameters or values", graft::cli::add_grad},
    {"train", "Fine-tune a model", graft::cli::add_train},
    {"eval", "Measure loss and accuracy on a data set", graft::cli::add_eval},
    {"compare", "Say what changed from one model to another, sample by sample", graft::cli::add_compare},
    {"chat", "Talk with a language model", graft::cli::add_chat},
    {"generate", "Generate text from a language model", graft::cli::add_generate},
    {"embed", "Turn texts into vectors", graft::cli::add_embed},
    {"tokenize", "Show text as a language model's tokens, count them, or make text of them", graft::cli::add_tokenize},
    {"merge", "Add an adapter's product to the weights of its model", graft::cli::add_merge},
    {"resize", "Give a classifier another number of classes: rows for new ones, or a head that begins anew",
     graft::cli::add_resize},
    {"export", "Write a model or an adapter as a Hugging Face folder, a GGUF, safetensors, ONNX or TFLite file",
     graft::cli::add_export},
    {"imatrix", "Find out over a text what matters in a language model's matrices, to quantize it by",
     graft::cli::add_imatrix},
    {"checkpoint", "List, verify, prune and restore checkpoints of training", graft::cli::add_checkpoint},
    {"delta", "Make, average and apply what training changed, for devices that come and go", graft::cli::add_delta},
    {"simulate", "Federated training of many clients on this machine", graft::cli::add_simulate},
    {"verify", "Check every op of a model on this GPU against a double-precision reference", graft::cli::add_verify},
    {"bench", "Measure the device, kernels or a model: GFLOP/s, GB/s, tokens/s", graft::cli::add_bench},
};

/// Help as wide as the terminal.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return graft::cli::wrapped_help(Formatter::make_help(app, std::move(name), mode),
                                    graft::cli::terminal_width(stdout));
  }
};

int fail(const std::string& sentence) {
  graft::cli::to_stderr("graft: %s\n", sentence.c_str());
  return 1;
}

int run(int argc, char** argv) {
  CLI::App app("graft trains where the data is: neural networks as Vulkan compute shaders.", "graft");
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("graft ") + GRAFT_VERSION);
  app.require_subcommand(1);
  app.fallthrough(false);
  const std::string_view first = argc > 1 ? argv[1] : "-";
  std::vector<std::pair<CLI::App*, Action>> actions;
  for (const Command& command : kCommands) {
    CLI::App* sub = app.add_subcommand(command.name, command.summary);
    // The others' options would only take time and memory.
    if (first == command.name) actions.emplace_back(sub, command.add(*sub));
  }
  if (actions.empty() && !first.starts_with('-')) {
    fail(graft::cli::cat("There is no command \"", first, "\"; graft --help lists those that there are."));
    return 2;
  }
  try {
    const auto command = std::ranges::find_if(actions, [&](const auto& one) { return one.first->get_name() == first; });
    if (command != actions.end()) {
      auto arguments = graft::cli::with_config(*command->first, {argv + 2, argv + argc});
      if (!arguments.ok()) {
        fail(arguments.status().message());
        return 2;
      }
      std::vector<std::string> reversed(arguments->rbegin(), arguments->rend());  // as CLI11 takes them
      reversed.emplace_back(first);
      app.parse(std::move(reversed));
    } else {
      app.parse(argc, argv);
    }
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  for (const auto& [sub, action] : actions) {
    if (!sub->parsed()) continue;
    if (const graft::cli::Status status = action(); !status.ok()) return fail(status.message());
    // Results that did not arrive are no success: a full disk, say, behind a redirection.
    const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0;
    return arrived ? graft::cli::exit_status : fail("Cannot write the results to the standard output.");
  }
  return 2;
}

int run_to_the_end(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::bad_alloc&) {
    // Without a copy of anything: there may still be no memory for that.
    graft::cli::to_stderr("graft: The host ran out of memory in \"graft %s\".\n", argc > 1 ? argv[1] : "");
    return 1;
  } catch (const std::system_error& error) {  // of a thread that could not be started
    return fail("The system has no room for what this command needs: " + std::string(error.what()) + ".");
  } catch (const std::exception& error) {
    return fail(std::string("Unexpected failure: ") + error.what() + ".");
  }
}

}  // namespace

int main(int argc, char** argv) {
  // At a limit on the size of files (ulimit -f) a write then fails with a reason, and the process lives to say it.
  std::signal(SIGXFSZ, SIG_IGN);
  const int code = run_to_the_end(argc, argv);
  if (code == 0) return 0;
  // Nothing is torn down that may be half made: of a Vulkan loader without memory the unloading has been seen to hang.
  std::fflush(nullptr);
  std::_Exit(code);
}
