// graft merge: an adapter's product added to the weights, which gives an ordinary model.
#include <cstdio>
#include <memory>

#include "runtime/session/adapter.h"
#include "tools/graft/command.h"
#include "tools/graft/model_io.h"

namespace graft::cli {
namespace {

struct Options {
  std::string path;
  std::string adapter;
  std::string output;
};

Status run(const Options& options) {
  GRAFT_TRY_ASSIGN(const Model base, open_model(options.path));
  GRAFT_TRY_ASSIGN(const Model adapter, open_model(options.adapter));
  GRAFT_TRY_ASSIGN(const Model merged, merge_adapter(base, adapter));
  GRAFT_TRY(save_model(os::system_files(), options.output, merged));
  std::printf("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

}  // namespace

Action add_merge(CLI::App& app) {
  auto options = std::make_shared<Options>();
  app.add_option("MODEL", options->path, "A .graft file with f32 weights")->required();
  app.add_option("--adapter", options->adapter, "An adapter, as graft train --lora writes it")->required();
  app.add_option("-o,--output", options->output, "The merged model")->required();
  return [options] { return run(*options); };
}

}  // namespace graft::cli
