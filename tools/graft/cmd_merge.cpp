// graft merge: an adapter's product added to the weights, which gives an ordinary model.
#include <cstdio>
#include <memory>
#include <utility>

#include "runtime/session/adapter.h"
#include "tools/convert/adapter/adapter_files.h"
#include "tools/graft/command.h"
#include "tools/graft/model_io.h"
#include "tools/graft/quantize_flag.h"

namespace graft::cli {
namespace {

struct MergeArguments {
  std::string path;
  std::string adapter;
  std::string output;
  std::string quantize;
};

Status run_merge(const MergeArguments& options) {
  GRAFT_TRY_ASSIGN(const Model base, open_model(options.path));
  GRAFT_TRY_ASSIGN(const Model adapter, convert::open_adapter(os::system_files(), options.adapter, base));
  auto merged = merge_adapter(base, adapter, block_format(options.quantize));
  if (!merged.ok())
    return std::move(merged).status().with_context(cat("While merging the adapter \"", options.adapter, "\""));
  GRAFT_TRY(save_model(os::system_files(), options.output, *merged));
  std::printf("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

}  // namespace

Action add_merge(CLI::App& app) {
  auto options = std::make_shared<MergeArguments>();
  app.add_option("MODEL", options->path,
                 "A .graft file; weights that are blocks become f32 where the adapter adds to them")
      ->required();
  app.add_option("--adapter", options->adapter, "An adapter: of graft train --lora, a PEFT folder, or a GGUF file")
      ->required();
  app.add_option("-o,--output", options->output, "The merged model")->required();
  add_quantize_flag(app, options->quantize, "Merged matrices become blocks of this format, frozen");
  return [options] { return run_merge(*options); };
}

}  // namespace graft::cli
