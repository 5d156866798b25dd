// graft watch: a run as a page that follows it, for this machine's browser.
#include <charconv>
#include <cstdio>
#include <memory>

#include "tools/common/numbers.h"
#include "tools/common/terminal.h"
#include "tools/graft/report/run_document.h"
#include "tools/graft/shared/command.h"
#include "tools/watch/page.h"
#include "tools/watch/server.h"

namespace graft::cli {
namespace {

struct WatchArguments {
  std::vector<std::string> run;
  std::uint16_t port = 8200;
};

std::uint64_t number_of(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc() && end == text.data() + text.size() ? number : 0;
}

Answer answer(RunDocument& run, const Question& question) {
  const bool is_page = question.path == "/";
  if (!is_page && question.path != "/run.json") return {404, "text/plain; charset=utf-8", "There is no such page.\n"};
  // The page shows the sentence, keeps what it has and asks again.
  if (const Status read = run.refresh(); !read.ok() && !is_page) {
    return {503, "text/plain; charset=utf-8", read.message()};
  }
  if (is_page) return {200, "text/html; charset=utf-8", run_page(run.title(), run.json(), true)};
  return {200, "application/json",
          run.json(number_of(question.parameter("first")), number_of(question.parameter("generation")))};
}

Status watch(const WatchArguments& options) {
  TRY_ASSIGN(RunDocument run, RunDocument::open(options.run));
  return serve(
      options.port,
      [](std::uint16_t port) {
        to_stdout("Watching at http://127.0.0.1:%u/ (Ctrl-C ends it).\n", static_cast<unsigned>(port));
        std::fflush(stdout);
      },
      [&](const Question& question) { return answer(run, question); });
}

}  // namespace

Action add_watch(CLI::App& app) {
  auto options = std::make_shared<WatchArguments>();
  app.add_option("RUN", options->run, "A file of graft train --metrics, a checkpoint folder, or both of one run")
      ->required()
      ->expected(1, 2);
  app.add_option("--port", options->port, "Port of 127.0.0.1; 0: a free one (8200)")->check(whole(0, 65535));
  return [options] { return watch(*options); };
}

}  // namespace graft::cli
