// graft merge: an adapter's product added to the weights, which gives an ordinary model.
#include <cstdio>
#include <memory>
#include <utility>

#include "runtime/lora/adapter.h"
#include "tools/graft/adapted_model.h"
#include "tools/graft/command.h"
#include "tools/graft/model_io.h"
#include "tools/graft/numbers.h"
#include "tools/graft/output.h"
#include "tools/graft/quantize_flag.h"

namespace graft::cli {
namespace {

struct MergeArguments {
  std::string path;
  AdapterFlags adapter;
  std::string output;
  std::string quantize;
  bool apart = false;
  bool in_place = false;
};

Status run_merge(const MergeArguments& options) {
  Outputs outputs;
  outputs.replaces("the model", options.path, options.in_place);
  for (const std::string& file : adapter_files(options.adapter)) outputs.reads("the adapter", file);
  GRAFT_TRY(outputs.file("-o", options.output));
  GRAFT_TRY_ASSIGN(const Model base, open_model(options.path, WeightCheck::at_once));
  GRAFT_TRY_ASSIGN(const Model adapter, read_adapter(options.adapter, base));
  if (options.apart) {
    GRAFT_TRY(with_adapter(base, adapter).status());  // it fits
    GRAFT_TRY(save_output(options.output, adapter));
    std::printf("Wrote %s.\n", options.output.c_str());
    return ok_status();
  }
  GRAFT_TRY_ASSIGN(const auto blocks, parse_block_format(options.quantize));
  auto merged = merge_adapter(base, adapter, blocks);
  if (!merged.ok())
    return std::move(merged).status().with_context(
        cat("While merging the adapter \"", options.adapter.files.front(), "\""));
  GRAFT_TRY(save_output(options.output, *merged));
  std::printf("Wrote %s.\n", options.output.c_str());
  return ok_status();
}

}  // namespace

Action add_merge(CLI::App& app) {
  auto options = std::make_shared<MergeArguments>();
  app.add_option("MODEL", options->path,
                 "A .graft file; weights that are blocks become f32 where the adapter adds to them")
      ->required();
  add_adapter_flags(app, options->adapter, true);
  app.add_option("-o,--output", options->output, "The merged model")->required();
  add_in_place_flag(app, options->in_place);
  add_quantize_flag(app, options->quantize,
                    "Merged matrices become blocks of this format, frozen; rows that are no whole blocks of 256 the "
                    "next better blocks of 32");
  app.add_flag("--adapter-only", options->apart,
               "Write the adapters alone, several as one whose rank is the sum of theirs; the model stays as it is");
  app.callback([&app, options] { refuse_idle(app, options->apart, {"--quantize"}, "with --adapter-only."); });
  return [options] { return run_merge(*options); };
}

}  // namespace graft::cli
