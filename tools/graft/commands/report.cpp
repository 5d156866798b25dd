// graft report: a run as one page in a file.
#include <memory>

#include "tools/common/terminal.h"
#include "tools/graft/report/run_document.h"
#include "tools/graft/shared/command.h"
#include "tools/graft/shared/output.h"
#include "tools/watch/page.h"

namespace graft::cli {
namespace {

struct ReportArguments {
  std::vector<std::string> run;
  std::string output;
};

Status report(const ReportArguments& options) {
  Outputs outputs;
  for (const std::string& path : options.run) outputs.reads("the run", path);
  TRY(outputs.file("-o", options.output));
  TRY_ASSIGN(const RunDocument run, RunDocument::open(options.run));
  TRY(write_text(options.output, run_page(run.title(), run.json(), false)));
  to_stdout("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

}  // namespace

Action add_report(CLI::App& app) {
  auto options = std::make_shared<ReportArguments>();
  app.add_option("RUN", options->run, "A file of graft train --metrics, a checkpoint folder, or both of one run")
      ->required()
      ->expected(1, 2);
  app.add_option("-o,--output", options->output, "The .html file to write")->required();
  return [options] { return report(*options); };
}

}  // namespace graft::cli
